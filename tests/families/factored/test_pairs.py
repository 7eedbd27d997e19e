"""Pairs in closed form: `prefers` against many draws of the user and the items."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import permrank as pr
from permrank.families.factored import undamped
from permrank.families.factored.model import _near_modes
from permrank.posterior.side_information import evidence_of

N_ITEMS = 12


def simulated(kind):
    """People who differ, with ratings or with lists."""
    rng = np.random.default_rng(4)
    tastes = rng.normal(size=(60, 2)) @ rng.normal(size=(2, N_ITEMS)) + rng.normal(size=N_ITEMS)
    worths = tastes + rng.gumbel(size=tastes.shape)
    some = [rng.permutation(N_ITEMS)[:7] for _ in tastes]
    if kind == "lists":
        return pr.Rankings.from_lists(
            {u: items[np.argsort(-worths[u, items])].tolist() for u, items in enumerate(some)}
        )
    rows = [
        (u, int(y), float(np.clip(np.round(3 + worths[u, y]), 1, 5))) for u, items in enumerate(some) for y in items
    ]
    users, items, ratings = zip(*rows, strict=True)
    return pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})


@pytest.fixture(scope="module", params=["ratings", "lists"])
def model(request):
    made = pr.FactoredPlackettLuce(3, max_iter=60, n_draws=8, seed=2).fit(simulated(request.param))
    wide = replace(made.estimate_, temperature=3.0, personal_weight=1.0)  # whatever was held out
    made.fitted_ = replace(made.fitted_, estimate=wide)
    return made


def people(model):
    said = {1: 5, 4: 2, 6: 1} if model.thresholds_.size else [1, 4, 6]
    return (0, 17, model.fold_in(said))


def test_roots_are_those_of_the_covariance_of_draws(model):
    for user in people(model):
        person = model.person(user)
        evidence, near = evidence_of(model.fitted_, person), _near_modes(model.fitted_, person)
        modes, roots = undamped.user_roots(model.estimate_, evidence, near)
        draws = undamped.user_draws(model.estimate_, evidence, near, 20_000)
        for mode, root, drawn in zip(modes, roots, draws, strict=True):
            whitened = np.linalg.solve(root.T, (drawn - mode).T)
            assert_allclose(np.cov(whitened), np.eye(len(mode)), rtol=0, atol=0.06)
            assert_allclose(whitened.mean(axis=1), 0.0, rtol=0, atol=0.04)
            assert np.abs(np.cov(whitened / 1.1) - np.eye(len(mode))).max() > 0.1  # the control: a wider root


def test_pairs_are_averages_over_draws(model):
    items, fitted, estimate = np.arange(N_ITEMS), model.fitted_, model.estimate_
    first, second = (part.ravel() for part in np.meshgrid(items[:5], items[5:]))
    for user in people(model):
        person = model.person(user)
        users = undamped.user_draws(estimate, evidence_of(fitted, person), _near_modes(fitted, person), 4_000)
        scores = estimate.score_draws(items, users)
        scores += fitted.scores(person, items) - scores.mean(axis=0)
        gaps = scores[:, first] - scores[:, second]
        found = model._prefers(fitted, person, first, second)
        assert_allclose(found, expit(gaps).mean(axis=0), rtol=0, atol=0.02)
        assert np.abs(found - expit(gaps.mean(axis=0))).max() > 0.03  # the control: scores that are known exactly
        assert_allclose(found + model._prefers(fitted, person, second, first), 1.0, rtol=0, atol=1e-7)
        assert_allclose(model.prefers(user, int(first[3]), int(second[3])), found[3], rtol=0, atol=1e-9)


def test_pairs_of_many_users_are_those_of_each(model):
    users, items, others = [3, 0, 3, 5, 0], [1, 2, 3, 4, 7], [2, 2, 9, 1, 0]
    one_by_one = [model.prefers(*each) for each in zip(users, items, others, strict=True)]
    assert one_by_one[1] == 0.5  # an item and itself
    assert_allclose(model.prefers_pairs(users, items, others), one_by_one, rtol=0, atol=1e-9)
