"""LightFM (the fork rectools-lightfm) with features of items and users: scores of everything as factors.

Runs in .venv-peers.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from lightfm import LightFM
from scipy.sparse import coo_matrix, csr_matrix, hstack, identity

LIKED = 4.0
SETTINGS = {"no_components": 32, "learning_rate": 0.03, "item_alpha": 1e-6, "user_alpha": 1e-6}
EPOCHS = 20


def main() -> None:
    """Command line: the loss, the file with the job, the file for the factors."""
    name, source, target = sys.argv[1:]
    with np.load(source) as job:
        given = {field: job[field] for field in job.files}
    users, items, ratings = given["users"], given["items"], given["ratings"]
    n_users, n_items = int(given["n_users"]), len(given["item_features"])
    seen = np.bincount(items, minlength=n_items) > 0
    # An identity for every known item beside its features; features themselves as they are known, categories as 0 or 1.
    own = csr_matrix(identity(n_items).multiply(seen[:, None]))
    item_table = hstack((own, csr_matrix(_positive(given["item_features"])))).tocsr().astype(np.float32)
    user_table = hstack((identity(n_users), csr_matrix(_positive(given["user_features"])))).tocsr().astype(np.float32)
    kept = ratings >= LIKED if name == "warp" else np.ones(ratings.size, bool)
    values = np.where(ratings >= LIKED, 1.0, -1.0)[kept].astype(np.float32)
    table = coo_matrix((values, (users[kept], items[kept])), shape=(n_users, n_items))
    model = LightFM(loss=name, random_state=int(given["seed"]), **SETTINGS)
    begin = time.perf_counter()
    model.fit(table, user_features=user_table, item_features=item_table, epochs=EPOCHS, num_threads=1)
    seconds = time.perf_counter() - begin
    intercepts, factors = model.get_item_representations(item_table)
    _, of_users = model.get_user_representations(user_table)
    np.savez(target, users=of_users, items=factors, intercepts=intercepts)
    print(json.dumps({"seconds": seconds}))


def _positive(table: np.ndarray) -> np.ndarray:
    """Columns from 0 up: LightFM adds embeddings of what an item has, and has no use for what is below average."""
    low = table.min(axis=0)
    spread = table.max(axis=0) - low
    return (table - low) / np.where(spread > 0, spread, 1.0)


if __name__ == "__main__":
    main()
