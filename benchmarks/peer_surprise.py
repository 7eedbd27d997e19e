"""Surprise: biases (BaselineOnly) and biased matrix factorisation (SVD). Runs in .venv-peers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import surprise

from peer_io import Job, answer

BASELINE = {"method": "als", "n_epochs": 10, "reg_u": 15, "reg_i": 10}  # Surprise's own defaults
SVD = {"n_factors": 8, "n_epochs": 20, "lr_all": 0.005, "reg_all": 0.1}


def baseline(job: Job) -> Callable[[], np.ndarray]:
    return _fitted(surprise.BaselineOnly(bsl_options=BASELINE, verbose=False), job)


def svd(job: Job) -> Callable[[], np.ndarray]:
    return _fitted(surprise.SVD(random_state=job.seed, **SVD), job)


def _fitted(algorithm: surprise.AlgoBase, job: Job) -> Callable[[], np.ndarray]:
    rows = zip(job.users.tolist(), job.items.tolist(), job.ratings.tolist(), strict=True)
    data = surprise.dataset.Dataset(surprise.Reader(rating_scale=(1, 5)))
    train = data.construct_trainset([(user, item, rating, None) for user, item, rating in rows])
    algorithm.fit(train)
    return lambda: _scores(algorithm, train, job)


def _scores(algorithm: surprise.AlgoBase, train: surprise.Trainset, job: Job) -> np.ndarray:
    """Surprise's own estimates for all rows at once, not clipped to 1 to 5, where many would tie."""
    users = np.array([train.to_inner_uid(user) for user in range(job.n_users)])[job.test_users]
    # One row of zeros stands for all items without a rating.
    inner = np.full(job.n_items, train.n_items)
    for item in train.all_items():
        inner[train.to_raw_iid(item)] = item
    items = inner[job.test_items]
    scores = train.global_mean + algorithm.bu[users] + np.append(algorithm.bi, 0.0)[items]
    if hasattr(algorithm, "qi"):
        factors = np.vstack([algorithm.qi, np.zeros(algorithm.qi.shape[1])])
        scores += np.einsum("nk,nk->n", algorithm.pu[users], factors[items])
    return scores


if __name__ == "__main__":
    answer({"BaselineOnly": baseline, "SVD": svd})
