"""Choices by held-out data."""

import numpy as np

from permrank.learning.held_out import HeldOutChoice, choose_by_held_out, descend

RNG = np.random.default_rng(3)
NOISE = RNG.normal(size=400)


def test_the_highest_mean_is_best_and_the_first_within_an_error_the_simplest():
    scores = {"a": [1.4, 2.5], "b": [2.0, 2.0], "c": [3.0, 1.0], "d": [0.0, 1.0]}
    choice = choose_by_held_out(scores, lambda name: np.array(scores[name]))
    assert (choice.best, choice.simplest) == ("b", "a")
    gaps, errors = choice.below_best()
    np.testing.assert_allclose(gaps, [0.05, 0.0, 0.0, 1.5], rtol=0, atol=1e-12)
    np.testing.assert_allclose(errors, [0.55 / np.sqrt(2), 0.0, 1 / np.sqrt(2), 0.5 / np.sqrt(2)], rtol=1e-12, atol=0)


def test_the_usual_candidate_stays_unless_another_is_clearly_better():
    base = RNG.uniform(size=400)
    other = base + 0.2 * NOISE
    other += base.mean() - other.mean() + 0.5 * (other - base).std() / 20  # half a standard error better
    assert HeldOutChoice((0, 1), np.stack([base, other])).unless_usual(0) == 0
    assert HeldOutChoice((0, 1), np.stack([base, other + 0.1])).unless_usual(0) == 1


def test_a_gain_of_too_few_errors_is_none():
    base, noise = np.zeros(400), (NOISE - NOISE.mean()) / NOISE.std()  # a standard error of 1/20
    assert HeldOutChoice((0, 1), np.stack([base, noise + 0.09])).gaining(2.0) == 0
    assert HeldOutChoice((0, 1, 2), np.stack([base, noise + 0.11, noise + 0.2])).gaining(2.0) == 2


def test_a_search_goes_downhill_and_measures_no_step_twice():
    seen = []

    def error(step):
        seen.append(step)
        return (step[0] - 3) ** 2 + 2 * (step[1] + 2) ** 2

    best, errors = descend(error, most=50)
    assert best == (3, -2)
    assert len(seen) == len(set(seen)) == len(errors)
    assert len(descend(error, most=4)[1]) == 4
