"""``permrank warm`` and ``doctor``: compile ahead what models need, and check that the installation is sound."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Annotated

import typer

import permrank as pr
from permrank.errors import PermrankError
from permrank.interfaces.cli.models import make_model
from permrank.interfaces.output import Json, show

# What `permrank fit`, `compare` and the demo take without being told; the longest first.
_USUAL = ("Recommender", "FactoredPlackettLuce", "PlackettLuce", "PairwiseFactorisation")
_LIBRARIES = ("numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich", "pooch", "jinja2", "platformdirs")
# `permrank --help` takes 0.4 s at the most where Python itself takes 13 ms to start: so many times as long.
_START_UP_LIMIT = 30


def warm(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL]...", help="Models to compile for; without any, those taken by default."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="For every model (minutes).")] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, show_default="one for each core", help="How many compile at a time.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compile ahead what models need, in parallel processes, so that the first fit need not.

    Machine code is kept for this version on this machine ('permrank doctor' says where). Code that is there is not
    compiled again.

    Example: permrank warm

    Example: permrank warm PlackettLuce BradleyTerry
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    import polars as pl
    from rich.console import Console
    from rich.progress import track

    from permrank.families import MODELS

    names = list(MODELS) if everything else models or list(_USUAL)
    for name in names:
        make_model(name, [])  # an unknown one is refused before anything starts
    # Processes share what they compile: each counts the kernels that were not there before.
    n_processes = min(processes or os.cpu_count() or 1, len(names))
    with ProcessPoolExecutor(n_processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(compile_for, name): name for name in names}
        done = track(as_completed(waiting), "compiling", len(names), console=Console(stderr=True), transient=True)
        rows = {waiting[each]: each.result() for each in done}
    table = [(name, rows[name][0], round(rows[name][1], 1)) for name in names]
    show(pl.DataFrame(table, ["model", "kernels", "seconds"], orient="row"), as_json=as_json, title="compiled")


def compile_for(name: str) -> tuple[int, float]:
    """Fit a model to small data of each kind that it takes, and ask it the usual questions; kernels and seconds."""
    begin, before = time.perf_counter(), _compiled()
    rated, _ = pr.datasets.simulated(n_users=60, n_items=30, ties=5, list_length=(8, 14), choice=1.0, seed=1)
    listed, _ = pr.datasets.simulated(n_users=60, n_items=8, list_length=(3, 6), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rankings in (rated, listed):
            model = make_model(name, [])
            if "prior" in model.get_params():
                model.set_params(prior="gaussian")
            try:
                _ask(model.fit(rankings, verbose=False), rankings)
            except PermrankError:  # it does not take this kind of data
                continue
    return len(_compiled() - before), time.perf_counter() - begin


def _ask(model: pr.Ranker, rankings: pr.Rankings) -> None:
    user, (one, other) = rankings.user_ids[0], list(rankings.item_ids)[:2]
    new = model.fold_in([one, other])
    for question in (
        lambda: model.recommend(user, k=3),
        lambda: model.recommend(None, k=3),
        lambda: model.recommend(new, k=3),
        lambda: model.rank(user, [one, other]),
        lambda: model.prefers(user, one, other),
        lambda: model.explain(user, one),
        lambda: model.similar_items(one, 2),
    ):
        try:
            question()
        except (PermrankError, AttributeError):  # not every model is asked everything
            continue


def _compiled() -> set[Path]:
    """Files of machine code that are kept."""
    from permrank.kernels.jit import cache_folder

    folder = cache_folder()
    return set() if folder is None else set(folder.glob("*.nbc"))


def doctor(as_json: Json = False) -> None:
    """Check this installation: versions, threads, caches, data folder, start-up time and a self-test."""
    import numba
    import polars as pl

    from permrank.processes import threads_are_safe

    layer = "" if threads_are_safe() else "; Numba's layer is workqueue, for one thread of Python only"
    seconds, own = start_up()
    passed, verdict = self_test()
    cache = pr.datasets.cache_folder()
    checks: list[tuple[str, str, bool]] = [
        ("permrank", pr.__version__, True),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", True),
        *((name, importlib.metadata.version(name), True) for name in _LIBRARIES),
        ("threads", f"{numba.get_num_threads()} of {os.cpu_count()} cores{layer}", True),
        ("compiled kernels", *_kernel_folder()),
        ("data cache", str(cache), _can_be_written(Path(cache))),
        ("data folder", *_data_folder()),
        (
            "permrank --help",
            f"{seconds:.2f} s, {seconds / own:.0f} times what Python takes to start (limit {_START_UP_LIMIT})",
            seconds < _START_UP_LIMIT * own,
        ),
        ("self-test", verdict, passed),
    ]
    rows = [(check, value, "yes" if good else "no") for check, value, good in checks]
    show(pl.DataFrame(rows, ["check", "value", "ok"], orient="row"), as_json=as_json, title="permrank doctor")
    if not passed:
        raise typer.Exit(1)


def start_up(repeats: int = 5) -> tuple[float, float]:
    """Processor seconds of ``permrank --help`` in a process of its own, and of Python that does nothing; medians.

    Both are as slow as the machine, and neither waits for others on a busy one.
    """
    commands = ["from permrank.interfaces.cli.app import main; main()", "pass"]
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for command, spent in zip(commands, times, strict=True):
            before = _children_seconds()
            subprocess.run([sys.executable, "-c", command, "--help"], check=True, stdout=subprocess.DEVNULL)
            spent.append(_children_seconds() - before)
    own = max(statistics.median(times[1]), 1e-3)  # clocks of some systems are coarse
    return statistics.median(times[0]), own


def _children_seconds() -> float:
    """Processor seconds of processes that this one has started; on systems that do not say, the time of the day."""
    if os.name != "posix":
        return time.perf_counter()
    import resource

    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def self_test() -> tuple[bool, str]:
    """Learn planted worths from simulated lists, and check that probabilities add up."""
    import numpy as np

    begin = time.perf_counter()
    try:
        made = pr.datasets.simulated(400, 12, n_communities=1, n_factors=0, list_length=6, seed=1)
        model = pr.PlackettLuce().fit(made.rankings, verbose=False)
        truth = made.truth.scores(np.array([0]))[0]
        correlation = float(np.corrcoef(truth, model.scores_)[0, 1])
        total = float(model.top_probability(None, list(model.item_ids), 3).sum())
    except PermrankError as error:
        return False, str(error)
    passed = model.converged_ and correlation > 0.95 and abs(total - 3.0) < 1e-8
    seconds = time.perf_counter() - begin
    return passed, f"planted worths found (correlation {correlation:.3f}) in {seconds:.1f} s"


def _kernel_folder() -> tuple[str, bool]:
    from permrank.kernels.jit import cache_folder

    folder, files = cache_folder(), _compiled()
    if folder is None:
        return "not kept: set NUMBA_CACHE_DIR to a folder that can be written to", False
    return f"{folder} ({len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB)", True


def _can_be_written(folder: Path) -> bool:
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)


def _data_folder() -> tuple[str, bool]:
    folder = os.environ.get("PERMRANK_DATA")
    if not folder:
        return "PERMRANK_DATA is not set: data sets are downloaded when first used", True
    if not Path(folder).is_dir():
        return f"PERMRANK_DATA={folder} is not a folder", False
    return f"{folder} ({len(list(Path(folder).iterdir()))} files)", True
