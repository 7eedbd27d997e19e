"""``permrank warm``: compile ahead what models need, in parallel processes."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed

import polars as pl
from rich.console import Console
from rich.progress import Progress

import permrank as pr
from permrank.errors import PermrankError
from permrank.interfaces.cli.models import make_model
from permrank.kernels.jit import cache_folder

# What `permrank fit`, `compare` and the demo take without being told; the longest first.
USUAL = ("Recommender", "FactoredPlackettLuce", "PlackettLuce", "PairwiseFactorisation")


def warm(names: list[str], n_processes: int | None = None) -> pl.DataFrame:
    """Compile what each of these models needs to be fitted and asked; columns ``model``, ``kernels``, ``seconds``.

    ``kernels`` are those that were not there before; processes share what they compile.
    """
    for name in names:
        make_model(name, [])  # an unknown one is refused before anything starts
    n_processes = min(n_processes or os.cpu_count() or 1, len(names))
    rows: dict[str, tuple[int, float]] = {}
    spawned = multiprocessing.get_context("spawn")
    bar = Progress(console=Console(stderr=True), transient=True)
    with bar, ProcessPoolExecutor(n_processes, mp_context=spawned) as pool:
        task = bar.add_task("compiling", total=len(names))
        waiting = {pool.submit(compile_for, name): name for name in names}
        for done in as_completed(waiting):
            rows[waiting[done]] = done.result()
            bar.advance(task)
    return pl.DataFrame(
        [(name, *rows[name]) for name in names], schema=["model", "kernels", "seconds"], orient="row"
    ).with_columns(pl.col("seconds").round(1))


def compile_for(name: str) -> tuple[int, float]:
    """Fit a model to small data of each kind that it takes, and ask it the usual questions; kernels and seconds."""
    begin, before = time.perf_counter(), _files()
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
    return len(_files() - before), time.perf_counter() - begin


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


def _files() -> set[str]:
    folder = cache_folder()
    return set() if folder is None else {path.name for path in folder.glob("*.nbc")}
