"""A model that cannot answer names some that can."""

import pytest

import permrank as pr
from permrank.core.fitted import ABLE, PROBABLE
from permrank.errors import NotSupportedError

# What a model has that answers a question, and others do not.
OWN = {
    "explain": "_reasons",
    "similar_items": "_item_likeness",
    "similar_users": "_user_likeness",
    "tie_groups": "_score_draws",
}


def test_those_that_are_named_can():
    for name in PROBABLE:
        assert getattr(pr, name)._law is not pr.Ranker._law
    for question, names in ABLE.items():
        own = OWN[question]
        for name in names:
            assert getattr(getattr(pr, name), own) is not getattr(pr.Ranker, own), (question, name)


@pytest.mark.parametrize(("question", "named"), [("explain", "Recommender and FactoredPlackettLuce can")])
def test_a_refusal_names_them(question, named):
    model = pr.PlackettLuce().fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"]]))
    with pytest.raises(NotSupportedError, match=named):
        model.explain(0, "a")
