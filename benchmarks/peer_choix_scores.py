"""choix on ordered lists: one pooled Plackett-Luce for everybody, by I-LSR. Runs in .venv-peers."""

from __future__ import annotations

from collections.abc import Callable

import choix
import numpy as np

from peer_io import Job, answer


def ilsr(job: Job) -> Callable[[], np.ndarray]:
    """Rows of a user must be best first, without ties: choix knows none."""
    edges = np.flatnonzero(np.diff(job.users)) + 1
    lists = [part.tolist() for part in np.split(job.items, edges)]
    # A little regularisation, so that there is an estimate for any data.
    worths = choix.ilsr_rankings(job.n_items, lists, alpha=1e-6)
    return lambda: worths[job.test_items]


if __name__ == "__main__":
    answer({"I-LSR": ilsr})
