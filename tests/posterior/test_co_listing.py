"""What is listed together: found where it was planted, not found where lists are random, and of use."""

import numpy as np
import pytest
from scipy import sparse

import permrank as pr
from permrank.posterior.co_listing import co_listing_coordinates, coordinate_parts, user_coordinates
from permrank.rankings.selection import hold_out


def circles(n_users, n_items, n_each, *, share, seed):
    """Users of two circles; a share of what they list comes from their circle's half of the items, in random order."""
    rng = np.random.default_rng(seed)
    lists = {}
    for user in range(n_users):
        own = np.where(np.arange(n_items) % 2 == user % 2, share, 1.0 - share)
        lists[user] = rng.choice(n_items, n_each, replace=False, p=own / own.sum()).tolist()
    return pr.Rankings.from_lists(lists, items=range(n_items))


def scaled(rankings):
    """The matrix as the text has it, dense."""
    bounds = rankings.indptr[rankings.user_indptr]
    users, items = np.diff(bounds), np.bincount(rankings.items, minlength=rankings.n_items)
    matrix = sparse.csr_array((np.ones(rankings.n_entries), rankings.items, bounds), shape=(users.size, items.size))
    return matrix.toarray() / np.sqrt(np.outer(users + 1, items + 10))


def test_two_circles_are_one_dimension_that_parts_them():
    rankings = circles(300, 40, 8, share=0.8, seed=0)
    table = co_listing_coordinates(rankings, 0)
    assert table.shape == (40, 1)
    places = user_coordinates(table, rankings.indptr[rankings.user_indptr], rankings.items)[:, 0]
    np.testing.assert_allclose(places.std(), 1.0)
    assert np.ptp(np.sign(table[::2, 0])) == np.ptp(np.sign(table[1::2, 0])) == 0
    assert table[0, 0] * table[1, 0] < 0
    assert np.mean(np.sign(places[::2]) == np.sign(table[0, 0])) > 0.9


def test_the_dimensions_are_singular_vectors():
    rankings = circles(200, 30, 8, share=0.85, seed=1)
    _, values, vectors = np.linalg.svd(scaled(rankings))
    table = co_listing_coordinates(rankings, 3)
    counts = np.bincount(rankings.items, minlength=30)
    for k in range(table.shape[1]):
        expected = vectors[k + 1] / np.sqrt(counts + 10)
        expected -= np.average(expected, weights=counts)
        assert abs(np.corrcoef(expected, table[:, k])[0, 1]) > 0.9999
    assert values[1] > 1.2 * values[2]


@pytest.mark.parametrize("seed", range(5))
def test_lists_at_random_have_no_company(seed):
    assert co_listing_coordinates(circles(300, 40, 8, share=0.5, seed=seed), seed).shape == (40, 0)
    everything = pr.Rankings.from_lists({u: np.random.default_rng(u).permutation(6).tolist() for u in range(30)})
    assert co_listing_coordinates(everything, seed).shape == (6, 0)


def test_who_lists_an_item_several_times_counts_once():
    rng = np.random.default_rng(0)
    once, thrice, pairs = {}, [], []
    for user in range(300):
        own = rng.choice(40, 6, replace=False)
        once[user] = own.tolist()
        thrice += [(user, rng.permutation(own).tolist()) for _ in range(3)]
        pairs += [(user, [a, b]) for i, a in enumerate(own.tolist()) for b in own.tolist()[:i]]
    for many in (thrice, pairs):
        users, lists = zip(*many, strict=True)
        rankings = pr.Rankings.from_lists(list(lists), users=list(users), items=range(40))
        assert co_listing_coordinates(rankings, 0).shape == (40, 0)
    # And where there is co-listing, it is that of the lists given once.
    gathered = circles(300, 40, 8, share=0.8, seed=0)
    doubled = [(u, gathered.lists(u)[0]) for u in range(300) for _ in range(2)]
    users, lists = zip(*doubled, strict=True)
    twice = co_listing_coordinates(pr.Rankings.from_lists(list(lists), users=list(users), items=range(40)), 0)[:, 0]
    assert abs(np.corrcoef(twice, co_listing_coordinates(gathered, 0)[:, 0])[0, 1]) > 0.9999


def test_few_items_have_few_dimensions():
    lists = {u: [3 * (u % 4) + k for k in range(3)] for u in range(80)}  # four circles that share no item
    assert co_listing_coordinates(pr.Rankings.from_lists(lists), 0).shape == (12, 1)


def test_tiny_data_have_no_company():
    for lists in ({"ann": ["a"]}, {"ann": ["a", "b"]}, {"ann": ["a"], "bob": ["b"]}):
        assert co_listing_coordinates(pr.Rankings.from_lists(lists), 0).shape[1] == 0


def test_a_place_is_the_sum_of_its_parts_and_nothing_has_no_place():
    table = np.random.default_rng(0).normal(size=(6, 3))
    items = np.array([4, 1, 5], np.int32)
    places = user_coordinates(table, np.array([0, 3, 3]), items)
    np.testing.assert_allclose(places[0], coordinate_parts(table, items).sum(axis=0))
    np.testing.assert_allclose(places[0], table[items].sum(axis=0) / 4)
    np.testing.assert_array_equal(places[1], 0)


