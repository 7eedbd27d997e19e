"""How well held-out orders are predicted: permrank's models and the peers that install, on the same splits.

Protocols: ``ml-100k/N`` and ``ml-1m/N``, weak generalisation from N ratings a user (NDCG@10 and pairs put right among
the user's held-out ratings); ``sushi/7`` and ``sushi/5``, as many items of a list of ten given, pairs of the hidden
ones put right; ``sushi-10``, nats per ranking of new people, where seeds 0 to 4 are the five folds. Prints mean ±
standard deviation over seeds, and seconds of learning (JIT warm, the least over seeds; a peer's include building its
own tables). Needs PERMRANK_DATA or a network to fetch the data.

Settings of the peers and of the biases were picked from a handful by looking at test parts of ML-100K and Sushi, which
can only favour them; permrank's are its defaults, but for the number of factors and what a row's name says.

A test item without a training row, of which a system can say nothing, gets the mean of the user's other scores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import permrank as pr
import splits
from peers import peer_python, run_peer
from splits import Split, Table

NDCG, PAIRS, NATS = "NDCG@10", "pairs right", "nats per ranking"
NOT_ASKED = "–"
QUICK = {"protocols": ["ml-100k/10", "ml-100k/50", "sushi/7"], "seeds": [0, 1]}


class Protocol(NamedTuple):
    """How to split by seed, what is measured first, and what permrank wants to reach."""

    split: Callable[[int], Split]
    measure: str
    wanted: float


def _protocols() -> dict[str, Protocol]:
    wanted = {
        "ml-100k": {10: 0.7175, 20: 0.7200, 50: 0.7350},
        "ml-1m": {10: 0.7525, 20: 0.7565, 50: 0.7755, 100: 0.7900},
    }
    found = {
        f"{dataset}/{n_train}": Protocol(partial(splits.weak_generalisation, dataset, n_train), NDCG, goal)
        for dataset, goals in wanted.items()
        for n_train, goal in goals.items()
    }
    for n_given, goal in ((7, 0.680), (5, 0.665)):
        found[f"sushi/{n_given}"] = Protocol(partial(splits.given_and_hidden, n_given), PAIRS, goal)
    found["sushi-10"] = Protocol(splits.fold_of_people, NATS, 13.69)
    return found


PROTOCOLS = _protocols()


# Systems


class Answer(NamedTuple):
    """Scores of the test rows, or nats of the test lists with the error of the estimator (0 if exact)."""

    seconds: float
    scores: np.ndarray | None = None
    nats: np.ndarray | None = None
    error: float = 0.0


class System(NamedTuple):
    """``ask(split, measure, seed)`` learns and answers; ``measures`` are those that it can be asked for."""

    ask: Callable[[Split, str, int], Answer]
    measures: tuple[str, ...]


class MissingPeerError(Exception):
    """A peer that does not install."""


def permrank_model(name: str, likelihood: dict[str, Any] | None = None, **parameters: Any) -> System | None:
    """A model by the name of its class, if this version has it; ``likelihood`` are options of ``log_likelihood``."""
    if name not in pr.__all__:
        return None

    def ask(split: Split, measure: str, seed: int) -> Answer:
        model = getattr(pr, name)(**parameters)
        if "seed" in model.get_params():
            model.set_params(seed=seed)
        _warm_up(name, json.dumps(parameters, default=str), model, split)
        rankings = as_rankings(split.train, split.strict)
        begin = time.perf_counter()
        model.fit(rankings, verbose=False)
        seconds = time.perf_counter() - begin
        if measure == NATS:
            return _likelihood(model, as_rankings(split.test, strict=True), seconds, likelihood or {})
        return Answer(seconds, scores=model_scores(model, split.test))

    return System(ask, (NDCG, PAIRS, NATS))


def as_rankings(table: Table, strict: bool) -> pr.Rankings:
    """Rows as permrank wants them, ids being the numbers of users and items."""
    if strict:
        edges = np.flatnonzero(np.diff(table.users)) + 1
        lists = [part.tolist() for part in np.split(table.items, edges)]
        users = table.users[np.concatenate(([0], edges))].tolist()
        return pr.Rankings.from_lists(lists, users=users, items=range(table.n_items))
    return pr.Rankings.from_ratings({"user": table.users, "item": table.items, "rating": table.ratings})


def asked_by(model: pr.Ranker, **parameters: Any) -> pr.Ranker:
    """The same estimate in a model with other parameters, for those that only answers depend on."""
    settings = model.fitted_.settings.clone().set_params(**parameters)
    return replace(model.fitted_, settings=settings).as_model()


def model_scores(model: pr.Ranker, test: Table) -> np.ndarray:
    """Scores of all test rows; NaN for an item that the model does not know."""
    known = np.zeros(test.n_items, bool)
    known[model.item_ids.ids.to_numpy()] = True
    rows = np.flatnonzero(known[test.items])
    scores = np.full(test.items.size, np.nan)
    if hasattr(model, "score_pairs"):
        scores[rows] = model.score_pairs(test.users[rows], test.items[rows])
        return scores
    rows = rows[np.argsort(test.users[rows], kind="stable")]
    for part in np.split(rows, np.flatnonzero(np.diff(test.users[rows])) + 1):
        scores[part] = model.score(int(test.users[part[0]]), test.items[part].tolist())
    return scores


def _likelihood(model: pr.Ranker, rankings: pr.Rankings, seconds: float, options: dict[str, Any]) -> Answer:
    """Nats of new people; a model that estimates them by drawing may return (values, standard errors)."""
    ask = getattr(model, "log_likelihood_with_error", model.log_likelihood)
    found = ask(rankings, **options)
    values, errors = found if isinstance(found, tuple) else (found, np.zeros(len(found)))
    return Answer(seconds, nats=-values, error=float(np.sqrt(np.sum(errors**2)) / values.size))


_WARM: set[tuple[str, str, bool]] = set()


def _warm_up(name: str, parameters: str, model: pr.Ranker, split: Split) -> None:
    """Compile: one fit to the first users, untimed."""
    if (name, parameters, split.strict) not in _WARM:
        _WARM.add((name, parameters, split.strict))
        few = split.train.rows(split.train.users < 50)
        # What goes wrong here will go wrong again, and be reported, in the fit that counts.
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(Exception):
            model.clone().fit(as_rankings(few, split.strict), verbose=False)


def biases(split: Split, measure: str, seed: int) -> Answer:
    """rating = mean + b_user + b_item with ridge penalties 5 and 10, by 20 alternating sweeps."""
    train, test = split.train, split.test
    begin = time.perf_counter()
    centred = train.ratings - train.ratings.mean()
    of_user, of_item = np.zeros(train.n_users), np.zeros(train.n_items)
    user_weight = np.bincount(train.users, minlength=train.n_users) + 5.0
    item_weight = np.bincount(train.items, minlength=train.n_items) + 10.0
    for _ in range(20):
        of_item = np.bincount(train.items, centred - of_user[train.users], minlength=train.n_items) / item_weight
        of_user = np.bincount(train.users, centred - of_item[train.items], minlength=train.n_users) / user_weight
    return Answer(time.perf_counter() - begin, scores=of_user[test.users] + of_item[test.items])


def peer(distribution: str, module: str, script: str, learner: str, measures: Iterable[str] = (NDCG, PAIRS)) -> System:
    """A learner of ``peer_*.py``, run in .venv-peers. Asked for nats, its scores are taken for log-worths."""

    def ask(split: Split, measure: str, seed: int) -> Answer:
        python, problem = _peer_environment(distribution, module)
        if problem:
            raise MissingPeerError(problem)
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "job.npz", Path(folder) / "scores.npy"
            test = {"test_users": split.test.users, "test_items": split.test.items}
            np.savez(source, **split.train._asdict(), **test, seed=seed)
            seconds = run_peer(python, script, learner, source, target)["seconds"]
            scores = np.load(target)
        if measure == NATS:
            return Answer(seconds, nats=splits.plackett_luce_nats(split.test, scores))
        return Answer(seconds, scores=scores)

    return System(ask, tuple(measures))


@cache
def _peer_environment(distribution: str, module: str) -> tuple[str, str]:
    """Python that can import the module, installed if need be; and what went wrong, if anything did."""
    python = peer_python()
    attempt = [python, "-c", f"import {module}"]
    if subprocess.run(attempt, capture_output=True, check=False).returncode == 0:
        return python, ""
    print(f"installing {distribution} into .venv-peers", file=sys.stderr)
    install = [python, "-m", "pip", "install", "-q", distribution]
    for command in (install, attempt):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return python, _last_line(done.stderr)
    return python, ""


Systems = dict[str, System | None]
# To add a system: a line here. None marks a model that this version does not have.
SYSTEMS: Systems = {
    "PlackettLuce gaussian": permrank_model("PlackettLuce", prior="gaussian", ties="breslow"),
    "FactoredPlackettLuce": permrank_model("FactoredPlackettLuce", n_factors=16),
    "FactoredPlackettLuce co_listing=False": permrank_model("FactoredPlackettLuce", n_factors=16, co_listing=False),
    "FactoredPlackettLuce as published": permrank_model(
        "FactoredPlackettLuce", n_factors=16, method="point", user_penalty=1.0, item_penalty=1.0, n_starts=1
    ),
    "LatentPlackettLuce": permrank_model("LatentPlackettLuce", likelihood={"with_error": True}),
    "PositionwiseLogLinear": permrank_model("PositionwiseLogLinear"),
    "PairwiseLogLinear": permrank_model("PairwiseLogLinear"),
    "user + item bias": System(biases, (NDCG, PAIRS)),
    "Surprise BaselineOnly": peer("scikit-surprise", "surprise", "peer_surprise.py", "BaselineOnly"),
    "Surprise SVD": peer("scikit-surprise", "surprise", "peer_surprise.py", "SVD"),
    "implicit ALS": peer("implicit", "implicit", "peer_implicit.py", "ALS"),
    "LightFM logistic": peer("rectools-lightfm", "lightfm", "peer_lightfm.py", "logistic"),
    "LightFM WARP": peer("rectools-lightfm", "lightfm", "peer_lightfm.py", "WARP"),
    "choix I-LSR": peer("choix", "choix", "peer_choix_scores.py", "I-LSR", (PAIRS, NATS)),
}


# The run


def measured(name: str, system: System, protocol: str, split: Split, seed: int) -> dict[str, Any]:
    """One cell for one seed, as it is kept in the JSON file."""
    measure = PROTOCOLS[protocol].measure
    result: dict[str, Any] = {"system": name, "protocol": protocol, "seed": seed}
    try:
        answer = system.ask(split, measure, seed)
    except Exception as error:  # whatever a system does, the others still have their turn
        return {**result, "problem": _problem(error)}
    result["seconds"] = answer.seconds
    if measure == NATS:
        return {**result, NATS: float(np.mean(answer.nats)), "estimator error": answer.error}
    result[PAIRS] = splits.pairs_right(split.test, answer.scores)
    if measure == NDCG:
        result[NDCG] = splits.ndcg(split.test, answer.scores, seed)
    return result


def _problem(error: Exception) -> str:
    if isinstance(error, MissingPeerError):
        return f"does not install ({error})"
    if isinstance(error, subprocess.CalledProcessError):
        return f"failed ({_last_line(error.stderr or '')})"
    return f"failed ({type(error).__name__}: {_last_line(str(error))})"


def _last_line(text: str) -> str:
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["no message"])[-1][:200]


def _line(result: dict[str, Any]) -> str:
    numbers = [f"{name} {value:.4f}" for name, value in result.items() if isinstance(value, float)]
    told = ", ".join(numbers) or result["problem"]
    return f"{result['protocol']} seed {result['seed']}, {result['system']}: {told}"


def print_tables(results: list[dict[str, Any]], table: Systems) -> None:
    """One table a measure, one of seconds, then what went wrong."""
    systems = [name for name in table if any(result["system"] == name for result in results)]
    protocols = [name for name in PROTOCOLS if any(result["protocol"] == name for result in results)]
    for measure in (NDCG, PAIRS, NATS, "seconds"):
        columns = [name for name in protocols if measure in ("seconds", *_measures(name))]
        if not columns:
            continue
        rows = [[name, *(_cell(results, name, column, measure) for column in columns)] for name in systems]
        rows = [row for row in rows if set(row[1:]) != {NOT_ASKED}]
        goals = [f"{PROTOCOLS[name].wanted:.4f}" if PROTOCOLS[name].measure == measure else "" for name in columns]
        if any(goals):
            rows.append(["*permrank wants*", *goals])
        print(f"\n{measure}\n")
        _print_table([["system", *columns], *rows])
    problems = dict.fromkeys(f"{result['system']}: {result['problem']}" for result in results if "problem" in result)
    if problems:
        print("\n" + "\n".join(problems))
    errors = [result["estimator error"] for result in results if result.get("estimator error")]
    if errors:
        print(f"largest standard error of an estimated likelihood: {max(errors):.4f} nats per ranking")


def _measures(protocol: str) -> tuple[str, ...]:
    first = PROTOCOLS[protocol].measure
    return (NDCG, PAIRS) if first == NDCG else (first,)


def _cell(results: list[dict[str, Any]], system: str, protocol: str, measure: str) -> str:
    mine = [result for result in results if (result["system"], result["protocol"]) == (system, protocol)]
    values = [result[measure] for result in mine if measure in result]
    if not values:
        return mine[0]["problem"].partition(" (")[0] if mine else NOT_ASKED
    if measure == "seconds":
        return f"{min(values):.2f}"  # what else runs on the machine can only add to it
    spread = f" ±{np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    part = "" if len(values) == len(mine) else f" ({len(values)} of {len(mine)} seeds)"
    return f"{np.mean(values):.4f}{spread}{part}"


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def chosen(patterns: list[str] | None, names: Iterable[str], what: str) -> list[str]:
    """Names that match one of the patterns (``*`` stands for anything); all if there are none."""
    names = list(names)
    for pattern in patterns or []:
        if not any(fnmatch(name.lower(), pattern.lower()) for name in names):
            sys.exit(f"no {what} matches {pattern!r}; there are {', '.join(names)}")
    return [name for name in names if any(fnmatch(name.lower(), pattern.lower()) for pattern in patterns or ["*"])]


def arguments(table: Systems, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocols", nargs="+", metavar="PATTERN", help="for example 'ml-100k/*' sushi-10 (all)")
    parser.add_argument("--systems", nargs="+", metavar="PATTERN", help="for example '*Plackett*' 'Surprise*' (all)")
    parser.add_argument("--seeds", nargs="+", type=int, help="0 1 2 3 4 if not given")
    parser.add_argument("--quick", action="store_true", help=f"{' '.join(QUICK['protocols'])}, seeds 0 1")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep results here; those of earlier runs stay in the tables"
    )
    given = parser.parse_args()
    quick = QUICK if given.quick else {}
    given.seeds = given.seeds or quick.get("seeds", [0, 1, 2, 3, 4])
    given.protocols = chosen(given.protocols or quick.get("protocols"), PROTOCOLS, "protocol")
    given.systems = chosen(given.systems, table, "system")
    return given


def main(table: Systems = SYSTEMS, description: str | None = __doc__) -> None:
    given = arguments(table, description)
    kept = {}
    if given.json and given.json.exists():
        kept = {(r["system"], r["protocol"], r["seed"]): r for r in json.loads(given.json.read_text(encoding="utf-8"))}
    systems = {name: system for name in given.systems if (system := table[name])}
    for name in set(given.systems) - set(systems):
        print(f"{name}: not in this version of permrank", file=sys.stderr)
    for protocol in given.protocols:
        for seed in given.seeds:
            split = PROTOCOLS[protocol].split(seed)
            for name, system in systems.items():
                if PROTOCOLS[protocol].measure not in system.measures:
                    continue
                result = measured(name, system, protocol, split, seed)
                kept[name, protocol, seed] = result
                print(_line(result), file=sys.stderr, flush=True)
                if given.json:
                    given.json.write_text(json.dumps(list(kept.values()), indent=1), encoding="utf-8")
    print_tables(list(kept.values()), table)


if __name__ == "__main__":
    main()
