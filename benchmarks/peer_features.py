"""LightFM (the fork rectools-lightfm) and irspack with features of items and users: scores of all as factors.

Runs in .venv-peers.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, hstack, identity

LIKED = 4.0
SETTINGS = {"no_components": 32, "learning_rate": 0.03, "item_alpha": 1e-6, "user_alpha": 1e-6}
EPOCHS = 20
IRSPACK = 0.01  # how strongly item factors are held to their regression: best of .01, 1, 30, 1000 on ML-1M, seed 10


def lightfm(given: dict[str, np.ndarray], loss: str) -> tuple[np.ndarray, ...]:
    """Factors of users and items, intercepts of items."""
    from lightfm import LightFM

    users, items, ratings = given["users"], given["items"], given["ratings"]
    n_users, n_items = int(given["n_users"]), len(given["item_features"])
    seen = np.bincount(items, minlength=n_items) > 0
    # An identity for every known item beside its features.
    own = csr_matrix(identity(n_items).multiply(seen[:, None]))
    item_table = hstack((own, csr_matrix(_positive(given["item_features"])))).tocsr().astype(np.float32)
    user_table = hstack((identity(n_users), csr_matrix(_positive(given["user_features"])))).tocsr().astype(np.float32)
    kept = ratings >= LIKED if loss == "warp" else np.ones(ratings.size, bool)
    values = np.where(ratings >= LIKED, 1.0, -1.0)[kept].astype(np.float32)
    table = coo_matrix((values, (users[kept], items[kept])), shape=(n_users, n_items))
    model = LightFM(loss=loss, random_state=int(given["seed"]), **SETTINGS)
    model.fit(table, user_features=user_table, item_features=item_table, epochs=EPOCHS, num_threads=1)
    intercepts, factors = model.get_item_representations(item_table)
    _, of_users = model.get_user_representations(user_table)
    return of_users, factors, intercepts


def irspack(given: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The same by implicit alternating least squares whose item factors are regressed on features."""
    from irspack.recommenders import IALSRecommender

    users, items, ratings = given["users"], given["items"], given["ratings"]
    liked, n_items = ratings >= LIKED, len(given["item_features"])
    shape = int(given["n_users"]), n_items
    table = csr_matrix((np.ones(int(liked.sum()), np.float32), (users[liked], items[liked])), shape=shape)
    seen = np.flatnonzero(np.bincount(items[liked], minlength=n_items))
    features = np.column_stack((np.ones(n_items), given["item_features"])).astype(np.float32)
    model = IALSRecommender(
        table[:, seen], n_components=64, lambda_item_feature=IRSPACK, item_features=csr_matrix(features[seen]),
        n_threads=1, random_seed=int(given["seed"]),
    )  # fmt: skip
    model.learn()
    factors = model.trainer_as_ials.core_trainer.transform_item_feature(csr_matrix(features))
    return model.get_user_embedding(), factors, np.zeros(n_items)


def main() -> None:
    """Command line: which, the file with the job, the file for the factors."""
    name, source, target = sys.argv[1:]
    with np.load(source) as job:
        given = {field: job[field] for field in job.files}
    begin = time.perf_counter()
    users, items, intercepts = irspack(given) if name == "irspack" else lightfm(given, name)
    seconds = time.perf_counter() - begin
    np.savez(target, users=users, items=items, intercepts=intercepts)
    print("\n" + json.dumps({"seconds": seconds}))  # a progress bar leaves its line open


def _positive(table: np.ndarray) -> np.ndarray:
    """Columns from 0 up: LightFM adds embeddings of what an item has, and has no use for what is below average."""
    low = table.min(axis=0)
    spread = table.max(axis=0) - low
    return (table - low) / np.where(spread > 0, spread, 1.0)


if __name__ == "__main__":
    main()
