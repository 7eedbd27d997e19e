"""Digests of every estimate and answer of every model: `python tests/fingerprints.py --out before.json`.

`--against before.json` compares with digests taken earlier, on the same kind of processor, and names what differs: a
change of structure must change no bit. The digests are kept beside the tree, never in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors.numpy import load_file

import permrank as pr
from permrank.testing.questions import LISTS, QUESTIONS

warnings.simplefilter("ignore")

FEW = {"max_iter": 12}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "Borda": [{}],
    "BradleyTerry": [
        {"prior": "gaussian", "method": s, "ties": t}
        for s in ("newton", "mm")
        for t in ("davidson", "rao-kupper", "half")
    ],
    "CofiRank": [{"loss": loss, "n_factors": 3, "max_iter": 30} for loss in ("ndcg", "ordinal", "squared")],
    "Copeland": [{}],
    "FactoredPlackettLuce": [
        {"n_factors": 3, **FEW, "n_draws": 8},
        {"n_factors": 3, **FEW, "n_draws": 8, "co_listing": False, "rating_thresholds": False, "intercepts": False},
        {"n_factors": 3, **FEW, "n_draws": 8, "ties": "efron"},
        {"n_factors": "auto", "max_iter": 6, "n_draws": 4},
        {"n_factors": 3, "method": "point", "max_iter": 40},
        {"n_factors": 3, "method": "point", "max_iter": 40, "damping": "log"},
        {"n_factors": 3, "method": "point", "max_iter": 40, "damping": "learned"},
    ],
    "FactoredThurstone": [
        {"n_factors": 3, **FEW, "n_draws": 8},
        {"n_factors": 3, **FEW, "n_draws": 8, "covariance": "factors", "co_listing": False, "item_noise": False},
        {"n_factors": 3, **FEW, "n_draws": 8, "one_draw": False, "rating_thresholds": False},
        {"n_components": 2, **FEW, "n_draws": 8, "covariance": "full"},
    ],
    "ImplicitFactors": [{"n_factors": 3, **FEW}],
    "ItemToItem": [{"method": "regression"}, {"method": "filter", "n_neighbours": 3}],
    "LatentPlackettLuce": [
        {"n_communities": 2, "max_iter": 40},
        {"n_communities": 2, "max_iter": 40, "mixing": "list", "insertion": "mode"},
        {"n_communities": 2, "max_iter": 40, "method": "gradient", "accelerate": False, "n_starts": 2},
        {"n_communities": "auto", "max_iter": 20, "n_starts": 2},
    ],
    "LatentPreference": [{"n_communities": 2, "max_iter": 60}],
    "ListNet": [{"loss": loss, "n_factors": 3, "max_iter": 30} for loss in ("listnet", "listmle")],
    "Mallows": [
        {"n_communities": 1},
        {"n_communities": 2, "max_iter": 20, "n_starts": 4},
        {"distance": "spearman", "n_communities": 2, "max_iter": 20},
    ],
    "MeanRating": [{}, {"centred": False}],
    "PairwiseFactorisation": [
        {"loss": loss, "n_factors": 3, "max_iter": 30} for loss in ("logistic", "hinge", "squared")
    ],
    "PairwiseLogLinear": [
        {"n_factors": 3, "min_cooccurrence": 1, "max_iter": 10, "n_draws": 4, "method": method}
        for method in ("relocation", "windows", "swaps", "contrastive", "persistent")
    ],
    "PlackettLuce": [{"prior": p, "method": s} for p in ("gaussian", "gamma") for s in ("newton", "mm")]
    + [{"prior": "gaussian", "ties": t} for t in ("efron", "breslow", "shuffle")],
    "Popularity": [{}],
    "PositionwiseLogLinear": [
        {"n_factors": 3, "max_iter": 10, "n_draws": 4, "method": method}
        for method in ("posterior", "relocation", "swaps", "contrastive", "persistent")
    ],
    "Random": [{}],
    "Recommender": [
        {"order": pr.FactoredPlackettLuce(n_factors=3, max_iter=12, n_draws=8), "n_factors": 3},
        {"order": pr.MeanRating()},
    ],
    "SpectralAnalysis": [{}],
}


def data_sets() -> dict[str, pr.Rankings]:
    """Small lists with ties, ratings (bare; with features and links), full rankings of six items, and sets."""
    rng = np.random.default_rng(5)
    ratings = pl.DataFrame(
        {
            "user": np.repeat(np.arange(40), 9),
            "item": np.concatenate([rng.permutation(18)[:9] for _ in range(40)]),
            "rating": rng.integers(1, 6, 360),
        }
    )
    full = {f"u{k}": [f"i{x}" for x in rng.permutation(6)] for k in range(30)}
    rated = pr.Rankings.from_ratings(ratings)
    items = pl.DataFrame({"item": np.arange(18), "price": rng.normal(size=18), "kind": ["a", "b", "c"] * 6})
    users = pl.DataFrame({"user": np.arange(40), "age": rng.normal(size=40)})
    links = pl.DataFrame({"user": np.arange(39), "friend": np.arange(1, 40)})
    return {
        "lists": pr.Rankings.from_lists(LISTS),
        "ratings": rated,
        "features": rated.with_features(items=items, users=users).with_links(links),
        "full": pr.Rankings.from_lists(full),
        "sets": pr.Rankings.from_interactions(ratings.drop("rating")),
    }


def digest(value: Any) -> str:
    """A short name of an answer, the same for the same bits only."""
    if isinstance(value, pl.DataFrame):
        value = [(column, value[column].to_list()) for column in value.columns]
    elif isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            plain = (value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())
            return hashlib.sha256(repr(plain).encode()).hexdigest()[:12]
        value = value.tolist()
    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]


def questions(model: Any, data: pr.Rankings, name: str) -> dict[str, Any]:
    """Everything that can be asked of a model of these data."""
    user, items = data.user_ids.ids[0], data.item_ids.ids.to_list()
    try:
        new = model.fold_in(items[:3])
    except pr.errors.InputError:  # whole rankings only
        new = model.fold_in(items)
    asked = {
        "score": lambda: model.score(user),
        "score_new": lambda: model.score(new),
        "score_pairs": lambda: model.score_pairs([user] * 4, items[:4]),
        "rank": lambda: model.rank(user, items[:5]),
        "recommend": lambda: model.recommend(user, 3),
        "recommend_new": lambda: model.recommend(new, 3),
        "prefers": lambda: model.prefers(user, items[0], items[3]),
        "prefers_new": lambda: model.prefers(new, items[0], items[3]),
        "top": lambda: model.top_probability(user, items[:4], 2),
        "positions": lambda: model.position_probabilities(user, items[-1]),
        "sample": lambda: model.sample(user, items[:4], size=5, seed=3),
        "log_likelihood": lambda: model.log_likelihood(data),
        "similar_items": lambda: model.similar_items(items[0], 3),
        "similar_users": lambda: model.similar_users(user, 3),
        "rank_new": lambda: model.rank(new, items[:5]),
        "recommend_all": lambda: model.recommend(None, 3, interval=True),
        "recommend_several": lambda: model.recommend([user, new], 3),
        "prefers_pairs": lambda: model.prefers_pairs([user] * 3, items[:3], items[1:4]),
        "explain": lambda: model.explain(user, items[-1]),
        "tie_groups": lambda: model.tie_groups(user, items[:5]),
        "summary": lambda: model.summary(),
        "effects": lambda: model.effects(),
        "distribution": lambda: model.distribution(user, items[:4]).log_probability([1, 0, 2, 3]),
        "evaluate": lambda: pr.evaluate(model, data, metrics=["ndcg"]).means(),
    }  # fmt: skip
    if name == "lists":
        asked |= {f"contract.{question}": lambda ask=ask: ask(model) for question, ask in QUESTIONS.items()}
    found = {}
    for question, ask in asked.items():
        try:
            found[question] = digest(ask())
        except (pr.errors.PermrankError, AttributeError, ValueError) as error:
            found[question] = f"{type(error).__name__}"
    return found


def grown(model: Any, data: pr.Rankings) -> dict[str, str]:
    """Digests of scores after `partial_fit` of a new user, and of a new item."""
    users, items = data.user_ids.ids.to_list(), data.item_ids.ids.to_list()
    known, new_user = users[0], max(users) + (1 if isinstance(users[0], int) else "x")
    new_item = max(items) + (1 if isinstance(items[0], int) else "x")

    def said(user: Any, *listed: Any) -> pr.Rankings:
        if data.ratings is None:
            return pr.Rankings.from_lists({user: list(listed)})
        return pr.Rankings.from_ratings(
            {"user": [user] * len(listed), "item": listed, "rating": [5.0, 1.0][: len(listed)]}
        )

    changes = {
        "partial_fit": lambda: model.partial_fit(said(new_user, items[0], items[1])).score(new_user),
        "fold_in_item": lambda: model.fold_in_item(new_item, rankings=said(known, new_item, items[1])).score(known),
    }
    found = {}
    for name, change in changes.items():
        try:
            found[name] = digest(change())
        except (pr.errors.PermrankError, AttributeError, TypeError, ValueError) as error:
            found[name] = type(error).__name__
    return found


def fingerprint(model: Any, data: pr.Rankings, name: str) -> dict[str, str]:
    """Digests of the saved tensors, the trace, the answers, and a validation's curve."""
    try:
        fitted = model.clone().fit(data)
    except pr.errors.PermrankError as error:
        return {"fit": type(error).__name__}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        fitted.save(path)
        found = {f"tensor.{key}": digest(value) for key, value in load_file(path).items()}
    found |= {"n_iter": str(fitted.n_iter_), "converged": str(fitted.converged_)}
    found |= questions(fitted, data, name)
    if model.resumable:
        unlisted = [sorted(set(data.item_ids) - set(data.item_ids.take(data.items_of(u)))) for u in range(data.n_users)]
        asked = [(user, items[:4]) for user, items in zip(data.user_ids, unlisted, strict=True) if len(items) > 1][:1]
        for patience in (None, 2) if asked else ():
            held = pr.Rankings.from_lists(dict(asked), items=data.item_ids)
            validation = pr.Validation(held, "pairs_right", every=2, patience=patience)
            judged = model.clone().fit(data, validation=validation)
            found[f"validation.{patience}"] = digest(judged.validation_)
            found[f"validation.{patience}.score"] = digest(judged.score(data.user_ids.ids[0]))
        with tempfile.TemporaryDirectory() as folder:
            path = pr.Checkpoint(Path(folder) / "c", every=2)
            stop = max(1, fitted.n_iter_ // 2)
            model.clone().fit(data, checkpoint=path, callback=lambda progress: progress.iteration == stop)
            resumed = model.clone().fit(data, checkpoint=path)
            found["resumed"] = digest(resumed.score(data.user_ids.ids[0])) + f" {resumed.n_iter_}"
    return found | grown(fitted, data)


def main() -> int:
    """Take the digests, and compare them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", nargs="+", default=list(SETTINGS))
    options = parser.parse_args()
    found = {}
    for name in options.only:
        begin = time.perf_counter()
        for settings in SETTINGS[name]:
            for kind, data in data_sets().items():
                found[f"{name} {settings} {kind}"] = fingerprint(getattr(pr, name)(**settings), data, kind)
        print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if not options.against:
        return 0
    before = json.loads(options.against.read_text(encoding="utf-8"))
    changed = [
        f"{case}: {question} was {then}, is {found[case].get(question)}"
        for case in found
        for question, then in before[case].items()
        if found[case].get(question) != then
    ]
    print("\n".join(changed) or f"{sum(map(len, found.values()))} digests, none changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
