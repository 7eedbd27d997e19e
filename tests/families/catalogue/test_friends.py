"""What friends have taken up as a part of scores: sums against dense algebra, a strength that is found or left at 0."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.errors import InputError
from permrank.families.catalogue.blend import hold_out_entries
from permrank.families.catalogue.entries import Entries
from permrank.families.catalogue.friends import Friends, choose_strength, stacked
from permrank.posterior.links import UserGraph
from permrank.ragged import indptr_of
from permrank.rankings.links import Edges

N_USERS, N_ITEMS = 240, 80


@pytest.fixture(scope="module")
def world():
    """Households of two: most of what one has was taken over from the other, whatever others have."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(N_USERS // 2):
        common = rng.permutation(N_ITEMS)[:10]
        for _ in range(2):
            own = np.union1d(common[rng.random(10) < 0.7], rng.permutation(N_ITEMS)[:3])
            rows.append(np.sort(own).astype(np.int32))
    entries = Entries(indptr_of([row.size for row in rows]), np.concatenate(rows), np.ones(sum(map(len, rows)), "f4"))
    pairs = np.arange(0, N_USERS, 2)
    return entries, Edges(pairs, pairs + 1, np.ones(pairs.size))


def at_random(rng, n_links):
    pairs = np.sort(np.array([rng.permutation(N_USERS)[:2] for _ in range(n_links)]), axis=1)
    pairs = np.unique(pairs, axis=0)
    return Edges(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)))


def table(entries):
    full = np.zeros((entries.n_users, N_ITEMS))
    full[np.repeat(np.arange(entries.n_users), np.diff(entries.indptr)), entries.items] = entries.grades
    return full


def test_rows_are_those_of_dense_algebra(world):
    entries, _ = world
    edges = at_random(np.random.default_rng(0), 300)
    friends = Friends.of(UserGraph(edges, N_USERS), entries, N_ITEMS)
    links = np.zeros((N_USERS, N_USERS))
    links[edges.first, edges.second] = 1.0
    links += links.T
    degrees = np.maximum(links.sum(axis=1), 1.0)
    links /= np.sqrt(np.outer(degrees, degrees))
    full = table(entries)
    expected = links @ (full - full.mean(axis=0))
    rows = np.random.default_rng(1).normal(size=(5, N_ITEMS))
    asked = np.array([3, 7, 11, 200, 7])
    found = friends.add(rows.copy(), friends.of_users(asked), 1.5)
    assert_allclose(found, rows + 1.5 * rows.std(axis=1, keepdims=True) * expected[asked], rtol=1e-6, atol=1e-6)
    # Somebody new, and somebody without a friend.
    linked = np.array([[4.0, 9.0], [0.5, 0.25]])
    both = friends.add(rows[:2].copy(), stacked([friends.of_new(linked), friends.of_new(np.zeros((2, 0)))]), 1.0)
    had = 0.5 * (full[4] - full.mean(axis=0)) + 0.25 * (full[9] - full.mean(axis=0))
    assert_allclose(both[0], rows[0] + rows[0].std() * had, rtol=1e-6, atol=1e-6)
    assert_allclose(both[1], rows[1])


def test_a_strength_is_found_where_friends_are_alike_and_none_at_random(world):
    entries, edges = world
    known, judges = hold_out_entries(entries, N_ITEMS, seed=0)
    popularity = table(known).sum(axis=0)

    def usual(part):
        return np.tile(popularity.astype(np.float32), (part.n_users, 1))

    assert choose_strength(Friends.of(UserGraph(edges, N_USERS), known, N_ITEMS), usual, judges) >= 2.0
    # At two standard errors one graph in thirty or so has a strength; of ten hardly four.
    rng, found = np.random.default_rng(3), []
    for _ in range(10):
        graph = UserGraph(at_random(rng, edges.first.size), N_USERS)
        found.append(choose_strength(Friends.of(graph, known, N_ITEMS), usual, judges))
    assert np.count_nonzero(found) <= 3


def test_the_recommender_learns_from_links(world, tmp_path):
    entries, edges = world
    who = np.repeat(np.arange(N_USERS), np.diff(entries.indptr))
    data = pr.Rankings.from_interactions({"user": who, "item": entries.items.astype(np.int64)})
    # The last user has a friend and nothing else.
    links = {"user": [*edges.first.tolist(), N_USERS], "friend": [*edges.second.tolist(), 0]}
    model = pr.Recommender(n_factors=4).fit(data.with_links(links))
    assert model.friend_weight_ > 0
    assert pr.Recommender(n_factors=4).fit(data).friend_weight_ == 0
    mine, of_friend = (set(entries.items[entries.indptr[user] : entries.indptr[user + 1]].tolist()) for user in (0, 1))
    assert len((of_friend - mine) & set(model.recommend(0, k=5)["item"])) >= min(2, len(of_friend - mine))
    assert len(mine & set(model.recommend(N_USERS, k=5)["item"])) >= 3
    new = model.fold_in([], friends=[0])
    assert len(mine & set(model.recommend(new, k=5)["item"])) >= 3
    path = tmp_path / "x.permrank"
    model.save(path)
    assert pr.load(path).recommend([0, new, 5], k=5).equals(model.recommend([0, new, 5], k=5))
    for user in (0, new):
        found = model.recommend(user, k=2)
        for item, score in found.select("item", "score").rows():
            assert_allclose(model.explain(user, item)["contribution"].sum(), score, rtol=1e-3, atol=1e-3)
    with pytest.raises(InputError, match="no links"):
        pr.Recommender(n_factors=4).fit(data).fold_in([], friends=[0])
    with pytest.raises(InputError, match="features"):
        model.fold_in([], features={"age": 3})
