"""Whether the posterior is to be believed: simulation-based calibration, and the weights of the parts of a score."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare

import permrank as pr
from permrank.kernels.lists import Lists
from permrank.kernels.luce.likelihood import BRESLOW
from permrank.posterior.chain import draw_posterior, error_of_mean
from permrank.posterior.kernels.arguments import Entries, Newton, Noise, Prior, Users
from permrank.posterior.kernels.users import move_users
from permrank.posterior.problem import Problem
from permrank.posterior.store import Draws
from permrank.posterior.weights import HeldOut, _best, best_weights, hold_out_folds, hold_out_pairs

N_USERS, N_ITEMS, LENGTH, CUTS = 120, 25, 8, (-3.0, -1.0, 1.0, 3.0)


def planted(kind, seed):
    """Scores drawn from the prior, and strict lists or ratings that follow from them."""
    rng = np.random.default_rng([seed, 77])
    variances = np.array([0.5, 0.5]) if kind == "lists" else np.array([2.0, 1.0]) / 3.0  # 1, 1/2 with odds
    factors = np.sqrt(variances) * rng.normal(size=(N_ITEMS, 2))
    scores = rng.normal(size=N_ITEMS) + rng.normal(size=(N_USERS, 2)) @ factors.T
    listed = np.array([rng.permutation(N_ITEMS)[:LENGTH] for _ in range(N_USERS)])
    own = np.take_along_axis(scores, listed, 1)
    if kind == "lists":
        order = np.argsort(-(own + rng.gumbel(size=own.shape)), axis=1)
        return pr.Rankings.from_lists(np.take_along_axis(listed, order, 1).tolist()), scores
    stars = np.searchsorted(CUTS, own + rng.normal(size=(N_USERS, 1)) + rng.logistic(size=own.shape))
    users = np.repeat(np.arange(N_USERS), LENGTH)
    return pr.Rankings.from_ratings({"user": users, "item": listed.ravel(), "rating": stars.ravel()}), scores


@pytest.mark.parametrize("kind", ["lists", "ratings"])
def test_planted_differences_lie_anywhere_among_their_draws(kind):
    """Talts et al. (2018): the rank of what was planted among draws of its posterior is uniform."""
    ranks, control = [], []
    for seed in range(6):
        rankings, scores = planted(kind, seed)
        model = pr.FactoredPlackettLuce(2, max_iter=80, co_listing=False, seed=seed).fit(rankings)
        model.fitted_ = model.fitted_.with_estimate(temperature=1.0, personal_weight=1.0)  # the posterior itself
        names = np.array(model.item_ids.ids.to_list())
        rng = np.random.default_rng(seed)
        for user in range(0, N_USERS, 2):
            pair = rng.permutation(names.size)[:2]
            draws = model._score_draws(model.fitted_, model.person(model.user_ids[user]), pair)
            found = draws[:, 0] - draws[:, 1]
            truth = scores[user, names[pair[0]]] - scores[user, names[pair[1]]]
            ranks.append(np.mean(found < truth))
            control.append(np.mean(found.mean() + 0.5 * (found - found.mean()) < truth))
    uniform, narrow = (chisquare(np.histogram(each, 8, (0.0, 1.0))[0]).pvalue for each in (ranks, control))
    assert uniform > 1e-4
    assert narrow < 1e-8  # draws half as far from their mean are told apart


def test_noise_of_the_stages_has_the_covariance_by_which_curvature_exceeds_the_hessian():
    rng = np.random.default_rng(3)
    n, n_users, weight = 5, 40_000, 1.7
    levels = np.array([0, 0, 1, 2, 2], np.int32)
    one, items = np.arange(n_users + 1), np.tile(np.arange(n, dtype=np.int32), n_users)
    lists = Lists(one, n * one, items, np.tile(levels, n_users), np.full(n_users, weight))
    theta = np.column_stack((np.zeros(n), rng.normal(size=n)))  # factors of 0: a draw of the user changes no score
    prior = Prior(np.zeros((n_users, 0)), np.zeros((0, 1)), np.ones(1), np.zeros((n_users, 0)))
    found = []
    for draw in (True, False):
        entries, users = Entries(np.empty(items.size), np.empty(items.size)), Users(*np.zeros((2, n_users, 1)))
        move_users(lists, BRESLOW, theta, prior, users, Newton(1, 1e-6), Noise(np.uint64(5), draw), entries)
        found.append(entries.residual.reshape(n_users, n))
    noise, worths = found[0] - found[1], np.exp(theta[:, 1])
    expected = np.zeros((n, n))
    for first, choices in ((0, 2.0), (2, 1.0), (3, 2.0)):  # Breslow: all choices of a tie are made among the same items
        shares = np.where(np.arange(n) >= first, choices * worths / worths[first:].sum(), 0.0)
        expected += weight * np.outer(shares, shares) / choices
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, rtol=0, atol=0.05)
    np.testing.assert_allclose(noise.T @ noise / n_users, expected, rtol=0, atol=0.05 * expected.max())
    assert expected.max() > 1.0


@pytest.mark.parametrize(("temperature", "personal"), [(1.0, 0.3), (0.6, 1.0), (2.0, 2.0)])
def test_planted_weights_of_both_parts_are_found(temperature, personal):
    rng = np.random.default_rng(6)
    n, n_items = 20_000, 300
    theta, modes = rng.normal(size=(n_items, 2)), rng.normal(size=(n, 1))
    pairs = rng.integers(0, n_items, (n, 2))
    rows = theta[pairs[:, 0]] - theta[pairs[:, 1]]
    first = rng.random(n) < expit(temperature * (rows[:, 1] + personal * rows[:, 0] * modes[:, 0]))
    better, worse = np.where(first, pairs[:, 0], pairs[:, 1]), np.where(first, pairs[:, 1], pairs[:, 0])
    folds = [HeldOut(None, np.flatnonzero(part), better[part], worse[part]) for part in (first, ~first)]
    for fold in folds:
        for _ in range(4):
            fold.observe(theta, modes, np.zeros((n, 1)), np.zeros(n_items))
    np.testing.assert_allclose(best_weights(folds), (temperature, personal), rtol=0.1)
    half = folds[0].state()
    again = HeldOut(None, folds[0]._users, folds[0]._better, folds[0]._worse)
    again.restore(half)
    assert best_weights([again, folds[1]]) == best_weights(folds)


def test_folds_take_turns_with_the_users_and_then_with_the_entries():
    rng = np.random.default_rng(1)
    rows = [(u, int(i), int(rng.integers(1, 6))) for u in range(60) for i in rng.permutation(30)[:10]]
    users, items, ratings = zip(*rows, strict=True)
    rankings = pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})
    problem = Problem.of(rankings, BRESLOW, shuffle=False, intercepts=True)
    assert len(hold_out_folds(problem, 9, 4)) == 4
    folds = [hold_out_pairs(problem, 9, fold) for fold in range(3)]
    people = [set(fold._users.tolist()) for fold in folds]
    assert not people[0] & people[1]
    assert len(people[0] & people[2]) > 0
    assert set(folds[0]._better.tolist()) != set(folds[2]._better.tolist())
    for fold in folds:  # nobody is asked about an item that is in no list that is left
        left = set(fold.problem.rankings.items.tolist())
        assert set(fold._better.tolist()) | set(fold._worse.tolist()) <= left


def test_a_run_goes_on_to_the_same_bits_from_any_fold():
    rankings, _ = planted("ratings", 3)
    problem = Problem.of(rankings, BRESLOW, shuffle=False, intercepts=True, thresholds=np.arange(0.5, 4.0))
    keeper = partial(Draws, rankings.n_users, rankings.n_items, 2)
    learner = draw_posterior(problem, 2, 1.0, 4, np.uint64(7), 200, keeper)
    kept, wanted = {}, None
    for number, step in enumerate(learner(None)):
        if number in (20, 50, 75, 100, 140):  # within a fold, between folds, at their end, after them
            kept[number] = {name: np.copy(x) if np.ndim(x) else x for name, x in step.state().items()}
        wanted = step.estimate()
    assert wanted.weights != (1.0, 1.0)
    for state in kept.values():
        *_, last = learner(state)
        found = last.estimate()
        assert found.weights == wanted.weights
        np.testing.assert_array_equal(found.items, wanted.items)
        np.testing.assert_array_equal(found.mean.users, wanted.mean.users)


def test_the_error_of_a_mean_is_seen_in_its_halves():
    rng = np.random.default_rng(4)
    truth, n = rng.normal(size=4_000), 40
    noisy = truth + 0.6 * rng.normal(size=(n, truth.size))
    assert error_of_mean(noisy) == pytest.approx(0.36 / n, rel=0.2)
    drifting = noisy + np.linspace(-0.5, 0.5, n)[:, None] * rng.normal(size=truth.size)
    assert error_of_mean(drifting) > 5 * 0.36 / n  # a chain that has not arrived is told apart
    assert error_of_mean(rng.normal(size=(n, 3))) > 0.1  # nothing but noise
    assert error_of_mean(noisy[:1]) == 1.0


def test_draws_end_when_they_are_steady_and_say_so():
    rankings, _ = planted("ratings", 1)
    short = pr.FactoredPlackettLuce(2, max_iter=20, co_listing=False).fit(rankings)
    whole = pr.FactoredPlackettLuce(2, co_listing=False).fit(rankings)
    assert not short.converged_
    assert short.n_iter_ == 20
    assert whole.converged_
    assert 40 < whole.n_iter_ < 400
    assert whole.score_error_ < short.score_error_


def test_weights_of_few_draws_are_those_of_many():
    """A mean over few draws is noisy, for which the weights would be made smaller than those of the answers."""
    rng = np.random.default_rng(8)
    n, deviation = 40_000, 1.2
    centre = rng.normal(size=n)  # of the posterior of the user's part; the item's part is known
    common = rng.normal(size=(n, 2))
    first = rng.random(n) < expit(common[:, 0] - common[:, 1] + 1.4 * (centre + deviation * rng.normal(size=n)))
    better, worse = np.where(first, 0, 1), np.where(first, 1, 0)

    def weights(n_draws, *, halves=True):
        fold = HeldOut(None, np.arange(n), 2 * np.arange(n) + better, 2 * np.arange(n) + worse)
        for _ in range(n_draws):
            modes = (centre + deviation * rng.normal(size=n))[:, None]
            theta = np.column_stack((np.tile([0.5, -0.5], n), common.ravel()))
            fold.observe(theta, modes, np.zeros((n, 1)), np.zeros(2 * n))
        return np.array(best_weights([fold]) if halves else np.exp(_best([fold.moments(slice(None))])))

    many = weights(64)
    corrected, plain = np.abs(np.log(weights(8) / many)), np.abs(np.log(weights(8, halves=False) / many))
    assert corrected[1] < 0.5 * plain[1]
