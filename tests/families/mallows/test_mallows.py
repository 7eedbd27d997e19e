"""Mallows: the contract, probabilities and samples by enumeration, central orders, planted truth, partial lists."""

import itertools
import math

import numpy as np
import pytest

import permrank as pr
from laws import p_value
from permrank.errors import AccuracyWarning, InputError
from permrank.families.mallows import kemeny
from permrank.families.mallows.kernels.kemeny import order_cost
from permrank.families.mallows.kernels.mallows import (
    Centres,
    Draws,
    Listed,
    expected_distance,
    expected_pairs,
    list_log_probabilities,
    log_normalisers,
    precedence,
    repeated_insertion,
    spearman_precedence,
    spearman_rankings,
)
from permrank.ragged import frozen
from permrank.randomness import stream_key
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract

SUPPORTS = frozenset({"prefers", "top_probability", "position_probabilities", "sample", "log_likelihood"})


class TestMallowsContract(ModelContract):
    supports = SUPPORTS

    def make(self, **parameters):
        return pr.Mallows(**{"n_draws": 20, **parameters})


class TestMixtureContract(LearningContract):
    def make(self, **parameters):
        return pr.Mallows(**{"n_communities": 2, "n_starts": 3, "n_draws": 20, "tol": 0.05, **parameters})


def distance(order, centre, kind="kendall"):
    """By the definitions."""
    if kind == "kendall":
        return sum(order.index(a) > order.index(b) for a, b in itertools.combinations(centre, 2))
    return sum((order.index(item) - place) ** 2 for place, item in enumerate(centre))


def enumerated(centre, theta, kind="kendall"):
    """P of every order."""
    weights = {order: math.exp(-theta * distance(order, centre, kind)) for order in itertools.permutations(centre)}
    total = math.fsum(weights.values())
    return {order: weight / total for order, weight in weights.items()}


def agrees(order, ranking):
    """Whether an order has the blocks of a ranking one after the other."""
    places = [[order.index(item) for item in block] for block in ranking]
    return all(max(first) < min(second) for first, second in itertools.pairwise(places))


CENTRE = (2, 0, 4, 1, 3)
THETA = 0.6
COMMUNITY = Centres(np.array([CENTRE]), np.argsort([CENTRE], axis=1), np.array([THETA]))


def arrays_of(rankings):
    indptr = np.cumsum([0, *(sum(map(len, ranking)) for ranking in rankings)])
    items = [item for ranking in rankings for block in ranking for item in sorted(block)]
    levels = [level for ranking in rankings for level, block in enumerate(ranking) for _ in block]
    return Listed(*frozen(indptr, np.array(items, np.int32), np.array(levels, np.int32)))


@pytest.mark.parametrize("theta", [0.0, 1e-7, 1e-3, 0.6, 5.0])
def test_normaliser_mean_distance_and_precedence_are_sums_over_all_orders(theta):
    orders = enumerated(CENTRE, theta)
    log_total = math.log(math.fsum(math.exp(-theta * distance(order, CENTRE)) for order in orders))
    assert math.isclose(log_normalisers(theta, 5)[5], log_total, rel_tol=1e-12)
    mean = math.fsum(p * distance(order, CENTRE) for order, p in orders.items())
    assert math.isclose(expected_distance(theta, 5), mean, rel_tol=1e-9)
    chance = precedence(theta, 5)
    for i, j in itertools.combinations(range(5), 2):
        wanted = sum(p for order, p in orders.items() if order.index(CENTRE[i]) < order.index(CENTRE[j]))
        assert math.isclose(chance[j - i], wanted, rel_tol=1e-9)


