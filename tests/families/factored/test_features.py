"""Features and links in the factored model: what it has beside tests/posterior/test_side_information.py."""

import numba
import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import FeaturesWarning, InputError
from permrank.kernels.luce.likelihood import BRESLOW
from permrank.learning.shards import LocalEngine, using
from permrank.posterior import links
from permrank.posterior.known import Known
from permrank.posterior.prior_means import ScaledItemPrior, UserPrior, recentre
from permrank.posterior.problem import Problem

N_USERS, N_ITEMS = 300, 60


@pytest.fixture(scope="module")
def world():
    """Lists of 12 of 50 items; ten more have features only. Scores depend on a feature of items, and on a pair."""
    rng = np.random.default_rng(7)
    sweet, salty, age = rng.normal(size=N_ITEMS), rng.normal(size=N_ITEMS), rng.normal(size=N_USERS)
    scores = 0.9 * sweet + np.outer(1.2 * age, salty) + 0.3 * rng.normal(size=N_ITEMS)
    lists = {}
    for user in range(N_USERS):
        some = rng.permutation(N_ITEMS - 10)[:12]
        lists[user] = some[np.argsort(-(scores[user, some] + rng.gumbel(size=12)))].tolist()
    items = {"item": np.arange(N_ITEMS), "sweet": sweet, "salty": salty, "noise": rng.normal(size=N_ITEMS)}
    users = {"user": np.arange(N_USERS), "age": age, "luck": rng.normal(size=N_USERS)}
    rankings = pr.Rankings.from_lists(lists).with_features(items=items, users=users)
    return rankings, scores


def effect(model, item, user=None, level=0.95):
    found = model.effects(level).filter(
        (pl.col("of") == "score") & (pl.col("item_feature") == item)
        & (pl.col("user_feature").is_null() if user is None else pl.col("user_feature") == user)
    )  # fmt: skip
    return found.row(0, named=True)


