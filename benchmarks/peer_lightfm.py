"""LightFM (the fork rectools-lightfm, which still builds): logistic and WARP losses. Runs in .venv-peers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from lightfm import LightFM
from scipy.sparse import coo_matrix

from peer_io import Job, answer

LIKED = 4.0  # stars from which a rating counts as liked
LOGISTIC = {"no_components": 4, "learning_rate": 0.03, "item_alpha": 1e-5, "user_alpha": 1e-5}
WARP = {"no_components": 8, "learning_rate": 0.02, "item_alpha": 1e-5, "user_alpha": 1e-5}
EPOCHS = 10


def logistic(job: Job) -> Callable[[], np.ndarray]:
    """Liked against not liked."""
    return _fitted("logistic", LOGISTIC, job, np.where(job.ratings >= LIKED, 1.0, -1.0), np.ones(job.users.size, bool))


def warp(job: Job) -> Callable[[], np.ndarray]:
    """Liked items above whatever the user has not rated."""
    return _fitted("warp", WARP, job, np.ones(job.users.size), job.ratings >= LIKED)


def _fitted(
    loss: str, settings: dict[str, float], job: Job, targets: np.ndarray, kept: np.ndarray
) -> Callable[[], np.ndarray]:
    table = coo_matrix(
        (targets[kept].astype(np.float32), (job.users[kept], job.items[kept])), shape=(job.n_users, job.n_items)
    )
    model = LightFM(loss=loss, random_state=job.seed, **settings)
    # One thread: with more the updates race, and the same seed no longer gives the same scores.
    model.fit(table, epochs=EPOCHS, num_threads=1)
    return lambda: model.predict(job.test_users.astype(np.int32), job.test_items.astype(np.int32))


if __name__ == "__main__":
    answer({"logistic": logistic, "WARP": warp})