@pytest.mark.parametrize("theta", [1e-9, 3e-6, 1.2e-5, 1e-3, 0.03, 0.06, 0.3])
def test_fifty_items_have_the_mean_distance_and_precedence_of_sums_at_any_dispersion(theta):
    """Formulas cancel for small theta, and the series that stand for them there are wrong for larger ones."""
    n, nearer, chance = 50, 0.0, precedence(theta, 50)
    for m in range(1, n + 1):  # an item goes before v = 0 .. m - 1 others; here v is counted from its even mean
        v = np.arange(m) - (m - 1) / 2
        nearer -= float(v @ np.expm1(-theta * v) / np.exp(-theta * v).sum())
    # What rounding does to 612.5, and to a half in the formula: some 1e-16 / theta.
    assert math.isclose(n * (n - 1) / 4 - expected_distance(theta, n), nearer, rel_tol=1e-6, abs_tol=1e-12 / theta**0.5)
    for gap in (1, 7, 49):
        first, last = (np.exp(-theta * np.arange(m)) for m in (gap, gap + 1))  # the ends of a centre of gap + 1
        wanted = sum(first[w] * last[: gap - w].sum() for w in range(gap)) / (first.sum() * last.sum())
        assert math.isclose(chance[gap] - 0.5, wanted - 0.5, rel_tol=1e-6, abs_tol=1e-10)


LISTS = [
    [{2}, {0}, {1}, {4}, {3}],
    [{3}, {1, 2}, {0, 4}],
    [{4}, {0, 1, 2, 3}],
    [{0}, {4}, {2}],  # neighbours in the centre
    [{3}, {2}],
    [{3, 1}, {2}],
    [{1}],
]


def list_probability(ranking, orders):
    return math.fsum(p for order, p in orders.items() if agrees(order, ranking))


def test_probabilities_of_ties_top_k_and_partial_lists_are_sums_over_the_orders_that_agree():
    orders = enumerated(CENTRE, THETA)
    log_z, draws = log_normalisers(THETA, 5)[None, :], Draws(stream_key(1), 20_000)
    found = np.exp(list_log_probabilities(arrays_of(LISTS), COMMUNITY, log_z, draws))[:, 0]
    wanted = [list_probability(ranking, orders) for ranking in LISTS]
    np.testing.assert_allclose(found[:4], wanted[:4], rtol=1e-12)
    np.testing.assert_allclose(found[6], 1.0, rtol=1e-12)
    np.testing.assert_allclose(found[4:6], wanted[4:6], rtol=0.03)  # drawn: six standard errors of 0.5 %


def test_expected_pairs_are_those_of_the_orders_that_agree():
    orders = enumerated(CENTRE, THETA)
    chances = precedence(THETA, 5)[None, :]
    for ranking in LISTS:
        n_draws, tolerance = (1, 1e-12) if sum(map(len, ranking)) == 5 else (20_000, 0.03)
        draws, ones = Draws(stream_key(2), n_draws), np.ones((1, 1))
        found = expected_pairs(np.array([0, 1]), arrays_of([ranking]), COMMUNITY, chances, ones, draws)[0, 0]
        total = list_probability(ranking, orders)
        for a, b in itertools.permutations(range(5), 2):
            wanted = sum(p for o, p in orders.items() if agrees(o, ranking) and o.index(a) < o.index(b)) / total
            assert abs(found[a, b] - wanted) < tolerance, (ranking, a, b)


@pytest.mark.parametrize("kind", ["kendall", "spearman"])
def test_samples_follow_the_enumerated_distribution_and_not_that_of_another_dispersion(kind):
    centre, theta = CENTRE[:4], {"kendall": 0.5, "spearman": 0.1}[kind]
    centre = tuple(np.argsort(np.argsort(centre)).tolist())
    draw = repeated_insertion if kind == "kendall" else spearman_rankings
    rows = draw(np.array(centre), theta, stream_key(3), 20_000)
    assert p_value(rows, enumerated(centre, theta, kind)) > 1e-4
    assert p_value(rows, enumerated(centre, 1.2 * theta, kind)) < 1e-6


def test_precedence_under_spearman_is_a_sum_over_all_orders():
    table, orders = spearman_precedence(0.07, 5), enumerated(tuple(range(5)), 0.07, "spearman")
    for i, j in itertools.permutations(range(5), 2):
        wanted = sum(p for order, p in orders.items() if order.index(i) < order.index(j))
        assert math.isclose(table[i, j], wanted, rel_tol=1e-10)


@pytest.mark.parametrize("n", [2, 5, 7])
def test_central_orders_are_the_best_of_all(n):
    for seed in range(5):
        above = np.random.default_rng(seed).integers(0, 6, (n, n)).astype(float)
        np.fill_diagonal(above, 0)
        found = kemeny.kemeny_order(above, stream_key(0))
        best = min(
            sum(above[b, a] for a, b in itertools.combinations(order, 2)) for order in itertools.permutations(range(n))
        )
        assert math.isclose(found.cost, best)
        assert math.isclose(order_cost(above, found.order), best)
        assert found.gap == 0.0


