"""What ``permrank tune`` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from permrank.core.ranker import Ranker
from permrank.core.registry import spelling
from permrank.evaluation.metrics import title_of
from permrank.evaluation.protocols import Protocol
from permrank.evaluation.split import Split
from permrank.evaluation.tune import Tuning, tune
from permrank.interfaces.cli.comparing import protocol_of
from permrank.interfaces.cli.sources import open_rankings
from permrank.interfaces.output import print_json, say, show
from permrank.types import Named


def tuned(
    model: Ranker, data: str, protocol: str, n: int | None, time: str | None, reading: Named, **options: Any
) -> Tuning:
    """Tune on a file, a data set or the training part of a split, with a line on standard error for every trial."""
    chosen: Protocol | None = None
    given = Split.load(data) if (Path(data) / "split.json").is_file() else open_rankings(data, **reading)
    if protocol != "auto" or n is not None:
        chosen = protocol_of(given.train if isinstance(given, Split) else given, data, protocol, n, time, reading)

    def tell(trials: pl.DataFrame) -> None:
        row = trials.row(trials.height - 1, named=True)
        score = "" if row["score"] is None else f"{row['score']:.4f}"
        result = ", ".join(filter(None, (score, row["note"])))
        say(f"{row['trial']}/{options['trials']}  {row['parameters']}: {result}, {row['seconds']:.1f} s", err=True)

    return tune(model, given, protocol=chosen, on_trial=tell, **options)


def show_tuning(found: Tuning, data: str, k: int, *, as_json: bool) -> None:
    """Print the trials, best first, and the command that fits the best."""
    name, own = type(found.model).__name__, found.model.get_params()
    usual = type(found.model)().get_params()
    changed = {key: value for key, value in own.items() if value != usual[key]}
    if as_json:
        print_json(
            {
                "model": name, "metric": found.metric, "first": found.first, "best": found.best, "parameters": changed,
                "trials": found.trials.to_dicts(),
            }
        )  # fmt: skip
        return
    ordered = found.trials.sort("score", descending=found.higher_is_better, nulls_last=True, maintain_order=True)
    show(
        ordered, as_json=False, most=10,
        title=f"{title_of(found.metric, k)} on validation parts: {found.first:.4f} as given, {found.best:.4f} the best",
    )  # fmt: skip
    settings = "".join(f" -s {key}={value}" for key, value in changed.items())
    say(f"permrank fit {data} -m {spelling(type(found.model))}{settings}")
