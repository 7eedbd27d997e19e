"""The frames behind ``permrank info`` and ``permrank fit``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import polars as pl

from permrank.core.ranker import Ranker
from permrank.families.latent.model import LatentPlackettLuce
from permrank.files import datasets as registry
from permrank.interfaces.cli.models import class_named, known_name, load_model
from permrank.interfaces.cli.sources import open_rankings
from permrank.rankings.rankings import Rankings
from permrank.types import Named

_WORDS = {pl.Int64: "whole number", pl.Float64: "number", pl.String: "text", pl.Boolean: "yes or no", pl.List: "list"}


def class_meant(source: str) -> type[Ranker] | None:
    """The class that a word of the command line names, in any spelling or as module:Class, unless it is a file."""
    module, colon, attribute = source.partition(":")
    if Path(source).exists() or source in registry.names():
        return None
    own = colon and attribute.isidentifier() and module.replace(".", "_").isidentifier()
    return class_named(source) if own or known_name(source) is not None else None


def parameters(kind: type[Ranker]) -> pl.DataFrame:
    """Parameters of a model in the order of its constructor: default, what is allowed, and what each is."""
    rows = []
    for name, argument in inspect.signature(kind).parameters.items():
        declared = kind.parameters.get(name)
        only = "" if declared is None or declared.when is None else "Only with {}={}.".format(*declared.when)
        about = "" if declared is None else f"{declared.help} {only}".strip()
        allowed = "" if declared is None else declared.allowed
        default = "" if argument.default is argument.empty else str(argument.default)
        rows.append({"parameter": name, "default": default, "allowed": allowed, "help": about})
    return pl.DataFrame(rows, schema=dict.fromkeys(("parameter", "default", "allowed", "help"), pl.String))


def datasets(*, whole: bool) -> pl.DataFrame:
    """Every data set of the registry; without ``whole`` only what fits a terminal."""
    found = registry.describe()
    return found if whole else found.select("name", "title", "terms", "users", "items", "entries")


def describe(source: str, own: str | None = None, **options: Any) -> Named:
    """Quantities of a data source or of a model file, which may be of a class of one's own."""
    if Path(source).suffix == ".permrank":
        return model_summary(load_model(source, own), Path(source))
    rankings = open_rankings(source, **options)
    return rankings.describe().to_dict() | known_of(rankings)


def known_of(rankings: Rankings) -> Named:
    """What is known of items and users: for each column its type, and of how many."""
    found: Named = {}
    for ids in (rankings.item_ids, rankings.user_ids):
        if ids.attributes is not None:
            table = ids.table.drop(ids.kind)
            found[f"{ids.kind}_attribute"] = {
                series.name: f"{_WORDS.get(series.dtype.base_type(), str(series.dtype))}, "
                f"of {len(series) - series.null_count():,} {ids.kind}s"
                for series in table
            }
            features = rankings.features("item" if ids.kind == "item" else "user")
            if features is not None:
                found[f"{ids.kind}_feature"] = dict(map(_told, features.describe().to_dicts()))
    links = rankings.user_ids.attributes.links if rankings.user_ids.attributes else None
    if links is not None:
        found["links"] = f"{len(links):,}, {'learnt from' if links.learnt else 'not learnt from'}"
    return found


def _told(row: Named) -> tuple[str, str]:
    """An attribute, and how it is encoded."""
    columns = f"{row['columns']} column{'s' * (row['columns'] != 1)}" if row["columns"] else ""
    return row["attribute"], ", ".join(part for part in (row["encoding"], columns, row["note"]) if part)


def sizes(rankings: Rankings) -> Named:
    """Who ranked how much."""
    return {
        "anonymous": rankings.anonymous,
        "users": rankings.n_users,
        "rankings": rankings.n_rankings,
        "total_weight": float(rankings.weights.sum()),
        "items": rankings.n_items,
        "entries": rankings.n_entries,
    }


def in_words(values: Named) -> Named:
    """Sizes for people: of anonymous rankings the ballots that were cast, and how many of them differ."""
    if not values.get("anonymous"):
        return {name: value for name, value in values.items() if name != "anonymous"}
    renamed = {"users": "ballots", "rankings": "distinct_ballots"}
    told = values | {"users": values["total_weight"]}
    return {renamed.get(name, name): told[name] for name in told if name not in ("anonymous", "total_weight")}


def model_summary(model: Ranker, path: Path) -> Named:
    """What a fitted model is and what it learnt from."""
    data = model.rankings_
    values = {
        "class": type(model).__name__,
        "parameter": model.get_params(),
        **sizes(data),
        "sweeps": model.n_iter_,
        "converged": model.converged_,
        "objective": model.history_[-1] if model.history_ else None,
        "seconds": model.fit_seconds_,
        "file": str(path),
        "bytes": path.expanduser().stat().st_size,
    }
    values |= known_of(data)
    if len(starts := getattr(model, "start_objectives_", ())) > 1:  # how far apart they end
        values |= {"starts": len(starts), "worst_start": float(min(starts)), "best_start": float(max(starts))}
    if model.validation_.size:
        values |= {"best_sweep": model.best_iter_, "validation": model.validation_.tolist()}
    return values | ({"communities": model.communities().to_dicts()} if isinstance(model, LatentPlackettLuce) else {})


def readable(values: Named) -> Named:
    """Values for a table: each community in a line with its size, what sets it apart, and who is typical."""
    shown = {name: value for name, value in values.items() if name not in ("communities", "validation")}
    rows = in_words({name.removeprefix("n_"): value for name, value in shown.items()})
    rows["community"] = {}
    for row in values.get("communities", []):
        names = row.get("titles", row["items"])
        items = ", ".join(f"{item} x{lift:.1f}" for item, lift in zip(names, row["lifts"], strict=True))
        users = ", ".join(str(user) for user in row["users"])
        rows["community"][f"{row['community']} ({row['size']:.0%})"] = f"{items}; typical: {users}"
    return rows
