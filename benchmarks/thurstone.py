"""Thurstone's model with factors beside what is published: pairs of one person, likelihood, orders, ratings, questions.

Needs PERMRANK_DATA (Sushi, MovieLens 100K) or a network to fetch them. ``--rows`` and ``--seeds`` take parts; finished
cells are kept in ``--folder``, so that a run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from arviz_stats.base import array_stats

import permrank as pr
import splits
from accuracy import as_rankings, model_scores
from permrank.families.thurstone.problem import Observations, problem_of
from permrank.families.thurstone.sampler import Sampler
from permrank.randomness import stream_key

# What is published on (nearly) the same protocol, and what `FactoredPlackettLuce` reaches.
BESIDE = {
    "sushi-a-small": "crowdGPPL .71 / .56",
    "sushi-a": "crowdGPPL .85 / .31",
    "sushi-b": "crowdGPPL .78 / .49 in 30 minutes on 12 cores",
    "sushi-10": "CRS 13.47 nats",
}


def pairs_split(n_train: int, n_test: int, seed: int, dataset: str, n_people: int | None) -> tuple[np.ndarray, ...]:
    """Random pairs of each person's own list: rows (person, winner, loser) to learn from and to predict."""
    lists, _ = splits.orders(dataset)
    rng, n = np.random.default_rng(seed), lists.shape[1]
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    people = rng.choice(len(lists), n_people, replace=False) if n_people else np.arange(len(lists))
    train, test = [], []
    for person, row in enumerate(people):
        order = rng.permutation(len(pairs))
        for part, chosen in ((train, order[:n_train]), (test, order[n_train : n_train + n_test])):
            part += [(person, *lists[row][pairs[place]]) for place in chosen]
    return np.array(train), np.array(test)


def pairs_row(
    n_train: int, n_test: int, dataset: str, n_people: int | None, seed: int, model: pr.Ranker
) -> dict[str, float]:
    """Accuracy and cross entropy (nats) of held-out pairs of people who have answered others."""
    train, test = pairs_split(n_train, n_test, seed, dataset, n_people)
    rankings = pr.Rankings.from_pairs(dict(zip(("user", "winner", "loser"), train.T, strict=True)))
    begin = time.perf_counter()
    model.fit(rankings)
    p = np.clip(model.prefers_pairs(*(column.tolist() for column in test.T)), 1e-12, 1.0)
    seconds = time.perf_counter() - begin
    right = float(np.mean(p > 0.5) + 0.5 * np.mean(p == 0.5))
    return {"accuracy": right, "cross_entropy": float(-np.mean(np.log(p))), "seconds": seconds}


def likelihood_row(seed: int, model: pr.FactoredThurstone) -> dict[str, float]:
    """Nats a ranking of people who were not learnt from, Sushi-10, and the largest standard error of one."""
    split = splits.fold_of_people(seed)
    begin = time.perf_counter()
    model.fit(as_rankings(split.train, strict=True))
    values, errors = model.log_likelihood_with_error(as_rankings(split.test, strict=True))
    return {"nats": float(-values.mean()), "error": float(errors.max()), "seconds": time.perf_counter() - begin}


def order_row(n_given: int, seed: int, model: pr.Ranker) -> dict[str, float]:
    """Pairs of hidden items put right, Sushi."""
    split = splits.given_and_hidden(n_given, seed)
    begin = time.perf_counter()
    model.fit(as_rankings(split.train, strict=True))
    scores = model_scores(model, split.test)
    return {"pairs_right": splits.pairs_right(split.test, scores), "seconds": time.perf_counter() - begin}


def rating_row(n_given: int, seed: int, model: pr.Ranker, dataset: str = "ml-100k") -> dict[str, float]:
    """NDCG@10 of hidden ratings, MovieLens."""
    split = splits.weak_generalisation(dataset, n_given, seed)
    begin = time.perf_counter()
    model.fit(as_rankings(split.train, strict=False))
    scores = model_scores(model, split.test)
    return {"ndcg": splits.ndcg(split.test, scores, seed), "seconds": time.perf_counter() - begin}


