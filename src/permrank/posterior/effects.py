"""What features are worth: draws of coefficients in a form that does not depend on the basis of the factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Array, BoolArray, Float64Array, Int64Array

EFFECTS = ("item_effects", "pair_effects", "item_shares", "user_shares", "link_strength")
"""Draws of what features and links are worth, as estimates name them."""
NO_EFFECTS = np.zeros(0, np.float32)
"""What stands for each where nothing is known of items and users."""


class Coefficients(NamedTuple):
    """Those of one draw.

    Attributes
    ----------
    items : float64 (p_items, n_factors + 1)
        How factors and intercepts of items depend on their features.
    users : float64 (p_users, n_factors)
    tau : float
        Strength of links.
    """

    items: Float64Array
    users: Float64Array
    tau: float


def effects_of(drawn: Coefficients, item_shares: Float64Array, user_shares: Float64Array) -> tuple[Array, ...]:
    """What is kept of one draw, in the order of `EFFECTS`; shares: see `shares_of`.

    Factors may be turned from draw to draw. What is kept does not change with that: what an item's feature adds to its
    score for everybody, what a user's feature adds to that of an item's feature (their product over the factors), and
    the part of the variance that each attribute explains.
    """
    pairs = np.einsum("uk,ik->ui", drawn.users, drawn.items[:, :-1])
    parts = drawn.items[:, -1], pairs, item_shares, user_shares, np.array(drawn.tau)
    return tuple(np.asarray(part, np.float32) for part in parts)


def stacked(draws: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Draws side by side, in the order of `EFFECTS`; empty arrays if nothing is known of items and users."""
    if not draws or not draws[0]:
        return tuple(np.zeros(0, np.float32) for _ in EFFECTS)
    return tuple(np.stack(parts) for parts in zip(*draws, strict=True))


def covariance_of(known: Float64Array, rows: BoolArray) -> Float64Array:
    """Covariance of the columns over some rows; zeros if there are none."""
    part = known[rows]
    if not part.size:
        return np.zeros((known.shape[1], known.shape[1]))
    away = part - part.mean(axis=0)
    return np.asarray(away.T @ away / len(part))


def shares_of(
    covariance: Float64Array, coefficients: Float64Array, groups: Int64Array, spread: Float64Array
) -> Float64Array:
    """Part of the variance of the factors' scores that each attribute explains: (n_groups,).

    covariance: that of the columns; spread: variance of each factor around its mean a priori.
    """
    products = coefficients @ coefficients.T * covariance
    found = [np.sum(products[np.ix_(groups == group, groups == group)]) for group in range(groups.max(initial=-1) + 1)]
    return np.asarray(np.array(found) / (np.sum(products) + np.sum(spread)))
