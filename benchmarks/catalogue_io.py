"""What all systems of the benchmark over the whole catalogue share; needs numpy and scipy only, so it runs everywhere.

A system learns from a job and gives scores of all items for some users. It is tuned, setting by setting, on a part of
the training rows, and never sees the test part. What it would show is written to a file and marked elsewhere.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

Scorer = Callable[[np.ndarray], np.ndarray]
"""Users to scores of all items (n, n_items)."""
_CELLS = 1 << 24
_FEW_USERS = 50


class Job(NamedTuple):
    """Rows to learn from; ratings at or above ``positive`` are what can be hidden. Users to show something to.

    ``counts``: ratings tell how often something was taken up; peers are told only that it was.
    """

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    n_users: int
    n_items: int
    positive: float
    asked: np.ndarray
    k: int
    seed: int
    counts: bool = False

    def matrix(self, entries: str = "all") -> csr_matrix:
        """Users by items: 1 for all entries or for the positive ones, or ratings over the highest one (graded)."""
        values = self.ratings / self.ratings.max() if entries == "graded" else np.ones(self.users.size)
        chosen = self.ratings >= self.positive if entries == "positive" else np.ones(self.users.size, bool)
        triplets = values[chosen].astype(np.float32), (self.users[chosen], self.items[chosen])
        return csr_matrix(triplets, shape=(self.n_users, self.n_items))


class Learner(NamedTuple):
    """How to learn with given settings, and what to try for each, the first of each being where the search begins.

    Settings are chosen on so many of the items, those that most people list, if there are more. What compiles is
    fitted to a few users first, which is not timed.
    """

    fit: Callable[..., Scorer]
    grid: dict[str, list[Any]]
    most_items: int = sys.maxsize
    compiles: bool = False


def write_job(job: Job, path: Path) -> None:
    """For `answer` to read."""
    np.savez(path, **job._asdict())


def validation(job: Job, share: float = 0.2) -> tuple[Job, np.ndarray, np.ndarray]:
    """A fifth of every user's positive training rows to be found instead: the smaller job, and those rows."""
    positive = np.flatnonzero(job.ratings >= job.positive)
    order = positive[np.lexsort((np.random.default_rng([777, 0]).random(positive.size), job.users[positive]))]
    counts = np.bincount(job.users[order], minlength=job.n_users)
    first = np.concatenate(([0], np.cumsum(counts)))[:-1]
    place = np.arange(order.size) - first[job.users[order]]
    hidden = order[place < np.floor(share * counts)[job.users[order]]]
    kept = np.ones(job.users.size, bool)
    kept[hidden] = False
    users, items = job.users[hidden], job.items[hidden]
    smaller = job._replace(users=job.users[kept], items=job.items[kept], ratings=job.ratings[kept])
    return smaller._replace(asked=np.unique(users)), users, items


def _of_popular_items(job: Job, n_items: int) -> Job:
    """The job over the items that most people list, numbered anew."""
    if n_items >= job.n_items:
        return job
    kept = np.sort(np.argsort(-np.bincount(job.items, minlength=job.n_items), kind="stable")[:n_items])
    number = np.full(job.n_items, -1)
    number[kept] = np.arange(n_items)
    rows = number[job.items] >= 0
    items = number[job.items[rows]]
    return job._replace(users=job.users[rows], items=items, ratings=job.ratings[rows], n_items=n_items)


def best_items(job: Job, scorer: Scorer) -> np.ndarray:
    """The best k items that each asked user has not in training, best first; ties in one random order of the items."""
    order = np.random.default_rng([98, job.seed]).permutation(job.n_items)
    listed, out = job.matrix(), np.empty((job.asked.size, job.k), np.int64)
    step = max(1, _CELLS // job.n_items)
    for begin in range(0, job.asked.size, step):
        users = job.asked[begin : begin + step]
        scores = np.array(scorer(users), np.float64)
        scores[~np.isfinite(scores)] = np.finfo(np.float64).min
        scores[listed[users].nonzero()] = -np.inf
        scores = scores[:, order]
        top = np.argpartition(-scores, job.k - 1, axis=1)[:, : job.k]
        own = np.take_along_axis(scores, top, axis=1)
        out[begin : begin + users.size] = order[np.take_along_axis(top, np.argsort(-own, axis=1, kind="stable"), 1)]
    return out


def marks(asked: np.ndarray, best: np.ndarray, users: np.ndarray, items: np.ndarray) -> dict[str, float]:
    """Recall (hits over all hidden items) and binary NDCG of the best k, means over the asked users."""
    n_items = max(int(best.max()), int(items.max())) + 1
    hits = np.isin(asked[:, None] * n_items + best, users * n_items + items)
    hidden = np.bincount(users, minlength=int(asked.max()) + 1)[asked]
    discounts = 1.0 / np.log2(np.arange(2, best.shape[1] + 2))
    ideal = np.cumsum(discounts)[np.minimum(hidden, best.shape[1]) - 1]
    return {"recall": float(np.mean(hits.sum(1) / hidden)), "ndcg": float(np.mean(hits @ discounts / ideal))}


def tuned(job: Job, learner: Learner) -> dict[str, Any]:
    """Settings by NDCG on a validation part, one after the other, each with the best of those before."""
    chosen = {name: values[0] for name, values in learner.grid.items()}
    if all(len(values) == 1 for values in learner.grid.values()):
        return chosen
    smaller, users, items = validation(_of_popular_items(job, learner.most_items))
    tried: dict[str, float] = {}

    def score(settings: dict[str, Any]) -> float:
        key = json.dumps(settings, sort_keys=True)
        if key not in tried:
            best = best_items(smaller, learner.fit(smaller, **settings))
            tried[key] = marks(smaller.asked, best, users, items)["ndcg"]
            print(f"{tried[key]:.4f} {key}", file=sys.stderr)
        return tried[key]

    for name, values in learner.grid.items():
        chosen = max(({**chosen, name: value} for value in values), key=score)
    return chosen


def answer(learners: dict[str, Learner]) -> None:
    """Command line of a worker: which learner, the file with the job, the file for the best items."""
    name, source, target = sys.argv[1:4]
    with np.load(source) as stored:
        values = {field: stored[field] for field in Job._fields}
    job = Job(**{field: value.item() if value.ndim == 0 else value for field, value in values.items()})
    begin = time.perf_counter()
    settings = tuned(job, learners[name])
    tune_seconds = time.perf_counter() - begin
    if learners[name].compiles:
        few = np.isin(job.users, job.asked[:_FEW_USERS])
        learners[name].fit(job._replace(users=job.users[few], items=job.items[few], ratings=job.ratings[few]))
    begin = time.perf_counter()
    scorer = learners[name].fit(job, **settings)
    told = {"settings": settings, "tune_seconds": tune_seconds, "fit_seconds": time.perf_counter() - begin}
    begin = time.perf_counter()
    np.save(target, best_items(job, scorer))
    told |= {"show_seconds": time.perf_counter() - begin, "megabytes": _peak_megabytes()}
    Path(target).with_suffix(".json").write_text(json.dumps(told), encoding="utf-8")  # peers print what they like


def _peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
