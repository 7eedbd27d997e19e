"""The learner that pairwise factorisation, CofiRank and ListNet share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import permrank as pr
from permrank.errors import ConvergenceWarning, InputError
from permrank.families.matrix.learning import Data, Design, Objective, Penalties, mean_curvature, noise_penalty
from permrank.families.matrix.losses import relevance

MODELS = {
    "squared pairs": lambda **kw: pr.PairwiseFactorisation(**{"loss": "squared", **kw}),
    "hinge pairs": lambda **kw: pr.PairwiseFactorisation(**{"loss": "hinge", **kw}),
    "logistic pairs": lambda **kw: pr.PairwiseFactorisation(**kw),
    "cofirank ndcg": lambda **kw: pr.CofiRank(**kw),
    "cofirank ordinal": lambda **kw: pr.CofiRank(**{"loss": "ordinal", **kw}),
    "cofirank squared": lambda **kw: pr.CofiRank(**{"loss": "squared", **kw}),
    "listnet": lambda **kw: pr.ListNet(**kw),
    "listmle": lambda **kw: pr.ListNet(**{"loss": "listmle", **kw}),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def planted(n_users=400, seed=0, **options):
    options = {"n_factors": 2, "separation": 0.0, "n_communities": 1, **options}
    return pr.datasets.simulated(n_users, 30, seed=seed, **options)


@every_model
def test_the_gradient_of_the_whole_objective_is_its_difference(make):
    rankings = planted(30, ties=4, list_length=8).rankings
    data, rng = Data.of(rankings), np.random.default_rng(0)
    design = Design(rng.normal(size=(30, 2)), rng.normal(size=(rankings.n_entries, 3)), intercepts=True, n_factors=3)
    penalties = Penalties(rng.uniform(0.1, 1, 30), rng.uniform(0.1, 1, 30), 0.3, 0.2)
    objective = Objective(data, make()._loss(rankings, rankings), design, penalties)
    point = 0.5 * rng.normal(size=objective.size)
    gradient = objective(point)[1]
    for direction in rng.normal(size=(4, point.size)):
        h = 1e-5
        slope = (objective(point + h * direction)[0] - objective(point - h * direction)[0]) / (2 * h)
        assert_allclose(slope, gradient @ direction, rtol=1e-5, atol=1e-5)


@every_model
def test_planted_scores_are_found_again_better_than_by_an_order_for_everybody(make):
    rankings, truth = planted(list_length=12, seed=1, noise=0.5)
    model = make(n_factors=4).fit(rankings)
    own, alike = [], []
    for u in range(60):
        scores = truth.scores(u)[0]
        own.append(np.corrcoef(model.score(rankings.user_ids[u]), scores)[0, 1])
        alike.append(np.corrcoef(model.item_intercepts_, scores)[0, 1])
    gain = np.subtract(own, alike)
    assert gain.mean() > 3 * gain.std() / np.sqrt(60)
    assert (np.diff(model.history_) >= 0).all()
    assert model.converged_


@every_model
def test_folding_in_a_users_own_list_gives_that_users_scores(make):
    rankings = planted(150, ties=5).rankings
    model = make(n_factors=3, tol=1e-9, max_iter=3000).fit(rankings)
    users = list(rankings.user_ids)[:4]
    for user in users:
        new = model.fold_in(rankings.select(users=[user]))
        assert_allclose(model.score(new), model.score(user), rtol=0, atol=2e-2)
    many = model.fold_in_many(rankings.select(users=users))
    assert_allclose(many[-1], new.state["factors"], rtol=0, atol=1e-3)


def test_noise_without_structure_gives_no_factors_and_structure_does():
    rng = np.random.default_rng(0)
    lists = {user: rng.permutation(30)[:10].tolist() for user in range(300)}
    noise = pr.Rankings.from_lists(lists)
    # Twice the norm of half the noise: the penalty that keeps all of it out.
    data = Data.of(noise)
    loss = pr.PairwiseFactorisation()._loss(noise, noise)
    counts = np.full(300, 10.0), np.bincount(noise.items, minlength=30) + 50.0
    level = noise_penalty(loss(np.zeros(noise.n_entries))[1], data, *counts, seed=0)
    nothing = pr.PairwiseFactorisation(4, user_penalty=1.2 * level, item_penalty=1.2 * level).fit(noise)
    assert np.abs(nothing.user_factors_ @ nothing.item_factors_.T).max() < 1e-3
    something = pr.PairwiseFactorisation(4, user_penalty=0.5 * level, item_penalty=0.5 * level).fit(noise)
    assert np.abs(something.user_factors_ @ something.item_factors_.T).max() > 1e-2


def test_the_level_of_noise_is_half_the_largest_singular_value():
    rankings = planted(20).rankings
    data, rng = Data.of(rankings), np.random.default_rng(1)
    residual, users, items = rng.normal(size=rankings.n_entries), rng.uniform(1, 9, 20), rng.uniform(1, 9, 30)
    matrix = np.zeros((20, 30))
    signs = np.random.default_rng(7).choice([-1.0, 1.0], residual.size)
    matrix[data.user_of_entry, data.items] = signs * residual
    matrix /= np.sqrt(np.outer(users, items))
    wanted = np.linalg.svd(matrix, compute_uv=False)[0] / 2
    assert_allclose(noise_penalty(residual, data, users, items, seed=7), wanted, rtol=1e-2, atol=0)


def test_the_mean_curvature_of_a_quadratic_is_its_own():
    assert_allclose(mean_curvature(lambda s: (1.5 * float(s @ s), 3.0 * s), 50, seed=0), 3.0, rtol=1e-12, atol=0)


def test_a_list_counts_as_its_entries_and_never_hangs_on_one_of_them():
    strict = pr.Rankings.from_lists([list(range(50))], users=["u"])
    value, _ = pr.PairwiseFactorisation(loss="squared")._loss(strict, strict)(np.zeros(50))
    assert_allclose(value, 50, rtol=1e-12, atol=0)  # (1 - 0)² for every pair
    nearly_tied = pr.Rankings.from_lists([[0, set(range(1, 50))]], users=["u"])
    _, gradient = pr.PairwiseFactorisation(loss="squared")._loss(nearly_tied, nearly_tied)(np.zeros(50))
    assert np.abs(gradient).max() <= 4 + 1e-12  # twice the slope of one pair, weighed 2 / (n - 1), over n - 1 others


def test_relevance_is_on_one_scale():
    frame = {"user": [1, 1, 1, 2], "item": ["a", "b", "c", "a"], "rating": [10, 60, 110, 10]}
    rated = pr.Rankings.from_ratings(frame)
    assert relevance(rated, rated).tolist() == [5.0, 3.0, 1.0, 1.0]
    lists = pr.Rankings.from_lists({1: ["a", {"b", "c"}, "d"], 2: ["a"]})
    assert relevance(lists, lists).tolist() == [5.0, 3.0, 3.0, 1.0, 3.0]
    assert relevance(lists, rated).tolist() == [5.0, 3.0, 3.0, 1.0, 3.0]
    wild = pr.Rankings.from_ratings({"user": [1, 1], "item": ["a", "b"], "rating": [500, -3]})
    assert relevance(wild, rated).tolist() == [5.0, 1.0]
    same = pr.Rankings.from_ratings({"user": [1, 1], "item": ["a", "b"], "rating": [2, 2]})
    assert relevance(same, same).tolist() == [3.0, 3.0]


@every_model
def test_weights_count_as_copies(make):
    lists = [["a", "b", "c"], ["c", "a", "d"], ["d", {"b", "a"}]]
    once = pr.Rankings.from_lists(lists, users=["u", "v", "w"], weights=[1.0, 3.0, 1.0])
    copies = pr.Rankings.from_lists([*lists, lists[1], lists[1]], users=["u", "v", "w", "v", "v"])
    scores = dict(zip("abcd", np.random.default_rng(0).normal(size=4), strict=True))
    found = []
    for rankings in (once, copies):
        value, gradient = make()._loss(rankings, rankings)(
            np.array([scores[item] for item in rankings.item_ids.take(rankings.items.astype(int))])
        )
        found.append((value, np.bincount(rankings.items, gradient)))
    assert_allclose(found[0][0], found[1][0], rtol=1e-12, atol=0)
    assert_allclose(found[0][1], found[1][1], rtol=1e-12, atol=1e-14)


@every_model
def test_a_fit_that_is_stopped_short_warns(make):
    with pytest.warns(ConvergenceWarning):
        make(max_iter=2).fit(planted(40).rankings)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (pr.PairwiseFactorisation(n_factors=-1), "n_factors=-1, expected a whole number from"),
        (pr.PairwiseFactorisation(loss="ndcg"), "loss='ndcg'"),
        (pr.CofiRank(intercepts=1), "intercepts=1, expected True or False"),
        (pr.ListNet(max_iter=0), "max_iter=0"),
        (pr.ListNet(tol=0), "tol=0"),
        (pr.CofiRank(seed=-1), "seed=-1"),
        (pr.PairwiseFactorisation(user_penalty=-1), "user_penalty=-1"),
        (pr.PairwiseFactorisation(item_penalty="much"), "item_penalty='much'"),
        (pr.PairwiseFactorisation(weighting="none"), "weighting='none'"),
        (pr.PairwiseFactorisation(smoothing=-1), "smoothing=-1"),
        (pr.PairwiseFactorisation(n_partners=0), "n_partners=0"),
        (pr.CofiRank(penalty=0), "penalty=0"),
        (pr.CofiRank(truncation=0), "truncation=0"),
        (pr.CofiRank(smoothing=float("nan")), "smoothing=nan"),
        (pr.ListNet(penalty=True), "penalty=True"),
        (pr.ListNet(0, intercepts=False), "nothing to learn: no features, no factors, no intercepts"),
    ],
)
def test_bad_parameters_of_one_model_are_refused_by_fit(model, message):
    with pytest.raises(InputError, match=message):
        model.fit(planted(10).rankings)


def test_pairs_are_scored_as_one_at_a_time():
    rankings = planted(60).rankings
    model = pr.PairwiseFactorisation(2).fit(rankings)
    users, items = list(rankings.user_ids)[:3], list(rankings.item_ids)[:3]
    expected = [model.score(u, [i])[0] for u, i in zip(users, items, strict=True)]
    assert_allclose(model.score_pairs(users, items), expected, rtol=1e-12, atol=0)
    with pytest.raises(InputError, match="3 users and 2 items"):
        model.score_pairs(users, items[:2])


def test_items_and_users_of_one_taste_are_neighbours():
    rng = np.random.default_rng(0)
    lists = {}
    for user in range(300):  # even users like even items, odd users odd ones
        seen = rng.permutation(20)[:10]
        keys = 3.0 * (seen % 2 == user % 2) + rng.gumbel(size=10)
        lists[user] = seen[np.argsort(-keys)].tolist()
    model = pr.CofiRank(2, loss="squared").fit(pr.Rankings.from_lists(lists))
    assert all(item % 2 == 0 for item in model.similar_items(4, k=9)["item"])
    assert (model.similar_users(7, k=20)["user"] % 2 == 1).mean() > 0.8
    assert (model.similar_users(model.fold_in(lists[7]), k=20)["user"] % 2 == 1).mean() > 0.8