def ask_row(questions: str, seed: int, model: pr.FactoredThurstone) -> dict[str, float]:
    """Answers of new people, Sushi-10: how many are needed, and how often an order that is taken for sure is right.

    ``questions``: see `pr.Ask`. 30 people of a fold, at most 20 answers each. ``sure`` of the best three is looked at
    where it lies between 0.85 and 0.95, and where it first reaches 0.9 (and is mostly larger then).
    """
    split = splits.fold_of_people(seed)
    model.fit(as_rankings(split.train, strict=True))
    told = pr.Split(model.rankings_, as_rankings(split.test, strict=True), None, "Ask", seed)
    begin = time.perf_counter()
    found = pr.Ask(20, questions, k=3).answers(model, told, n_people=30)
    seconds = (time.perf_counter() - begin) / found.height
    curve = found.group_by("n_answers").agg(pl.col("pairs_right").mean()).sort("n_answers")["pairs_right"].to_numpy()
    needed = {f"answers_{share}": float(np.argmax(np.append(curve, 1.0) >= share)) for share in (0.888, 0.95)}
    after = {f"right_after_{n}": float(curve[n]) for n in (5, 11, 16)}
    near = found.filter(pl.col("sure").is_between(0.85, 0.95))
    crossed = found.filter(pl.col("sure") >= 0.9).group_by("user", maintain_order=True).first()
    sure: dict[str, Any] = {}
    for name, part in (("near", near), ("crossed", crossed)):
        sure |= {
            f"{name}_told": part["sure"].mean(),
            f"{name}_right": part["top_right"].mean(),
            f"n_{name}": part.height,
        }
    return {**needed, **after, **sure, "question_ms": 1e3 * seconds}


def sure_row(seed: int, model: pr.FactoredThurstone) -> dict[str, float]:
    """How often an order that is taken for sure is right: 1,000 new people of Sushi-10, 8 to 31 random answers each.

    Every person is asked about once, for the best one, two and three; ``near``: told between 0.85 and 0.95.
    """
    split, rng = splits.fold_of_people(seed), np.random.default_rng([18, seed])
    model.fit(as_rankings(split.train, strict=True))
    pairs, found = np.column_stack(np.triu_indices(10, 1)), []
    for truth in split.test.items.reshape(-1, 10).tolist():
        chosen = pairs[rng.permutation(len(pairs))[: rng.integers(8, 32)]]
        said = [[truth[i], truth[j]] for i, j in chosen.tolist()]
        new = model.fold_in(pr.Rankings.from_lists(said, users=[0] * len(said)))
        order = np.argsort(-np.asarray(model.score(new, truth)), kind="stable")
        found += [(model.sure(new, k, truth), (order[:k] == np.arange(k)).all()) for k in (1, 2, 3)]
    told, right = np.array(found, float).T
    measured: dict[str, float] = {}
    for name, low, high in (("near", 0.85, 0.95), ("below", 0.6, 0.85), ("middle", 0.4, 0.6), ("above", 0.95, 1.1)):
        part = (told >= low) & (told < high)
        measured |= {f"{name}_told": told[part].mean(), f"{name}_right": right[part].mean(), f"n_{name}": part.sum()}
    return {name: float(value) for name, value in measured.items()}


def mixing_row(length: int, seed: int, model: pr.FactoredThurstone) -> dict[str, float]:
    """Effective draws (bulk, by arviz-stats) of 400 sweeps after 200: strict lists of so many items, 60 people.

    Of utilities around their mean of one in ten people, of the people's spread, and of differences of item means.
    """
    rng = np.random.default_rng([21, seed])
    x = (
        rng.normal(size=length)
        + rng.normal(size=(60, 2)) @ rng.normal(size=(2, length))
        + rng.normal(size=(60, length))
    )
    rankings = pr.Rankings.from_lists(dict(enumerate(np.argsort(-x, axis=1).tolist())), items=range(length))
    nothing, draws = np.zeros((length, 0)), []
    problem, _ = problem_of(rankings, np.zeros(0), nothing)
    sampler = Sampler(problem, Observations.of(problem, one_draw=True), 4, 1, True, stream_key(seed))
    begin = time.process_time()
    for sweep in range(600):
        sampler.sweep(sweep)
        if sweep >= 200:
            own, means = sampler.state.x.reshape(60, length)[::6], sampler.state.theta[0, :, -1]
            scale = np.std(sampler.state.x)  # what everything may be multiplied with says nothing
            spread = own.std(axis=1, keepdims=True)
            parts = (own - own.mean(axis=1, keepdims=True)) / spread, spread / scale, (means - means.mean()) / scale
            draws.append([part.ravel() for part in parts])
    seconds = (time.process_time() - begin) / 600
    found = {}
    for name, part in zip(("utilities", "spread", "means"), zip(*draws, strict=True), strict=True):
        sizes = [float(array_stats.ess(column[None], method="bulk")) for column in np.array(part).T]
        found[f"{name}_median"], found[f"{name}_least"] = float(np.median(sizes)), float(np.min(sizes))
    return {**found, "ms_a_sweep": 1e3 * seconds}


