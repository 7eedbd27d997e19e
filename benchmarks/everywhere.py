"""Is the default first, and can it be believed, on every kind of data? One row a data set, one table.

Real data: ``ml-100k/N``, ``ml-1m/N`` and ``filmtrust/N``, N ratings of every user given and the others asked about;
``sushi/7`` and ``sushi/5``. Simulated data, each with a difficulty of its own: ``continuous`` (a fine scale, short
lists, people who use the scale differently), ``long-tail`` (half stars, the median item mentioned once), ``all-equal``
(four people in ten give everything the same stars), ``handed-out`` (what is rated was not chosen), ``two-populations``
(opposite tastes), ``sixty-people``. The measure is NDCG@10 over a user's held-out ratings, on Sushi the share of the
pairs that are put right. Behind a mean, the p-value of the paired randomisation test over people (all seeds together)
against the best of the row. ``off`` is how far the share of pairs that came true is from what was predicted in the bin
of 1,000 pairs or more where it is furthest, in points ± their standard error (from the sums over people), the bins of
all seeds together, for people the model knows and for people that it has only folded in; ``covers`` the share of
held-out items whose rank lies in the 90 % interval, with the mean width of it in parts of the list (only where ranks
are fine: strict lists and continuous ratings; an interval of three whole ranks must be too wide).

Every cell is written to ``--folder`` when it is done, and not computed again. Seeds 0 to 4 are for reports; develop on
others (``--seeds 10 11``).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.stats import ttest_1samp

import permrank as pr
import splits
from accuracy import NDCG, PAIRS, MissingPeerError, as_rankings, biases, chosen, model_scores, peer
from permrank.posterior.problem import Problem
from splits import Split, Table

PEOPLE, ITEMS, PAIRS_OF_ONE = 5_000, 60, 40  # for reliability: users looked at, and items and pairs of each
FEWEST = 1_000  # pairs in a bin that is judged
ASKED = 15  # held-out ratings of a simulated user
NEW_PEOPLE = 0.2  # share of the users who are folded in


# Data


def filmtrust(n_train: int, seed: int) -> Split:
    """FilmTrust, split as `splits.weak_generalisation` splits MovieLens."""
    rows = [line.split() for line in splits.archive_member("filmtrust", "ratings.txt").splitlines() if line.strip()]
    pairs = {(int(user), int(item)): float(rating) for user, item, rating in rows}
    columns = np.array(list(pairs), np.int64)
    user_ids, users = np.unique(columns[:, 0], return_inverse=True)
    item_ids, items = np.unique(columns[:, 1], return_inverse=True)
    table = Table(users, items, np.array(list(pairs.values())), user_ids.size, item_ids.size)
    return splits.given_and_asked(table, n_train, seed)


def simulated(
    seed: int, *, n_users: int, n_items: int, n_given: int, step: float = 0.0, tail: float = 0.5, choice: float = 0.5,
    equal: float = 0.0, populations: bool = False, quality: float = 0.4, taste: float = 0.6, noise: float = 0.8,
) -> Split:  # fmt: skip
    """Ratings from 0.5 to 5 of ``n_given + ASKED`` items a person, the first of them given.

    A rating is 3 + level + spread * (quality + taste + Gaussian noise), rounded to ``step``; tail: exponent of how
    popularity falls; choice: how much taste and quality decide what is rated; equal: share of the people who rate
    everything alike; populations: half of the people have the opposite taste in everything.
    """
    rng = np.random.default_rng([1414, seed, n_users, n_items])
    of_item, factors = quality * rng.normal(size=n_items), rng.normal(size=(n_items, 3))
    people = rng.normal(size=(n_users, 3))
    if populations:
        factors[:, 1:] = people[:, 1:] = 0.0
        people[:, 0] = 3.0 * np.where(rng.random(n_users) < 0.5, 1.0, -1.0)
    popularity = -tail * np.log(1.0 + rng.permutation(n_items))
    level, spread = 0.6 * rng.normal(size=n_users), np.exp(0.3 * rng.normal(size=n_users))
    flat = rng.random(n_users) < equal
    length, parts = n_given + ASKED, []
    for user in range(n_users):
        liked = of_item + taste / np.sqrt(3.0) * factors @ people[user]
        listed = np.argpartition(-(popularity + choice * liked + rng.gumbel(size=n_items)), length)[:length]
        listed = rng.permutation(listed)
        wide = 0.0 if flat[user] else spread[user]
        rating = 3.0 + level[user] + wide * (liked[listed] + noise * rng.normal(size=length))
        parts.append((listed, np.clip(np.round(rating / step) * step if step else rating, 0.5, 5.0)))
    users, items = np.repeat(np.arange(n_users), length), np.concatenate([part[0] for part in parts])
    table = Table(users, items, np.concatenate([part[1] for part in parts]), n_users, n_items)
    given = np.tile(np.arange(length) < n_given, n_users)
    return Split(table.rows(given), table.rows(~given), strict=False)


class Row(NamedTuple):
    """How to split by seed, what is measured, and whether ranks are fine enough to judge intervals."""

    split: Callable[[int], Split]
    measure: str = NDCG
    fine: bool = False


def rows() -> dict[str, Row]:
    found = {
        "sixty-people": Row(partial(simulated, n_users=60, n_items=80, n_given=12, step=1.0)),
        "two-populations": Row(
            partial(simulated, n_users=1_500, n_items=200, n_given=10, step=1.0, populations=True, choice=0.0)
        ),
        "all-equal": Row(partial(simulated, n_users=1_500, n_items=300, n_given=10, step=1.0, equal=0.4)),
        "handed-out": Row(partial(simulated, n_users=2_000, n_items=200, n_given=10, step=1.0, tail=0.0, choice=0.0)),
        "long-tail": Row(partial(simulated, n_users=3_000, n_items=30_000, n_given=10, step=0.5, tail=1.0)),
        "continuous-3k": Row(partial(simulated, n_users=3_000, n_items=100, n_given=10), fine=True),
        "continuous": Row(partial(simulated, n_users=25_000, n_items=100, n_given=10), fine=True),
    }
    for n_given in (7, 5):
        found[f"sushi/{n_given}"] = Row(partial(splits.given_and_hidden, n_given), PAIRS, fine=True)
    for n_train in (5, 10):
        found[f"filmtrust/{n_train}"] = Row(partial(filmtrust, n_train))
    for dataset in ("ml-100k", "ml-1m"):
        for n_train in (5, 10, 20, 50):
            found[f"{dataset}/{n_train}"] = Row(partial(splits.weak_generalisation, dataset, n_train))
    return found


ROWS = rows()


# Systems: from a split and a seed to the scores of the test rows, and the model if it can be asked for more


def model(name: str, **parameters: Any) -> Callable[[Split, int], tuple[np.ndarray, pr.Ranker]]:
    def ask(split: Split, seed: int) -> tuple[np.ndarray, pr.Ranker]:
        return fitted(split, seed, name, parameters)

    return ask


def fitted(split: Split, seed: int, name: str, parameters: dict[str, Any]) -> tuple[np.ndarray, pr.Ranker]:
    made = getattr(pr, name)(**parameters)
    if "seed" in made.get_params():
        made.set_params(seed=seed)
    made.fit(as_rankings(split.train, split.strict), verbose=False)
    return model_scores(made, split.test), made


def without_popularity(split: Split, seed: int) -> tuple[np.ndarray, pr.Ranker]:
    """The default with prior means of the items that do not depend on how often they are mentioned."""
    of = Problem.of

    def made(*given: Any, **named: Any) -> Problem:
        problem = of(*given, **named)
        covariates = problem.covariates.copy()
        covariates[:, 0] = 0.0
        return problem._replace(covariates=covariates)

    with patch.object(Problem, "of", made):
        return fitted(split, seed, FACTORED, {})


def weights_of_one(split: Split, seed: int) -> tuple[np.ndarray, pr.Ranker]:
    """The default with scores as the posterior has them, without weights from held-out pairs."""
    found = fitted(split, seed, FACTORED, {})[1]
    found.fitted_ = found.fitted_.with_estimate(temperature=1.0, personal_weight=1.0)
    return model_scores(found, split.test), found


def item_mean(split: Split, seed: int) -> tuple[np.ndarray, None]:
    """Mean of an item's ratings with five imaginary ones at the overall mean."""
    train, test = split.train, split.test
    total = np.bincount(train.items, train.ratings - train.ratings.mean(), train.n_items)
    return (total / (np.bincount(train.items, minlength=train.n_items) + 5.0))[test.items], None


