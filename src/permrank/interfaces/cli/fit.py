"""``permrank fit``: the command, and what surrounds the learning itself."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import permrank as pr
from permrank.errors import ConvergenceWarning, InputError, StoppedWarning
from permrank.files.atomic import require_file_or_nothing, writable_target
from permrank.interfaces.cli.models import Settings, chosen_model, make_model
from permrank.interfaces.cli.sources import DataSource, Options, open_rankings, reads_data
from permrank.interfaces.output import Json, apart_from, message_of, printable, say, show_values

if TYPE_CHECKING:
    from permrank.types import Float64Array

_BARS, _MOST_BARS = "▁▂▃▄▅▆▇█", 40
# Methods that average over the last sweeps.
_AVERAGED = ("draws", "posterior", "contrastive", "persistent")
_validation = functools.partial(typer.Option, rich_help_panel="Validation: when to stop")
_engine = functools.partial(typer.Option, rich_help_panel="Engine: where it is computed")


@reads_data
def fit(
    context: typer.Context,
    data: DataSource,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")] = Path("model.permrank"),
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="auto takes one that fits the data, and says which: Recommender finds what each person would choose, "
            "PlackettLuce learns one order for everybody; 'permrank info --models' tells of all. module:Class takes "
            "one of your own.",
        ),
    ] = "auto",
    settings: Settings = None,
    drop_inestimable: Annotated[
        bool, typer.Option("--drop-inestimable", help="Leave out items for which no estimate exists, and name them.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the state of learning here; if killed, the same command goes on from it. Removed at the end.",
        ),
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(metavar="SWEEPS", min=1, help="How often the state is kept.")] = 10,
    validate: Annotated[
        float | None,
        _validation(
            metavar="SHARE",
            help="Hold out this share of every list, and measure by it how good the estimate is while it learns.",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        _validation(
            metavar="N",
            min=1,
            help="Stop when N measurements in a row were no better than the best before, and write that one.",
        ),
    ] = None,
    validate_every: Annotated[
        int | None, _validation(metavar="SWEEPS", min=1, show_default="5", help="How often it is measured.")
    ] = None,
    metric: Annotated[str | None, _validation(help="By what: ndcg@10, pairs_right, ... (docs: metrics).")] = None,
    engine: Annotated[
        str | None,
        _engine(metavar="NAME", help="ray: learn by workers of Ray, on one machine or several; the model is the same."),
    ] = None,
    address: Annotated[
        str | None,
        _engine(
            metavar="ADDRESS",
            help="Of a cluster: auto, host:6379, ray://host:10001; without it, workers on this machine.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _engine(min=1, show_default="one for each processor, or machine of several", help="How many there are."),
    ] = None,
    as_json: Json = False,
    *,
    reading: Options,
) -> None:
    """Learn a model from rankings or ratings and write it to one file.

    Ctrl-C stops at the end of the sweep; the estimate is written all the same, and the exit code is 130.

    Example: permrank fit ratings.csv --items movies.csv -o ratings.permrank

    Example: permrank fit ballots.csv -m PlackettLuce --set prior=gaussian

    Example: permrank fit ratings.csv -m PairwiseFactorisation --validate 0.2 --patience 3

    Example: permrank fit ratings.rankings -m FactoredPlackettLuce --engine ray --address host:6379
    """
    from permrank.interfaces.cli.info import model_summary, readable

    context.obj.loud = True
    writable_target(output)
    kept = _checkpoint(checkpoint, checkpoint_every, output)
    where = _engine_of(engine, address, workers)
    named = None if model == "auto" else make_model(model, settings or [])
    rankings = open_rankings(data, **reading)
    ranker = named or chosen_model(rankings, settings or [])
    rankings, judged = _held_out(rankings, validate, metric, validate_every, patience)
    left_out, stopped = _learn(
        ranker, rankings, chosen=named is None, drop_inestimable=drop_inestimable,
        checkpoint=kept, validation=judged, engine=where,
    )  # fmt: skip
    _save_somewhere(ranker, output, kept)
    if kept is not None and not stopped:
        kept.remove()
    values = model_summary(ranker, output) | ({"left_out": left_out} if left_out else {})
    title = f"{type(ranker).__name__} written to {output}"
    with apart_from(output):
        show_values(values if as_json else readable(values), as_json=as_json, title=title)
        if judged is not None and not as_json:
            say(_told_of_validation(ranker, judged))
    if stopped:
        if kept is not None:
            say(f"the same command goes on from {kept.path}", err=True)
        raise typer.Exit(130)


def _checkpoint(path: Path | None, every: int, output: Path) -> pr.Checkpoint | None:
    """The checkpoint that was asked for; raises if it cannot be written, or is where the model goes."""
    if path is None:
        return None
    if require_file_or_nothing(path).path == writable_target(output).path:
        raise InputError(f"--checkpoint and --output are both {path}; give two files")
    return pr.Checkpoint(path, every)


def _engine_of(engine: str | None, address: str | None, workers: int | None) -> pr.RayEngine | None:
    """The engine that was asked for; None for this process."""
    if engine not in (None, "local", "ray"):
        raise InputError(f"--engine {engine}, expected 'ray', or 'local' for this process")
    if engine == "ray":
        return pr.RayEngine(address, n_workers=workers)
    _refuse({"--address": address, "--workers": workers}, "--engine ray; give that too")
    return None


def _refuse(given: Mapping[str, object], purpose: str) -> None:
    """Raise if an option was given that only means something beside another one."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"{name} {value} is for {purpose}")


