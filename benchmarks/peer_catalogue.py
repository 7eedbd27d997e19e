"""implicit and irspack over the whole catalogue. Runs in .venv-peers."""

from __future__ import annotations

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from irspack import IALSRecommender, RP3betaRecommender
from threadpoolctl import threadpool_limits

from catalogue_io import Job, Learner, Scorer, answer

ENTRIES = ["all", "positive"]


def _factors(model: object) -> Scorer:
    users, items = model.user_factors, model.item_factors.T
    return lambda asked: users[asked] @ items


def als(job: Job, *, entries: str, alpha: float, regularization: float, factors: int) -> Scorer:
    """implicit's alternating least squares."""
    with threadpool_limits(1, "blas"):  # implicit has threads of its own
        model = AlternatingLeastSquares(
            factors=factors, alpha=alpha, regularization=regularization, iterations=15, random_state=job.seed
        )
        model.fit(job.matrix(entries), show_progress=False)
    return _factors(model)


def bpr(job: Job, *, entries: str, learning_rate: float, regularization: float, factors: int) -> Scorer:
    """implicit's Bayesian personalised ranking."""
    model = BayesianPersonalizedRanking(
        factors=factors, learning_rate=learning_rate, regularization=regularization, random_state=job.seed
    )
    model.fit(job.matrix(entries), show_progress=False)
    return _factors(model)


def _block(model: object) -> Scorer:
    return lambda asked: np.asarray(model.get_score(asked))


def ials(job: Job, *, entries: str, alpha0: float, reg: float, n_components: int) -> Scorer:
    """irspack's iALS (Rendle et al. 2022)."""
    model = IALSRecommender(
        job.matrix(entries), n_components=n_components, alpha0=alpha0, reg=reg, random_seed=job.seed
    )
    return _block(model.learn())


def rp3beta(job: Job, *, entries: str, alpha: float, beta: float, normalize_weight: bool, top_k: int) -> Scorer:
    """irspack's RP3beta, a random walk over the graph of users and items (Paudel et al. 2017)."""
    model = RP3betaRecommender(
        job.matrix(entries), alpha=alpha, beta=beta, normalize_weight=normalize_weight, top_k=top_k
    )
    return _block(model.learn())


LEARNERS = {
    "implicit ALS": Learner(
        als,
        {
            "entries": ENTRIES,
            "alpha": [3.0, 0.3, 1.0, 10.0, 40.0],
            "regularization": [3.0, 0.01, 0.1, 1.0, 10.0, 30.0, 100.0],
            "factors": [64, 16, 32, 128],
        },
    ),
    "implicit BPR": Learner(
        bpr,
        {
            "entries": ENTRIES,
            "learning_rate": [0.05, 0.01, 0.1],
            "regularization": [0.01, 0.001, 0.05],
            "factors": [64, 128],
        },
    ),
    "irspack iALS": Learner(
        ials,
        {
            "entries": ENTRIES,
            "alpha0": [0.3, 0.03, 0.1, 1.0, 3.0, 10.0],
            "reg": [0.003, 0.001, 0.01, 0.03, 0.1],
            "n_components": [64, 128, 256],
        },
    ),
    "irspack RP3beta": Learner(
        rp3beta,
        {
            "entries": ENTRIES,
            "alpha": [1.0, 0.6, 1.4],
            "beta": [0.6, 0.4, 0.8],
            "normalize_weight": [False, True],
            "top_k": [200, 50, 1000],
        },
    ),
}

if __name__ == "__main__":
    answer(LEARNERS)
