"""The frames behind ``permrank info`` and ``permrank fit``."""

from __future__ import annotations

import importlib
from pathlib import Path

import polars as pl

from permrank.data import datasets as registry
from permrank.interfaces.sources import open_rankings
from permrank.models import MODELS
from permrank.models.base import Ranker
from permrank.models.files import load
from permrank.models.latent import LatentPlackettLuce


def models() -> pl.DataFrame:
    """Every model with the first sentence of its documentation."""
    rows = []
    for name, module in MODELS.items():
        kind = getattr(importlib.import_module(module), name)
        rows.append({"model": name, "about": (kind.__doc__ or "").strip().splitlines()[0]})
    return pl.DataFrame(rows)


def datasets() -> pl.DataFrame:
    """Every data set of the registry."""
    return registry.describe()


def describe(source: str, unlisted: str, duplicates: str) -> pl.DataFrame:
    """Quantities of a data source or of a model file."""
    if Path(source).suffix == ".permrank":
        return model_summary(load(source), Path(source))
    return open_rankings(source, unlisted=unlisted, duplicates=duplicates).describe().to_frame()


def model_summary(model: Ranker, path: Path) -> pl.DataFrame:
    """What a fitted model is and what it learnt from."""
    data = model.rankings_
    rows: dict[str, object] = {"class": type(model).__name__}
    rows |= {f"parameter {name}": value for name, value in model.get_params().items()}
    rows |= {
        "users": f"{data.n_users:,}",
        "rankings": f"{data.n_rankings:,}",
        "items": f"{data.n_items:,}",
        "entries": f"{data.n_entries:,}",
        "sweeps": model.n_iter_,
        "converged": "yes" if model.converged_ else "no",
        "objective": f"{model.history_[-1]:,.4f}" if model.history_ else "",
        "seconds": f"{model.fit_seconds_:.2f}",
        "file": f"{path} ({path.stat().st_size:,} bytes)",
    }
    if isinstance(model, LatentPlackettLuce):
        rows |= communities(model)
    return pl.DataFrame({"quantity": list(rows), "value": [str(value) for value in rows.values()]})


def communities(model: LatentPlackettLuce) -> dict[str, object]:
    """Each community with its size, what sets it apart, and who is typical."""
    rows: dict[str, object] = {}
    for row in model.communities().iter_rows(named=True):
        items = ", ".join(f"{item} x{lift:.1f}" for item, lift in zip(row["items"], row["lifts"], strict=True))
        users = ", ".join(str(user) for user in row["users"])
        rows[f"community {row['community']} ({row['size']:.0%})"] = f"{items}; typical: {users}"
    return rows
