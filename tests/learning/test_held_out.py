"""Choosing by held-out observations: the best mean, and the simplest candidate that is not clearly worse."""

import numpy as np

from permrank.learning.held_out import choose_by_held_out


def test_the_best_has_the_highest_mean_and_the_simplest_is_within_one_standard_error_of_it():
    shared, noise = 10.0 * np.random.default_rng(0).normal(size=400), np.random.default_rng(1).normal(size=400)
    gains = {1: -0.5, 2: -0.02, 4: 0.0, 8: -0.3}
    choice = choose_by_held_out(gains, lambda number: shared + gains[number] + (number != 4) * (noise - noise.mean()))
    assert (choice.best, choice.simplest) == (4, 2)
    gaps, errors = choice.below_best()
    np.testing.assert_allclose(gaps, [0.5, 0.02, 0.0, 0.3], rtol=0, atol=1e-12)
    # Of the paired differences: what all candidates share is not in it.
    np.testing.assert_allclose(errors, np.array([1, 1, 0, 1]) * noise.std() / 20.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(choice.means[2], shared.mean(), rtol=1e-12)
