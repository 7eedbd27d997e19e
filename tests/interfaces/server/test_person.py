"""One person's scores: against integrals over a grid, and against people drawn from the prior."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

from permrank.interfaces.server import asking
from permrank.interfaces.server.asking import PERSON_SCALE, one_answer, person_posterior, share_right, strength_of

NOISE = np.sqrt(8.0 / np.pi)


def moments(lists, mean, scale, width=7.0, n=121):
    """Mean and covariance of three scores by a sum over a grid."""
    axis = np.linspace(-width, width, n) * scale
    x = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3) + mean
    weight = np.exp(-0.5 * np.sum((x - mean) ** 2, axis=1) / scale**2)
    for tiers in lists:
        for above, below in itertools.pairwise(tiers):
            for a in above:
                for b in below:
                    weight *= ndtr((x[:, a] - x[:, b]) / NOISE)
    weight /= weight.sum()
    centre = weight @ x
    return centre, (x - centre).T * weight @ (x - centre)


@pytest.mark.parametrize(
    ("lists", "within"),
    [
        ([[[0], [1]]], 1e-4),  # exact but for the grid
        ([[[0], [1]], [[2], [1]]], 0.02),
        ([[[0], [1], [2]]], 0.02),
        ([[[0], [1, 2]], [[2], [1]], [[1], [0]]], 0.03),
    ],
)
@pytest.mark.parametrize("scale", [1.3, 5.0])
def test_the_posterior_of_a_person_is_that_of_an_integral(lists, within, scale):
    mean = np.array([0.4, -0.2, 0.1])
    found = person_posterior(lists, mean, scale)
    centre, covariance = moments(lists, mean, scale)
    assert_allclose(found.mean, centre, rtol=0.0, atol=within * scale)
    assert_allclose(found.covariance, covariance, rtol=0.0, atol=2 * within * scale**2)
    # Control: without what was said the posterior is the prior.
    nothing = person_posterior([], mean, scale)
    assert_allclose(nothing.covariance, np.eye(3) * scale**2)
    assert np.abs(nothing.mean - centre).max() > 0.1


@pytest.fixture
def sweeps(monkeypatch):
    """One entry for each time that all items were solved for."""
    found, covariance = [], asking._covariance
    monkeypatch.setattr(asking, "_covariance", lambda *arguments: found.append(0) or covariance(*arguments))
    return found


def test_groups_of_many_items_have_a_posterior_that_does_not_depend_on_the_steps_to_it(sweeps, monkeypatch):
    lists = [[list(range(50)), list(range(50, 100))]]
    found = person_posterior(lists, np.zeros(100), PERSON_SCALE)
    assert len(sweeps) < asking._MOST_SWEEPS  # at a fixed point
    monkeypatch.setattr(asking, "_DAMPING", 0.25)
    monkeypatch.setattr(asking, "_MOST_SWEEPS", 500)
    slow = person_posterior(lists, np.zeros(100), PERSON_SCALE)
    assert_allclose(found.mean, slow.mean, rtol=0.0, atol=1e-3)
    assert_allclose(found.covariance, slow.covariance, rtol=0.0, atol=1e-2)
    assert np.ptp(found.mean[:50]) < 1e-9  # nothing tells them apart
    monkeypatch.setattr(asking, "_DAMPING", 0.7)  # the control: it goes to and fro
    assert np.abs(person_posterior(lists, np.zeros(100), PERSON_SCALE).mean - slow.mean).max() > 0.1


def test_a_list_of_very_many_items_is_solved_in_few_steps_that_are_enough(sweeps, monkeypatch):
    lists = [[[item] for item in range(320)]]
    found = person_posterior(lists, np.zeros(320), PERSON_SCALE)
    assert len(sweeps) <= 12
    monkeypatch.setattr(asking, "_FEW_SWEEPS", 100)
    assert_allclose(found.mean, person_posterior(lists, np.zeros(320), PERSON_SCALE).mean, rtol=0.0, atol=0.02)


def test_orders_are_as_right_as_they_are_said_to_be():
    rng, n, people, questions = np.random.default_rng(4), 8, 300, 12
    right, said, flat = [], [], []
    for _ in range(people):
        x = PERSON_SCALE * rng.normal(size=n)
        lists = []
        for _ in range(questions):
            a, b = rng.choice(n, 2, replace=False).tolist()
            lists.append([[a], [b]] if rng.random() < expit(x[a] - x[b]) else [[b], [a]])
        for found, scale in ((said, PERSON_SCALE), (flat, PERSON_SCALE / 10)):
            posterior = person_posterior(lists, np.zeros(n), scale)
            order = np.argsort(-posterior.mean)
            found.append(share_right(posterior, order))
            if found is said:
                above, below = np.triu_indices(n, 1)
                right.append(np.mean(x[order[above]] > x[order[below]]))
    difference = np.array(right) - said
    error = difference.std() / np.sqrt(people)
    assert abs(difference.mean()) < 4 * error + 0.01  # a comparison is not quite normal
    assert abs(np.mean(np.array(right) - flat)) > 0.1  # control: people are taken for far less consistent


def test_strength_and_one_answer_are_those_of_their_integrals():
    z, weight = np.polynomial.hermite_e.hermegauss(101)
    weight /= weight.sum()
    for scale in (0.5, 2.0, 5.0):
        for gap in (0.5, 1.0, 2.0):
            people = weight @ ndtr((strength_of(scale) * gap + np.sqrt(2.0) * scale * z) / NOISE)
            assert people == pytest.approx(expit(gap), abs=0.02)
        drawn = np.sqrt(2.0) * scale * np.linspace(0.0, 10.0, 20_001)
        density = np.exp(-0.25 * (drawn / scale) ** 2)
        assert one_answer(scale) == pytest.approx(np.sum(density * ndtr(drawn / NOISE)) / density.sum(), abs=1e-3)
