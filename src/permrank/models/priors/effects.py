"""What features are worth: draws of coefficients in a form that does not depend on the basis of the factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.types import Array, Float64Array, Int64Array

EFFECTS = ("item_effects", "pair_effects", "item_shares", "user_shares", "link_strength")
"""Draws of what features and links are worth, as estimates name them."""


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


def shares_of(
    known: Float64Array, coefficients: Float64Array, groups: Int64Array, spread: Float64Array, rows: Float64Array
) -> Float64Array:
    """Part of the variance of the factors' scores that each attribute explains: (n_groups,).

    spread: variance of each factor around its mean a priori; rows: which rows count.
    """
    n_groups = int(groups.max(initial=-1)) + 1
    found = np.zeros(n_groups)
    for group in range(n_groups):
        part = known[rows > 0][:, groups == group] @ coefficients[groups == group]
        found[group] = np.sum(part.var(axis=0))
    total = known[rows > 0] @ coefficients
    return np.asarray(found / (np.sum(total.var(axis=0)) + np.sum(spread)))
