"""Features in Thurstone's model: planted ones are found, and what is new is known by them."""

import numba
import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import permrank as pr
from permrank.errors import FeaturesWarning, InputError, UnknownIdError
from permrank.learning.shards import LocalEngine, using

N_USERS, N_ITEMS, COLD = 240, 60, range(50, 60)


@pytest.fixture(scope="module")
def world():
    """Lists of 10 of 50 items; ten more have features only. Utilities depend on a feature of items, and on a pair."""
    rng = np.random.default_rng(7)
    sweet, salty = rng.normal(size=(2, N_ITEMS))
    age = rng.normal(size=N_USERS + 1)
    means = 0.9 * sweet + np.outer(1.2 * age, salty) + 0.3 * rng.normal(size=N_ITEMS)
    lists = {}
    for user in range(N_USERS):
        some = rng.permutation(N_ITEMS - 10)[:10]
        lists[user] = some[np.argsort(-(means[user, some] + rng.normal(size=10)))].tolist()
    items = {"item": np.arange(N_ITEMS), "sweet": sweet, "salty": salty, "noise": rng.normal(size=N_ITEMS)}
    users = {"user": np.arange(N_USERS + 1), "age": age}  # the last has said nothing
    return pr.Rankings.from_lists(lists).with_features(items=items, users=users), means


@pytest.fixture(scope="module")
def model(world):
    return pr.FactoredThurstone(2, max_iter=90, n_draws=32, seed=1).fit(world[0])


def effect(model, item, user=None):
    same = pl.col("user_feature").is_null() if user is None else pl.col("user_feature") == user
    found = model.effects(0.95).filter((pl.col("of") == "score") & (pl.col("item_feature") == item) & same)
    return found.row(0, named=True)


def test_planted_effects_are_found(model, world):
    frame, people = (world[0].features(kind).attributes.frame for kind in ("item", "user"))
    sweet, salty, age = (np.std(each.to_numpy()) for each in (frame["sweet"], frame["salty"], people["age"]))
    planted = {
        ("sweet", None): 0.9 * sweet,
        ("salty", "age"): 1.2 * salty * age,
        ("noise", None): 0.0,
        ("noise", "age"): 0.0,
    }
    for (item, user), truth in planted.items():
        row = effect(model, item, user)
        assert abs(row["mean"] - truth) < 5 * row["deviation"] + 0.02
        assert row["deviation"] < 0.25
        assert truth == 0.0 or row["low"] > 0.3


def test_cold_start_items_are_ranked_as_well_as_the_posterior_says(model, world):
    rankings, means = world
    assert not set(COLD) & set(rankings.item_ids)
    rng, users = np.random.default_rng(0), np.arange(N_USERS)
    first, second = np.array([rng.permutation(COLD)[:2] for _ in users]).T
    chance = norm.cdf((means[users, first] - means[users, second]) / np.sqrt(2.0))  # what the planted model says
    p = model.prefers_pairs(users, first, second)
    right, expected = chance * p + (1 - chance) * (1 - p), p**2 + (1 - p) ** 2
    assert np.mean(right) > 0.6
    assert abs(np.mean(right) - np.mean(expected)) < 0.04
    # Control: twice as sure, they would not come true so often.
    surer = norm.cdf(2.0 * norm.ppf(np.clip(p, 1e-6, 1 - 1e-6)))
    wanted, told = surer**2 + (1 - surer) ** 2, chance * surer + (1 - chance) * (1 - surer)
    assert np.mean(wanted) - np.mean(told) > 0.04
    assert np.corrcoef(model.score(0)[50:], means[0, 50:])[0, 1] > 0.6


def test_who_has_said_nothing_is_known_by_features(model, world):
    means = world[1]
    assert np.corrcoef(model.score(N_USERS), means[N_USERS])[0, 1] > 0.7
    old, young = (model.score(model.fold_in([], features={"age": age}), range(N_ITEMS)) for age in (2.0, -2.0))
    features = model.rankings_.features("item")
    assert np.corrcoef(old - young, features.of(range(N_ITEMS))[:, features.names.index("salty")])[0, 1] > 0.8
    told = model.fold_in(world[0].lists(3)[0], features={"age": 0.0})
    assert model.prefers(told, *world[0].lists(3)[0][:2]) > 0.9
    with pytest.raises(UnknownIdError, match="agee"):
        model.fold_in([], features={"agee": 1.0})


