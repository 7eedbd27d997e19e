"""Features and links: a model learns from them, or says that it does not."""

import warnings

import numpy as np
import pytest

import permrank as pr
from permrank.core.registry import find
from permrank.errors import FeaturesWarning
from permrank.families import MODELS
from permrank.rankings.with_attributes import KINDS

RNG = np.random.default_rng(3)
USERS, ITEMS = [f"u{i:02}" for i in range(24)], list("abcde")
PLAIN = pr.Rankings.from_lists({user: RNG.permutation(ITEMS).tolist() for user in USERS})
WITH = {
    "features of items": PLAIN.with_features(items={"item": [*ITEMS, "f"], "heat": [0.1, 0.7, 0.2, 0.9, 0.5, 0.3]}),
    "features of users": PLAIN.with_features(users={"user": USERS, "age": RNG.normal(size=24)}),
    "links": PLAIN.with_links({"user": USERS[::2], "friend": USERS[1::2]}),
}
CASES = {name: find(name)() for name in MODELS} | {
    "point": pr.FactoredPlackettLuce(2, method="point"),
    "recommender of worths": pr.Recommender(pr.PlackettLuce(prior="gaussian")),
}


def learnt(model, rankings):
    """All numbers that a model learns, and what it does not learn from, as it says."""
    short = {"max_iter": 6, "prior": "gaussian"}
    model = model.clone().set_params(**{name: short[name] for name in short if name in model.get_params()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rankings)
    own = type(model).__name__
    said = [str(w.message).split(";")[0] for w in caught if w.category is FeaturesWarning]
    told = [text for text in said if text.startswith(own)]  # and not the model of order within
    parts = [model, *filter(None, (getattr(model.estimate_, name) for name in model.parts))]
    tensors = [np.ravel(value) for part in parts for value in part.estimate_.tensors().values()]
    return np.concatenate([np.zeros(0), *tensors]), [kind for kind in KINDS if any(kind in text for text in told)]


@pytest.mark.parametrize("name", CASES)
def test_a_model_learns_from_features_and_links_or_says_that_it_does_not(name):
    plain, said = learnt(CASES[name], PLAIN)
    assert not said
    for kind, rankings in WITH.items():
        found, said = learnt(CASES[name], rankings)
        assert said in ([], [kind])
        if said:  # nothing changes
            np.testing.assert_array_equal(found, plain)
        elif kind != "links" or name != "recommender of worths":  # whose weight of friends is 0 here
            assert not np.array_equal(found, plain)


def test_models_of_worths_and_baselines_learn_from_nothing_else():
    for name in ("PlackettLuce", "BradleyTerry", "MeanRating", "Mallows", "LatentPlackettLuce"):
        for kind, rankings in WITH.items():
            assert learnt(CASES[name], rankings)[1] == [kind]
    everything = WITH["features of items"].with_features(users={"user": USERS, "age": RNG.normal(size=24)})
    message = "PlackettLuce.* does not learn from features of items or features of users; .*with_features"
    with pytest.warns(FeaturesWarning, match=message):
        pr.PlackettLuce(prior="gaussian").fit(everything)


def test_a_comparison_has_it_as_a_note():
    split = pr.Given(2).split(WITH["features of items"], seed=0)
    result = pr.evaluate(pr.Borda(), split)
    assert result.notes == ["Borda() does not learn from features of items"]
