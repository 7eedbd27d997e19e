"""The frames behind ``permrank info`` and ``permrank fit``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import polars as pl

from permrank.data import datasets as registry
from permrank.interfaces.cli.sources import open_rankings
from permrank.models import MODELS
from permrank.models.files import load
from permrank.models.latent.model import LatentPlackettLuce
from permrank.models.ranker import Ranker


def models() -> pl.DataFrame:
    """Every model: what it assumes, what input it takes, and where it comes from."""
    kinds = [getattr(importlib.import_module(module), name) for name, module in MODELS.items()]
    return pl.DataFrame(
        [
            {"model": kind.__name__, "assumes": kind.assumes, "takes": kind.takes, "reference": kind.reference}
            for kind in kinds
        ]
    )


def datasets(*, whole: bool) -> pl.DataFrame:
    """Every data set of the registry; without ``whole`` only what fits a terminal."""
    found = registry.describe()
    return found if whole else found.select("name", "title", "terms", "users", "items", "entries")


def describe(source: str, **options: Any) -> dict[str, Any]:
    """Quantities of a data source or of a model file."""
    if Path(source).suffix == ".permrank":
        return model_summary(load(source), Path(source))
    return open_rankings(source, **options).describe().to_dict()


def model_summary(model: Ranker, path: Path) -> dict[str, Any]:
    """What a fitted model is and what it learnt from."""
    data = model.rankings_
    values = {
        "class": type(model).__name__,
        "parameter": model.get_params(),
        "users": data.n_users,
        "rankings": data.n_rankings,
        "items": data.n_items,
        "entries": data.n_entries,
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "objective": model.history_[-1] if model.history_ else None,
        "seconds": model.fit_seconds_,
        "file": str(path),
        "bytes": path.expanduser().stat().st_size,
    }
    if model.validation_.size:
        values |= {"best_sweep": model.best_iter_, "validation": model.validation_.tolist()}
    return values | ({"communities": model.communities().to_dicts()} if isinstance(model, LatentPlackettLuce) else {})


def readable(values: dict[str, Any]) -> dict[str, Any]:
    """Values for a table: each community in a line with its size, what sets it apart, and who is typical."""
    rows = {name: value for name, value in values.items() if name not in ("communities", "validation")}
    rows["community"] = {}
    for row in values.get("communities", []):
        items = ", ".join(f"{item} x{lift:.1f}" for item, lift in zip(row["items"], row["lifts"], strict=True))
        users = ", ".join(str(user) for user in row["users"])
        rows["community"][f"{row['community']} ({row['size']:.0%})"] = f"{items}; typical: {users}"
    return rows
