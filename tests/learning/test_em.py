"""EM and its acceleration: the objective never falls, and different ways meet."""

import itertools

import numpy as np
import pytest

import permrank as pr
from permrank.families.latent.kernels.stages import BY_LIST, BY_STAGE, EFRON
from permrank.families.latent.learning import CommunityData, Priors, em_update, learner_of, members, starts, warmed
from permrank.learning.learner import run
from permrank.learning.optimisers import expectation_maximisation

MIXING = {"stage": BY_STAGE, "list": BY_LIST}


def random_problem(seed, m_step="mm", n_users=12, n_items=6):
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(n_users):
        order = rng.permutation(n_items)[: rng.integers(1, n_items + 1)].tolist()
        if len(order) > 3 and rng.random() < 0.4:
            order = [order[0], set(order[1:3]), *order[3:]]
        lists.append(order)
    weights = rng.integers(1, 4, n_users)
    rankings = pr.Rankings.from_lists(lists, users=range(n_users), weights=weights, items=range(n_items))
    return CommunityData.of(rankings, rng.normal(size=n_items), EFRON, m_step, None)


def beginning(problem, mixing, seed, n_communities=3, n_starts=2):
    fit = starts(problem, n_communities, n_starts, seed)
    return fit if mixing == "list" else members(problem, fit, np.ones((n_starts, n_communities)))


def climb(problem, mixing, seed, accelerate, max_iter=40, tol=0.0):
    rng = np.random.default_rng(seed)
    priors = Priors(float(rng.choice([0.05, 1.0, 10.0])), np.full((2, 3), float(rng.choice([0.05, 1.0]))))
    learner = learner_of(problem, priors, MIXING[mixing], beginning(problem, mixing, seed), tol, accelerate)
    fitted = run(learner, max_iter=max_iter)
    return fitted.estimate, fitted.history


@pytest.mark.parametrize("mixing", ["stage", "list"])
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_objective_never_falls_over_200_random_problems(mixing, accelerate):
    worst = 0.0
    for seed in range(50):  # of each of the four kinds
        fit, history = climb(random_problem(seed), mixing, seed, accelerate)
        worst = min(worst, np.diff(history).min() / abs(history[-1]))
        assert fit.objectives.mean() >= history[-1] - 1e-9 * abs(history[-1])
    assert worst > -1e-11  # what rounding of a sum leaves


def test_a_step_that_is_too_long_is_noticed():
    """The control: ten times every EM step, without the guard, does fall."""
    falls = 0
    for seed in range(20):
        problem = random_problem(seed)
        update = em_update(problem, Priors(1.0, np.ones((2, 3))), BY_LIST, 3)
        start = beginning(problem, "list", seed)
        point = np.concatenate([start.scores.reshape(2, -1), np.log(start.mixtures).reshape(2, -1)], axis=1)
        values = []
        for _ in range(10):
            new, value = update(point)
            values.append(value.mean())
            point = point + 10.0 * (new - point)
        falls += (np.diff(values) < -1e-9).any()
    assert falls > 10


@pytest.mark.parametrize("mixing", ["stage", "list"])
def test_gradient_and_mm_updates_meet(mixing):
    for seed in range(3):
        reached = []
        for m_step in ("mm", "gradient"):
            problem = random_problem(seed, m_step, n_users=30)
            begin = warmed(random_problem(seed, n_users=30), 2.0, starts(problem, 2, 1, seed))
            if mixing == "stage":
                begin = members(problem, begin, np.ones((1, 2)))
            priors = Priors(2.0, np.ones((1, 2)))
            fitted = run(learner_of(problem, priors, MIXING[mixing], begin, 1e-13, True), max_iter=2_000)
            assert (np.diff(fitted.history) >= -1e-12 * abs(fitted.history[-1])).all()
            reached.append(fitted.estimate)
        np.testing.assert_allclose(reached[0].objectives, reached[1].objectives, rtol=0, atol=1e-6)
        np.testing.assert_allclose(reached[0].scores, reached[1].scores, rtol=0, atol=1e-3)


def test_acceleration_reaches_the_same_value_in_fewer_passes():
    reached, passes = np.empty((2, 10)), np.empty((2, 10))
    for seed in range(10):
        problem = random_problem(seed, n_users=60)
        for accelerate in (False, True):
            priors = Priors(1.0, np.ones((1, 2)))
            learner = learner_of(problem, priors, BY_LIST, starts(problem, 2, 1, 0), 1e-11, accelerate)
            fitted = run(learner, max_iter=3_000)
            reached[int(accelerate), seed] = fitted.estimate.objectives[0]
            passes[int(accelerate), seed] = len(fitted.history)
    # A longer step may lead to another of several maxima, now and then.
    assert np.median(np.abs(reached[0] - reached[1])) < 1e-5
    assert passes[1].sum() < 0.8 * passes[0].sum()


def test_slow_linear_convergence_is_sped_up_and_each_start_has_its_own_step():
    """F(x) = r x, objective -x²: plain EM needs thousands of passes for r = 0.999."""
    rates = np.array([[0.999], [0.5]])

    def update(point):
        return rates * point, -np.sum(point**2, axis=1)

    found = {}
    for accelerate in (False, True):
        learner = expectation_maximisation(update, np.ones((2, 1)), tol=0.0, accelerate=accelerate)
        fitted = run(learner, max_iter=300)
        found[accelerate] = np.abs(fitted.estimate).max()
        assert (np.diff(fitted.history) >= 0).all()
    assert found[False] > 0.7
    assert found[True] < 1e-3


def test_the_optimum_of_one_community_is_that_of_the_pooled_model_with_the_same_prior():
    rankings = pr.Rankings.from_lists([[0, 1, 2], [1, 0], [2, 1, 0], [0, 2]], users=range(4))
    problem = CommunityData.of(rankings, np.zeros(3), EFRON, "mm", None)
    learner = learner_of(problem, Priors(1.0, np.ones((1, 1))), BY_LIST, starts(problem, 1, 1, 0), 1e-15, True)
    fit = run(learner, max_iter=2000).estimate
    pooled = pr.PlackettLuce(prior="gamma", prior_shape=2.0, tol=1e-12).fit(rankings)
    np.testing.assert_allclose(fit.scores[0, :, 0], pooled.scores_, rtol=0, atol=1e-6)


def test_the_copies_of_shuffled_ties_keep_their_users_and_their_weight():
    rankings = pr.Rankings.from_lists({"u": [{"a", "b"}, "c"], "v": ["c", {"a", "b"}]})
    lists = CommunityData.of(rankings, np.zeros(3), EFRON, "mm", 0).lists
    assert lists.user_indptr.tolist() == [0, 5, 10]
    np.testing.assert_allclose(lists.weights, 0.2, rtol=1e-15)
    copies = [lists.items[a:b].tolist() for a, b in itertools.pairwise(lists.indptr)]
    assert all(each[2] == 2 for each in copies[:5])
    assert all(each[0] == 2 for each in copies[5:])
    assert {tuple(each) for each in copies[:5]} == {(0, 1, 2), (1, 0, 2)}
    assert lists.levels.tolist() == [0, 1, 2] * 10
