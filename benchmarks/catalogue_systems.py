"""permrank's models, popularity and EASE over the whole catalogue: a worker of `catalogue`."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import lapack

import permrank as pr
from catalogue_io import Job, Learner, Scorer, answer
from permrank.core.ranker import Ranker

# EASE is tuned on the items that most people list if there are more: its time is cubic.
_MOST_ITEMS = 10_000


def popularity(job: Job, *, entries: str) -> Scorer:
    """How many people list an item, or like it."""
    counts = np.asarray(job.matrix(entries).sum(axis=0)).ravel()
    return lambda users: np.broadcast_to(counts, (users.size, counts.size))


def ease(job: Job, *, entries: str, penalty: float) -> Scorer:
    """Embarrassingly shallow autoencoders (Steck 2019): B = I - P / diag(P), P the inverse of X'X + penalty I."""
    listed = job.matrix(entries)
    gram = np.asfortranarray((listed.T @ listed).toarray(), np.float32)
    gram[np.diag_indices(job.n_items)] += penalty
    factor, wrong = lapack.spotrf(gram, lower=1, overwrite_a=1)
    inverse, wrong = lapack.spotri(factor, lower=1, overwrite_c=1) if not wrong else (factor, wrong)
    if wrong:
        raise ValueError(f"X'X + {penalty} is not positive definite in single precision")
    for column in range(job.n_items - 1):  # the upper triangle, in place
        inverse[column, column + 1 :] = inverse[column + 1 :, column]
    inverse /= -np.diag(inverse).copy()
    inverse[np.diag_indices(job.n_items)] = 0.0
    return lambda users: np.asarray(listed[users] @ inverse)


def ranker(job: Job, *, model: Ranker) -> Scorer:
    """A model of permrank as it comes."""
    if job.counts:
        rankings = pr.Rankings.from_interactions(
            {"user": job.users, "item": job.items, "count": job.ratings}, weight="count"
        )
    elif np.unique(job.ratings).size == 1:
        rankings = pr.Rankings.from_interactions({"user": job.users, "item": job.items})
    else:
        rankings = pr.Rankings.from_ratings({"user": job.users, "item": job.items, "rating": job.ratings})
    model = model.clone()
    if "seed" in model.get_params():
        model.set_params(seed=job.seed)
    model.fit(rankings, verbose=False)
    user_of = np.full(job.n_users, -1)
    user_of[model.user_ids.ids.to_numpy()] = np.arange(len(model.user_ids))
    items = model.item_ids.ids.to_numpy()

    def scores(users: np.ndarray) -> np.ndarray:
        out = np.full((users.size, job.n_items), -np.inf)
        known = np.flatnonzero(user_of[users] >= 0)
        out[np.ix_(known, items)] = model.fitted_.rows(model.fitted_.known(user_of[users[known]]))
        return out

    return scores


PENALTIES = [300.0, 10.0, 30.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]
OWN = {
    "Popularity": pr.Popularity(),
    "FactoredPlackettLuce": pr.FactoredPlackettLuce(),
    # What it finds does not depend on its model of order, so that the quickest one does.
    "Recommender": pr.Recommender(pr.MeanRating()),
}
LEARNERS = {
    "popularity": Learner(popularity, {"entries": ["all", "positive"]}),
    "EASE": Learner(ease, {"entries": ["all", "positive"], "penalty": PENALTIES}, _MOST_ITEMS),
    "EASE, graded": Learner(ease, {"entries": ["graded"], "penalty": PENALTIES}, _MOST_ITEMS),
    **{f"permrank {name}": Learner(partial(ranker, model=model), {}, compiles=True) for name, model in OWN.items()},
}

if __name__ == "__main__":
    answer(LEARNERS)