def popularity(split: Split, seed: int) -> tuple[np.ndarray, None]:
    """How often an item is mentioned."""
    return np.bincount(split.train.items, minlength=split.train.n_items)[split.test.items].astype(float), None


def two_biases(split: Split, seed: int) -> tuple[np.ndarray, None]:
    """See `accuracy.biases`."""
    return biases(split, NDCG, seed).scores, None


def surprise(learner: str) -> Callable[[Split, int], tuple[np.ndarray, None]]:
    def ask(split: Split, seed: int) -> tuple[np.ndarray, None]:
        system = peer("scikit-surprise", "surprise", "peer_surprise.py", learner)
        return system.ask(split, NDCG, seed).scores, None

    return ask


FACTORED = "FactoredPlackettLuce"
SYSTEMS: dict[str, Callable[[Split, int], tuple[np.ndarray, pr.Ranker | None]]] = {
    FACTORED: model(FACTORED),
    f"{FACTORED} rating_thresholds=False": model(FACTORED, rating_thresholds=False),
    f"{FACTORED} co_listing=False": model(FACTORED, co_listing=False),
    f"{FACTORED} without popularity": without_popularity,
    f"{FACTORED} weights of 1": weights_of_one,
    f"{FACTORED} method=point": model(FACTORED, method="point"),
    "LatentPlackettLuce": model("LatentPlackettLuce"),
    "PositionwiseLogLinear": model("PositionwiseLogLinear"),
    "PairwiseLogLinear": model("PairwiseLogLinear"),
    "PlackettLuce gaussian": model("PlackettLuce", prior="gaussian", ties="breslow"),
    "item mean": item_mean,
    "user + item bias": two_biases,
    "popularity": popularity,
    "Surprise BaselineOnly": surprise("BaselineOnly"),
    "Surprise SVD": surprise("SVD"),
}