def tastes(seed, *, choose):
    """Items of two kinds; whoever likes a kind puts it first, and lists more of it if people choose what they list."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(400):
        likes = rng.choice([-1.0, 1.0])
        kind = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
        chance = np.exp(1.0 * likes * kind) if choose else np.ones(60)
        listed = rng.choice(60, 8, replace=False, p=chance / chance.sum())
        ratings = np.clip(np.round(3 + likes * kind[listed] + rng.normal(size=8)), 1, 5)
        rows += [(user, int(i), float(r)) for i, r in zip(listed, ratings, strict=True)]
    users, items, ratings = zip(*rows, strict=True)
    return pr.Rankings.from_ratings({"user": users, "item": items, "rating": ratings})


def pairs_right(model, test):
    right, n = 0.0, 0
    for user in range(test.n_users):
        for first, last in zip(test.indptr[:-1][user : user + 1], test.indptr[1:][user : user + 1], strict=True):
            items, levels = test.items[first:last], test.levels[first:last]
            scores = model.score(test.user_ids[user], test.item_ids.take(items.astype(np.int64)))
            better = levels[:, None] < levels[None, :]
            right += np.sum(better * (scores[:, None] > scores[None, :]))
            n += better.sum()
    return right / n


def test_what_people_choose_to_list_tells_of_their_taste():
    train, test = hold_out(tastes(0, choose=True), 0.5, seed=1)
    found = {c: pr.FactoredPlackettLuce(4, max_iter=60, co_listing=c).fit(train) for c in (True, False)}
    assert found[True].co_listing_.shape == (60, 1)
    assert found[True].user_slopes_.shape == (len(found[True].item_draws_), 1, 5)  # four factors and the level
    assert found[False].co_listing_.shape == (60, 0)
    assert pairs_right(found[True], test) > pairs_right(found[False], test) + 0.01
    # Where lists are handed out it makes no difference: there is no dimension.
    assert pr.FactoredPlackettLuce(4, max_iter=4).fit(tastes(2, choose=False)).co_listing_.shape == (60, 0)


def test_with_company_folding_in_and_explanations_agree_with_what_was_learnt(tmp_path):
    rankings = tastes(3, choose=True)
    model = pr.FactoredPlackettLuce(4, max_iter=60).fit(rankings)
    assert model.co_listing_.shape[1] == 1
    folded = model.fold_in_many(rankings)
    np.testing.assert_allclose(folded.transpose(1, 0, 2), model.user_modes_, rtol=0, atol=0.05)
    unseen = next(i for i in range(60) if i not in rankings.lists(7)[0])
    frame = model.explain(7, unseen)
    np.testing.assert_allclose(frame["contribution"].sum(), model.score(7, [unseen])[0], rtol=0, atol=5e-3)
    # Of a new list without ratings, what its items do not explain is what the item has for everybody, and what the list
    # adds to all items on average.
    new = model.fold_in([0, 1, 2, 4])
    common = model.temperature_ * model.item_intercepts_
    on_average = np.average(model.score(new) - common, weights=np.bincount(rankings.items, minlength=60))
    baseline = model.explain(new, unseen)["contribution"][-1]
    np.testing.assert_allclose(baseline, common[unseen] + on_average, rtol=0, atol=1e-4)
    # Somebody new who lists even items, all rated alike, likes even ones better than one who lists odd ones.
    even, odd = (model.fold_in(dict.fromkeys(range(k, 20 + k, 2), 4)) for k in (0, 1))
    gaps = [model.score(who, [40])[0] - model.score(who, [41])[0] for who in (even, odd)]
    assert gaps[0] > gaps[1] + 0.2
    path = tmp_path / "model.permrank"
    model.save(path)
    np.testing.assert_array_equal(pr.load(path).score(even, [40]), model.score(even, [40]))


def test_the_likelihood_of_somebody_new_is_an_integral_over_the_prior_mean():
    """All orders of a list of three add up to one, and agree with plain averages over draws of the prior."""
    from itertools import permutations

    rankings = tastes(4, choose=True)
    model = pr.FactoredPlackettLuce(2, max_iter=30, n_draws=4, rating_thresholds=False).fit(rankings)
    assert model.co_listing_.shape[1] == 1
    orders = [list(order) for order in permutations([0, 2, 5])]
    lists = pr.Rankings.from_lists(orders, items=model.item_ids.ids.to_list())
    values, errors = model.log_likelihood_with_error(lists)
    errors *= np.exp(values)
    assert abs(np.exp(values).sum() - 1) < 5 * np.sqrt(np.sum(errors**2))
    assert errors.max() < 0.01
    rng, total = np.random.default_rng(0), np.zeros(6)
    place = model.co_listing_[[0, 2, 5]].sum(axis=0) / 4
    for theta, slopes in zip(model.item_draws_, model.user_slopes_, strict=True):
        users = place @ slopes + rng.normal(size=(20_000, 2))
        for j, order in enumerate(orders):
            worths = np.exp(users @ theta[order, :-1].T + theta[order, -1])
            total[j] += np.mean(worths[:, 0] / worths.sum(axis=1) * worths[:, 1] / worths[:, 1:].sum(axis=1)) / 4
    # 80,000 draws of a probability are off by at most sqrt(0.25 / 80,000) = 0.0018 themselves.
    assert (np.abs(np.exp(values) - total) < 5 * np.hypot(errors, 0.0018)).all()
