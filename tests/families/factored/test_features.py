"""Features and links in the factored model: planted ones are found, and what is new is known by them."""

import numba
import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import FeaturesWarning, InputError, UnknownIdError
from permrank.kernels.luce.likelihood import BRESLOW
from permrank.learning.shards import LocalEngine, using
from permrank.posterior import links
from permrank.posterior.known import Known
from permrank.posterior.prior_means import ItemPrior, UserPrior, recentre
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


@pytest.fixture(scope="module")
def model(world):
    return pr.FactoredPlackettLuce(n_factors=3, max_iter=150, seed=1).fit(world[0])


def effect(model, item, user=None, level=0.95):
    found = model.effects(level).filter(
        (pl.col("of") == "score") & (pl.col("item_feature") == item)
        & (pl.col("user_feature").is_null() if user is None else pl.col("user_feature") == user)
    )  # fmt: skip
    return found.row(0, named=True)


def test_planted_effects_are_found(model):
    assert len(model.item_effects_) > 2 * len(model.item_draws_)  # also from sweeps with a fold held out
    sweet, pair, noise = effect(model, "sweet"), effect(model, "salty", "age"), effect(model, "noise", "luck")
    # Planted are 0.9 and 1.2 times the deviations, which are near 1.
    assert 0.4 < sweet["low"] < sweet["high"] < 1.5
    assert 0.4 < pair["low"] < pair["high"] < 2.2
    assert abs(noise["mean"]) < 0.15
    assert abs(effect(model, "noise")["mean"]) < 0.25


def test_cold_start_items_are_ranked_as_well_as_the_posterior_says(model, world):
    rankings, scores = world
    cold = list(range(50, 60))
    assert not set(cold) & set(rankings.item_ids)
    right, expected = [], []
    rng = np.random.default_rng(0)
    for user in range(0, N_USERS, 2):
        a, b = rng.permutation(cold)[:2].tolist()
        chance = 1.0 / (1.0 + np.exp(scores[user, b] - scores[user, a]))  # what the planted model says
        p = model.prefers(user, a, b)
        right.append(chance * p + (1 - chance) * (1 - p))
        expected.append(p**2 + (1 - p) ** 2)
    # The expected mass on what happens, under the truth and under the posterior itself.
    assert np.mean(right) > 0.6
    assert abs(np.mean(right) - np.mean(expected)) < 0.06
    correlation = np.corrcoef(model.score(0)[50:], scores[0, 50:])[0, 1]
    assert correlation > 0.6


def test_recommend_includes_new_items_when_asked(model):
    usual, more = model.recommend(3, k=60), model.recommend(3, k=60, include_new=True)
    assert set(usual["item"]) == set(range(50)) - set(model.rankings_.lists(3)[0])
    assert set(more["item"]) - set(usual["item"]) == set(range(50, 60))
    said = dict(more.select("item", "stands_on").rows())
    assert {said[item] for item in range(50, 60)} == {"features"}
    assert {said[item] for item in usual["item"]} == {"rankings"}
    assert set(model.rank(3, [50, 0, 55])["item"]) == {0, 50, 55}


def test_new_users_are_known_by_their_features(model):
    old, young = (model.score(model.fold_in([], features={"age": age}), range(60)) for age in (2.0, -2.0))
    features = model.rankings_.features("item")
    salty = features.of(range(60))[:, features.names.index("salty")]
    assert np.corrcoef(old - young, salty)[0, 1] > 0.8
    with pytest.raises(UnknownIdError, match="agee"):
        model.fold_in([], features={"agee": 1.0})
    with pytest.raises(InputError, match="no links"):
        model.fold_in([], friends=[1])


def test_a_new_item_by_features_and_by_lists(model, world):
    features = world[0].features("item")
    like = {"sweet": 2.0, "salty": 0.0, "noise": 0.0}
    more = model.fold_in_item(99, features=like)
    assert more.item_ids.ids.to_list()[-1] == 99
    assert len(model.item_ids) == 60
    sweet = features.of(range(60))[:, 0]
    worst = int(np.argmin(sweet))
    assert np.mean([more.prefers(user, 99, worst) for user in range(0, 40, 4)]) > 0.7
    lists = {user: [*model.rankings_.lists(user)[0][:6], 99] for user in range(120)}
    disliked = model.fold_in_item(99, features=like, rankings=pr.Rankings.from_lists(lists))
    before, after = (np.mean([each.prefers(user, 99, 7) for user in range(0, 40, 4)]) for each in (more, disliked))
    assert after < before - 0.1
    with pytest.raises(InputError, match="knows item 5"):
        model.fold_in_item(5)
    with pytest.raises(InputError, match="no ranking mentions"):
        model.fold_in_item(99, rankings=pr.Rankings.from_lists({1: [2, 3]}))