def _held_out(
    rankings: pr.Rankings, share: float | None, metric: str | None, every: int | None, patience: int | None
) -> tuple[pr.Rankings, pr.Validation | None]:
    """What to learn from, and the part that is held out of it."""
    if share is None:
        given = {"--patience": patience, "--validate-every": every, "--metric": metric}
        _refuse(given, "--validate SHARE; give that too, for example --validate 0.2")
        return rankings, None
    if not 0 < share < 1:
        raise InputError(f"--validate {share:g}, expected a share between 0 and 1, for example --validate 0.2")
    train, held = pr.hold_out(rankings, share)
    if held.n_entries == 0:
        raise InputError("no list has three items or more, so that nothing can be held out; fit without --validate")
    return train, pr.Validation(held, metric, **({} if every is None else {"every": every}), patience=patience)


def _told_of_validation(model: pr.Ranker, validation: pr.Validation) -> str:
    """The curve in a line, its best, what was written, and how to learn from everything."""
    scores, best, last = model.validation_[:, 1], model.best_iter_, model.n_iter_
    kept = f"stopped after sweep {last}; the estimate of sweep {best} is written"
    if validation.patience is None:
        kept = f"the last ({scores[-1]:.4f}, sweep {last}) is written; --patience N would keep the best"
    elif best == last:
        kept = "it is written"
    also = f" and with --set max_iter={best}" if ends_anywhere(model, model.rankings_) else ""
    return (
        f"{validation.name} by sweeps {sparkline(scores)} best {scores.max():.4f} at sweep {best}; {kept}\n"
        f"{validation.held.n_entries} entries were held out; to learn from them too, fit again without --validate{also}"
    )


def ends_anywhere(model: pr.Ranker, rankings: pr.Rankings) -> bool:
    """Whether ``max_iter=n`` gives the estimate that a longer fit has after n sweeps.

    Not so where it also says which sweeps are kept or averaged, or is counted for each of two parts of learning.
    """
    in_parts = model.clone().set_params(max_iter=1)._sweeps(rankings) > 1
    return not (in_parts or model.get_params().get("method") in _AVERAGED)


def sparkline(values: Float64Array) -> str:
    """Values as small bars, the lowest the shortest; of many, some."""
    import numpy as np

    indices = np.unique(np.linspace(0, values.size - 1, min(values.size, _MOST_BARS)).round().astype(int))
    low, high = values.min(), values.max()
    heights = (values[indices] - low) / (high - low) if high > low else np.ones(indices.size)
    return "".join(_BARS[round(float(height) * (len(_BARS) - 1))] for height in heights)


def _learn(model: pr.Ranker, rankings: pr.Rankings, **options: Any) -> tuple[list[object], bool]:
    """Fit a model, warnings as one line each; returns the items that were left out, and whether Ctrl-C stopped it."""
    from permrank.interfaces.fit import learn

    before = model.get_params().get("prior")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        left_out = learn(model, rankings, **options)
    if model.get_params().get("prior") != before:
        say("some items have no estimate without a prior: prior=gaussian", err=True)
    for warning in caught:
        say(f"warning: {warning.message}", err=True)
    if left_out:
        shown = ", ".join(map(printable, left_out[:20])) + (" ..." if len(left_out) > 20 else "")
        say(f"left out {len(left_out)} items without an estimate: {shown}", err=True)
    return left_out, any(issubclass(warning.category, StoppedWarning) for warning in caught)


def _save_somewhere(model: pr.Ranker, output: Path, checkpoint: pr.Checkpoint | None) -> None:
    """Write a model where it was to be, or among temporary files if that fails now; either failure is an error."""
    try:
        model.save(output)
        return
    except BrokenPipeError:
        raise
    except (OSError, InputError) as error:
        reason = message_of(error)
    try:  # in a folder that nobody else may look into, since the file that was to be may have been private
        kept = Path(tempfile.mkdtemp(prefix="permrank-")) / "model.permrank"
        model.save(kept)
    except (OSError, InputError) as error:
        again = f"; the same command goes on from {checkpoint.path}" if checkpoint else ""
        raise InputError(f"{reason}; and the model is lost ({message_of(error)}){again}") from error
    raise InputError(f"{reason}; but the model was written to {kept}")
