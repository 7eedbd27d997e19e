"""What the peers of the accuracy benchmark share: the file they read, the scores they write. Runs in .venv-peers."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Job(NamedTuple):
    """Rows to learn from (users, items, ratings from 1 to 5) and rows to score."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    n_users: int
    n_items: int
    test_users: np.ndarray
    test_items: np.ndarray
    seed: int


# Learns, and returns a function that gives the scores of the test rows: only the first is timed.
Learner = Callable[[Job], Callable[[], np.ndarray]]


def answer(learners: dict[str, Learner]) -> None:
    """Command line of a peer: which learner, the file with the job, the file for the scores."""
    name, source, target = sys.argv[1:]
    with np.load(source) as stored:
        values = {field: stored[field] for field in Job._fields}
    for field in ("n_users", "n_items", "seed"):
        values[field] = int(values[field])
    begin = time.perf_counter()
    score = learners[name](Job(**values))
    seconds = time.perf_counter() - begin
    np.save(target, np.asarray(score(), np.float64))
    print(json.dumps({"seconds": seconds}))
