"""implicit's alternating least squares: a fit, and its answers. Seconds of one run on two threads, in .venv-peers."""

from __future__ import annotations

import json
import sys

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from timing import quickest


def main(path: str, factors: int, iterations: int) -> None:
    with np.load(path) as stored:
        matrix = csr_matrix((stored["ratings"].astype(np.float32), (stored["users"], stored["items"])))
    everybody, one = np.arange(matrix.shape[0]), matrix[0]
    new = csr_matrix((np.ones(20, np.float32), (np.zeros(20, int), np.arange(20))), shape=(1, matrix.shape[1]))
    with threadpool_limits(1, "blas"):  # implicit has threads of its own and asks for a single one of BLAS
        model = AlternatingLeastSquares(factors=factors, iterations=iterations, random_state=0, num_threads=2)
        found = {
            "default fit": quickest(lambda: model.fit(matrix, show_progress=False), 2),
            "ten best, everybody": quickest(lambda: model.recommend(everybody, matrix, N=10)),
            "ten best, one user": quickest(lambda: model.recommend(0, one, N=10), 50),
            "a new user, 20 items": quickest(lambda: model.recalculate_user(0, new), 50),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
