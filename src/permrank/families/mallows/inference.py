"""Summaries of Mallows models, and data drawn from them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import polars as pl
from scipy.special import ndtri

from permrank.families.mallows.law import MallowsMixture
from permrank.families.mallows.learning import (
    LARGEST_DISPERSION,
    Distance,
    Mixture,
    lists_to_learn,
    responsibilities,
)
from permrank.inference.standard_errors import roots
from permrank.inference.summary import Summary
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import reordered, repeated
from permrank.types import Float64Array

# Second differences: the truncation and the rounding of a log-likelihood of thousands both stay below 1e-4.
_STEP = 1e-3
_CENTRES = "centres are not counted among the degrees of freedom, nor is their choice in the errors: they are discrete"
_DRAWN = "lists leave items out: the likelihood is an estimate from the completions that were drawn in learning"


def mallows_summary(told: str, rankings: Rankings, mixture: Mixture, distance: Distance, level: float) -> Summary:
    """Dispersions and shares with standard errors from the observed information, centres held."""
    lists = lists_to_learn(rankings)
    k = mixture.weights.size

    def total(point: Float64Array) -> float:
        logits = np.append(0.0, point[k:])
        shares = np.exp(logits - np.logaddexp.reduce(logits))
        moved = mixture._replace(dispersions=point[:k], weights=shares)
        return float(lists.outer @ responsibilities(lists, moved, distance)[1])

    with np.errstate(divide="ignore"):
        logs = np.log(mixture.weights)
    start = np.append(mixture.dispersions, logs[1:] - logs[0])
    covariance = _covariance(total, start, k)
    jacobian = np.zeros((2 * k, start.size))
    jacobian[:k, :k] = np.eye(k)
    jacobian[k:, k:] = (np.diag(mixture.weights) - np.outer(mixture.weights, mixture.weights))[:, 1:]
    errors = roots(np.einsum("ij,jl,il->i", jacobian, covariance, jacobian))
    frame = pl.DataFrame(
        {
            "community": [*range(1, k + 1), *range(1, k + 1)],
            "parameter": ["dispersion"] * k + ["share"] * k,
            "estimate": np.concatenate([mixture.dispersions, mixture.weights]),
            "standard_error": errors,
        }
    )
    margin = float(ndtri(0.5 + level / 2.0)) * pl.col("standard_error")
    frame = frame.with_columns(low=pl.col("estimate") - margin, high=pl.col("estimate") + margin)
    partial = bool((rankings.lengths < rankings.n_items).any())
    return Summary(
        told, frame if k > 1 else frame.head(1), total(start), float(2 * k - 1), float(rankings.weights.sum()),
        "rankings", float(level), notes=(_CENTRES, *((_DRAWN,) if partial else ())),
    )  # fmt: skip


def _covariance(total: Callable[[Float64Array], float], start: Float64Array, k: int) -> Float64Array:
    """Inverse of minus the Hessian by second differences; NaN for what lies on the edge of its range."""
    inner = np.isfinite(start)
    inner[:k] &= (start[:k] > 2 * _STEP) & (start[:k] < LARGEST_DISPERSION - 2 * _STEP)
    free = np.flatnonzero(inner)
    covariance = np.full((start.size, start.size), np.nan)
    if free.size == 0:
        return covariance
    steps = _STEP * np.eye(start.size)[free]
    here = total(start)
    hessian = np.empty((free.size, free.size))
    for a in range(free.size):
        for b in range(a + 1):
            if a == b:
                values = total(start + steps[a]) - 2 * here + total(start - steps[a])
                hessian[a, a] = values / _STEP**2
                continue
            corners = [
                sign * total(start + x * steps[a] + y * steps[b])
                for x, y, sign in ((1, 1, 1.0), (1, -1, -1.0), (-1, 1, -1.0), (-1, -1, 1.0))
            ]
            hessian[a, b] = hessian[b, a] = sum(corners) / (4 * _STEP**2)
    with suppress(np.linalg.LinAlgError):
        covariance[np.ix_(free, free)] = np.linalg.inv(-hessian)
    return covariance


def mallows_data(
    rankings: Rankings, mixture: Mixture, precedence: Float64Array, *, kendall: bool, seed: int
) -> Rankings:
    """The same lists drawn anew: a community for every user, and from it an order of the items of each list."""
    design = repeated(rankings)
    k = mixture.weights.size
    drawn = generator(seed).choice(k, size=design.n_users, p=mixture.weights / mixture.weights.sum())
    community = drawn[design.ranking_users]
    ranking = design.entry_rankings()
    by_item = design.items[np.lexsort((design.items, ranking))]
    groups: dict[tuple[int, bytes], list[int]] = {}
    for r in range(design.n_rankings):
        part = by_item[design.indptr[r] : design.indptr[r + 1]]
        groups.setdefault((int(community[r]), part.tobytes()), []).append(r)
    items = np.empty_like(design.items)
    for number, ((z, content), members) in enumerate(sorted(groups.items())):
        listed = np.frombuffer(content, design.items.dtype).astype(np.int64)
        if listed.size == 0:
            continue
        one = np.zeros(k)
        one[z] = 1.0
        law = MallowsMixture(listed, one, mixture.centres, mixture.dispersions, precedence, kendall=kendall)
        orders = listed[law.sample(len(members), int(stream_key(seed, number)))]
        for r, order in zip(members, orders, strict=True):
            items[design.indptr[r] : design.indptr[r + 1]] = order
    return reordered(design, items)