def test_recommend_includes_new_items_when_asked(model):
    usual, more = model.recommend(3, k=60), model.recommend(3, k=60, include_new=True)
    assert set(more["item"]) - set(usual["item"]) == set(COLD)
    said = dict(more.select("item", "stands_on").rows())
    assert {said[item] for item in COLD} == {"features"}
    assert set(model.rank(3, [50, 0, 55])["item"]) == {0, 50, 55}


def test_files_checkpoints_and_more_data_keep_all_of_it(model, world, tmp_path):
    model.save(tmp_path / "m.permrank")
    again = pr.load(tmp_path / "m.permrank")
    assert again.effects().equals(model.effects())
    assert again.prefers(1, 55, 3) == model.prefers(1, 55, 3)
    data, n_threads = world[0].select(users=range(60)), numba.get_num_threads()
    small = pr.FactoredThurstone(2, max_iter=9, n_draws=4, seed=2)
    whole = small.clone().fit(data)
    broken = small.clone().fit(data, checkpoint=tmp_path / "c", callback=lambda progress: progress.iteration == 5)
    assert broken.n_iter_ < 9
    numba.set_num_threads(1)
    try:
        with using(LocalEngine(3)):
            went_on = small.clone().fit(data, checkpoint=tmp_path / "c")
    finally:
        numba.set_num_threads(n_threads)
    for name in ("item_draws_", "item_effects_", "pair_effects_", "user_slopes_"):
        np.testing.assert_array_equal(getattr(went_on, name), getattr(whole, name))
    went_on.partial_fit(pr.Rankings.from_lists({99: [50, 0, 1]}))
    assert 50 not in went_on.item_ids.take(went_on.fitted_.featured_items)


def test_ratings_have_features_too(world):
    rankings, means = world
    rows = {"user": rankings.entry_users(), "item": rankings.items}
    noise = np.random.default_rng(1).normal(size=rankings.n_entries)
    rated = np.digitize(means[rows["user"], rows["item"]] + noise, [-1.5, -0.5, 0.5, 1.5])
    known = pr.Rankings.from_ratings({**rows, "rating": rated}).with_features(
        items=rankings.item_attributes, users=rankings.user_attributes
    )
    model = pr.FactoredThurstone(2, max_iter=45, n_draws=16).fit(known)
    assert effect(model, "sweet")["low"] > 0.3
    assert effect(model, "salty", "age")["low"] > 0.3
    told = model.score(model.fold_in({}, features={"age": 2.0}))
    assert np.corrcoef(told, means[np.argmax(means.var(axis=1)), :50])[0, 1] ** 2 > 0.1


def test_what_is_not_learnt_from_changes_no_bit(world):
    data = world[0].select(users=range(40))
    plain = data.with_features(items=False, users=False)
    small = pr.FactoredThurstone(2, covariance="factors", max_iter=6, n_draws=2)
    whole = small.clone().fit(plain)
    with pytest.warns(FeaturesWarning, match="does not learn from links"):
        linked = small.clone().fit(plain.with_links({"user": list(range(20)), "friend": list(range(20, 40))}))
    bare = small.clone().fit(pr.Rankings.from_lists({user: data.lists(user)[0] for user in range(40)}))
    for other in (linked, bare):
        np.testing.assert_array_equal(other.item_draws_, whole.item_draws_)
    assert not whole.fitted_.featured_items.size
    with pytest.raises(InputError, match="no features of users"):
        whole.fold_in([], features={"age": 1.0})
    with pytest.raises(InputError, match="does not learn from friends"):
        linked.fold_in([0, 1], friends=[3])
    with pytest.raises(InputError, match="does not go with features"):
        small.clone().set_params(covariance="full").fit(data)