def test_the_same_bits_for_any_number_of_shards_and_threads(world, monkeypatch):
    monkeypatch.setattr(links, "_ROWS", 8)  # rows of noise that 30 links share
    data = world[0].select(users=range(60)).with_links({"user": list(range(30)), "friend": list(range(30, 60))})
    small, n_threads = pr.FactoredPlackettLuce(n_factors=2, max_iter=16, seed=2), numba.get_num_threads()
    whole = small.clone().fit(data)
    for n_shards, threads in ((3, n_threads), (1, 1)):
        numba.set_num_threads(threads)
        try:
            with using(LocalEngine(n_shards)):
                again = small.clone().fit(data)
        finally:
            numba.set_num_threads(n_threads)
        for name in ("item_draws_", "link_strength_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    other = small.clone().set_params(seed=3).fit(data)
    assert not np.array_equal(other.link_strength_, whole.link_strength_)


def test_what_explains_a_score_adds_up_with_friends_and_without(world):
    data = world[0].select(users=range(40)).with_links({"user": list(range(10)), "friend": list(range(10, 20))})
    model = pr.FactoredPlackettLuce(n_factors=2, max_iter=16, seed=2).fit(data)
    for user in (0, 30, model.fold_in([1, 2], friends=[])):
        np.testing.assert_allclose(model.explain(user, 3)["contribution"].sum(), model.score(user, [3])[0], rtol=1e-9)


def test_a_shift_of_all_users_is_drawn_as_the_priors_have_it(world):
    data = world[0].select(users=range(40)).with_links({"user": list(range(20)), "friend": list(range(20, 40))})
    problem = Problem.of(data, BRESLOW, shuffle=False, intercepts=True, known=Known.of(data))
    items, users = ScaledItemPrior(problem, 2, 1.0), UserPrior(problem, 2)
    users.tau, rng = 1.5, np.random.default_rng(4)
    theta, draws = rng.normal(size=(data.n_items, 3)), rng.normal(size=(40, 2)) + 0.3
    items.update(theta, rng=rng)
    users.update(draws, rng)
    scale, ones = float(users.graph.scale(users.tau)), np.ones((40, 1))
    precision = np.diag(np.where(users.graph.linked, scale, 1.0)) + scale * users.tau * users.graph.laplacian(
        np.eye(40)
    )

    def log_prior(a):
        away = users.away(draws) - a
        left = theta[:, -1] + theta[:, :2] @ a - items.centre[:, -1]
        return -0.5 * np.sum(away * (precision @ away)) - 0.5 * items.precision[-1] * left @ left

    bend = (
        float(np.squeeze(ones.T @ precision @ ones)) * np.eye(2) + items.precision[-1] * theta[:, :2].T @ theta[:, :2]
    )
    h, found = 1e-3, []
    slope = [(log_prior(h * e) - log_prior(-h * e)) / (2 * h) for e in np.eye(2)]
    for _ in range(600):
        shifted, moved = theta.copy(), draws.copy()
        recentre(items, users, shifted, (moved, draws.copy()), rng)
        found.append(draws[0] - moved[0])
    np.testing.assert_allclose(moved @ shifted[:, :2].T + shifted[:, -1], draws @ theta[:, :2].T + theta[:, -1])
    covariance, mean = np.linalg.inv(bend), np.linalg.solve(bend, slope)
    z = (np.mean(found, axis=0) - mean) / np.sqrt(np.diag(covariance) / 600)
    assert np.abs(z).max() < 4.5
    assert np.abs(np.mean(found, axis=0) / np.sqrt(np.diag(covariance) / 600)).max() > 6  # control: a mean of 0
    np.testing.assert_allclose(np.cov(np.transpose(found)), covariance, rtol=0.35, atol=0.2 * covariance.max())


def test_point_estimates_say_what_they_do_not_learn_from(world):
    rankings = world[0]
    model = pr.FactoredPlackettLuce(n_factors=2, method="point", n_starts=1, tol=1e-3)
    with pytest.warns(FeaturesWarning, match="does not learn from features of items or features of users"):
        model.fit(rankings)
    plain = model.clone().fit(rankings.with_features(items=False, users=False).with_links(False))
    np.testing.assert_array_equal(plain.item_draws_, model.item_draws_)
    assert model.effects().height == 0
    linked = rankings.with_links({"user": [0, 1], "friend": [2, 3]})
    with pytest.warns(FeaturesWarning, match="links"):
        befriended = model.clone().fit(linked)
    assert befriended.prefers(0, 1, 2) == plain.prefers(0, 1, 2)
    listed = rankings.lists(rankings.user_ids[0])[0]
    for known in ({"features": {}}, {"friends": [rankings.user_ids[1]]}):
        with pytest.raises(InputError, match="the model has learnt from no"):
            model.fold_in(listed, **known)


def test_intervals_of_planted_effects_cover_them():
    found = []
    for seed in range(5):
        rng = np.random.default_rng([seed, 9])
        n_users, n_items = 150, 60
        size, kind, old = rng.integers(0, 5, n_items), rng.integers(0, 2, n_items), rng.integers(0, 2, n_users)
        x, z, age = (size - size.mean()) / size.std(), kind - kind.mean(), old - old.mean()
        everybody, of_items, of_users = (rng.normal(0.0, 0.8, 2) for _ in range(3))
        items = rng.normal(0.0, 0.5, (n_items, 2)) + np.outer(z, of_items)
        people = rng.normal(size=(n_users, 2)) + np.outer(age, of_users)
        scores = np.column_stack((x, z)) @ everybody + 0.4 * rng.normal(size=n_items) + people @ items.T
        lists = {}
        for user in range(n_users):
            some = rng.permutation(n_items)[:12]
            lists[user] = some[np.argsort(-(scores[user, some] + rng.gumbel(size=12)))].tolist()
        rankings = pr.Rankings.from_lists(lists).with_features(
            items={"item": np.arange(n_items), "size": size, "kind": np.where(kind, "b", "a")},
            users={"user": np.arange(n_users), "age": np.where(old, "old", "a child")},
        )
        model = pr.FactoredPlackettLuce(n_factors=3, max_iter=100, seed=seed).fit(rankings)
        planted = (("size", None, everybody[0]), ("kind: b", None, everybody[1]), ("kind: b", "age: old", None))
        for item, user, value in planted:
            row = effect(model, item, user, 0.9)
            found.append((row["low"], row["mean"], row["high"], of_items @ of_users if value is None else value))
    low, mean, high, planted = np.array(found).T
    covered = np.mean((low <= planted) & (planted <= high))
    # Of 15 intervals of 90 % fewer than 10 cover twice in a thousand times; a fourth of their width would not do.
    assert covered >= 10 / 15
    assert np.mean(np.abs(planted - mean) <= (high - low) / 8) < 10 / 15
    assert np.corrcoef(mean, planted)[0, 1] > 0.8