def test_local_search_finds_the_best_order_of_sixteen_and_its_bound_holds(monkeypatch):
    rng = np.random.default_rng(4)
    for _ in range(3):
        above = rng.integers(0, 20, (16, 16)).astype(float)
        np.fill_diagonal(above, 0)
        monkeypatch.setattr(kemeny, "MOST_EXACT", 16)
        exact = kemeny.kemeny_order(above, stream_key(0))
        monkeypatch.setattr(kemeny, "MOST_EXACT", 2)
        searched = kemeny.kemeny_order(above, stream_key(0))
        assert exact.gap == 0
        assert searched.cost >= exact.cost - 1e-9
        assert searched.cost <= 1.02 * exact.cost
        assert searched.cost - searched.gap <= exact.cost + 1e-9


def drawn_rankings(centres, theta, n_people, seed=0, keep=None):
    rng = np.random.default_rng(seed)
    lists, community = [], rng.integers(len(centres), size=n_people)
    for person, z in enumerate(community):
        order = repeated_insertion(np.array(centres[z]), theta, stream_key(seed, person), 1)[0].tolist()
        if keep:
            seen = set(rng.permutation(len(order))[:keep].tolist())
            order = [item for item in order if item in seen]
        lists.append(order)
    return pr.Rankings.from_lists(lists, users=range(n_people), items=range(len(centres[0]))), community


def test_one_centre_and_its_dispersion_are_the_maximum_over_all_centres_and_dispersions():
    rankings, _ = drawn_rankings([(3, 1, 0, 2)], 0.4, 40, seed=2)
    model = pr.Mallows().fit(rankings)
    lists = [tuple(ranking) for ranking in rankings.lists()]

    def value(centre, theta):
        return -theta * sum(distance(order, centre) for order in lists) - len(lists) * log_normalisers(theta, 4)[4]

    best = max(value(centre, theta) for centre in itertools.permutations(range(4)) for theta in np.linspace(0, 2, 801))
    np.testing.assert_allclose(model.history_[-1], best, rtol=1e-5)
    assert model.history_[-1] >= best - 1e-9
    np.testing.assert_allclose(model.log_likelihood(rankings).sum(), model.history_[-1], rtol=1e-12)


@pytest.mark.parametrize("kind", ["kendall", "spearman"])
def test_answers_follow_from_the_distribution(kind):
    rankings, _ = drawn_rankings([(3, 1, 0, 2, 4), (4, 2, 1, 3, 0)], 0.9, 300, seed=5)
    model = pr.Mallows(2, distance=kind, n_starts=4).fit(rankings)
    assert (np.diff(model.history_) >= -1e-9).all()
    parts = [enumerated(tuple(c), t, kind) for c, t in zip(model.centres_.tolist(), model.dispersions_, strict=True)]
    share = model.memberships_[7]
    orders = {order: sum(s * part[order] for s, part in zip(share, parts, strict=True)) for order in parts[0]}
    before = sum(p for order, p in orders.items() if order.index(1) < order.index(3))
    np.testing.assert_allclose(model.prefers(7, 1, 3), before, rtol=1e-9)
    places = [sum(p * order.index(item) for order, p in orders.items()) for item in range(5)]
    np.testing.assert_allclose(model.score(7), 1 - np.array(places) / 4, rtol=1e-9)
    whole = {order: sum(w * part[order] for w, part in zip(model.weights_, parts, strict=True)) for order in orders}
    asked = list(itertools.islice(whole, 0, 120, 17))
    found = model.log_likelihood(pr.Rankings.from_lists(asked, users=range(len(asked))))
    np.testing.assert_allclose(np.exp(found), [whole[order] for order in asked], rtol=1e-9)
    law = {
        order: sum(p for o, p in orders.items() if tuple(i for i in o if i in order) == order)
        for order in itertools.permutations([0, 2, 4])
    }
    assert p_value(model.sample(7, [0, 2, 4], size=6000, seed=2), law) > 1e-4


