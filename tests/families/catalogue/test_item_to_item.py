"""Items by items: the closed form and its error against refits, the filter against matrices, grades, the contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import permrank as pr
from graded import random_entries
from permrank.families.catalogue import item_weights
from permrank.families.catalogue.entries import Data, Entries, Scale, user_weights
from permrank.families.catalogue.item_weights import (
    ItemScores,
    Penalties,
    choose_penalties,
    filter_weights,
    gram_of,
    leave_one_out_error,
    penalised_inverse,
    regression_matrix,
    regression_weights,
)
from permrank.learning.shards import LocalEngine, using
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract


class TestItemToItemContract(ModelContract):
    supports = frozenset({"similar_items"})
    other = {"ridge": 3.0}  # noqa: RUF012

    def make(self, **parameters):
        return pr.ItemToItem(**parameters)


class TestFilterContract(LearningContract):
    other = {"n_neighbours": 2}  # noqa: RUF012

    def make(self, **parameters):
        return pr.ItemToItem(**{"method": "filter"} | parameters)


@pytest.mark.parametrize("penalties", [Penalties(0.7, 0.0), Penalties(2.0, 0.5), Penalties(0.1, 3.0)])
def test_the_closed_form_is_the_ridge_regression_of_every_item_on_the_others(penalties):
    entries, dense = random_entries(1)
    found = regression_matrix(entries, 9, penalties)
    penalty = penalties.ridge + penalties.share * (dense**2).sum(axis=0)
    for item in range(9):
        others = np.delete(np.arange(9), item)
        features = dense[:, others]
        wanted = np.linalg.solve(features.T @ features + np.diag(penalty[others]), features.T @ dense[:, item])
        assert_allclose(found[others, item], wanted, rtol=1e-10, atol=1e-12)
        assert found[item, item] == 0.0


def test_the_error_of_leaving_out_a_user_is_that_of_a_refit():
    entries, dense = random_entries(2, n_users=14)
    penalties = Penalties(1.5, 0.0)
    total = 0.0
    for user in range(14):
        # The penalties are those of all users, so a refit has to be told them.
        rest = np.delete(dense, user, axis=0)
        inverse = np.linalg.inv(rest.T @ rest + penalties.ridge * np.eye(9))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        total += ((dense[user] - dense[user] @ weights) ** 2).sum()
    inverse = penalised_inverse(gram_of(entries, 9), penalties)
    assert_allclose(leave_one_out_error(entries, inverse), total / 14, rtol=1e-10, atol=0)


def test_products_of_items_have_the_same_bits_for_any_number_of_shards(monkeypatch):
    entries, dense = random_entries(4, n_users=60, n_items=12, density=0.5)
    whole = gram_of(entries, 12)
    assert_allclose(whole, dense.T @ dense, rtol=1e-6, atol=1e-9)
    monkeypatch.setattr(item_weights, "_ENTRIES_OF_A_BLOCK", 20)
    blocks = gram_of(entries, 12)
    for n_shards in (2, 3, 8):
        with using(LocalEngine(n_shards)):
            assert_array_equal(gram_of(entries, 12), blocks, strict=True)
    # The control: were there one block for each shard, sums would round otherwise.
    assert_allclose(blocks, whole, rtol=1e-12, atol=0)
    assert (blocks != whole).any()


def test_penalties_are_those_with_the_least_error_of_all_that_were_tried():
    entries, _ = random_entries(3, n_users=80, n_items=25, density=0.2)
    chosen, tried = choose_penalties(entries, 25)
    best = tried[tried[:, 2].argmin()]
    assert_allclose(chosen[:2], best[:2], rtol=1e-12, atol=0)
    gram = gram_of(entries, 25)
    errors = [leave_one_out_error(entries, penalised_inverse(gram, Penalties(*row[:2]))) for row in tried]
    assert_allclose(tried[:, 2], errors, rtol=1e-10, atol=0)
    # The control: what was not chosen among the neighbours is worse.
    assert min(errors) < max(errors)


@pytest.mark.parametrize(("most", "exponent"), [(1, 0.5), (3, 0.4), (8, 0.5), (100, 0.3)])
def test_the_filter_keeps_the_largest_weights_of_each_item(most, exponent):
    entries, dense = random_entries(6)
    weights = np.random.default_rng(7).uniform(0.5, 2.0, 30)
    found = filter_weights(entries, 9, weights, most, exponent)
    of_users, of_items = dense.sum(axis=1), weights @ dense
    scaled = dense / np.sqrt(np.where(of_users > 0, of_users, 1.0))[:, None] / of_items**exponent
    wanted = (scaled.T @ (weights[:, None] * scaled)) ** 0.7
    np.fill_diagonal(wanted, 0.0)
    for item in range(9):
        part = slice(found.indptr[item], found.indptr[item + 1])
        largest = np.argsort(-wanted[item], kind="stable")[: min(most, np.count_nonzero(wanted[item]))]
        assert_array_equal(found.neighbours[part], largest)
        assert_allclose(found.weights[part], wanted[item, largest], rtol=1e-5, atol=0)


def test_rows_are_products_with_the_weights():
    entries, dense = random_entries(8)
    closed, sparse = (
        regression_weights(Data(entries, 9, np.ones(30)), Penalties(1.0, 0.3)),
        filter_weights(entries, 9, np.ones(30), 8),
    )
    assert_allclose(ItemScores(closed).rows(entries), dense @ closed.matrix.astype(np.float64), rtol=1e-4, atol=1e-5)
    matrix = np.zeros((9, 9))
    for item in range(9):
        part = slice(sparse.indptr[item], sparse.indptr[item + 1])
        matrix[item, sparse.neighbours[part]] = sparse.weights[part]
    assert_allclose(ItemScores(sparse).rows(entries), dense @ matrix, rtol=1e-4, atol=1e-5)


def test_a_user_with_a_weight_counts_as_so_many_people():
    lists = [["a", "b"], ["b", "c", "d"], ["a", "d"], ["c", "d"]]
    weighted = pr.Rankings.from_lists(lists, users=range(4), weights=[1.0, 3.0, 1.0, 1.0])
    repeated = pr.Rankings.from_lists([*lists, lists[1], lists[1]], users=range(6))
    for method in ("regression", "filter"):
        model = pr.ItemToItem(method=method, ridge=1.0, dropout=0.5)
        one, many = model.clone().fit(weighted), model.clone().fit(repeated)
        assert_allclose(one.score(0), many.score(0), rtol=2e-3, atol=1e-3)  # half precision
        assert_allclose(one.popularity_, many.popularity_, rtol=1e-6, atol=0)


def test_grades_are_shares_of_the_scale():
    frame = {"user": [1, 1, 2, 2, 2], "item": list("abacd"), "rating": [1, 5, 4, 2, 3]}
    rankings = pr.Rankings.from_ratings(frame)
    scale = Scale.of(rankings)
    grades = dict(zip(zip(rankings.entry_users(), rankings.items, strict=True), scale.grades(rankings), strict=True))
    assert_allclose([grades[0, 0], grades[0, 1], grades[1, 0], grades[1, 2]], [0.2, 1.0, 0.8, 0.4], rtol=1e-6, atol=0)
    assert Scale.from_array(scale.as_array()) == scale
    halves = Scale.of(pr.Rankings.from_ratings({**frame, "rating": [0.5, 4, 3.5, 1, 2]}))
    assert (halves.lowest, halves.highest, halves.step) == (0.5, 4.0, 0.5)
    lists = pr.Rankings.from_lists({"u": ["a", "b"]})
    assert_array_equal(Scale.of(lists).grades(lists), [1.0, 1.0])
    # Somebody new who rates outside the scale is at its end.
    far = pr.Rankings.from_ratings({"user": [1, 1], "item": ["a", "b"], "rating": [11, -3]})
    assert_allclose(np.sort(scale.grades(far)), [0.2, 1.0], rtol=1e-12, atol=0)


def test_an_item_in_several_lists_of_a_user_counts_once():
    rankings = pr.Rankings.from_lists([["a", "b"], ["b", "c"], ["c", "d"]], users=["u", "u", "v"])
    entries = Entries.of(rankings, Scale.of(rankings))
    assert entries.indptr.tolist() == [0, 3, 5]
    assert entries.items.tolist() == [0, 1, 2, 2, 3]
    assert_array_equal(user_weights(rankings), [1.0, 1.0])


def test_taste_in_two_groups_is_found():
    rng = np.random.default_rng(9)
    lists = {}
    for user in range(120):
        own = rng.permutation(np.arange(20) + 20 * (user % 2))[:8].tolist()
        lists[f"u{user:03}"] = own
    rankings = pr.Rankings.from_lists(lists)
    for model in (pr.ItemToItem(), pr.ItemToItem(method="filter")):
        model.fit(rankings)
        assert all(item >= 20 for item in model.recommend("u001", k=8)["item"])
        assert all(item < 20 for item in model.recommend(model.fold_in([3, 5, 7]), k=8)["item"])
        assert all(item < 20 for item in model.similar_items(4, k=8)["item"])
