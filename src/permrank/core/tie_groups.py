"""Which items can be told apart: simultaneous comparisons of scores, and groups whose order the data do not settle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.checks import require_between
from permrank.core.answers import named_columns
from permrank.errors import InputError
from permrank.randomness import generator, stream_key
from permrank.types import BoolArray, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.core.person import Person

# All pairs are compared under every draw.
_MOST_ITEMS = 1_000
N_DRAWS = 2_000
# Differences that are held at a time: 8 MB.
_AT_ONCE = 2**20


def tie_groups(person: Person, items: Iterable[object] | None = None, *, level: float = 0.9) -> pl.DataFrame:
    """Which items can be told apart, and groups of those that cannot: see `Ranker.tie_groups`."""
    require_between("level", level, 0.0, 1.0)
    fitted = person.fitted
    chosen = fitted.items(items)
    if chosen.size > _MOST_ITEMS:
        raise InputError(f"{chosen.size} items make too many pairs; name at most {_MOST_ITEMS:,} in items")
    scores = fitted.scores(person, chosen)
    order = np.lexsort((chosen, -scores))
    chosen, scores = chosen[order], scores[order]
    better = told_apart(scores, fitted.score_draws(person, chosen), float(level))
    low, high = 1 + better.sum(axis=0), chosen.size - better.sum(axis=1)
    named = named_columns(fitted.item_ids, chosen)
    return pl.DataFrame(
        {
            "rank": np.arange(1, chosen.size + 1), **named, "score": scores,
            "rank_low": low, "rank_high": high, "group": groups_of(better),
        }
    )  # fmt: skip


def told_apart(scores: Float64Array, samples: Float64Array, level: float) -> BoolArray:
    """Which items are better than which: (n, n), row before column.

    samples: scores as they might have been estimated, (n_draws, n), around any centre.
    """
    n = scores.size
    if n < 2:
        return np.zeros((n, n), bool)
    noise = samples - samples.mean(axis=0)
    covariance = noise.T @ noise / len(noise)
    variance = np.diag(covariance)
    spread = np.sqrt(np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0))
    # A pair that never differs cannot be told apart; nor may it divide by nothing.
    weight = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-12 * (1.0 + spread.max()))
    parts = np.array_split(noise, -(-noise.size * n // _AT_ONCE))
    largest = np.concatenate([(np.abs(x[:, :, None] - x[:, None, :]) * weight).max(axis=(1, 2)) for x in parts])
    critical = np.quantile(largest, level, method="inverted_cdf")
    return np.asarray((scores[:, None] - scores[None, :]) * weight > critical)


def groups_of(better: BoolArray) -> Int64Array:
    """Groups from 1 of items in the order of their scores: a new one begins where all before are better than all after.

    better: (n, n), row before column.
    """
    n = len(better)
    starts = [all(better[:cut, cut:].ravel()) for cut in range(1, n)]
    return np.concatenate(([1], 1 + np.cumsum(starts)))[:n].astype(np.int64)


def normal_samples(covariance: Float64Array, n_draws: int = N_DRAWS) -> Float64Array:
    """Draws from N(0, covariance): (n_draws, n); the same for the same matrix."""
    values, vectors = np.linalg.eigh(covariance)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(generator(stream_key(0, 71)).normal(size=(n_draws, len(values))) @ roots.T)
