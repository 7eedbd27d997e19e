"""What features and links are worth, and how cold items are ranked, against peers on the same splits.

    python benchmarks/features.py cold ml-1m --seeds 0 1 2 3 4
    python benchmarks/features.py given ml-100k -n 10        # with and without features
    python benchmarks/features.py given sushi -n 5 --model FactoredThurstone --variants without both
    python benchmarks/features.py noise ml-100k -n 10        # fifty columns that tell nothing
    python benchmarks/features.py links filmtrust -n 10      # friends, and a graph drawn at random
    python benchmarks/features.py social filmtrust -n 10     # peers on the same splits: Surprise, and Cornac with links
    python benchmarks/features.py links lastfm-friends       # the same for what people take up, published split
    python benchmarks/features.py effects simulated -n 100   # how often intervals of planted effects cover
    python benchmarks/features.py similar simulated          # links from likeness where features alone say nothing
    python benchmarks/features.py cost ml-1m                 # 20 features and a million links

Rows are the mean over the seeds; after the sign the standard deviation between seeds. Peers run in .venv-peers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import permrank as pr
from features_simulated import coverage_of_effects, similar_users
from permrank.evaluation.catalogue import positive_entries
from permrank.evaluation.cold import cold_entries
from permrank.evaluation.metrics import filled, find_metric, per_list
from permrank.evaluation.split import Split, part_of

Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From indices of users and items of all data to scores."""


class Cold:
    """A split of cold items, in the numbering of all data."""

    def __init__(self, data: pr.Rankings, split: Split) -> None:
        self.data, self.split = data, split
        self.features = data.features("item").of(data.item_ids.ids)
        train, test = split.train, part_of(split.test, cold_entries(split))
        self.users, self.items = self._rows(train)
        self.ratings = np.asarray(train.ratings, np.float64)
        self.test, (self.test_users, self.test_items) = test, self._rows(test)
        self.known = np.bincount(self.items, minlength=data.n_items) > 0

    def _rows(self, part: pr.Rankings) -> tuple[np.ndarray, np.ndarray]:
        who = self.data.user_ids.indices(part.user_ids.ids)[part.entry_users()]
        return who, self.data.item_ids.indices(part.item_ids.ids)[part.items]

    def measured(self, scores: Scores, k: int = 10, k_found: int = 20) -> dict[str, float]:
        """Pairs right and NDCG@10 over cold items that people rated, NDCG@20 of liked ones among all cold items."""
        rated = scores(self.test_users, self.test_items)
        grades = np.asarray(self.test.ratings, np.float64)
        result = measured(self.test, rated, k)
        liked = positive_entries(self.data, "auto")
        least = float(self.data.ratings[liked].min())
        cold = np.flatnonzero(~self.known & (np.bincount(self.data.items, minlength=self.data.n_items) > 0))
        gains, discounts = [], 1.0 / np.log2(np.arange(2, k_found + 2))
        for user in np.unique(self.test_users[grades >= least]):
            mine = self.test_items[(self.test_users == user) & (grades >= least)]
            order = cold[np.argsort(-scores(np.full(cold.size, user), cold), kind="stable")[:k_found]]
            hit = np.isin(order, mine)
            gains.append(float(hit @ discounts[: order.size]) / float(discounts[: min(mine.size, k_found)].sum()))
        return result | {f"catalogue ndcg@{k_found}": float(np.mean(gains))}


def permrank_scores(cold: Cold, seed: int) -> Scores:
    """`FactoredPlackettLuce` with features of items and users."""
    model = pr.FactoredPlackettLuce(seed=seed).fit(cold.split.train)
    who = np.full(cold.data.n_users, -1)
    known = cold.data.user_ids.ids.is_in(model.user_ids.ids.implode()).to_numpy()
    who[known] = model.user_ids.indices(cold.data.user_ids.ids.filter(known))
    what = model.item_ids.indices(cold.data.item_ids.ids)
    return lambda users, items: model.fitted_.settings._score_pairs(
        model.fitted_, np.maximum(who[users], 0), what[items]
    )


