"""Similar items and users: cosines of embeddings, averaged over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from permrank.checks import require_int
from permrank.types import Array, Float64Array


def mean_cosine(rows: Array, target: Array) -> Float64Array:
    """Cosine of every row with the target, (n_draws, n, K) and (n_draws, K), averaged over the draws."""
    total = np.zeros(rows.shape[1])
    for each, wanted in zip(rows, target, strict=True):
        lengths = np.linalg.norm(each, axis=1) * np.linalg.norm(wanted)
        total += (each @ wanted) / np.where(lengths > 0, lengths, 1.0)
    return total / len(rows)


def nearest(similarity: Float64Array, own: int, k: int, take: Any, kind: str) -> pl.DataFrame:
    """The k most similar rows but one's own, as a frame."""
    require_int("k", k, 1)
    order = np.lexsort((np.arange(similarity.size), -similarity))
    order = order[order != own][: int(k)]
    return pl.DataFrame({"rank": np.arange(1, order.size + 1), kind: take(order), "similarity": similarity[order]})