def next_pair_row(seed: int, model: pr.FactoredThurstone) -> dict[str, float]:
    """Milliseconds of processor time for the next pair among 1,000 items; simulated people who have answered ten."""
    rankings = pr.datasets.load("simulated", n_users=150, n_items=1000, list_length=20, seed=seed)
    model.set_params(max_iter=96, n_draws=64).fit(rankings)
    rng, seconds = np.random.default_rng(seed), []
    for person in range(12):
        names = [model.item_ids[int(i)] for i in rng.choice(1000, 20, replace=False)]
        new = model.fold_in(pr.Rankings.from_lists(np.reshape(names, (10, 2)).tolist(), users=[0] * 10))
        begin = time.process_time()
        model.ask(new)
        if person > 1:  # the first calls compile
            seconds.append(time.process_time() - begin)
    return {"ms": 1e3 * float(np.median(seconds)), "most_ms": 1e3 * float(np.max(seconds))}


ROWS: dict[str, Callable[[int, Any], dict[str, float]]] = {
    "sushi-a-small": partial(pairs_row, 5, 25, "sushi-10", 100),
    "sushi-a": partial(pairs_row, 20, 25, "sushi-10", 100),
    "sushi-b": partial(pairs_row, 10, 1, "sushi", None),
    "sushi-10": likelihood_row,
    "ask/chosen": partial(ask_row, "chosen"),
    "ask/random": partial(ask_row, "random"),
    "sure": sure_row,
    "next-pair": next_pair_row,
    **{f"mixing/{length}": partial(mixing_row, length) for length in (10, 50, 200)},
    "sushi/7-3": partial(order_row, 7),
    "sushi/5-5": partial(order_row, 5),
    **{f"{name}/{n}": partial(rating_row, n, dataset=name) for name in ("ml-100k", "ml-1m") for n in (10, 20, 50)},
}
# Settings that a row needs beside the defaults.
SETTINGS: dict[str, dict[str, Any]] = {
    "sushi-10": {"max_iter": 200, "n_draws": 32},
    "sure": {"max_iter": 200},
    "ask/chosen": {"max_iter": 100, "n_draws": 32, "n_components": 1},
    "ask/random": {"max_iter": 100, "n_draws": 32, "n_components": 1},
}
SYSTEMS = {"FactoredThurstone": pr.FactoredThurstone, "FactoredPlackettLuce": pr.FactoredPlackettLuce}


def main() -> None:
    """Measure what is asked for, and print a table of all that is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", default=["*"], help="for example 'sushi-*' (all)")
    parser.add_argument("--systems", nargs="+", default=["FactoredThurstone"], choices=list(SYSTEMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="other parameters of the model (JSON)"
    )
    parser.add_argument("--folder", type=Path, default=Path("thurstone-results"), help="where cells are kept")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    more = {name: json.loads(value) for name, value in (text.split("=", 1) for text in given.set)}
    for row in [name for name in ROWS if any(fnmatch(name, pattern) for pattern in given.rows)]:
        for system in given.systems:
            for seed in given.seeds:
                told = "".join(f"-{name}={value}" for name, value in sorted(more.items()))
                path = given.folder / f"{row.replace('/', '-')}-{system}{told}-{seed}.json"
                if not path.exists():
                    own = SETTINGS.get(row, {}) if system == "FactoredThurstone" else {}
                    found = ROWS[row](seed, SYSTEMS[system](**{"seed": seed, **own, **more}))
                    path.write_text(
                        json.dumps({"row": row, "system": system + told, "seed": seed, **found}), encoding="utf-8"
                    )
                print(path.read_text(encoding="utf-8"), flush=True)
    print_table([json.loads(path.read_text(encoding="utf-8")) for path in sorted(given.folder.glob("*.json"))])


def print_table(cells: list[dict[str, Any]]) -> None:
    """Mean and deviation over seeds, a line for each row and system."""
    print("| row | system | seeds | measured | published |")
    print("|---|---|---|---|---|")
    for row, system in sorted({(cell["row"], cell["system"]) for cell in cells}):
        own = [cell for cell in cells if (cell["row"], cell["system"]) == (row, system)]
        names = [name for name in own[0] if name not in ("row", "system", "seed") and all(name in cell for cell in own)]
        told = []
        for name in names:
            values = [cell[name] for cell in own if cell[name] is not None]  # nothing to take a mean of in that cell
            if not values:
                continue
            told.append(f"{name} {np.mean(values):.4f} ±{np.std(values, ddof=1) if len(values) > 1 else 0:.4f}")
        print(f"| {row} | {system} | {len(own)} | {', '.join(told)} | {BESIDE.get(row, '')} |")


if __name__ == "__main__":
    main()
