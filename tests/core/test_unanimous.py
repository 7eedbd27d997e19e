"""People who all agree: no maximum-likelihood estimate exists, and a learnt variance would grow for ever."""

import numpy as np
import pytest

import permrank as pr
from permrank.families.thurstone import priors as thurstone
from permrank.posterior import prior_means
from permrank.posterior.problem import Problem
from permrank.posterior.sampler import Sampler

LISTS = pr.Rankings.from_lists({f"u{k}": list("abcdefgh") for k in range(30)})
RATINGS = pr.Rankings.from_ratings({
    "user": np.repeat(np.arange(30), 6), "item": np.tile(np.arange(6), 30), "rating": np.tile(np.arange(6.0), 30),
})  # fmt: skip


@pytest.mark.parametrize(
    ("model", "rankings"),
    [
        (pr.FactoredPlackettLuce(), LISTS),
        (pr.FactoredPlackettLuce(), RATINGS),
        (pr.PairwiseLogLinear(), LISTS),
        (pr.FactoredThurstone(max_iter=60, n_draws=8), RATINGS),
        (pr.Recommender(), RATINGS),
    ],
    ids=lambda given: type(given).__name__,
)
def test_the_default_fit_ends_in_a_model_that_can_be_saved(model, rankings, tmp_path):
    path = tmp_path / "m.permrank"
    model.clone().fit(rankings).save(path)
    loaded, user, items = pr.load(path), rankings.user_ids[0], rankings.item_ids.ids.to_list()
    best, worst = (items[0], items[-1]) if rankings is LISTS else (items[-1], items[0])
    assert np.isfinite(loaded.score(user, items)).all()
    assert loaded.prefers(user, best, worst) > 0.95


def test_the_scale_of_the_intercepts_stays_where_it_tells_items_apart(monkeypatch):
    lists = pr.Rankings.from_lists({f"u{k}": [f"i{j:02d}" for j in range(20)] for k in range(30)})
    problem = Problem.of(lists, 0, shuffle=False, intercepts=True)

    def deviation():
        sampler = Sampler(problem, 4, 1.0, np.uint64(3), None)
        for number in range(500):
            try:
                sampler.sweep(number, keep=False)
            except ValueError:  # numbers that are not finite
                return np.inf
        return sampler.theta[:, -1].std()

    assert deviation() < 30.0
    monkeypatch.setattr(prior_means, "_LARGEST_DEVIATION", 1e6)  # control
    with np.errstate(all="ignore"):
        assert deviation() > 60.0


def test_utilities_of_ratings_that_agree_stay_where_thresholds_tell_them_apart(monkeypatch):
    def furthest():
        try:
            model = pr.FactoredThurstone(n_factors=2, max_iter=300, n_draws=8).fit(RATINGS)
        except np.linalg.LinAlgError:
            return np.inf
        return np.abs(model.score(0, range(6))).max()

    assert furthest() < 40.0
    monkeypatch.setattr(thurstone, "_MOST_SPREAD", 1e9)  # control
    with np.errstate(all="ignore"):
        assert furthest() > 60.0