def recommender_scores(cold: Cold, seed: int) -> Scores:
    """`Recommender` with features of items: what people would take up."""
    model = pr.Recommender(pr.MeanRating(), seed=seed).fit(cold.split.train)
    who = np.full(cold.data.n_users, -1)
    known = cold.data.user_ids.ids.is_in(model.user_ids.ids.implode()).to_numpy()
    who[known] = model.user_ids.indices(cold.data.user_ids.ids.filter(known))
    what = model.item_ids.indices(cold.data.item_ids.ids)
    rows: dict[int, np.ndarray] = {}

    def scores(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        found = np.empty(users.size)
        for user in np.unique(users):
            index = int(max(who[user], 0))
            if index not in rows:
                rows[index] = np.asarray(model.fitted_.rows(model.fitted_.known([index]))[0], np.float64)
            found[users == user] = rows[index][what[items[users == user]]]
        return found

    return scores


def ridge_scores(cold: Cold, seed: int, *, personal: bool = True) -> Scores:
    """Ratings by ridge regression on the items' features: for everybody, and what each user adds.

    Penalties by entries of a tenth of the training items, which are held out.
    """
    x, n_users = np.column_stack((np.ones(len(cold.features)), cold.features)), cold.data.n_users
    rng = np.random.default_rng(seed)
    trial = rng.random(cold.data.n_items) < 0.1
    best, kept = np.inf, (1.0, 1.0)
    inside = ~trial[cold.items]
    for everybody in (10.0, 100.0, 1000.0):
        for each in (3.0, 10.0, 30.0, 100.0) if personal else (np.inf,):
            score = _ridge(x, cold.users[inside], cold.items[inside], cold.ratings[inside], n_users, everybody, each)
            error = float(np.mean((score(cold.users[~inside], cold.items[~inside]) - cold.ratings[~inside]) ** 2))
            if error < best:
                best, kept = error, (everybody, each)
    return _ridge(x, cold.users, cold.items, cold.ratings, n_users, *kept)


def _ridge(
    x: np.ndarray,
    users: np.ndarray,
    items: np.ndarray,
    ratings: np.ndarray,
    n_users: int,
    everybody: float,
    each: float,
) -> Scores:
    rows = x[items]
    common = np.linalg.solve(rows.T @ rows + everybody * np.eye(x.shape[1]), rows.T @ ratings)
    own = np.zeros((n_users, x.shape[1]))
    if np.isfinite(each):
        order = np.argsort(users, kind="stable")
        bounds = np.searchsorted(users[order], np.arange(n_users + 1))
        left = ratings - rows @ common
        for user in range(n_users):
            mine = order[bounds[user] : bounds[user + 1]]
            if mine.size:
                own[user] = np.linalg.solve(
                    rows[mine].T @ rows[mine] + each * np.eye(x.shape[1]), rows[mine].T @ left[mine]
                )
    return lambda who, what: np.einsum("ej,ej->e", x[what], common + own[who])


def peer_scores(cold: Cold, seed: int, name: str) -> Scores:
    """A learner of peer_features.py, which gives scores of all users and items as factors."""
    from peers import peer_python, run_peer

    python = peer_python("irspack" if name == "irspack" else "lightfm", "scipy")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "job.npz", Path(folder) / "factors.npz"
        users = cold.data.features("user")
        np.savez(
            source, users=cold.users, items=cold.items, ratings=cold.ratings, seed=seed, n_users=cold.data.n_users,
            item_features=cold.features, user_features=users.of(cold.data.user_ids.ids),
        )  # fmt: skip
        run_peer(python, "peer_features.py", name, source, target)
        with np.load(target) as found:
            of_users, of_items, common = found["users"], found["items"], found["intercepts"]
    return lambda who, what: np.einsum("ek,ek->e", of_users[who], of_items[what]) + common[what]


SYSTEMS: dict[str, Callable[[Cold, int], Scores]] = {
    "FactoredPlackettLuce": permrank_scores,
    "Recommender": recommender_scores,
    "feature ridge": ridge_scores,
    "feature ridge, the same for all": lambda cold, seed: ridge_scores(cold, seed, personal=False),
    "LightFM hybrid, WARP": lambda cold, seed: peer_scores(cold, seed, "warp"),
    "LightFM hybrid, logistic": lambda cold, seed: peer_scores(cold, seed, "logistic"),
    "irspack, feature-aware iALS": lambda cold, seed: peer_scores(cold, seed, "irspack"),
    "chance": lambda cold, seed: lambda who, what: np.random.default_rng(seed).random(who.size),
}


def cold_items(name: str, seeds: list[int], systems: list[str]) -> None:
    """Cold items by all systems."""
    data = pr.datasets.load(name).with_features()
    for system in systems:
        rows, seconds = [], []
        for seed in seeds:
            cold = Cold(data, pr.ColdItems(share=0.2).split(data, seed=seed))
            begin = time.perf_counter()
            try:
                scores = SYSTEMS[system](cold, seed)
            except Exception as error:  # a peer that does not install here is left out, and said so
                print(f"{system}: {error}", file=sys.stderr)
                break
            seconds.append(time.perf_counter() - begin)
            rows.append(cold.measured(scores))
        if rows:
            show(system, rows, seconds)


def show(system: str, rows: list[dict[str, float]], seconds: list[float]) -> None:
    """One line."""
    told = "  ".join(
        f"{name} {np.mean([row[name] for row in rows]):.4f} ± {np.std([row[name] for row in rows]):.4f}"
        for name in rows[0]
    )
    print(f"{system:44s} {told}  {np.mean(seconds):.1f} s, {len(rows)} seeds", flush=True)


def variants(data: pr.Rankings, what: str, seed: int) -> dict[str, pr.Rankings]:
    """The data with and without what is asked about."""
    rng, n = np.random.default_rng(seed), 25
    if what == "given":
        of_users, of_items = data.with_features(items=False), data.with_features(users=False)
        return {"without": data, "users": of_users, "items": of_items, "both": data.with_features()}
    if what == "noise":
        items = {f"i{j}": rng.normal(size=data.n_items) for j in range(n)}
        users = {f"u{j}": rng.normal(size=data.n_users) for j in range(n)}
        known = data.with_items({"item": data.item_ids.ids, **items}).with_users({"user": data.user_ids.ids, **users})
        return {"without": data, "fifty columns of noise": known.with_features(list(items), list(users))}
    ids = data.user_ids.ids.to_numpy()
    n_links = data.links.height
    pairs = rng.integers(0, ids.size, (2, n_links))
    random = data.with_links({"user": ids[pairs[0]], "friend": ids[pairs[1]]})
    return {"without": data, "links": data.with_links(), "as many links at random": random}


def with_and_without(name: str, what: str, n: int, seeds: list[int], model: str, wanted: list[str] | None) -> None:
    """The same splits with and without features or links; wanted: some of the variants."""
    data = pr.datasets.load(name)
    least = 5 if name == "filmtrust" else 10
    protocol = pr.Given(n) if name == "sushi" else pr.WeakGeneralisation(n, least)
    found: dict[str, list[dict[str, float]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        for kind, known in variants(data, what, seed).items():
            if wanted and kind not in wanted:
                continue
            split = protocol.split(known, seed=seed)
            result = pr.evaluate(getattr(pr, model)(seed=seed), split, metrics=["pairs_right", "ndcg"])
            strength = np.asarray(result.model.link_strength_)
            row = result.means() | ({"tau": float(np.mean(strength))} if strength.size and strength.any() else {})
            found.setdefault(kind, []).append(row)
            seconds.setdefault(kind, []).append(result.fit_seconds)
    for kind, rows in found.items():
        show(f"{model}, {name}, {n} given, {kind}", rows, seconds[kind])


def social_peers(name: str, n: int, seeds: list[int]) -> None:
    """Surprise without links and Cornac's SoRec with them, on the splits of `with_and_without`."""
    from peers import peer_python, run_peer

    data = pr.datasets.load(name).with_links()
    found: dict[str, list[dict[str, float]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        split = pr.WeakGeneralisation(n, 5).split(data, seed=seed)
        users, items = data.user_ids.indices, data.item_ids.indices
        rows = [
            (users(part.user_ids.ids)[part.entry_users()], items(part.item_ids.ids)[part.items])
            for part in (split.train, split.test)
        ]
        ids = set(data.user_ids.ids.to_list())
        pairs = [(u, v) for u, v in data.links.select("user", "friend").iter_rows() if u in ids and v in ids]
        links = np.array([data.user_ids.indices(list(side)) for side in zip(*pairs, strict=True)])
        job = {
            "users": rows[0][0], "items": rows[0][1], "ratings": np.asarray(split.train.ratings, np.float64),
            "test_users": rows[1][0], "test_items": rows[1][1], "links": links, "seed": seed,
        }  # fmt: skip
        for peer in ("BaselineOnly", "SVD", "SoRec"):
            python = peer_python("surprise") if peer in ("BaselineOnly", "SVD") else peer_python("cornac")
            with tempfile.TemporaryDirectory() as folder:
                source, target = Path(folder) / "job.npz", Path(folder) / "scores.npy"
                np.savez(source, **job)
                begin = time.perf_counter()
                settings = run_peer(python, "peer_social.py", peer, source, target)
                seconds.setdefault(peer, []).append(time.perf_counter() - begin)
                seen = np.isin(rows[1][1], rows[0][1])  # what nobody has rated counts for no model
                found.setdefault(peer, []).append(measured(split.test, np.where(seen, np.load(target), np.nan)))
            print(f"{peer}, seed {seed}: {settings}", file=sys.stderr, flush=True)
    for peer, results in found.items():
        show(f"{name}, {n} given, {peer}", results, seconds[peer])


def measured(test: pr.Rankings, scores: np.ndarray, k: int = 10) -> dict[str, float]:
    """Pairs right and NDCG@10 of the lists of a test part, as `evaluate` has them."""
    grades = np.asarray(test.ratings, np.float64)
    wanted = [find_metric("pairs_right"), find_metric("ndcg")]
    options = {"relevant_from": 4.0, "top_grade": float(grades.max())}
    found = per_list(wanted, test.indptr, grades, filled(test.indptr, scores), k=k, **options)
    return {name: float(np.nanmean(values)) for name, values in found.items()}


def found_with_links(seeds: list[int], hold_out: bool) -> None:
    """Recall@20 and NDCG@20 of the published test part with links, without, and with as many at random.

    hold_out: of a fifth of the training part instead, for which the seeds draw.
    """
    train, test = pr.datasets.load("lastfm-friends"), pr.datasets.load("lastfm-friends", part="test")
    found: dict[str, list[dict[str, float]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        known, hidden = train, test
        if hold_out:
            out = np.random.default_rng(seed).random(train.n_entries) < 0.2
            hidden, known = part_of(train, out), part_of(train, ~out)
        for kind, data in variants(known, "links", seed).items():
            begin = time.perf_counter()
            model = pr.Recommender(seed=seed).fit(data.with_links(False) if kind == "without" else data)
            seconds.setdefault(kind, []).append(time.perf_counter() - begin)
            row = found_of(model, hidden) | {"weight": float(model.friend_weight_)}
            found.setdefault(kind, []).append(row)
    for kind, rows in found.items():
        show(f"lastfm-friends, {kind}", rows, seconds[kind])


def found_of(model: pr.Recommender, test: pr.Rankings, k: int = 20) -> dict[str, float]:
    """Recall and NDCG of the entries of a test part over the whole catalogue."""
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    recall, gain = [], []
    places = [model.item_ids.get(item) for item in test.item_ids]  # an item that nobody has cannot be found
    who, what = model.user_ids.get, np.array([-1 if place is None else place for place in places])
    for place, name in enumerate(test.user_ids):
        wanted, user = what[test.items[test.user_bounds[place] : test.user_bounds[place + 1]]], who(name)
        if not wanted.size or user is None:
            continue
        row = np.array(model.fitted_.rows(model.fitted_.known([user]))[0], np.float64)
        known = model.rankings_
        row[known.items[known.user_bounds[user] : known.user_bounds[user + 1]]] = -np.inf
        hit = np.isin(np.argsort(-row, kind="stable")[:k], wanted)
        recall.append(hit.sum() / wanted.size)
        gain.append(float(hit @ discounts) / float(discounts[: min(wanted.size, k)].sum()))
    return {f"recall@{k}": float(np.mean(recall)), f"ndcg@{k}": float(np.mean(gain))}


def cost(name: str, n_links: int = 1_000_000, rounds: int = 5) -> None:
    """Processor seconds of a fit with and without 20 features and many links, and of a sweep."""
    data = pr.datasets.load(name)
    rng, ids = np.random.default_rng(0), data.user_ids.ids.to_numpy()
    items = {f"i{j}": rng.normal(size=data.n_items) for j in range(10)}
    users = {f"u{j}": rng.normal(size=data.n_users) for j in range(10)}
    known = data.with_items({"item": data.item_ids.ids, **items}).with_users({"user": data.user_ids.ids, **users})
    known = known.with_features(list(items), list(users))
    pairs = rng.integers(0, ids.size, (2, n_links))
    linked = known.with_links({"user": ids[pairs[0]], "friend": ids[pairs[1]]})
    pr.FactoredPlackettLuce(max_iter=8).fit(linked)  # for compilation
    # The least of several rounds, in turn: other work on the machine only ever adds to the time.
    made, marks = {}, {}
    for _ in range(rounds):
        for kind, each in {"without": data, "20 features": known, "and links": linked}.items():
            model, seen = pr.FactoredPlackettLuce(), [time.process_time()]
            made[kind] = model.fit(each, callback=lambda progress, seen=seen: seen.append(time.process_time()))
            marks.setdefault(kind, []).append([*seen, time.process_time()])
    whole = {kind: min(seen[-1] - seen[0] for seen in each) for kind, each in marks.items()}
    sweep = {kind: min(float(np.median(np.diff(seen)[1:-1])) for seen in each) for kind, each in marks.items()}
    for kind, model in made.items():
        strength = f", tau {np.mean(model.link_strength_):.4f}" if kind == "and links" else ""
        print(
            f"{name}, {kind}: fit {whole[kind]:.1f} s, {whole[kind] / whole['without']:.2f} times, {model.n_iter_} "
            f"sweeps; a sweep {sweep[kind]:.3f} s, {sweep[kind] / sweep['without']:.2f} times{strength}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cold", "given", "noise", "links", "social", "effects", "similar", "cost"))
    parser.add_argument("data")
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument("--model", default="FactoredPlackettLuce", help="for given, noise and links")
    parser.add_argument("--variants", nargs="+", help="some of those that given, noise and links compare")
    parser.add_argument("--hold-out", action="store_true", help="judge on a part of the training data (lastfm)")
    given = parser.parse_args()
    if given.what == "cold":
        cold_items(given.data, given.seeds, given.systems)
    elif given.what == "social":
        social_peers(given.data, given.n, given.seeds)
    elif given.what == "effects":
        coverage_of_effects(given.seeds, given.n)
    elif given.what == "similar":
        similar_users(given.seeds)
    elif given.what == "cost":
        cost(given.data)
    elif given.data == "lastfm-friends":
        found_with_links(given.seeds, given.hold_out)
    else:
        with_and_without(given.data, given.what, given.n, given.seeds, given.model, given.variants)