def test_files_and_checkpoints_keep_all_of_it(model, world, tmp_path):
    model.save(tmp_path / "m.permrank")
    again = pr.load(tmp_path / "m.permrank")
    assert again.effects().equals(model.effects())
    assert again.prefers(1, 55, 3) == model.prefers(1, 55, 3)
    data = world[0].select(users=range(60)).with_links({"user": list(range(30)), "friend": list(range(30, 60))})
    small = pr.FactoredPlackettLuce(n_factors=2, max_iter=16, seed=2)
    whole = small.clone().fit(data)
    broken = small.clone().fit(data, checkpoint=tmp_path / "c", callback=lambda progress: progress.iteration == 9)
    assert broken.n_iter_ < 16
    went_on = small.clone().fit(data, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(went_on.item_draws_, whole.item_draws_)
    np.testing.assert_array_equal(went_on.link_strength_, whole.link_strength_)


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


def test_friends_are_found_alike_and_strangers_not():
    rng = np.random.default_rng(5)
    n_users, n_items = 240, 40
    groups = np.arange(n_users) % 60
    tastes, items = rng.normal(size=(60, 2))[groups], rng.normal(size=(n_items, 2))
    scores, lists = 1.2 * tastes @ items.T, {}
    for user in range(n_users):
        some = rng.permutation(n_items)[:12]
        lists[user] = some[np.argsort(-(scores[user, some] + rng.gumbel(size=12)))].tolist()
    rankings = pr.Rankings.from_lists(lists)
    friends = rankings.with_users({"user": np.arange(n_users), "home": groups.astype(str)}).with_links(groups="home")
    strangers = {"user": rng.permutation(n_users), "friend": rng.permutation(n_users)}
    options = {"n_factors": 2, "max_iter": 120, "seed": 1}
    found = pr.FactoredPlackettLuce(**options).fit(friends)
    none = pr.FactoredPlackettLuce(**options).fit(rankings.with_links(strangers))
    tau, chance = (float(np.median(each.link_strength_)) for each in (found, none))
    assert tau > 10 * chance
    plain = pr.FactoredPlackettLuce(**options).fit(rankings)
    alike, alone, strange = (
        np.mean([np.corrcoef(each.score(u), scores[u])[0, 1] for u in range(n_users)]) for each in (found, plain, none)
    )
    assert alike > alone + 0.04
    assert strange > alone - 0.01
    # Somebody new with friends has their taste.
    new = found.fold_in([], friends=[0, 60, 120, 180])
    assert np.corrcoef(found.score(new), scores[0])[0, 1] > 0.3


def test_people_without_friends_are_asked_like_anybody_else(world):
    data = world[0].select(users=range(40)).with_links({"user": list(range(10)), "friend": list(range(10, 20))})
    model = pr.FactoredPlackettLuce(n_factors=2, max_iter=16, seed=2).fit(data)
    for user in (0, 30, model.fold_in([1, 2], friends=[])):
        assert 0.0 < model.prefers(user, 1, 2) < 1.0
        np.testing.assert_allclose(model.explain(user, 3)["contribution"].sum(), model.score(user, [3])[0], rtol=1e-9)
    alone, linked = (model.score(model.fold_in([1, 2], friends=friends)) for friends in (None, [0, 3]))
    np.testing.assert_array_equal(model.score(user), alone)
    assert np.abs(linked - alone).max() > 0.0  # the control


def test_a_shift_of_all_users_is_drawn_as_the_priors_have_it(world):
    data = world[0].select(users=range(40)).with_links({"user": list(range(20)), "friend": list(range(20, 40))})
    problem = Problem.of(data, BRESLOW, shuffle=False, intercepts=True, known=Known.of(data))
    items, users = ItemPrior(problem, 2, 1.0), UserPrior(problem, 2)
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
