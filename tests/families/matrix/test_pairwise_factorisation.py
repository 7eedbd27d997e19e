"""Pairwise factorisation: the contract, the published objective, and probabilities of pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.errors import InputError, NotSupportedError
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract

LIKENESS = frozenset({"similar_items", "similar_users"})


class TestLogisticContract(ModelContract):
    supports = LIKENESS | {"prefers"}

    def make(self, **parameters):
        return pr.PairwiseFactorisation(**{"n_factors": 2, **parameters})


class TestHingeContract(LearningContract):
    def make(self, **parameters):
        return pr.PairwiseFactorisation(**{"n_factors": 2, "loss": "hinge", **parameters})


class TestSquaredContract(LearningContract):
    def make(self, **parameters):
        return pr.PairwiseFactorisation(**{"n_factors": 2, "loss": "squared", **parameters})


def test_the_published_objective_is_that_of_section_2():
    rankings = pr.datasets.simulated(40, 12, list_length=5, ties=3).rankings
    alpha, beta = 0.05, 0.03
    model = pr.PairwiseFactorisation(
        2, weighting="published", intercepts=False, user_penalty=alpha, item_penalty=beta, tol=1e-10, max_iter=2000
    ).fit(rankings)
    W, H = model.user_factors_, model.item_factors_
    assert (model.item_intercepts_ == 0).all()

    def objective(W, H):
        total = alpha * np.sum(W**2) + beta * np.sum(H**2)
        for u in range(40):
            a, b = rankings.indptr[u : u + 2]
            for i in range(a, b):
                for j in range(i + 1, b):
                    if rankings.levels[i] != rankings.levels[j]:
                        total += np.log1p(np.exp(-W[u] @ (H[rankings.items[i]] - H[rankings.items[j]]))) / 40
        return total

    assert_allclose(-40 * objective(W, H), model.history_[-1], rtol=1e-9, atol=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        d, e, h = rng.normal(size=W.shape), rng.normal(size=H.shape), 1e-5
        slope = (objective(W + h * d, H + h * e) - objective(W - h * d, H - h * e)) / (2 * h)
        assert abs(slope) < 1e-3


def test_a_hinge_without_smoothing_is_allowed_and_less_than_none_is_not():
    rankings = pr.datasets.simulated(40, 12, list_length=5).rankings
    model = pr.PairwiseFactorisation(2, loss="hinge", smoothing=0, tol=1e-3).fit(rankings)
    assert model.history_[-1] > model.history_[0]
    with pytest.raises(InputError, match="smoothing=-1, expected a finite number from 0"):
        pr.PairwiseFactorisation(2, loss="hinge", smoothing=-1).fit(rankings)


def test_the_probability_of_a_pair_is_the_logistic_of_the_difference():
    rankings = pr.datasets.simulated(60, 20).rankings
    model = pr.PairwiseFactorisation(2).fit(rankings)
    user, (a, b) = rankings.user_ids[0], list(rankings.item_ids)[:2]
    first, second = model.score(user, [a, b])
    wanted = 1 / (1 + np.exp(second - first))
    assert_allclose(model.prefers(user, a, b), wanted, rtol=1e-12, atol=0)
    assert_allclose(model.prefers_pairs([user, user], [a, b], [b, a]), [wanted, 1 - wanted], rtol=1e-12, atol=0)
    hinge = pr.PairwiseFactorisation(2, loss="hinge").fit(rankings)
    for ask in (lambda: hinge.prefers(user, a, b), lambda: hinge.prefers_pairs([user], [a], [b])):
        with pytest.raises(NotSupportedError):
            ask()


def test_drawn_partners_give_nearly_the_same_model_as_all_pairs():
    rankings = pr.datasets.simulated(100, 60, list_length=50, n_factors=2, separation=0.0, n_communities=1).rankings
    fits = [pr.PairwiseFactorisation(3, n_partners=m).fit(rankings) for m in (25, 12)]
    for user in list(rankings.user_ids)[:10]:
        assert np.corrcoef(fits[0].score(user), fits[1].score(user))[0, 1] > 0.97