def case_of(rng, n):
    """A centre, a dispersion and a partial list of some of n items, perhaps with ties."""
    centre, size = rng.permutation(n), int(rng.integers(2, n))
    listed, levels = rng.permutation(n)[:size], np.sort(rng.integers(0, size, size))
    blocks = [set(listed[levels == level].tolist()) for level in np.unique(levels)]
    return centre, float(rng.choice([0.0, 0.2, 0.7, 1.5, 4.0])), blocks


def likelihood_of(centre, theta, blocks, size=1_000):
    """What a model with this centre and dispersion says of one list, and the error."""
    n = len(centre)
    model = pr.Mallows().fit(pr.Rankings.from_lists([list(range(n))]))
    model.fitted_ = model.fitted_.with_estimate(centres=np.array([centre], np.int64), dispersions=np.array([theta]))
    values, errors = model.log_likelihood_with_error(pr.Rankings.from_lists([blocks]), size)
    return values[0], errors[0]


def test_lists_that_leave_items_out_have_the_enumerated_probability_exactly():
    rng = np.random.default_rng(11)
    for _ in range(150):
        centre, theta, blocks = case_of(rng, int(rng.integers(3, 7)))
        value, error = likelihood_of(centre, theta, blocks)
        orders = enumerated(tuple(centre.tolist()), theta)
        assert error == 0.0
        np.testing.assert_allclose(value, np.log(list_probability(blocks, orders)), rtol=1e-9, atol=1e-12)


@pytest.fixture
def no_sums(monkeypatch):
    """Probabilities that could be summed are estimated."""
    monkeypatch.setattr("permrank.families.mallows.learning.MOST_WORK", 0)


def test_estimated_probabilities_are_within_their_errors(no_sums):
    rng, off, estimated = np.random.default_rng(12), [], 0
    for _ in range(150):
        centre, theta, blocks = case_of(rng, int(rng.integers(4, 7)))
        theta = min(theta, 1.5)
        value, error = likelihood_of(centre, theta, blocks, 4_000)
        truth = np.log(list_probability(blocks, enumerated(tuple(centre.tolist()), theta)))
        if error == 0.0:
            np.testing.assert_allclose(value, truth, rtol=1e-9, atol=1e-12)
            continue
        estimated += 1
        assert error < 0.25 or error == np.inf
        off.append((value - truth) / error)
    assert estimated > 40
    assert np.abs(off).max() < 5  # of about a hundred standard normal numbers
    # Where all draws agree the error is stated but not made, so that it may be less than one on the whole.
    assert 0.3 < np.sqrt(np.mean(np.square(off))) < 1.5
    few, many = (likelihood_of([0, 1, 2, 3, 4, 5], 0.7, [{5}, {2}, {0}], size)[1] for size in (100, 10_000))
    assert 5 < few / many < 20  # errors fall with the root of the number of draws


def test_long_lists_are_exact_where_few_items_are_left_out_and_estimates_agree(monkeypatch):
    centre = np.arange(30)
    blocks = [{int(item)} for item in np.delete(centre, [4, 11, 12, 20, 25])]
    blocks[3], blocks[4] = blocks[4], blocks[3]
    exact, error = likelihood_of(centre, 1.0, blocks)
    assert error == 0.0
    monkeypatch.setattr("permrank.families.mallows.learning.MOST_WORK", 0)
    value, error = likelihood_of(centre, 1.0, blocks, 5_000)
    assert 0 < error < 0.25
    assert abs(value - exact) < 5 * error
    with pytest.raises(InputError, match="size=0"):
        likelihood_of(centre, 1.0, blocks, 0)
    backwards = [{int(item)} for item in np.delete(centre, [4, 11])[::-1]]
    assert np.isfinite(likelihood_of(centre, 20.0, backwards)[0])  # about e^(-20 · 378)


def test_lists_with_short_gaps_and_lists_of_few_items_are_exact():
    short = [{int(item)} for item in np.random.default_rng(14).permutation(100)[:4]]
    long = [{int(item)} for item in np.delete(np.arange(42), np.arange(3, 39, 3))]
    for n, blocks in ((100, short), (42, long)):
        assert likelihood_of(np.arange(n), 0.3, blocks)[1] == 0.0


