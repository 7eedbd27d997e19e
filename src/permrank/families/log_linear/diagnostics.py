"""Convergence of Markov chains, by ArviZ; the extra ``mcmc``."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import polars as pl

from permrank.errors import NotSupportedError
from permrank.types import Named


def chain_summary(draws: dict[Any, Any]) -> pl.DataFrame:
    """R-hat (rank-normalised, split) and effective sample sizes of named quantities, each (n_chains, n_draws).

    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021). A quantity that never changes has neither.
    """
    try:
        stats: Any = importlib.import_module("arviz_stats.base").array_stats
    except ImportError as error:
        raise NotSupportedError("diagnostics need ArviZ: pip install 'permrank[mcmc]'") from error
    rows = []
    for name, values in draws.items():
        array = np.asarray(values, np.float64)
        row: Named = {"quantity": str(name), "mean": float(array.mean())}
        if array.min() == array.max():
            rows.append(row | {"r_hat": None, "ess_bulk": None, "ess_tail": None})
            continue
        rows.append(
            row
            | {
                "r_hat": float(stats.rhat(array, chain_axis=0, draw_axis=1)),
                "ess_bulk": float(stats.ess(array, chain_axis=0, draw_axis=1, method="bulk")),
                "ess_tail": float(stats.ess(array, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))),
            }
        )
    return pl.DataFrame(
        rows,
        schema={
            "quantity": pl.String,
            "mean": pl.Float64,
            "r_hat": pl.Float64,
            "ess_bulk": pl.Float64,
            "ess_tail": pl.Float64,
        },
    )
