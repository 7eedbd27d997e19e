"""pLPA: the contract, sums by plain loops, a second algorithm, planted communities, new people."""

import itertools
import math

import choix
import numpy as np
import pytest
from scipy.optimize import minimize

import permrank as pr
from permrank.errors import InputError
from permrank.families.pairwise.latent_preference_learning import PairedLists, appeal, em_update, learner_of, softmax
from permrank.learning.learner import run
from permrank.testing import ModelContract


class TestLatentPreferenceContract(ModelContract):
    supports = frozenset({"prefers"})

    def make(self, **parameters):
        return pr.LatentPreference(**{"n_communities": 2, "n_starts": 2, **parameters})


def logistic(x):
    return 1 / (1 + np.exp(-x))


def random_rankings(seed=0, n_users=9, n_items=6):
    rng = np.random.default_rng(seed)
    lists, users, weights = [], [], []
    for _ in range(2 * n_users):
        seen = rng.permutation(n_items)[: rng.integers(2, n_items + 1)].tolist()
        cut = int(rng.integers(0, len(seen)))
        lists.append([*seen[:cut], set(seen[cut : cut + 2]), *seen[cut + 2 :]])
        users.append(int(rng.integers(n_users)))
        weights.append(float(rng.integers(1, 4)))
    return pr.Rankings.from_lists(lists, users=users, weights=weights, items=range(n_items))


def weighted_pairs(rankings):
    """(user, better item, worse item, weight) of all pairs that are not tied."""
    owner = np.repeat(np.arange(rankings.n_users), np.diff(rankings.user_indptr))
    for r, user in enumerate(owner):
        entries = range(rankings.indptr[r], rankings.indptr[r + 1])
        for first, second in itertools.combinations(entries, 2):
            if rankings.levels[first] < rankings.levels[second]:
                weight = rankings.weights[r] * 2 / len(entries)
                yield user, rankings.items[first], rankings.items[second], weight


def objective_of(rankings, point, pooled, strength, concentration, k):
    """The definition, by a loop over pairs."""
    scores = point[: pooled.size * k].reshape(-1, k)
    theta = softmax(point[pooled.size * k :].reshape(-1, k))
    total = concentration / k * np.log(theta).sum()
    for user, y, x, weight in weighted_pairs(rankings):
        total += weight * np.log(theta[user] @ logistic(scores[y] - scores[x]))
    d = scores - pooled[:, None]
    return total + strength * np.sum(d - np.exp(d))


def test_an_em_step_has_the_objective_of_the_definition_and_raises_it():
    rankings, rng, k = random_rankings(), np.random.default_rng(1), 3
    pooled = rng.normal(size=6)
    problem = PairedLists.of(rankings, rankings.items, pooled, 0, strength=0.7, concentration=1.5, max_pairs=1000)
    update = em_update(problem, k)
    point = rng.normal(size=(1, 6 * k + rankings.n_users * k))
    values = []
    for _ in range(15):
        after, value = update(point)
        np.testing.assert_allclose(value[0], objective_of(rankings, point[0], pooled, 0.7, 1.5, k), rtol=1e-12)
        values.append(value[0])
        point = after
    assert (np.diff(values) > -1e-10).all()


def test_em_ends_where_a_general_optimiser_does():
    rankings, k = random_rankings(3), 2
    pooled = np.zeros(6)
    problem = PairedLists.of(rankings, rankings.items, pooled, 0, strength=0.5, concentration=2.0, max_pairs=1000)
    scores, theta = run(learner_of(problem, k, 1, 0, 1e-13), max_iter=5000).estimate
    point = np.concatenate([scores[0].ravel(), np.log(theta[0]).ravel()])

    def negative(point):
        return -objective_of(rankings, point, pooled, 0.5, 2.0, k)

    found = minimize(negative, point + 0.01 * np.random.default_rng(0).normal(size=point.size), method="L-BFGS-B")
    assert negative(point) <= found.fun + 1e-6
    np.testing.assert_allclose(negative(point), found.fun, rtol=1e-6)


def test_one_community_without_a_prior_is_bradley_terry():
    rng = np.random.default_rng(2)
    pairs = [rng.permutation(6)[:2].tolist() for _ in range(150)]
    rankings = pr.Rankings.from_lists(pairs, users=range(150), items=range(6))
    problem = PairedLists.of(rankings, rankings.items, np.zeros(6), 0, strength=1e-9, concentration=1.0, max_pairs=1000)
    scores = run(learner_of(problem, 1, 1, 0, 1e-15), max_iter=5000).estimate[0][0, :, 0]
    np.testing.assert_allclose(scores - scores.mean(), choix.ilsr_pairwise(6, pairs, tol=1e-12), rtol=0, atol=1e-4)


