"""Simulated rankings follow the truth that they come with."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

import permrank as pr
from permrank.errors import InputError
from permrank.files.datasets.simulated import DISHES
from permrank.rankings.validate import check_arrays

simulated = pr.datasets.simulated


def plackett_luce_probability(scores, ranking):
    left = list(ranking)
    probability = 1.0
    while left:
        weights = np.exp([scores[item] for item in left])
        probability *= weights[0] / weights.sum()
        left.pop(0)
    return probability


def chi_square_of_orders(noise, scale):
    """P-value of 20,000 complete rankings of four items against Plackett-Luce with the true scores over scale."""
    rankings, truth = simulated(20_000, 4, n_communities=1, n_factors=0, list_length=4, noise=noise, seed=5)
    scores = truth.scores(0)[0] / scale
    orders = list(permutations(range(4)))
    place = {order: index for index, order in enumerate(orders)}
    counts = np.bincount([place[tuple(row)] for row in rankings.items.reshape(-1, 4).tolist()], minlength=24)
    expected = np.array([plackett_luce_probability(scores, order) for order in orders])
    return chisquare(counts, expected * counts.sum()).pvalue


@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_orders_follow_plackett_luce_with_the_scores_over_the_noise(noise):
    assert chi_square_of_orders(noise, scale=noise) > 1e-4


def test_the_check_notices_scores_that_are_a_fifth_off():
    assert chi_square_of_orders(1.0, scale=1.2) < 1e-6


@pytest.mark.parametrize(("n_items", "length"), [(30, (5, 20)), (400, (5, 20))])
def test_without_noise_every_list_is_in_the_true_order(n_items, length):
    rankings, truth = simulated(300, n_items, list_length=length, noise=0.0, seed=2)
    scores = truth.scores(np.arange(300))
    owner = np.repeat(np.arange(300), np.diff(rankings.indptr))
    of_entry = scores[owner, rankings.items]
    inside = owner[1:] == owner[:-1]
    assert (of_entry[:-1][inside] > of_entry[1:][inside]).all()


def test_less_noise_means_fewer_pairs_out_of_order():
    shares = []
    for noise in (3.0, 1.0, 0.3, 0.03):
        rankings, truth = simulated(300, 40, noise=noise, seed=4)
        owner = np.repeat(np.arange(300), np.diff(rankings.indptr))
        of_entry = truth.scores(np.arange(300))[owner, rankings.items]
        inside = owner[1:] == owner[:-1]
        shares.append((of_entry[:-1] < of_entry[1:])[inside].mean())
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.06


@pytest.mark.parametrize(
    "options", [{}, {"n_items": 300}, {"ties": 5}, {"n_items": 300, "ties": 3}, {"list_length": 1}]
)
def test_the_arrays_are_sound_and_the_same_seed_gives_the_same(options):
    first, second = simulated(200, **options, seed=3), simulated(200, **options, seed=3)
    check_arrays(first.rankings)
    assert first.rankings == second.rankings
    assert np.array_equal(first.truth.user_factors, second.truth.user_factors)
    assert first.rankings != simulated(200, **options, seed=4).rankings


@pytest.mark.parametrize("n_items", [50, 400])
def test_lists_have_the_lengths_asked_for_and_no_item_twice(n_items):
    rankings = simulated(2000, n_items, list_length=(3, 12), seed=1).rankings
    lengths = np.diff(rankings.indptr)
    assert set(lengths.tolist()) == set(range(3, 13))
    check_arrays(rankings)


def test_long_lists_over_items_that_hardly_anybody_sees_are_still_full():
    # With 52 draws for 22 items of 100 the very popular ones come again and again.
    rankings = simulated(3000, 100, list_length=22, seed=8).rankings
    check_arrays(rankings)
    assert (np.diff(rankings.indptr) == 22).all()


def test_popular_items_are_seen_a_little_more_often():
    for n_items, length in ((40, 10), (400, 10)):
        rankings, truth = simulated(4000, n_items, list_length=length, seed=6)
        seen = np.bincount(rankings.items, minlength=n_items)
        assert np.corrcoef(np.log(seen), truth.popularity)[0, 1] > 0.5
        assert seen.min() > 0


def test_stars_are_about_equally_common_and_agree_with_the_levels():
    rankings = simulated(3000, 40, ties=5, seed=7).rankings
    stars, counts = np.unique(rankings.ratings, return_counts=True)
    assert stars.tolist() == [1, 2, 3, 4, 5]
    assert counts.max() / counts.min() < 1.1
    frame = rankings.to_frame()
    again = pr.Rankings.from_ratings(frame)
    assert np.array_equal(again.levels, rankings.levels)


def test_scores_are_the_sum_of_their_three_parts():
    truth = simulated(20, 10, list_length=5, n_communities=3, separation=0.5, seed=1).truth
    user, item = 7, 3
    expected = (
        truth.popularity[item]
        + 0.5 * truth.community_scores[truth.memberships[user], item]
        + truth.user_factors[user] @ truth.item_factors[item]
    )
    np.testing.assert_allclose(truth.scores([5, user])[1, item], expected, rtol=1e-12)
    np.testing.assert_allclose(truth._scores_of(np.array([user]), np.array([item])), [expected], rtol=1e-12)


def test_items_have_readable_names_in_sorted_order():
    assert len(set(DISHES)) == 60
    small, large = simulated(5, 60).rankings, simulated(12_345, 61, list_length=2).rankings
    assert [*small.item_ids] == sorted(DISHES)
    assert (large.item_ids[60], large.user_ids[0], large.user_ids[12_344]) == ("item-0061", "user-00001", "user-12345")
    assert large.user_ids.ids.is_sorted()


@pytest.mark.parametrize(
    "options",
    [
        {"n_users": 0},
        {"n_items": 0},
        {"n_communities": 0},
        {"n_factors": -1},
        {"list_length": 61},
        {"list_length": 0},
        {"list_length": (5, 3)},
        {"list_length": "many"},
        {"noise": -1.0},
        {"noise": float("nan")},
        {"ties": 0},
        {"seed": -1},
    ],
)
def test_sizes_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError):
        simulated(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separation": "x"}, "separation='x', expected a finite number"),
        ({"separation": float("nan")}, "separation=nan"),
        ({"noise": "x"}, "noise='x', expected a finite number"),
        ({"n_users": True}, "n_users=True, expected a whole number"),
    ],
)
def test_things_that_are_no_numbers_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        simulated(**{"n_users": 10, **options})
