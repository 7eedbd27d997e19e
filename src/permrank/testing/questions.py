"""Small data, and everything that a model may be asked about them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.evaluation.evaluate import evaluate
from permrank.rankings.rankings import Rankings
from permrank.types import Named

LISTS: dict[str, list[object]] = {
    "ann": ["toro", "ebi", "uni", "ika"],
    "bob": ["ebi", {"toro", "uni"}],
    "cat": ["ika", "toro", "ebi", "tako"],
    "dan": [{"tako", "uni"}, "ika", "toro"],
    "eve": ["uni", "toro", "tako", "ika", "ebi"],
    "fay": ["toro"],
    "gus": [],
}
# Everything that a model may be asked beyond scores, by the name of the method.
QUESTIONS: dict[str, Callable[[Ranker], object]] = {
    "prefers": lambda m: m.prefers("ann", "toro", "tako"),
    "top_probability": lambda m: m.top_probability("ann", ["tako", "toro", "uni"], 2),
    "position_probabilities": lambda m: m.position_probabilities("bob", "tako"),
    "sample": lambda m: m.sample("ann", ["tako", "toro", "uni"], size=4, seed=3),
    "log_likelihood": lambda m: m.log_likelihood(Rankings.from_lists({"ann": ["toro", "tako"]})),
    "similar_items": lambda m: m.similar_items("toro", 2),
    "similar_users": lambda m: m.similar_users("ann", 2),
}


# Parameters that take memory or time in proportion, and are bounded.
LIMITED = {
    "n_factors",
    "n_communities",
    "n_starts",
    "n_draws",
    "n_steps",
    "max_iter",
    "degree",
    "n_partners",
    "max_pairs",
}
# Values of which some differ from any default and are allowed for any parameter.
VALUES: list[object] = [
    False, True, 3, 4, 2.0, 0.5, "auto", "listed", "shuffle", "exact", "efron", "breslow", "rao-kupper", "davidson",
    "point", "draws", "log", "none", "list", "stage", "mode", "expected", "gradient", "mm", "newton", "kendall",
    "spearman", "gamma", "gaussian", "linear", "centred", "squared", "ndcg", "listmle", "listnet", "windows", "swaps",
    "hinge", "logistic", "published", "entries", "swap", "sublist", "odds", "lists",
    pl.DataFrame({"item": ["ebi", "ika", "tako", "toro", "uni"], "price": [1.0, 2, 3, 4, 5]}), None,
]  # fmt: skip
# Other values of parameters that are only allowed together with others.
NOT_ALONE: Named = {"damping": "log", "degree": 2, "method": "draws"}


def another(model: Ranker, name: str, given: Named) -> object:
    """Another value of a parameter that the model would take; some are given."""
    now = getattr(model, name)
    for value in VALUES:
        if repr(value) != repr(now):
            try:
                model.clone().set_params(**{name: value})._validate()
            except InputError:
                continue
            return value
    found = NOT_ALONE | given
    if name in found:
        return found[name]
    raise AssertionError(f"no other value is known that {name} of {type(model).__name__} takes; add one to `other`")


def all_answers(model: Ranker, supports: frozenset[str]) -> Named:
    """Everything that can be asked, by question."""
    new = model.fold_in(["toro", "ika", "ebi"])
    return {
        "score": model.score("ann"),
        "score of a new user": model.score(new),
        "score_pairs": model.score_pairs(["ann", "eve", "gus"], ["toro", "tako", "uni"]),
        "rank": model.rank("ann", ["tako", "ebi", "uni", "toro"]),
        "recommend": model.recommend("bob"),
        "evaluate": evaluate(model, Rankings.from_lists({"ann": ["tako", "toro"]}), metrics=["ndcg"]).means(),
        **{name: ask(model) for name, ask in QUESTIONS.items() if name in supports},
    }


def assert_same(answers: Named, others: Named) -> None:
    """Raise unless all answers are equal, to the last bit."""
    for question, answer in answers.items():
        other = others[question]
        same = answer.equals(other) if isinstance(answer, pl.DataFrame) else np.array_equal(answer, other)
        assert same, question