def planted(n_users=300, n_items=20, length=12, seed=0):
    """Two communities with opposite tastes; everybody belongs to one."""
    rng = np.random.default_rng(seed)
    scores = np.stack([np.linspace(2, -2, n_items), np.linspace(-2, 2, n_items)])
    community = rng.integers(2, size=n_users)
    lists = []
    for z in community:
        seen = rng.permutation(n_items)[:length]
        lists.append(seen[np.argsort(-(scores[z, seen] + rng.gumbel(size=length)))].tolist())
    return pr.Rankings.from_lists(lists, users=range(n_users), items=range(n_items)), community


def test_planted_communities_are_found_again_and_new_people_join_them():
    rankings, community = planted()
    model = pr.LatentPreference(2, n_starts=2).fit(rankings)
    for start in range(2):
        first = model.memberships_[start, :, 0] > 0.5
        assert max(np.mean(first == community), np.mean(first != community)) > 0.99
    assert (np.diff(model.history_) >= -1e-9 * abs(model.history_[-1])).all()
    new = model.fold_in([19, 17, 14, 10, 6, 3, 1])
    assert model.rank(new, [0, 9, 18])["item"].to_list() == [18, 9, 0]
    assert model.rank(model.fold_in([1, 3, 6, 10, 14, 17, 19]), [0, 9, 18])["item"].to_list() == [0, 9, 18]
    again = model.fold_in(rankings.lists(5)[0])
    np.testing.assert_allclose(again.state["memberships"], model.memberships_[:, 5], rtol=0, atol=0.02)
    assert model.communities(3)["items"].list.len().to_list() == [3, 3]


def test_answers_are_means_over_starts_and_communities():
    rankings, _ = planted(60)
    model = pr.LatentPreference(2, n_starts=2).fit(rankings)
    chances = logistic(model.scores_[:, 4] - model.scores_[:, 11])
    assert math.isclose(model.prefers(7, 4, 11), np.mean(np.sum(model.memberships_[:, 7] * chances, axis=1)))
    frequency = np.bincount(rankings.items) / rankings.n_entries
    gaps = model.scores_[:, 4, None, :] - model.scores_
    wanted = np.mean(np.sum(model.memberships_[:, 7] * np.einsum("x,sxz->sz", frequency, logistic(gaps)), axis=1))
    assert math.isclose(model.score(7, [4])[0], wanted, rel_tol=1e-9)


def test_quantiles_of_many_items_stand_for_all():
    rng = np.random.default_rng(0)
    scores, frequency = rng.normal(size=(3000, 2)), rng.gamma(1.0, size=3000)
    found = appeal(scores, frequency)
    for item in (0, 17, 2999):
        wanted = logistic(scores[item] - scores).T @ frequency / frequency.sum()
        np.testing.assert_allclose(found[item], wanted, rtol=0, atol=1e-3)


def test_pairs_that_are_drawn_serve_nearly_as_well_as_all():
    rankings, _ = planted(200)
    settings = {"n_communities": 2, "n_starts": 1}
    full = pr.LatentPreference(**settings).fit(rankings)
    drawn = pr.LatentPreference(**settings, max_pairs=30).fit(rankings)  # of 66
    assert (full.score(0) != drawn.score(0)).all()
    assert np.corrcoef(full.score(0), drawn.score(0))[0, 1] > 0.98


def test_ballots_count_as_often_as_they_were_given():
    lists, settings = [["a", "b", "c"], ["c", "b", "a"]], {"n_communities": 2, "n_starts": 1, "tol": 1e-10}
    once = pr.LatentPreference(**settings).fit(pr.Rankings.from_lists(lists, weights=[5, 2]))
    seven = pr.Rankings.from_lists([*lists[:1] * 5, *lists[1:] * 2], users=range(7))
    often = pr.LatentPreference(**settings).fit(seven)
    # The extrapolated steps differ, so the way to the optimum does.
    np.testing.assert_allclose(once.score(None), often.score(None), rtol=0, atol=1e-4)
    np.testing.assert_allclose(once.communities()["size"], often.communities()["size"], rtol=0, atol=1e-3)


def test_bad_parameters_are_refused():
    for parameters in (
        {"n_communities": 0},
        {"prior_strength": 0},
        {"concentration": -1},
        {"max_pairs": 0},
        {"tol": 0},
    ):
        with pytest.raises(InputError, match=next(iter(parameters))):
            pr.LatentPreference(**parameters).fit(pr.Rankings.from_lists([["a", "b"]]))


def test_many_pairs_at_once_are_those_of_one_at_a_time():
    model = pr.LatentPreference(2, n_starts=9, max_iter=20, tol=1e-2).fit(random_rankings())
    users = model.user_ids.ids.to_list()[:2]
    asked = [(user, *pair) for user in users for pair in itertools.pairwise(model.item_ids)]
    found = model.prefers_pairs(*zip(*asked, strict=True))
    assert found.tolist() == [model.prefers(*one) for one in asked]
    assert len(set(found.tolist())) == len(asked)
