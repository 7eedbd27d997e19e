"""Baselines: the contract, and what they count, by hand and by plain loops."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.testing import ModelContract
from permrank.testing.questions import LISTS


class TestMeanRatingContract(ModelContract):
    other = {"item_penalty": 3.0}  # noqa: RUF012

    def make(self, **parameters):
        return pr.MeanRating(**parameters)


class TestPopularityContract(ModelContract):
    other = {"count": "listed"}  # noqa: RUF012

    def make(self, **parameters):
        return pr.Popularity(**parameters)


class TestRandomContract(ModelContract):
    supports = frozenset({"prefers", "top_probability", "position_probabilities", "sample", "log_likelihood"})
    strangers_are_alike = False  # every new user has an order of chance of their own

    def make(self, **parameters):
        return pr.Random(**parameters)


class TestBordaContract(ModelContract):
    other = {"prior_strength": 0.0}  # noqa: RUF012

    def make(self, **parameters):
        return pr.Borda(**parameters)


class TestCopelandContract(ModelContract):
    other = {}  # noqa: RUF012

    def make(self, **parameters):
        return pr.Copeland(**parameters)


def random_rankings(seed, n_users=30, n_items=12, longest=8):
    """Ratings with ties, several rankings for some users, and weights."""
    rng = np.random.default_rng(seed)
    lists, users, weights = [], [], []
    for _ in range(2 * n_users):
        seen = rng.permutation(n_items)[: rng.integers(1, longest + 1)].tolist()
        cuts = sorted({0, len(seen), *rng.integers(0, len(seen) + 1, 3).tolist()})
        lists.append([set(seen[a:b]) for a, b in itertools.pairwise(cuts)])
        users.append(int(rng.integers(n_users)))
        weights.append(float(rng.integers(1, 4)))
    return pr.Rankings.from_lists(lists, users=users, weights=weights, items=range(n_items))


def pairs_of(rankings):
    """(better or tied item, other item, tied, weight) of every pair of every ranking."""
    for ranking, weight in zip(rankings.lists(), rankings.weights, strict=True):
        blocks = [block if isinstance(block, set) else {block} for block in ranking]
        for place, block in enumerate(blocks):
            for first, second in itertools.combinations(sorted(block), 2):
                yield first, second, True, weight
            for first, later in itertools.product(block, blocks[place + 1 :]):
                for second in later:
                    yield first, second, False, weight


def test_biases_solve_their_ridge_regression():
    rng = np.random.default_rng(3)
    rows = [(u, y) for u in range(15) for y in rng.permutation(9)[: rng.integers(1, 8)]]
    users, items = (np.array(column) for column in zip(*rows, strict=True))
    ratings = rng.integers(1, 6, users.size)
    rankings = pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})
    model = pr.MeanRating(item_penalty=2.0, user_penalty=3.0, tol=1e-12, max_iter=2000).fit(rankings)
    design = np.concatenate((np.eye(15)[users], np.eye(9)[items]), axis=1)
    normal = design.T @ design + np.diag([3.0] * 15 + [2.0] * 9)
    wanted = np.linalg.solve(normal, design.T @ (ratings - ratings.mean()))
    np.testing.assert_allclose(model.user_biases_, wanted[:15], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.score(4), ratings.mean() + wanted[4] + wanted[15:], rtol=0, atol=1e-9)
    assert (np.diff(model.history_) >= -1e-9).all()
    # A new user who says what a known one said has the same level.
    said = dict(zip(items[users == 4].tolist(), ratings[users == 4].tolist(), strict=True))
    np.testing.assert_allclose(model.score(model.fold_in(said)), model.score(4), rtol=0, atol=1e-6)


def test_a_plain_shrunk_mean_leaves_the_users_out():
    frame = {"user": [0, 0, 1, 1, 2], "item": ["a", "b", "a", "c", "a"], "rating": [5, 4, 3, 1, 2]}
    model = pr.MeanRating(item_penalty=4.0, centred=False).fit(pr.Rankings.from_ratings(frame))
    mean = 15 / 5
    np.testing.assert_allclose(model.score(0, ["a"]), mean + (10 - 3 * mean) / (3 + 4), rtol=1e-12)


def test_places_stand_for_ratings_and_weights_for_repetition():
    lists = {"ann": ["a", {"b", "c"}, "d"], "bob": ["c", "a"]}
    stars = {"user": ["ann"] * 4 + ["bob"] * 2, "item": list("abcdca"), "rating": [3, 1.5, 1.5, 0, 1, 0]}
    by_place = pr.MeanRating().fit(pr.Rankings.from_lists(lists))
    shares = [share / (3 if user == "ann" else 1) for user, share in zip(stars["user"], stars["rating"], strict=True)]
    by_rating = pr.MeanRating().fit(pr.Rankings.from_ratings({**stars, "rating": shares}))
    np.testing.assert_allclose(by_place.score("ann"), by_rating.score("ann"), rtol=0, atol=1e-9)
    twice = pr.Rankings.from_lists([["a", "b"], ["a", "b"], ["b", "c"]], users=[0, 0, 1])
    once = pr.Rankings.from_lists([["a", "b"], ["b", "c"]], users=[0, 1], weights=[2, 1])
    for kind in (pr.MeanRating, pr.Popularity, pr.Borda, pr.Copeland):
        np.testing.assert_allclose(kind().fit(twice).score(0), kind().fit(once).score(0), rtol=1e-12, err_msg=str(kind))


def test_bad_parameters_are_refused():
    rankings = pr.Rankings.from_lists(LISTS)
    for parameters in ({"item_penalty": 0}, {"user_penalty": -1}, {"centred": 1}, {"max_iter": 0}, {"tol": "x"}):
        with pytest.raises(InputError, match=next(iter(parameters))):
            pr.MeanRating(**parameters).fit(rankings)
    with pytest.raises(InputError, match=r"prior_strength=-1, expected a finite number from 0"):
        pr.Borda(prior_strength=-1).fit(rankings)
    with pytest.raises(InputError, match="seed"):
        pr.Random(seed=-1).fit(rankings)


def test_popularity_counts_rankings_or_their_upper_halves():
    rankings = pr.Rankings.from_lists(LISTS)
    items = ["toro", "ebi", "tako", "ika"]
    assert pr.Popularity(count="listed").fit(rankings).score(None, items).tolist() == [6.0, 4.0, 3.0, 4.0]
    assert pr.Popularity().fit(rankings).score(None, items).tolist() == [4.0, 2.0, 2.0, 1.0]
    with pytest.raises(InputError, match="count='sold'"):
        pr.Popularity(count="sold").fit(rankings)


@pytest.mark.parametrize("seed", range(3))
def test_borda_and_copeland_agree_with_loops_over_all_pairs(seed):
    rankings = random_rankings(seed)
    won, met = np.zeros(12), np.zeros(12)
    margin = np.zeros((12, 12))
    for first, second, tied, weight in pairs_of(rankings):
        won[first] += weight / 2 if tied else weight
        won[second] += weight / 2 if tied else 0.0
        met[[first, second]] += weight
        if not tied:
            margin[first, second] += weight
            margin[second, first] -= weight
    found = pr.Borda(prior_strength=3.0).fit(rankings).score(None)
    np.testing.assert_allclose(found, (1.5 + won) / (3 + met), rtol=1e-12)
    found = pr.Copeland().fit(rankings).score(None)
    np.testing.assert_allclose(found, np.sign(margin).sum(axis=1) / 11, rtol=0, atol=1e-12)


def test_borda_of_complete_ballots_orders_by_points_and_may_miss_the_condorcet_winner_that_copeland_finds():
    ballots = [["a", "b", "c"]] * 3 + [["b", "c", "a"]] * 2
    rankings = pr.Rankings.from_lists(ballots)
    assert pr.Borda().fit(rankings).rank(None, "abc".__iter__())["item"].to_list() == ["b", "a", "c"]
    assert pr.Copeland().fit(rankings).rank(None, ["a", "b", "c"])["item"].to_list() == ["a", "b", "c"]


def test_an_item_that_was_never_compared_is_neither_good_nor_bad():
    rankings = pr.Rankings.from_lists({"u": ["a", "b"], "v": ["c"]}, items=["d"])
    assert pr.Borda(prior_strength=0).fit(rankings).score(None).tolist() == [1.0, 0.0, 0.5, 0.5]
    assert pr.Copeland().fit(rankings).score(None)[2:].tolist() == [0.0, 0.0]


def test_random_orders_differ_between_users_and_seeds_and_have_equal_probabilities():
    rankings = pr.Rankings.from_lists(LISTS)
    model = pr.Random(seed=1).fit(rankings)
    assert (model.score("ann") != model.score("bob")).all()
    assert (model.score("ann") != pr.Random(seed=2).fit(rankings).score("ann")).all()
    assert (model.score(model.fold_in(["toro"])) != model.score(model.fold_in(["ebi"]))).all()
    np.testing.assert_array_equal(model.score("ann", ["uni"]), model.score("ann")[-1:])
    found = dict(zip([user for user in LISTS if LISTS[user]], np.exp(model.log_likelihood(rankings)), strict=True))
    assert math.isclose(found["ann"], 1 / 24)
    assert math.isclose(found["bob"], 2 / 6)
    assert math.isclose(found["dan"], 2 / 24)
    assert model.top_probability("ann", ["toro", "ebi", "uni"], 2).tolist() == [2 / 3] * 3
    rows = model.sample(None, ["toro", "ebi", "uni"], size=6000, seed=4)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert counts.size == 6
    assert chisquare(counts).pvalue > 1e-4
    with pytest.raises(UnknownIdError, match="'beer'"):
        model.log_likelihood(pr.Rankings.from_lists({"u": ["beer"]}))
