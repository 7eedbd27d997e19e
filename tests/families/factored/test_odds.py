"""Ratings by proportional odds: thresholds and levels."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import permrank as pr
from permrank.posterior import sampler as posterior
from permrank.posterior.odds import moved_thresholds, settle_levels
from permrank.posterior.problem import Problem
from permrank.posterior.sampler import Sampler


def planted(n_users=800, n_items=40, n_each=10, *, level=1.5, taste=1.0, cuts=(-3.0, -1.0, 0.5, 2.5), seed=0):
    """Ratings 1 to 5 from proportional odds, with levels of the users, and the scores without levels."""
    rng = np.random.default_rng(seed)
    of_items, factors = rng.normal(size=n_items), rng.normal(size=(n_items, 2))
    scores = of_items + taste / np.sqrt(2.0) * rng.normal(size=(n_users, 2)) @ factors.T
    listed = np.array([rng.permutation(n_items)[:n_each] for _ in range(n_users)])
    noisy = np.take_along_axis(scores, listed, 1) + level * rng.normal(size=(n_users, 1))
    noisy += rng.logistic(size=noisy.shape)
    stars = 1 + np.searchsorted(cuts, noisy)
    users = np.repeat(np.arange(n_users), n_each)
    return pr.Rankings.from_ratings({"user": users, "item": listed.ravel(), "rating": stars.ravel()}), scores


def fitted(rankings, **given):
    parameters = {"n_factors": 3, "max_iter": 150, **given}
    return pr.FactoredPlackettLuce(**parameters).fit(rankings)


def test_thresholds_go_to_the_maximum_of_the_likelihood_that_another_algorithm_finds():
    rng = np.random.default_rng(2)
    scores, cuts = rng.normal(size=4_000), np.array([-1.5, -0.2, 1.8])
    below = np.searchsorted(cuts, scores + rng.logistic(size=scores.size))

    def loss(c):
        edges = np.concatenate(([-np.inf], c, [np.inf]))
        if (np.diff(c) <= 0).any():
            return np.inf
        p = expit(scores - edges[below]) - expit(scores - edges[below + 1])
        return -np.log(p).sum() - np.log(-np.expm1(-np.diff(c))).sum() + np.sum(c**2) / 200  # as the model's prior

    def sums(c):
        found = np.zeros((3, 3))
        for j in range(3):
            p, q = expit(c[j] - scores[below == j + 1]), expit(scores[below == j] - c[j])
            found[j] = q.sum() - p.sum(), np.sum(q * (1 - q)) + np.sum(p * (1 - p)), q.size
        return found

    found = np.array([-0.1, 0.0, 0.1])
    for _ in range(40):
        found = moved_thresholds(found, sums(found), np.zeros(3))
        assert (np.diff(found) > 0).all()
    expected = minimize(loss, cuts, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4_000}).x
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found, cuts, rtol=0, atol=0.25)


def test_noise_of_thresholds_has_the_covariance_of_their_posterior():
    """A wrong matrix ends at the same maximum, more slowly; the draws around it tell."""
    at, bend, n_between = np.array([-1.0, 0.2, 0.9]), np.array([30.0, 50.0, 20.0]), np.array([9.0, 14.0, 25.0])

    def gaps(c):  # what moves thresholds apart; the sums have all else
        return np.sum((n_between[1:] + 1.0) * np.log(-np.expm1(-np.diff(c))))

    h, steps = 1e-4, 1e-4 * np.eye(3)
    hessian = [
        [(gaps(at + a + b) - gaps(at + a - b) - gaps(at - a + b) + gaps(at - a - b)) for b in steps] for a in steps
    ]
    information = np.diag(bend + 1 / 10.0**2) - np.array(hessian) / (4 * h * h)
    sums = np.column_stack((np.zeros(3), bend, n_between))
    middle = moved_thresholds(at, sums, np.zeros(3))
    roots = np.array([moved_thresholds(at, sums, 1e-3 * e) - middle for e in np.eye(3)]) / 1e-3
    np.testing.assert_allclose(np.linalg.inv(roots.T @ roots), information, rtol=1e-5, atol=1e-3)


def test_settling_levels_changes_no_difference_between_a_score_and_a_threshold():
    rng = np.random.default_rng(3)
    theta, modes = rng.normal(size=(7, 4)), rng.normal(2.0, 3.0, size=(50, 3))
    theta[:5, 2], theta[5:, :3] = 0.8, 0.0
    draws = modes + 0.1

    def margins(users):
        return (users @ theta[:5, :3].T + theta[:5, 3])[:, :, None] - theta[5:, 3]

    before = margins(draws)
    settle_levels(theta, modes, draws, np.zeros(50), 2)
    np.testing.assert_allclose(margins(draws), before, rtol=0, atol=1e-9)
    np.testing.assert_allclose(draws[:, 2].mean(), 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(draws[:, 2].std(), 1.0, rtol=0, atol=0.02)
    assert np.unique(theta[:5, 2]).size == 1


def test_planted_levels_thresholds_and_scores_are_found():
    rankings, truth = planted()
    model = fitted(rankings)
    assert model.estimate_.odds
    assert model.estimate_.n_factors == 3
    assert model.user_modes_.shape[2] == 4
    cuts = model.item_draws_[:, 40:, -1].mean(axis=0)
    np.testing.assert_allclose(np.diff(cuts), [2.0, 1.5, 2.0], rtol=0.2)
    np.testing.assert_allclose(model.item_draws_[:, 0, -2].mean(), 1.5, rtol=0.2)
    alike = [np.corrcoef(model.score(u, range(40)), truth[u])[0, 1] for u in range(0, 800, 8)]
    assert np.mean(alike) > 0.75
    # The control: people without levels of their own.
    even = fitted(planted(level=0.0)[0])
    assert even.item_draws_[:, 0, -2].mean() < 0.5


def test_probabilities_come_true():
    rankings, truth = planted(1_500, seed=4)
    model = fitted(rankings)
    rng, predicted, came = np.random.default_rng(0), [], []
    for u in range(0, 1_500, 5):
        pairs = rng.integers(40, size=(20, 2))
        draws = model._score_draws(model.fitted_, model.person(u), np.arange(40))
        predicted += np.mean(expit(draws[:, pairs[:, 0]] - draws[:, pairs[:, 1]]), axis=0).tolist()
        noisy = truth[u, pairs] + rng.logistic(size=pairs.shape)
        came += (noisy[:, 0] > noisy[:, 1]).tolist()
    predicted, came = np.array(predicted), np.array(came)
    for low in np.arange(0.0, 1.0, 0.2):
        part = (predicted >= low) & (predicted < low + 0.2)
        if part.sum() > 300:
            assert abs(predicted[part].mean() - came[part].mean()) < 0.08


def test_a_fine_scale_is_cut_at_its_quantiles():
    rng = np.random.default_rng(5)
    listed = np.array([rng.permutation(60)[:10] for _ in range(100)])
    rows = {"user": np.repeat(np.arange(100), 10), "item": listed.ravel(), "rating": rng.normal(size=1_000)}
    model = pr.FactoredPlackettLuce(3, max_iter=10).fit(pr.Rankings.from_ratings(rows))
    assert model.estimate_.odds
    assert model.thresholds_.size == 31


def test_new_people_are_told_from_ratings_and_from_lists():
    rankings, _ = planted(400)
    model = fitted(rankings, max_iter=60)
    for user in range(5):
        part = slice(rankings.indptr[user], rankings.indptr[user + 1])
        said = dict(zip(rankings.item_ids.take(rankings.items[part]).to_list(), rankings.ratings[part], strict=True))
        new = model.fold_in(said)
        # Means over the few draws that are kept whole, and over all of them.
        assert np.corrcoef(model.score(new), model.score(user))[0, 1] > 0.99
        explained = model.explain(new, 3)
        np.testing.assert_allclose(explained["contribution"].sum(), model.score(new, [3])[0], rtol=1e-6)
        best = sorted(said, key=said.get, reverse=True)
        listed = model.fold_in(best)
        assert model.score(listed, best[:3]).mean() > model.score(listed, best[-3:]).mean()
    generous, strict = (model.fold_in(dict.fromkeys(range(6), stars)) for stars in (5, 1))
    levels = [new.state["modes"][:, -1].mean() * model.item_draws_[:, 0, -2].mean() for new in (generous, strict)]
    assert levels[0] > levels[1] + 1.0
    assert abs(model.score(generous).mean() - model.score(strict).mean()) < 0.5  # a level is not of the items


def test_files_keep_the_likelihood(tmp_path):
    rankings, _ = planted(60)
    path = tmp_path / "model.permrank"
    for odds in (True, False):
        model = fitted(rankings, max_iter=12, n_draws=3, rating_thresholds=odds)
        model.save(path)
        loaded = pr.load(path)
        assert loaded.estimate_.odds == odds
        np.testing.assert_array_equal(*(one.score(one.fold_in({0: 5, 1: 2})) for one in (loaded, model)))
    loaded.partial_fit(pr.Rankings.from_ratings({"user": [99, 99], "item": [0, 41], "rating": [5, 1]}))
    assert not loaded.estimate_.odds
    assert loaded.score(99).shape == (41,)


def test_the_problem_has_a_threshold_count_for_every_entry():
    rankings, _ = planted(20)
    problem = Problem.of(rankings, 0, shuffle=True, intercepts=True, thresholds=np.array([1.5, 2.5, 3.5, 4.5]))
    np.testing.assert_array_equal(problem.lists.levels, rankings.ratings.astype(int) - 1)
    assert not problem.shuffle
    assert problem.n_rows == rankings.n_items + 4


@pytest.mark.parametrize("ties", ["breslow", "shuffle"])
def test_without_intercepts_they_are_zero(ties):
    model = fitted(planted(60)[0], max_iter=12, n_draws=3, intercepts=False, ties=ties)
    np.testing.assert_allclose(model.item_draws_[:, :40, -1], 0.0, rtol=0, atol=1e-9)


def test_an_item_far_from_where_its_ratings_belong_comes_back(monkeypatch):
    rng = np.random.default_rng(12)
    rows = [(user, int(item), float(rng.integers(1, 11))) for user in range(60) for item in rng.choice(30, 8, False)]
    rows += [(0, 30, 1.0), (1, 30, 2.0)]  # an item of two ratings, both low
    users, items, ratings = zip(*rows, strict=True)
    rankings = pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})
    problem = Problem.of(rankings, 0, shuffle=False, intercepts=True, thresholds=np.arange(1.5, 10.0))

    def farthest():
        sampler = Sampler(problem, 2, 1.0, np.uint64(3), None)
        for number in range(12):
            sampler.sweep(number, keep=False)
        sampler.theta[30, -1] = 60.0
        for number in range(12, 60):
            sampler.sweep(number, keep=False)
        return np.abs(sampler.theta[:, -1]).max()

    assert farthest() < 40.0
    monkeypatch.setattr(posterior, "_LONGEST_STEP", np.inf)  # control: a Newton step of any length
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="infs or NaNs"):
        farthest()
