"""Simulated data for `features.py`: planted effects and their intervals, and tastes of similar users."""

from __future__ import annotations

import numpy as np

import permrank as pr


def coverage_of_effects(seeds: list[int], n_users: int = 100, n_items: int = 40, level: float = 0.9) -> None:
    """Planted effects of two features of items, and of pairs with two features of users, against their intervals."""
    found: dict[str, list[tuple[float, ...]]] = {"items": [], "pairs": []}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=(n_items, 2)), rng.normal(size=(n_users, 2))
        of_items, of_users, everybody = 0.5 * rng.normal(size=(2, 2)), 0.5 * rng.normal(size=(2, 2)), rng.normal(size=2)
        items = x @ of_items + 0.5 * rng.normal(size=(n_items, 2))
        people = z @ of_users + rng.normal(size=(n_users, 2))
        scores = people @ items.T + 0.5 * x @ everybody + 0.3 * rng.normal(size=n_items)
        lists = {}
        for user in range(n_users):
            some = rng.permutation(n_items)[:12]
            lists[user] = some[np.argsort(-(scores[user, some] + rng.gumbel(size=12)))].tolist()
        known = pr.Rankings.from_lists(lists).with_features(
            items={"item": np.arange(n_items), "a": x[:, 0], "b": x[:, 1]},
            users={"user": np.arange(n_users), "c": z[:, 0], "d": z[:, 1]},
        )
        effects = pr.FactoredPlackettLuce(n_factors=2, seed=seed).fit(known).effects(level)
        for row in effects.iter_rows(named=True):
            item, user = "ab".find(row["item_feature"] or "-"), "cd".find(row["user_feature"] or "-")
            if row["of"] != "score" or item < 0 or (user < 0 and row["user_feature"]):
                continue
            truth = 0.5 * everybody[item] if user < 0 else (of_items @ of_users.T)[item, user] * z[:, user].std()
            kind = "items" if user < 0 else "pairs"
            found[kind].append((truth * x[:, item].std(), row["mean"], row["low"], row["high"]))
    for kind, rows in found.items():
        truth, mean, low, high = np.array(rows).T
        covered, error = np.mean((low <= truth) & (truth <= high)), np.sqrt(np.mean((mean - truth) ** 2))
        print(
            f"{n_users} people, effects of {kind}: {covered:.3f} of {len(rows)} intervals of {level:.0%} cover, root "
            f"mean square error {error:.3f}, half width {np.mean(high - low) / 2:.3f}",
            flush=True,
        )


def similar_users(seeds: list[int], n_users: int = 300, n_items: int = 40) -> None:
    """Tastes that depend on two attributes together, and on neither alone: correlation of scores with the truth."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        at, items = rng.uniform(-1.0, 1.0, (n_users, 2)), rng.normal(size=(n_items, 2))
        taste = np.column_stack((np.sign(at[:, 0] * at[:, 1]), 1.5 * np.cos(3 * at[:, 0]) * np.sin(3 * at[:, 1])))
        scores, lists = taste @ items.T, {}
        for user in range(n_users):
            some = rng.permutation(n_items)[:8]
            lists[user] = some[np.argsort(-(scores[user, some] + rng.gumbel(size=8)))].tolist()
        people = {"user": np.arange(n_users), "a": at[:, 0], "b": at[:, 1]}
        data = pr.Rankings.from_lists(lists).with_users(people)
        strangers = {"user": np.repeat(np.arange(n_users), 10), "friend": rng.integers(0, n_users, 10 * n_users)}
        variants = {
            "neither": data, "features": data.with_features(items=False), "similar users": data.with_links(similar=10),
            "both": data.with_features(items=False).with_links(similar=10),
            "links at random": data.with_links(strangers),
        }  # fmt: skip
        for kind, each in variants.items():
            model = pr.FactoredPlackettLuce(n_factors=2, seed=seed, max_iter=150).fit(each)
            rows = model.fitted_.rows(model.fitted_.known(range(n_users)))
            right = np.mean([np.corrcoef(rows[user], scores[user])[0, 1] for user in range(n_users)])
            tau = float(np.median(model.link_strength_)) if np.size(model.link_strength_) else 0.0
            found.setdefault(kind, []).append((float(right), tau))
    for kind, rows in found.items():
        right, tau = np.mean(rows, axis=0)
        print(f"{kind:20s} correlation {right:.3f}, tau {tau:.3f}")