# What is measured beside the order


def reliability(model: pr.Ranker, test: Table, references: dict[int, Any], fine: bool) -> dict[str, Any]:
    """Sums by tenths: predicted, came true, pairs, squared residuals of people; coverage and width where fine."""
    rng, known = np.random.default_rng(0), np.isin(test.items, model.item_ids.ids.to_numpy())
    predicted, observed, covered, widths = [], [], [], []
    order = np.argsort(test.users, kind="stable")
    bounds = np.searchsorted(test.users[order], np.arange(test.n_users + 1))
    for user in rng.permutation(np.array(sorted(references)))[:PEOPLE]:
        mine = order[bounds[user] : bounds[user + 1]]
        mine = rng.permutation(mine[known[mine]])[:ITEMS]
        if mine.size < 2:
            continue
        places = model.item_ids.indices(test.items[mine].tolist())
        pairs = np.stack(np.triu_indices(mine.size, 1), axis=1)  # of items in random order
        first, second = rng.permutation(pairs)[:PAIRS_OF_ONE].T
        differ = test.ratings[mine[first]] != test.ratings[mine[second]]
        first, second = first[differ], second[differ]
        predicted.append(
            model.fitted_.prefers(references[user], places[first], places[second])
        )  # prefers(), of all pairs
        observed.append(test.ratings[mine[first]] > test.ratings[mine[second]])
        if fine and len(widths) < 300 * ASKED:
            jitter = rng.random(mine.size)
            rank = np.empty(mine.size, np.int64)
            rank[np.lexsort((jitter, -test.ratings[mine]))] = np.arange(mine.size)
            low, high = model.fitted_.law(references[user], places).rank_interval(np.arange(mine.size)).T
            covered += ((low <= rank) & (rank <= high)).tolist()
            widths += ((high - low + 1) / mine.size).tolist()
    if not predicted:
        return {}
    told, came = np.concatenate(predicted), np.concatenate(observed)
    place = np.minimum(np.floor(10 * told), 9).astype(int)
    sums = [np.bincount(place, weights, 10) for weights in (told, came, np.ones(told.size))]
    of_people = np.repeat(10 * np.arange(len(predicted)), [part.size for part in predicted]) + place
    residuals = np.bincount(of_people, came - told, 10 * len(predicted)).reshape(-1, 10)
    found: dict[str, Any] = {"bins": np.stack((*sums, np.sum(residuals**2, axis=0))).tolist()}
    if widths:
        found |= {"covers": float(np.mean(covered)), "wide": float(np.mean(widths))}
    return found


