"""Surprise without links, and Cornac's SoRec with them: scores of test rows. Runs in .venv-peers.

The settings of SoRec are the best of a few for a fifth of the training rows. SBPR of Cornac 3.0.1 does not run: its
`fit` calls a function of its parent without the argument that it wants.
"""

from __future__ import annotations

import itertools
import json
import sys

import numpy as np

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
GRIDS = {
    "SoRec": {
        "k": [5, 10], "max_iter": [50, 200], "learning_rate": [0.001, 0.01], "lambda_c": [0.1, 10.0],
        "lambda_reg": [0.001, 0.1],
    },
}  # fmt: skip


def cornac_scores(name: str, rows: Rows, links: np.ndarray, seed: int, settings: dict[str, float], asked: Rows):
    """Scores of the rows that are asked about."""
    import cornac

    users, items, ratings = rows
    graph = cornac.data.GraphModality(data=[(int(u), int(v), 1.0) for u, v in links.T])
    data = cornac.data.Dataset.from_uir(
        list(zip(users.tolist(), items.tolist(), ratings.tolist(), strict=True)), seed=seed
    )
    data.add_modalities(user_graph=graph)
    graph.build(id_map=data.uid_map)
    model = getattr(cornac.models, name)(seed=seed, **settings).fit(data)
    found = np.zeros(asked[0].size)
    mean = np.bincount(items, ratings) / np.maximum(np.bincount(items), 1)
    for n, (user, item) in enumerate(zip(asked[0].tolist(), asked[1].tolist(), strict=True)):
        if user in data.uid_map and item in data.iid_map:
            found[n] = model.score(data.uid_map[user], data.iid_map[item])
        else:
            found[n] = mean[item] if item < mean.size and mean[item] else ratings.mean()
    return found


def surprise_scores(name: str, rows: Rows, links: np.ndarray, seed: int, settings: dict[str, float], asked: Rows):
    """The same; there are no links."""
    import surprise

    from peer_surprise import BASELINE, SVD

    options = {"bsl_options": BASELINE, "verbose": False} if name == "BaselineOnly" else {"random_state": seed, **SVD}
    learner, scale = getattr(surprise, name)(**options), (float(rows[2].min()), float(rows[2].max()))
    data = surprise.dataset.Dataset(surprise.Reader(rating_scale=scale))
    known = list(zip(*(part.tolist() for part in rows), [None] * rows[0].size, strict=True))
    learner.fit(data.construct_trainset(known))
    each = zip(asked[0].tolist(), asked[1].tolist(), strict=True)
    return np.array([learner.predict(user, item, clip=False).est for user, item in each])


def pairs_right(users: np.ndarray, ratings: np.ndarray, scores: np.ndarray) -> float:
    """Part of the pairs of unequal ratings of a person that scores have in order, in the mean over people."""
    found = []
    for user in np.unique(users):
        mine = users == user
        unequal = ratings[mine][:, None] > ratings[mine][None]
        ahead = scores[mine][:, None] - scores[mine][None]
        if unequal.any():
            found.append(np.mean((ahead[unequal] > 0) + 0.5 * (ahead[unequal] == 0)))
    return float(np.mean(found))


def chosen(name: str, rows: Rows, links: np.ndarray, seed: int) -> dict[str, float]:
    """The best settings for a fifth of the rows."""
    out = np.random.default_rng(seed).random(rows[0].size) < 0.2
    seen, hidden = (tuple(part[mask] for part in rows) for mask in (~out, out))
    tried = [dict(zip(GRIDS[name], values, strict=True)) for values in itertools.product(*GRIDS[name].values())]
    worth = [
        pairs_right(hidden[0], hidden[2], cornac_scores(name, seen, links, seed, settings, hidden))
        for settings in tried
    ]
    return tried[int(np.argmax(np.nan_to_num(worth)))]


if __name__ == "__main__":
    name, source, target = sys.argv[1:]
    with np.load(source) as given:
        rows = tuple(given[part] for part in ("users", "items", "ratings"))
        asked, links, seed = (given["test_users"], given["test_items"]), given["links"], int(given["seed"])
    by_cornac = name in GRIDS
    settings = chosen(name, rows, links, seed) if by_cornac else {}
    scores = (cornac_scores if by_cornac else surprise_scores)(name, rows, links, seed, settings, asked)
    np.save(target, scores)
    print(json.dumps(settings))
