"""Groups of items that cannot be told apart: what is said to be settled is wrong no more often than stated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import permrank as pr
from permrank.core.tie_groups import groups_of, normal_samples, told_apart
from permrank.errors import InputError, NotSupportedError
from permrank.randomness import generator


def drawn(truth, n_draws=400, seed=0):
    """Scores as they might be estimated, unequally well and correlated, and draws of such errors."""
    rng = generator(seed)
    n = truth.size
    mixing = 0.5 * np.eye(n) + 0.3 * rng.normal(size=(n, n)) / np.sqrt(n)
    error = rng.normal(size=n) @ mixing
    return truth + error, 7.0 + rng.normal(size=(n_draws, n)) @ mixing


def test_two_items_are_compared_as_in_a_z_test():
    rng = generator(1)
    samples = rng.normal(size=(20_000, 2)) * [1.0, 2.0]
    spread = np.sqrt(1.0 + 4.0)
    for level, z in ((0.9, 1.6449), (0.99, 2.5758)):
        for factor, expected in ((0.95, False), (1.05, True)):
            better = told_apart(np.array([factor * z * spread, 0.0]), samples, level)
            assert better.tolist() == [[False, expected], [False, False]]


@pytest.mark.parametrize(
    "truth", [np.zeros(2), np.zeros(8), np.repeat([0.0, 3.0, 6.0, 9.0], 2)], ids=["2", "8", "pairs"]
)
def test_what_is_settled_is_wrong_no_more_often_than_stated(truth):
    level, n_trials, n_draws = 0.8, 6000, 400
    wrong = settled = 0
    for trial in range(n_trials):
        scores, samples = drawn(truth, n_draws, seed=1000 + trial)
        better = told_apart(scores, samples, level)
        wrong += bool(better[truth[:, None] <= truth[None, :]].any())
        settled += bool(better.any())
    # The quantile of 400 draws lies below another draw with this probability; four standard errors of the count.
    stated = 1 - level * n_draws / (n_draws + 1)
    error = 4 * np.sqrt(stated * (1 - stated) / n_trials)
    assert wrong / n_trials <= stated + error
    if truth.any():
        assert settled == n_trials  # and what is far apart is told apart
        assert wrong > 0  # of all pairs only four are equal
    else:
        assert wrong / n_trials >= stated - error  # no more careful than stated


def test_a_difference_is_measured_by_its_own_standard_error():
    rng = generator(3)
    shared, own = rng.normal(size=(2000, 1)), 0.1 * rng.normal(size=(2000, 2))
    samples = np.column_stack((shared + own, rng.normal(size=2000)))
    # Both scores of the first pair have a variance of 1, and their difference one of .02.
    better = told_apart(np.array([0.6, 0.0, 0.0]), samples, 0.9)
    assert better.tolist() == [[False, True, False], [False] * 3, [False] * 3]


def test_the_control_of_single_comparisons_is_wrong_much_more_often():
    wrong = 0
    for trial in range(40):
        scores, samples = drawn(np.zeros(8), n_draws=200, seed=1000 + trial)
        pairs = [[a, b] for a in range(8) for b in range(a)]
        wrong += any(told_apart(scores[pair], samples[:, pair], 0.8).any() for pair in pairs)
    assert wrong > 0.5 * 40


def test_groups_begin_where_all_before_are_better_than_all_after():
    better = np.triu(np.ones((4, 4), bool), 1)
    assert groups_of(better).tolist() == [1, 2, 3, 4]
    better[0, 1] = False
    assert groups_of(better).tolist() == [1, 1, 2, 3]
    better[1, 2] = False  # the first is better than the third, but both are like the second
    assert groups_of(better).tolist() == [1, 1, 1, 2]
    assert groups_of(np.zeros((1, 1), bool)).tolist() == [1]
    assert groups_of(np.zeros((0, 0), bool)).size == 0


def test_items_that_never_differ_are_not_told_apart():
    samples = np.zeros((50, 3))
    samples[:, 2] = generator(2).normal(size=50)
    assert not told_apart(np.array([1.0, 1.0, 1.0]), samples, 0.9)[0, 1]


def test_normal_samples_have_the_covariance_also_of_a_singular_matrix():
    root = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0]])
    samples = normal_samples(root.T @ root, 40_000)
    assert_allclose(np.cov(samples.T), root.T @ root, rtol=0, atol=0.05)
    assert_array_equal(samples[:5], normal_samples(root.T @ root, 40_000)[:5])


def test_more_ballots_settle_more():
    made = pr.datasets.simulated(3000, 6, n_communities=1, n_factors=0, list_length=6, seed=3)
    few, many = (made.rankings.select(users=list(made.rankings.user_ids)[:n]) for n in (12, 3000))
    frames = [pr.PlackettLuce(prior="gaussian").fit(part).tie_groups() for part in (few, many)]
    assert frames[0]["group"].max() < frames[1]["group"].max()
    widths = [(frame["rank_high"] - frame["rank_low"]).sum() for frame in frames]
    assert widths[0] > widths[1]
    for frame in frames:
        assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
        assert frame["group"].is_sorted()
    pairs = pr.BradleyTerry(prior="gaussian").fit(many).tie_groups(items=["almond tart", "apple dumplings"])
    assert pairs.height == 2


def test_personal_models_answer_for_a_person():
    rankings = pr.datasets.load("simulated", n_users=80, n_items=12, list_length=6)
    model = pr.FactoredPlackettLuce(2, max_iter=20).fit(rankings)
    frame = model.tie_groups("user-0001", list(rankings.item_ids)[:5])
    assert frame.height == 5
    wide, narrow = (model.tie_groups("user-0001", level=level) for level in (0.99, 0.3))
    assert (wide["rank_low"] <= narrow["rank_low"]).all()
    with pytest.raises(InputError, match="level="):
        model.tie_groups("user-0001", level=2)
    with pytest.raises(NotSupportedError, match="Popularity cannot answer tie_groups"):
        pr.Popularity().fit(rankings).tie_groups("user-0001")


@pytest.mark.parametrize(("rating", "refused"), [(11, True), (5.5, True), (5, False), (0.5, False), (-1, True)])
def test_ratings_of_somebody_new_are_on_the_scale(rating, refused):
    frame = {"user": list(range(12)) * 5, "item": np.repeat(list("abcde"), 12), "rating": [1, 2, 3, 4, 5] * 12}
    model = pr.MeanRating().fit(pr.Rankings.from_ratings(frame))
    if refused:
        with pytest.raises(InputError, match=f"rating {rating:g} is not on the scale of the training data, 1 to 5"):
            model.fold_in({"a": rating, "b": 3})
    else:
        assert model.fold_in({"a": rating, "b": 3}).rankings.n_entries == 2


def test_fine_scales_leave_room():
    rng = generator(0)
    frame = {"user": np.arange(60) % 12, "item": np.repeat(list("abcde"), 12), "rating": rng.normal(size=60)}
    model = pr.MeanRating().fit(pr.Rankings.from_ratings(frame))
    assert model.fold_in({"a": 4.0, "b": 0.1}).rankings.n_entries == 2
    with pytest.raises(InputError, match="not on the scale"):
        model.fold_in({"a": 100.0})
