"""Processor seconds that a first fit and `recommend` compile, from an empty cache, kernel by kernel.

``python benchmarks/compiling.py`` with simulated ratings; ``--data ml-100k`` with a data set; ``--lists`` with strict
lists, which have kernels of their own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np


def simulated(lists: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.permutation(60)[:12] for _ in range(300)])
    column = {"rank": np.tile(np.arange(1, 13), 300)} if lists else {"rating": rng.integers(1, 6, items.size)}
    return {"user": np.repeat(np.arange(300), 12), "item": items, **column}


def compiled(data: str | None, lists: bool) -> None:
    """Fit and recommend in this process, whose cache is empty."""
    from numba.core import event

    import permrank as pr

    begun: list[float] = []
    found: list[tuple[str, float]] = []

    class Noted(event.Listener):
        def on_start(self, event: event.Event) -> None:
            begun.append(time.process_time())

        def on_end(self, event: event.Event) -> None:
            seconds, kernel = time.process_time() - begun.pop(), event.data["dispatcher"].py_func
            if not begun:  # what a kernel calls is compiled with it
                found.append((f"{kernel.__module__.removeprefix('permrank.')}.{kernel.__name__}", seconds))

    warnings.simplefilter("ignore")
    event.register("numba:compile", Noted())
    build = pr.Rankings.from_ranks if lists else pr.Rankings.from_ratings
    rankings = pr.datasets.load(data) if data else build(simulated(lists))
    model = pr.FactoredPlackettLuce(max_iter=30).fit(rankings, verbose=False)
    model.recommend(model.user_ids[0], k=10)
    for name, seconds in sorted(found, key=lambda each: -each[1]):
        print(f"{seconds:6.2f}  {name}")
    print(f"{sum(seconds for _, seconds in found):6.2f}  processor seconds of compilation")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--lists", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        compiled(given.data, given.lists)
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, *sys.argv[1:], "--child"]
            subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, check=True)
