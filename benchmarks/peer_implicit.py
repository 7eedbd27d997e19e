"""implicit: alternating least squares with signed ratings as confidences. Runs in .venv-peers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from peer_io import Job, answer

MIDDLE = 2.5  # stars below are dislikes
ALS = {"factors": 4, "regularization": 10.0, "alpha": 1.0, "iterations": 15}


def als(job: Job) -> Callable[[], np.ndarray]:
    """High stars are confidence that the user chose the item, low ones (negative) that she did not.

    Better on these protocols than the stars as they are, under which every rated item counts as chosen.
    """
    stars = (job.ratings - MIDDLE).astype(np.float32)
    confidences = csr_matrix((stars, (job.users, job.items)), shape=(job.n_users, job.n_items))
    # implicit has threads of its own and asks for a single one of BLAS.
    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(random_state=job.seed, **ALS)
        model.fit(confidences, show_progress=False)
    return lambda: np.einsum("nk,nk->n", model.user_factors[job.test_users], model.item_factors[job.test_items])


if __name__ == "__main__":
    answer({"ALS": als})