def furthest(parts: list[dict[str, Any]]) -> tuple[float, float, float, int] | None:
    """Points by which the furthest bin is off, their standard error, the prediction there, and its pairs.

    The bins of several seeds together. Pairs of one person go together, so the error is from the sums over people.
    """
    predicted, came, n, squares = np.sum([part["bins"] for part in parts], axis=0)
    enough = n >= FEWEST
    if not enough.any():
        return None
    off = np.where(enough, (came - predicted) / np.maximum(n, 1), 0.0)
    worst = int(np.abs(off).argmax())
    error = 100 * float(np.sqrt(squares[worst]) / n[worst])
    return 100 * float(off[worst]), error, float(predicted[worst] / n[worst]), int(n[worst])


def folded(split: Split, seed: int, fine: bool, parameters: dict[str, Any]) -> dict[str, Any]:
    """The same for people who are folded into a model that has not seen them."""
    new = np.random.default_rng([7, seed]).random(split.train.n_users) < NEW_PEOPLE
    kept, away = split.train.rows(~new[split.train.users]), split.train.rows(new[split.train.users])
    made = fitted(split._replace(train=kept, test=split.test.rows(np.zeros(0, int))), seed, FACTORED, parameters)[1]
    names = set(made.item_ids.ids.to_numpy().tolist())
    references = {}
    for user in np.flatnonzero(new)[: PEOPLE // 3]:
        mine = np.flatnonzero(away.users == user)
        mine = mine[[item in names for item in away.items[mine].tolist()]]
        if mine.size:
            items, stars = away.items[mine].tolist(), away.ratings[mine].tolist()
            references[int(user)] = made.fold_in(items if split.strict else dict(zip(items, stars, strict=True)))
    return reliability(made, split.test, references, fine)


# The run


def measured(row: Row, system: str, seed: int, more: bool) -> dict[str, Any]:
    """One cell for one seed."""
    split = _split(row.split, seed)
    begin = time.perf_counter()
    try:
        scores, made = SYSTEMS[system](split, seed)
    except MissingPeerError as error:
        return {"problem": str(error)}
    found: dict[str, Any] = {"seconds": time.perf_counter() - begin}
    by_user = splits.pairs_right_by_user(split.test, scores)
    if row.measure == NDCG:
        by_user = splits.ndcg_by_user(split.test, scores, seed)
    found["by_user"] = [round(value, 5) if np.isfinite(value) else None for value in by_user.tolist()]
    if more and made is not None and system.startswith(FACTORED):
        people = {int(u): made.person(int(u)) for u in made.user_ids.ids.to_list()}
        found["known"] = reliability(made, split.test, people, row.fine)
        found["folded"] = folded(split, seed, row.fine, {}) if system == FACTORED else {}
        found["temperature"], found["personal"] = made.temperature_, made.personal_weight_
        found["sweeps"], found["error"] = made.n_iter_, made.score_error_
    return found


@cache
def _split(split: Callable[[int], Split], seed: int) -> Split:
    return split(seed)


def mean(cell: dict[str, Any]) -> float:
    return float(np.mean([value for value in cell["by_user"] if value is not None]))


def told(parts: list[dict[str, Any]]) -> str:
    """Reliability of one or several seeds."""
    parts = [part for part in parts if part]
    worst = furthest(parts) if parts else None
    text = (
        "too few pairs" if worst is None else f"{worst[0]:+.1f} ± {worst[1]:.1f} at {worst[2]:.2f} ({worst[3]:,} pairs)"
    )
    if parts and "covers" in parts[0]:
        covers, wide = (np.mean([part[name] for part in parts]) for name in ("covers", "wide"))
        text += f", covers {covers:.3f} wide {wide:.2f}"
    return text


def print_table(cells: dict[tuple[str, str, int], dict[str, Any]]) -> None:
    """Means and p-values against the best, then reliability."""
    systems = [name for name in SYSTEMS if any(key[1] == name for key in cells)]
    print("| data | " + " | ".join(systems) + " |\n|" + "---|" * (len(systems) + 1))
    for name in [name for name in ROWS if any(key[0] == name for key in cells)]:
        seeds = sorted({key[2] for key in cells if key[0] == name})
        values = {}
        for system in systems:
            mine = [cells.get((name, system, seed), {}).get("by_user") for seed in seeds]
            if all(mine):
                values[system] = np.array([np.nan if v is None else v for part in mine for v in part])
        if not values:
            continue
        best = max(values, key=lambda system: np.nanmean(values[system]))
        texts = []
        for system in systems:
            if system not in values:
                texts.append("–")
                continue
            away = values[best] - values[system]
            p = float(ttest_1samp(away[np.isfinite(away)], 0.0).pvalue) if system != best else 1.0
            texts.append(f"{np.nanmean(values[system]):.4f}" + (" **first**" if system == best else f" ({p:.3f})"))
        print(f"| {name} | " + " | ".join(texts) + " |")
    print("\n| data | seeds | sweeps | known | folded in | temperature | personal weight |\n|" + "---|" * 7)
    for name in ROWS:
        mine = [cell for key, cell in cells.items() if key[:2] == (name, FACTORED) and "known" in cell]
        if mine:
            known, folded_in = (told([cell[part] for cell in mine]) for part in ("known", "folded"))
            sweeps, temperature, personal = (
                f"{min(cell[part] for cell in mine):.3g} to {max(cell[part] for cell in mine):.3g}"
                for part in ("sweeps", "temperature", "personal")
            )
            print(f"| {name} | {len(mine)} | {sweeps} | {known} | {folded_in} | {temperature} | {personal} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", help="for example 'ml-100k/*' continuous (all)")
    parser.add_argument("--systems", nargs="+", metavar="PATTERN", help="for example 'Factored*' 'Surprise*' (all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, default=Path("everywhere-results"), help="where cells are kept")
    parser.add_argument("--order-only", action="store_true", help="without reliability and intervals")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cells = {}
    for name in chosen(given.rows, ROWS, "row"):
        for seed in given.seeds:
            for system in chosen(given.systems, SYSTEMS, "system"):
                path = given.folder / (re.sub(r"[^A-Za-z0-9=]+", "-", f"{name} {system} {seed}") + ".json")
                if not path.exists():
                    cell = measured(ROWS[name], system, seed, not given.order_only)
                    path.write_text(json.dumps(cell), encoding="utf-8")
                cell = cells[name, system, seed] = json.loads(path.read_text(encoding="utf-8"))
                text = f"{mean(cell):.4f} in {cell['seconds']:.1f} s" if "by_user" in cell else cell["problem"]
                print(f"{name} seed {seed}, {system}: {text}", flush=True)
    print_table(cells)


if __name__ == "__main__":
    main()
