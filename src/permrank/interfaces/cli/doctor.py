"""``permrank doctor``: is this installation sound?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np
import polars as pl

from permrank import __version__
from permrank.errors import PermrankError
from permrank.families.plackett_luce.model import PlackettLuce
from permrank.files import datasets
from permrank.kernels.jit import cache_folder
from permrank.processes import threads_are_safe

_LIBRARIES = ("numpy", "scipy", "numba", "polars", "safetensors", "typer", "rich", "pooch", "jinja2", "platformdirs")
# `permrank --help` takes 0.4 s at the most where Python itself takes 13 ms to start: so many times as long.
_START_UP_LIMIT = 30


def examine() -> tuple[pl.DataFrame, bool]:
    """Columns ``check``, ``value``, ``ok``; and whether the self-test passed."""
    rows: list[tuple[str, str, str]] = [
        ("permrank", __version__, "yes"),
        ("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", "yes"),
    ]
    rows += [(name, importlib.metadata.version(name), "yes") for name in _LIBRARIES]
    layer = "" if threads_are_safe() else "; Numba's layer is workqueue, for one thread of Python only"
    rows.append(("threads", f"{numba.get_num_threads()} of {os.cpu_count()} cores{layer}", "yes"))
    rows.append(("compiled kernels", *_compiled()))
    rows.append(("data cache", *_writable(str(datasets.cache_folder()))))
    rows.append(("data folder", *_data_folder()))
    seconds, own = start_up()
    rows.append(
        (
            "permrank --help",
            f"{seconds:.2f} s, {seconds / own:.0f} times what Python takes to start (limit {_START_UP_LIMIT})",
            _yes(seconds < _START_UP_LIMIT * own),
        )
    )
    passed, verdict = self_test()
    rows.append(("self-test", verdict, _yes(passed)))
    return pl.DataFrame(rows, schema=["check", "value", "ok"], orient="row"), passed


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
    begin = time.perf_counter()
    try:
        made = datasets.simulated(400, 12, n_communities=1, n_factors=0, list_length=6, seed=1)
        model = PlackettLuce().fit(made.rankings, verbose=False)
        truth = made.truth.scores(np.array([0]))[0]
        correlation = float(np.corrcoef(truth, model.scores_)[0, 1])
        total = float(model.top_probability(None, list(model.item_ids), 3).sum())
    except PermrankError as error:
        return False, str(error)
    passed = model.converged_ and correlation > 0.95 and abs(total - 3.0) < 1e-8
    return (
        passed,
        f"planted worths found (correlation {correlation:.3f}) in {time.perf_counter() - begin:.1f} s",
    )


def _compiled() -> tuple[str, str]:
    folder = cache_folder()
    if folder is None:
        return "not kept: set NUMBA_CACHE_DIR to a folder that can be written to", "no"
    files = list(folder.glob("*.nbc"))
    return f"{folder} ({len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB)", "yes"


def _writable(folder: str) -> tuple[str, str]:
    path = Path(folder)
    while not path.exists():
        path = path.parent
    return folder, _yes(os.access(path, os.W_OK))


def _data_folder() -> tuple[str, str]:
    folder = os.environ.get("PERMRANK_DATA")
    if not folder:
        return "PERMRANK_DATA is not set: data sets are downloaded when first used", "yes"
    if not Path(folder).is_dir():
        return f"PERMRANK_DATA={folder} is not a folder", "no"
    return f"{folder} ({len(list(Path(folder).iterdir()))} files)", "yes"


def _yes(good: bool) -> str:
    return "yes" if good else "no"
