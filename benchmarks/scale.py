"""How reading, learning and saving grow: simulated ratings with power laws, each job in a process of its own.

``python benchmarks/scale.py JOB``, with one of

- ``read``     100 million rows of Parquet to rankings: seconds, and the peak over what is kept; the same as a folder
- ``fit``      the default fit of 20 million entries (138,000 x 27,000) over implicit's ALS, 15 iterations, 16 factors
- ``hundred``  100 million entries (480,000 x 18,000), Parquet to a saved model, with the peak
- ``wide``     2 million people x 1 million items x 20 million entries, with the model's file
- ``ray``      a sweep by two workers of Ray over one by two threads, 20 million entries
- ``growth``   processor seconds a sweep for 1, 4, 16 and 64 million entries, and the slope
- ``passes``   the passes of a sweep of 20 million entries, each as a share of what the memory could move: of all bytes
  that it reads and writes, and of those that do not fit a cache (all but the rows of the items)

``--sweeps`` makes fewer sweeps than the default, and says so; ``--scale 0.1`` makes everything smaller. ``--folder``
keeps the simulated files for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers import peak_megabytes, peer_python, run_peer
from scale_data import simulate

THREADS, FACTORS, ITERATIONS = 2, 16, 15
SIZES = {
    "read": (480_000, 18_000, 100_000_000), "hundred": (480_000, 18_000, 100_000_000),
    "fit": (138_000, 27_000, 20_000_000), "ray": (138_000, 27_000, 20_000_000),
    "wide": (2_000_000, 1_000_000, 20_000_000),
}  # fmt: skip
GROWTH = (1_000_000, 4_000_000, 16_000_000, 64_000_000)


def data_for(folder: Path, size: tuple[int, int, int]) -> Path:
    """The files of a size, simulated unless they are there."""
    path = folder / "x".join(map(str, size))
    if not path.exists():
        simulate(path.with_suffix(".tmp"), *size, n_files=max(1, size[2] // 2_500_000))
        path.with_suffix(".tmp").rename(path)
    return path


def alone(job: str, *arguments: object) -> dict[str, float]:
    """A job in a process of its own."""
    command = [sys.executable, __file__, "--child", job, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def child_read(path: str) -> dict[str, float]:
    import permrank as pr

    begin = time.perf_counter()
    rankings = pr.read(path)
    seconds, kept = time.perf_counter() - begin, sum(array.nbytes for array in rankings._arrays) / 2**20
    peak = peak_megabytes()
    return {"entries": rankings.n_entries, "seconds": seconds, "kept": kept, "peak": peak, "ratio": peak / kept}


def child_folder(path: str, target: str) -> dict[str, float]:
    import permrank as pr

    rankings, begin = pr.read(path), time.perf_counter()
    rankings.write(target)
    written = time.perf_counter()
    opened = pr.read(target)
    at = time.perf_counter()
    assert opened.items.size == rankings.n_entries
    return {"write": written - begin, "open": at - written, "check": time.perf_counter() - at}


def child_fit(path: str, sweeps: str, engine: str, save: str) -> dict[str, float]:
    """Seconds of reading, of each kind of sweep and of saving; the peak after each."""
    import permrank as pr

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    pairs = {"user": np.repeat(np.arange(300), 20), "item": np.tile(np.arange(20), 300)}
    small = pr.Rankings.from_ratings({**pairs, "rating": rng.integers(1, 11, 6000) / 2.0})
    where = None if engine == "local" else pr.RayEngine(n_workers=int(engine), threads=1)
    pr.FactoredPlackettLuce(FACTORS, max_iter=8).fit(small, verbose=False)  # compiles
    begin = time.perf_counter()
    rankings = pr.read(path)
    found = {"entries": rankings.n_entries, "read": time.perf_counter() - begin, "peak_read": peak_megabytes()}
    times, work = [time.perf_counter()], [time.process_time()]
    model = pr.FactoredPlackettLuce(FACTORS, max_iter=int(sweeps) or None)

    def note(progress: object) -> None:
        times.append(time.perf_counter())
        work.append(time.process_time())
        print(f"sweep {len(times) - 1} {times[-1] - times[-2]:.2f} s", file=sys.stderr, flush=True)

    model.fit(rankings, verbose=False, callback=note, engine=where)
    steps, busy = np.diff(times), np.diff(work)
    found |= {
        "fit": model.fit_seconds_, "processor": time.process_time() - work[0], "sweeps": model.n_iter_,
        "start": steps[0], "sweep": float(np.median(steps[1:])), "sweep_processor": float(np.median(busy[1:])),
        "start_processor": busy[0], "peak_fit": peak_megabytes(),
    }  # fmt: skip
    if save:
        begin = time.perf_counter()
        model.save(save)
        found |= {"save": time.perf_counter() - begin, "file": Path(save).stat().st_size / 2**20}
        found["peak_save"] = peak_megabytes()
    return found


def child_passes(path: str, sweeps: str) -> dict[str, float]:
    """Median seconds of each pass after the fits are under way, its bytes, and the bandwidth of two threads."""
    import permrank as pr
    from permrank.posterior.passes import Passes

    rankings = pr.read(path)
    seconds: dict[str, list[float]] = {name: [] for name in ("users", "items", "modes")}
    for name, noted in seconds.items():
        setattr(Passes, name, _timed(getattr(Passes, name), noted))
    pr.FactoredPlackettLuce(FACTORS, max_iter=int(sweeps)).fit(rankings, verbose=False)
    n, of_people, k = rankings.n_entries, rankings.n_users * 8, FACTORS + 1
    rows, states = 8 * (k + 1) * n, of_people * (4 * k + 8)  # of items, by entries; modes and draws read and written
    streamed = {
        "users": n * (4 + 4 + 2 * 8) + states,  # item, level; residual and curvature written
        "items": n * (4 + 2 * 8 + 8 * k),  # user, residual, curvature, the row of the user
        "modes": n * (4 + 4) + states // 2,
    }
    found = {"entries": n, "bandwidth": _bandwidth()}
    for name, noted in seconds.items():
        took, whole = float(np.median(noted[len(noted) // 2 :])), streamed[name] + (0 if name == "items" else rows)
        found |= {f"{name}": took, f"{name}_share": whole / took / found["bandwidth"]}
        found[f"{name}_beyond_caches"] = streamed[name] / took / found["bandwidth"]
    return found


def _timed(method: Callable[..., Any], noted: list[float]) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        result = method(*arguments)
        noted.append(time.perf_counter() - begin)
        return result

    return timed


def _bandwidth() -> float:
    """Bytes a second that two threads read and write: a[i] = b[i] + s c[i] over arrays far beyond the caches."""
    import numba

    @numba.njit(parallel=True)
    def triad(a, b, c, scale):
        for i in numba.prange(a.size):
            a[i] = b[i] + scale * c[i]

    a, b, c = np.zeros(1 << 26), np.ones(1 << 26), np.ones(1 << 26)
    took = []
    for _ in range(6):
        begin = time.perf_counter()
        triad(a, b, c, 2.0)
        took.append(time.perf_counter() - begin)
    return 3.0 * a.nbytes / min(took)


def child_arrays(path: str, target: str) -> dict[str, float]:
    import permrank as pr

    rankings = pr.read(path)
    np.savez(target, users=rankings.entry_users(np.int32), items=rankings.items, ratings=rankings.ratings)
    return {}


def show(name: str, found: dict[str, float]) -> None:
    print(name, " ".join(f"{key} {value:,.4g}" for key, value in found.items()), flush=True)


def read(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    path = data_for(folder, size)
    show("read  ", alone("read", path))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        show("folder", alone("folder", path, Path(place) / "x.rankings"))


def fit(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    path = data_for(folder, size)
    ours = alone("fit", path, sweeps, "local", "")
    show("permrank", ours)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        alone("arrays", path, Path(place) / "x.npz")
        theirs = run_peer(peer_python("implicit", "threadpoolctl"), "peer_fit.py", Path(place) / "x.npz", FACTORS)
    show("implicit", theirs)
    part = "" if not sweeps else f" ({sweeps} sweeps instead of the default)"
    print(f"processor seconds over ALS{part}: {ours['processor'] / theirs['processor']:.1f}")


def hundred(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        show("hundred", alone("fit", data_for(folder, size), sweeps, "local", Path(place) / "m.permrank"))


def ray(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    path = data_for(folder, size)
    here = alone("fit", path, sweeps or 12, "local", "")
    show("local, two threads", here)
    there = alone("fit", path, sweeps or 12, "2", "")
    show("Ray, two workers  ", there)
    print(f"a sweep by Ray over one here: {there['sweep'] / here['sweep']:.2f}")


def growth(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    found = []
    for n in GROWTH:
        n = round(n * size[2] / SIZES["fit"][2])
        found.append(alone("fit", data_for(folder, (n // 140, 27_000, n)), sweeps or 8, "local", ""))
        show("growth", found[-1])
    logs = np.log([[each["entries"], each["sweep_processor"]] for each in found])
    print(f"processor seconds a sweep grow as entries to the power {np.polyfit(logs[:, 0], logs[:, 1], 1)[0]:.2f}")


def passes(folder: Path, size: tuple[int, int, int], sweeps: int) -> None:
    show("passes", alone("passes", data_for(folder, size), sweeps or 20))


JOBS = {"read": read, "fit": fit, "hundred": hundred, "wide": hundred, "ray": ray, "growth": growth, "passes": passes}
CHILDREN = {
    "read": child_read,
    "folder": child_folder,
    "fit": child_fit,
    "arrays": child_arrays,
    "passes": child_passes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS, nargs="?")
    parser.add_argument("--sweeps", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("NUMBA_NUM_THREADS", str(min(THREADS, os.cpu_count() or 1)))
    if arguments.child:
        name, *rest = arguments.child
        print(json.dumps(CHILDREN[name](*rest)))
        return
    if arguments.job is None:
        parser.error("give a job")
    size = SIZES.get(arguments.job, SIZES["fit"])
    size = (round(size[0] * arguments.scale), round(size[1] * arguments.scale), round(size[2] * arguments.scale))
    with tempfile.TemporaryDirectory() as place:
        JOBS[arguments.job](arguments.folder or Path(place), size, arguments.sweeps)


if __name__ == "__main__":
    main()