def test_too_few_draws_have_an_infinite_error(no_sums):
    for size, finite in ((5, False), (4_000, True)):
        value, error = likelihood_of(tuple(range(7)), 0.5, [{6}, {3}, {0}], size)
        assert np.isfinite(value)
        assert np.isfinite(error) == finite


def test_lists_against_the_centre_are_found_by_the_draws_too(no_sums):
    centre, n_known = tuple(range(7)), 0
    for theta in (1.0, 4.0):
        orders = enumerated(centre, theta)
        for listed in ([6, 3, 0], [6, 4, 1, 0], [5, 6, 0, 2], [6, 0, 3]):
            blocks = [{item} for item in listed]
            value, error = likelihood_of(centre, theta, blocks, 4_000)
            if np.isfinite(error):  # else the draws say themselves that they are too few
                n_known += 1
                assert abs(value - np.log(list_probability(blocks, orders))) < 0.02 + 5 * error < 0.3
    assert n_known >= 6


def test_planted_communities_are_found_again_and_new_people_join_them():
    centres = [tuple(range(8)), (7, 5, 6, 4, 0, 2, 1, 3)]
    rankings, community = drawn_rankings(centres, 1.0, 400, seed=1)
    model = pr.Mallows(2, n_starts=8).fit(rankings)
    found = [tuple(row) for row in model.centres_.tolist()]
    assert set(found) == set(centres)
    np.testing.assert_allclose(model.dispersions_, 1.0, rtol=0, atol=0.1)
    own = np.array([found.index(centres[z]) for z in community])
    assert np.mean(model.memberships_[np.arange(400), own] > 0.5) > 0.99
    new = model.fold_in(list(centres[1][:5]))
    assert new.state["memberships"][found.index(centres[1])] > 0.9
    assert model.rank(new, [0, 7])["item"].to_list() == [7, 0]


def test_a_centre_is_found_from_lists_that_leave_half_of_the_items_out():
    centre = (4, 2, 7, 0, 1, 6, 3, 5)
    rankings, _ = drawn_rankings([centre], 0.8, 400, seed=3, keep=4)
    model = pr.Mallows(tol=0.01).fit(rankings)
    assert distance(tuple(model.centres_[0].tolist()), centre) <= 1
    np.testing.assert_allclose(model.dispersions_, 0.8, rtol=0, atol=0.12)


def test_top_k_lists_give_what_complete_ones_give():
    rankings, _ = drawn_rankings([(1, 3, 0, 2, 4)], 0.7, 600, seed=8)
    tops = [ranking[:2] for ranking in rankings.lists()]
    top = pr.Rankings.from_lists(tops, users=range(600), items=range(5), unlisted="last")
    model = pr.Mallows().fit(top)
    assert model.centres_.tolist() == [[1, 3, 0, 2, 4]]
    np.testing.assert_allclose(model.dispersions_, 0.7, rtol=0, atol=0.12)
    assert (np.diff(model.history_) >= -1e-9).all()


def test_ballots_count_as_often_as_they_were_given():
    lists, weights = [["a", "b", "c"], ["c", "a", "b"]], [7.0, 2.0]
    once = pr.Mallows().fit(pr.Rankings.from_lists(lists, weights=weights))
    often = pr.Mallows().fit(pr.Rankings.from_lists([*lists[:1] * 7, *lists[1:] * 2], users=range(9)))
    np.testing.assert_allclose(once.dispersions_, often.dispersions_, rtol=1e-9)
    np.testing.assert_allclose(once.history_[-1], often.history_[-1], rtol=1e-9)


