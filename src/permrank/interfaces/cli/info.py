"""The frames behind ``permrank info`` and ``permrank fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from permrank.data import datasets as registry
from permrank.interfaces.cli.models import load_model
from permrank.interfaces.cli.sources import open_rankings
from permrank.models.latent.model import LatentPlackettLuce
from permrank.models.ranker import Ranker
from permrank.models.registry import every


def models() -> pl.DataFrame:
    """Every model: what it assumes, what input it takes, and where it comes from."""
    said = ("assumes", "takes", "reference")
    rows = [{"model": kind.__name__} | {name: getattr(kind, name, "") for name in said} for kind in every()]
    return pl.DataFrame(rows)


def datasets(*, whole: bool) -> pl.DataFrame:
    """Every data set of the registry; without ``whole`` only what fits a terminal."""
    found = registry.describe()
    return found if whole else found.select("name", "title", "terms", "users", "items", "entries")


def describe(source: str, own: str | None = None, **options: Any) -> dict[str, Any]:
    """Quantities of a data source or of a model file, which may be of a class of one's own."""
    if Path(source).suffix == ".permrank":
        return model_summary(load_model(source, own), Path(source))
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
