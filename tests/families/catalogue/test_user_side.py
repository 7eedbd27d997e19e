"""The closed form among the users: the same estimate as among the items, its error against refits, the contract."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from graded import random_entries
from permrank.errors import InputError
from permrank.families.catalogue import closed_form, user_side
from permrank.families.catalogue.entries import Data
from permrank.families.catalogue.item_weights import (
    ItemScores,
    Penalties,
    gram_of,
    penalised_inverse,
    regression_matrix,
    regression_weights,
)
from permrank.families.catalogue.item_weights import leave_one_out_error as error_among_items
from permrank.families.catalogue.kernels.user_side import quadratic_forms
from permrank.testing.learning import LearningContract

PENALTIES = [Penalties(0.7, 0.0), Penalties(2.0, 0.5), Penalties(0.1, 3.0)]


class TestUserSideContract(LearningContract):
    other = {"ridge": 3.0}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _among_users(self, monkeypatch):
        monkeypatch.setattr(closed_form, "_among_users", lambda data: True)

    def make(self, **parameters):
        return pr.ItemToItem(**parameters)


def problem(seed, n_users=12, n_items=30):
    """Graded entries of few people, each of whom stands for several."""
    entries, dense = random_entries(seed, n_users, n_items)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, n_users)
    return Data(entries, n_items, weights), dense


@pytest.mark.parametrize("penalties", PENALTIES)
def test_both_sides_give_the_same_scores_to_anybody(penalties):
    data, dense = problem(1)
    matrix = regression_matrix(data.entries.scaled(np.sqrt(data.weights)), 30, penalties)
    scores = user_side.UserSideScores(user_side.user_side_weights(data, penalties), penalties, data)
    new, of_new = random_entries(2, 5, 30)
    for entries, rows in ((data.entries, dense), (new, of_new)):
        assert_allclose(scores.rows(entries), rows @ matrix, rtol=0, atol=1e-5 * np.abs(rows @ matrix).max())
    # The control: other penalties give other scores.
    wrong = user_side.UserSideScores(user_side.user_side_weights(data, penalties), Penalties(1.1, 0.2), data)
    assert np.abs(wrong.rows(new) - of_new @ matrix).max() > 1e-2


@pytest.mark.parametrize("penalties", PENALTIES)
def test_the_diagonal_and_the_error_are_those_among_items(penalties):
    data, _ = problem(3)
    scaled = data.entries.scaled(np.sqrt(data.weights))
    inverse = penalised_inverse(gram_of(scaled, 30), penalties)
    closed = user_side.solved(data, penalties)
    assert_allclose(closed.diagonal, np.diag(inverse), rtol=1e-6, atol=0)  # grades are scaled in single precision there
    everybody = np.arange(12)
    assert_allclose(user_side.leave_one_out_error(closed, everybody), error_among_items(scaled, inverse), rtol=1e-5)


def test_the_error_of_leaving_out_a_user_is_that_of_a_refit():
    data, dense = problem(4)
    data, ridge = data._replace(weights=np.ones(12)), 1.5
    total = 0.0
    for user in range(12):
        rest = np.delete(dense, user, axis=0)
        inverse = np.linalg.inv(rest.T @ rest + ridge * np.eye(30))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        total += ((dense[user] - dense[user] @ weights) ** 2).sum()
    closed = user_side.solved(data, Penalties(ridge, 0.0))
    assert_allclose(user_side.leave_one_out_error(closed, np.arange(12)), total / 12, rtol=1e-10, atol=0)


def test_penalties_are_those_with_the_least_error_of_all_that_were_tried():
    data, _ = problem(5, 40, 90)
    chosen, tried = user_side.choose_penalties(data)
    assert_allclose(chosen[:2], tried[tried[:, 2].argmin(), :2], rtol=1e-12, atol=0)
    assert len({error for _, _, error in tried.tolist()}) == len(tried) > 3


def test_many_users_are_sampled_while_penalties_are_chosen(monkeypatch):
    data, _ = problem(6, 60, 90)
    monkeypatch.setattr(user_side, "_JUDGES", 25)
    asked, solved = [], user_side.solved
    monkeypatch.setattr(
        user_side, "solved", lambda part, *rest: asked.append(part.entries.n_users) or solved(part, *rest)
    )
    user_side.choose_penalties(data)
    assert set(asked) == {25}


def test_a_score_is_the_sum_of_what_each_entry_adds():
    data, _ = problem(7)
    penalties = Penalties(1.3, 0.4)
    scaled = data.entries.scaled(np.sqrt(data.weights))
    matrix = regression_matrix(scaled, 30, penalties)
    scores = user_side.UserSideScores(user_side.user_side_weights(data, penalties), penalties, data)
    among_items = ItemScores(regression_weights(data, penalties))
    shares = np.random.default_rng(8).dirichlet(np.ones(30))
    new, dense = random_entries(9, 4, 30)
    for user in range(4):
        one, row = new.take(np.array([user])), dense[user]
        for item in (int(one.items[0]), int(np.flatnonzero(row == 0)[0])):
            own, mean = scores.contributions(one, item)
            assert_allclose(own, (row[:, None] * matrix)[one.items, item], rtol=0, atol=1e-6)
            assert_allclose(mean, (row[:, None] * matrix)[one.items].mean(axis=1), rtol=0, atol=1e-6)
            assert_allclose(scores.usual(one, shares, item), among_items.usual(one, shares, item), rtol=0, atol=2e-3)


def test_forms_are_those_of_the_columns():
    rng = np.random.default_rng(10)
    dense = np.where(rng.random((6, 9)) < 0.5, rng.normal(size=(6, 9)), 0.0)
    kernel = rng.normal(size=(6, 6))
    kernel = kernel + kernel.T
    items, users = np.nonzero(dense.T)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(items, minlength=9))))
    forms = quadratic_forms(indptr, users.astype(np.int32), dense.T[items, users], kernel)
    assert_allclose(forms, np.einsum("uj,uv,vj->j", dense, kernel, dense), rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def wide():
    """A recommender of 30 people and 60 items."""
    lists = pr.datasets.load("simulated", n_users=30, n_items=60)
    return pr.Recommender(n_factors=4).fit(pr.Rankings.from_lists([[set(items)] for items in lists.lists()]))


def test_a_file_is_small_and_answers_alike(wide, tmp_path):
    assert wide.user_kernel_.shape == (30 * 31 // 2,)
    assert wide.item_weights_.size == 0
    wide.save(tmp_path / "m.permrank")
    loaded = pr.load(tmp_path / "m.permrank")
    new = ["paella", "goulash"]
    for one, other in ((wide.recommend(1), loaded.recommend(1)),
                       (wide.recommend(wide.fold_in(new)), loaded.recommend(loaded.fold_in(new)))):  # fmt: skip
        assert one.equals(other)
    assert wide.explain(1, wide.recommend(1, k=1)["item"][0]).height > 1


def test_a_kernel_that_does_not_fit_is_refused(wide):
    estimate = wide.estimate_
    for changed in ({"user_kernel": estimate.user_kernel[:-1]}, {"diagonal": estimate.diagonal.astype(np.float64)}):
        broken = type(estimate)(**{**vars(estimate), **changed})
        with pytest.raises(InputError, match="user_kernel_ and diagonal_"):
            broken.check(30, 60)


@pytest.mark.parametrize(("shape", "among_users", "closed"), [((5, 9), True, True), ((9, 5), False, True)])
def test_the_smaller_side_is_taken(shape, among_users, closed, monkeypatch):
    data, _ = problem(11, *shape)
    assert closed_form.can_regress(data) is closed
    assert (closed_form.regression(data, Penalties(1.0, 0.1)).kernel.size > 0) is among_users
    monkeypatch.setattr(closed_form, "MOST_DENSE", 4)
    assert not closed_form.can_regress(data)
