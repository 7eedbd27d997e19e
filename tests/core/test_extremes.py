"""The largest weights and ratings that data may have: every model learns from them, or says why not."""

import itertools
import warnings

import numpy as np
import pytest

import permrank as pr
from permrank.core.registry import find
from permrank.families import MODELS
from permrank.rankings.build import MOST_RATING, MOST_WEIGHT

ORDERS = [list(order) for order in itertools.permutations("abcde")][::6]
ONE = np.ones(len(ORDERS))
ONE[3] = MOST_WEIGHT


def voters(weights):
    return pr.Rankings.from_lists({f"u{n:02}": order for n, order in enumerate(ORDERS)}, weights=weights)


def rated(*extremes):
    rows = [(user, item) for user in range(20) for item in "abcde"]
    ratings = np.random.default_rng(0).integers(1, 6, len(rows)).astype(float)
    ratings[[7, 12][: len(extremes)]] = extremes
    users, items = zip(*rows, strict=True)
    return pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})


DATA = {
    "all weights large": voters(MOST_WEIGHT * np.ones(len(ORDERS))),
    "one weight large": voters(ONE),
    "far apart": voters(np.where(ONE > 1.0, MOST_WEIGHT, 1.0 / MOST_WEIGHT)),
    "ballots": pr.Rankings.from_lists(ORDERS, weights=MOST_WEIGHT * np.ones(len(ORDERS))),
    "ratings": rated(MOST_RATING, -MOST_RATING),
    "one rating": rated(MOST_RATING),
    "small ratings": rated(1e-300, -1e-300),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_the_largest_numbers_without_overflow(name):
    for case, rankings in DATA.items():
        model = find(name)()
        settings = {"prior": "gaussian"} | ({} if name == "Recommender" else {"max_iter": 30})
        model.set_params(**{key: settings[key] for key in settings if key in model.get_params()})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            if name == "FactoredThurstone" and case == "ballots":
                with pytest.raises(pr.errors.InputError, match=r"stand for .* people, more than 5,000,000; take a"):
                    model.fit(rankings)
                continue
            model.fit(rankings)
        assert np.isfinite(model.score(rankings.user_ids[0])).all(), case