def test_a_model_can_be_fitted_again_to_other_items():
    model = pr.Mallows().fit(pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"]]))
    other = pr.Rankings.from_lists([[1, 2, 3, 4, 5], [1, 2, 3, 5, 4], [1, 3]])
    assert model.fit(other).centres_.shape == (1, 5)
    np.testing.assert_array_equal(model.score(None), pr.Mallows().fit(other).score(None))


def test_what_spearman_cannot_take_is_refused():
    for lists in ({"u": ["a", "b"], "v": ["c"]}, {"u": [{"a", "b"}, "c"]}, {"u": [*range(17)]}):
        with pytest.raises(InputError, match=r"distance='spearman' takes .*use 'kendall'"):
            pr.Mallows(distance="spearman").fit(pr.Rankings.from_lists(lists))
    for parameters in ({"n_communities": 0}, {"distance": "cayley"}, {"n_starts": 0}, {"n_draws": 0}, {"tol": 0}):
        with pytest.raises(InputError, match=next(iter(parameters))):
            pr.Mallows(**parameters).fit(pr.Rankings.from_lists([["a", "b"]]))


@pytest.mark.realdata
def test_the_best_centre_of_sushi_is_better_than_that_of_plackett_luce(data_folder):
    rankings = pr.datasets.load("sushi-10")
    model = pr.Mallows().fit(rankings)
    assert model.gaps_.tolist() == [0.0]
    lists, centre = rankings.lists(), model.communities()["ranking"][0].to_list()

    def nats(centre, theta):
        return theta * np.mean([distance(order, centre) for order in lists]) + log_normalisers(theta, 10)[10]

    theta = float(model.dispersions_[0])
    np.testing.assert_allclose(-model.log_likelihood(rankings).mean(), nats(centre, theta), rtol=1e-12)
    pooled = pr.PlackettLuce().fit(rankings).rank(None, centre)["item"].to_list()
    assert nats(centre, theta) < min(nats(pooled, t) for t in np.linspace(0.15, 0.3, 31)) < 14.32


def mallows_of(n_items, theta, n_communities=1):
    """A model with a given dispersion around the order of the ids."""
    model = pr.Mallows(n_communities).fit(pr.Rankings.from_lists([list(range(n_items))] * 3 * n_communities))
    centres, dispersions = np.tile(np.arange(n_items), (n_communities, 1)), np.full(n_communities, theta)
    model.fitted_ = model.fitted_.with_estimate(centres=centres, dispersions=dispersions)
    return model


def test_estimates_of_long_gaps_agree_with_counting():
    model, rng = mallows_of(100, 0.3), np.random.default_rng(4)
    draws = model.sample(None, size=20_000, seed=1)
    positions = np.argsort(draws, axis=1)
    compared = 0
    for row in model.sample(None, size=40, seed=2):
        kept = row[np.isin(row, rng.choice(100, 10, replace=False))]
        hits = int((np.diff(positions[:, kept], axis=1) > 0).all(axis=1).sum())
        if hits < 100:
            continue
        ((value,), (error,)) = model.log_likelihood_with_error(pr.Rankings.from_lists([kept.tolist()]), size=1_000)
        if np.isfinite(error):
            compared += 1
            assert abs(value - np.log(hits / len(draws))) < 5 * np.hypot(error, hits**-0.5) + 0.05
    assert compared >= 10


def test_a_rough_likelihood_is_said_to_be_one():
    # Thirty of a hundred items, where most lists need far more than the usual thousand draws.
    model, rng = mallows_of(100, 0.1), np.random.default_rng(6)
    rows = model.sample(None, size=6, seed=2)
    lists = [row[np.isin(row, rng.choice(100, 30, replace=False))].tolist() for row in rows]
    rankings = pr.Rankings.from_lists(dict(enumerate(lists)), items=range(100))
    with pytest.warns(AccuracyWarning, match="of 6 log-likelihoods are estimates with a standard error above"):
        model.log_likelihood(rankings)
    assert "are estimates" in pr.evaluate(model, rankings, metrics=["log_likelihood"]).notes[0]


def test_a_community_that_cannot_be_told_apart_does_not_hide_the_error_of_the_other():
    model = mallows_of(40, 20.0, 2)
    model.centres_[1] = model.centres_[0][::-1]
    model.fitted_ = model.fitted_.with_estimate(weights=np.array([0.5, 0.5]))
    lists = pr.Rankings.from_lists({"u": list(range(0, 40, 3))}, items=range(40))
    assert not np.isnan(model.log_likelihood_with_error(lists, size=50)[1]).any()


def test_answers_keep_to_the_distance_of_the_fit():
    model = pr.Mallows().fit(drawn_rankings([(3, 1, 0, 2)], 0.7, 60)[0])

    def answers():
        values, errors = model.log_likelihood_with_error(model.rankings_)
        return values.tolist(), errors.tolist(), model.summary().log_likelihood, model.simulate(seed=1).fingerprint

    before = answers()
    model.set_params(distance="spearman")
    assert answers() == before
