"""What is kept of the draws, against the draws."""

from functools import partial

import numpy as np
import pytest

import permrank as pr
from permrank.kernels.luce.likelihood import BRESLOW
from permrank.posterior.kernels.arguments import Newton
from permrank.posterior.passes import SomeUsers
from permrank.posterior.problem import Problem
from permrank.posterior.sampler import Sampler
from permrank.posterior.store import WHOLE, Draw, Draws
from permrank.posterior.weights import Weights

N_USERS, N_ITEMS, K = 30, 12, 2


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(2)
    listed = np.array([rng.permutation(N_ITEMS)[:6] for _ in range(N_USERS)])
    rows = {"user": np.repeat(np.arange(N_USERS), 6), "item": listed.ravel(), "rating": rng.integers(1, 6, listed.size)}
    return pr.Rankings.from_ratings(rows)


def drawn(n):
    """Draws that turn, with two rows more than items."""
    rng = np.random.default_rng(3)
    users, items = rng.normal(size=(N_USERS, K)), rng.normal(size=(N_ITEMS + 2, K + 1))
    found = []
    for _ in range(n):
        turn = np.linalg.qr(rng.normal(size=(K, K)))[0]
        theta = items + 0.1 * rng.normal(size=items.shape)
        theta[:, :K] = theta[:, :K] @ turn
        found.append(Draw(theta, users @ turn, np.zeros((1, K)), rng.random(N_ITEMS + 2)))
    return found


@pytest.mark.parametrize("n", [1, WHOLE, 2 * WHOLE + 1, 50])
def test_the_mean_is_of_all_draws_and_those_kept_whole_are_spread_over_them(n):
    found, draws = drawn(n), Draws(N_USERS, N_ITEMS, K)
    for each in found:
        draws.add(each, 1)
    kept = draws.posterior(Weights(), 0.0)
    personal = np.mean([each.users @ each.items[:N_ITEMS, :K].T for each in found], axis=0)
    np.testing.assert_allclose(kept.mean.users.astype(float) @ kept.mean.items.T, personal, rtol=0, atol=0.05)
    np.testing.assert_allclose(
        kept.mean.intercepts, np.mean([each.items[:N_ITEMS, -1] for each in found], axis=0), rtol=0, atol=1e-5
    )
    halved = [each.items.astype(np.float16) for each in found]
    numbers = [i for i, each in enumerate(halved) for whole in kept.items if (each == whole).all()]
    assert len(numbers) == len(kept.items) == len(kept.mean.bases) == min(n, WHOLE)
    assert np.diff([-1, *numbers, n]).max() <= 2 * np.ceil(n / WHOLE)
    modes = np.stack([found[i].users for i in numbers], axis=1)
    moved = np.einsum("udk,dkr->ur", modes, kept.mean.bases) / len(numbers)
    np.testing.assert_allclose(moved @ kept.mean.items.T.astype(float), personal, rtol=0, atol=0.3)
    again = Draws(N_USERS, N_ITEMS, K)
    again.restore(draws.state())
    for part, other in zip(kept[:3], again.posterior(Weights(), 0.0)[:3], strict=True):
        np.testing.assert_array_equal(part, other)


def test_a_model_takes_few_bytes_and_samples_of_scores_lie_around_the_scores(ratings):
    model = pr.FactoredPlackettLuce(4, max_iter=40).fit(ratings)
    learnt = {name: np.asarray(value).nbytes for name, value in model.estimate_.tensors().items()}
    assert learnt["user_factors_"] == 2 * 8 * N_USERS
    of_items = ("item_factors_", "item_intercepts_", "item_draws_", "item_variances_")
    rows = N_ITEMS + model.thresholds_.size
    assert sum(learnt[name] for name in of_items) <= 20 * N_ITEMS + (2 * 6 * WHOLE + 2) * rows
    for user in (0, model.fold_in({1: 5, 2: 3, 3: 1})):
        person = model.person(user)
        samples, scores = model._score_draws(model.fitted_, person, np.arange(N_ITEMS)), person.score()
        np.testing.assert_allclose(samples.mean(axis=0), scores, rtol=0, atol=1e-9)
        assert samples.std(axis=0).min() > 0.05


def test_modes_of_some_people_are_those_of_all_people(ratings):
    problem = Problem.of(ratings, BRESLOW, shuffle=False, intercepts=True, thresholds=np.arange(1.5, 5.0))
    sampler = Sampler(problem, K, 1.0, np.uint64(5), None)
    for sweep in range(5):
        sampler.sweep(sweep, keep=False)
    some, before = np.array([3, 4, 17, 29]), sampler.modes.copy()
    move = partial(sampler._move, sampler.theta + 0.1, np.uint64(0), False)
    pull = sampler._users.friends_pull()
    all_people = sampler._passes.modes(move(Newton(3, 1e-9)), sampler.modes.copy(), pull)
    found = SomeUsers.of(problem, some).modes(move(Newton(3, 1e-9)), sampler.modes, pull)
    np.testing.assert_array_equal(found[some], all_people[some])
    assert np.abs(found[some] - before[some]).max() > 1e-3
    others = np.setdiff1d(np.arange(N_USERS), some)
    np.testing.assert_array_equal(found[others], before[others])
    np.testing.assert_array_equal(sampler.modes, before)
