"""``permrank fit``: what surrounds the learning itself."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import typer

from permrank.data.rankings import Rankings
from permrank.errors import ConvergenceWarning, EstimateError, InputError, StoppedWarning
from permrank.models.base import Ranker
from permrank.models.checkpoints import Checkpoint


def require_folder(output: Path) -> None:
    """Raise if a model cannot be written there: before it is learnt, not after."""
    if output.is_dir():
        raise InputError(f"{output} is a folder; give the name of a file")
    if not output.parent.is_dir():
        raise InputError(f"the folder {output.parent} does not exist; make it first")


def require_checkpoint(path: Path | None, every: int, output: Path) -> Checkpoint | None:
    """The checkpoint that was asked for; raises if it cannot be written, or is where the model goes."""
    if path is None:
        return None
    require_folder(path)
    if path.absolute() == output.absolute():
        raise InputError(f"--checkpoint and --output are both {path}; give two files")
    return Checkpoint(path, every)


def learn(
    model: Ranker, rankings: Rankings, *, drop_inestimable: bool, checkpoint: Checkpoint | None
) -> tuple[list[Any], bool]:
    """Fit a model, warnings as one line each; returns the items that were left out, and whether Ctrl-C stopped it."""
    left_out: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        while True:
            try:
                model.fit(rankings, checkpoint=checkpoint)
                break
            except EstimateError as error:
                if not drop_inestimable or not error.items or len(error.items) >= rankings.n_items:
                    raise
                # What is left may be torn apart by what is missing: look again.
                left_out += error.items
                rankings = rankings.drop(items=error.items)
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    stopped = any(issubclass(warning.category, StoppedWarning) for warning in caught)
    if left_out:
        shown = ", ".join(map(str, left_out[:20])) + (" ..." if len(left_out) > 20 else "")
        typer.echo(f"left out {len(left_out)} items without an estimate: {shown}", err=True)
    return left_out, stopped
