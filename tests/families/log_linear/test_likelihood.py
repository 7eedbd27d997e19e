"""The normaliser: annealing against exact sums, from both sides."""

import numpy as np

from permrank.families.log_linear.kernels.moves import luce_insertion_energies, luce_log_probability
from permrank.families.log_linear.likelihood import fitted_worths, log_normaliser, model_draws
from permrank.families.log_linear.lists import position_functions
from permrank.testing.oracles import log_linear_target, random_log_linear


def test_short_lists_are_exact():
    unary, basis, pair = random_log_linear(6, 1, 4)
    found = log_normaliser(unary, basis, pair)
    np.testing.assert_allclose(found.value, log_linear_target(unary, basis, pair)[2], rtol=1e-12)
    assert found.error == 0
    assert found.low == found.high == found.value


def test_annealing_meets_the_exact_sum_and_a_control_fails():
    unary, basis, pair = random_log_linear(10, 1, 8, scale=0.2)
    exact = log_normaliser(unary, basis, pair).value
    found = log_normaliser(unary, basis, pair, exact=False, n_runs=400, n_levels=100)
    assert abs(found.value - exact) < 0.03
    assert found.error < 0.05
    wrong = log_normaliser(1.2 * unary, basis, 1.2 * pair, exact=False, n_runs=400, n_levels=100)
    assert abs(wrong.value - exact) > 0.1


def test_both_sides_are_right_on_average_even_with_few_levels():
    gaps = []
    for seed in range(40):
        arrays = random_log_linear(9, 1, seed, scale=0.4)
        found = log_normaliser(*arrays, exact=False, n_runs=400, n_levels=2, key=seed)
        gaps.append(np.array([found.low, found.high]) - log_normaliser(*arrays).value)
    np.testing.assert_allclose(np.mean(gaps, axis=0), 0.0, rtol=0, atol=0.07)


def test_places_under_plackett_luce_in_one_pass():
    rng = np.random.default_rng(0)
    worths, order = rng.exponential(size=6), rng.permutation(6)
    energies = np.empty(6)
    luce_insertion_energies(order, 2, worths, np.empty(6), energies)
    for place in range(6):
        moved = np.insert(np.delete(order, 2), place, order[2])
        wanted = luce_log_probability(order, worths) - luce_log_probability(moved, worths)
        np.testing.assert_allclose(energies[place] - energies[2], wanted, rtol=0, atol=1e-12)


def test_worths_fitted_to_draws_order_the_items_as_the_model_does():
    unary = np.linspace(2, -2, 8)[:, None]
    draws = model_draws(unary, position_functions(8, "centred", 1), np.zeros((0, 0)), 400, 0)
    assert (np.diff(fitted_worths(draws)) < 0).all()
