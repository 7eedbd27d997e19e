"""Features in Thurstone's model: what it has beside tests/posterior/test_side_information.py."""

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.errors import InputError

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


def effect(model, item, user=None):
    same = pl.col("user_feature").is_null() if user is None else pl.col("user_feature") == user
    found = model.effects(0.95).filter((pl.col("of") == "score") & (pl.col("item_feature") == item) & same)
    return found.row(0, named=True)


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
    bare = small.clone().fit(pr.Rankings.from_lists({user: data.lists(user)[0] for user in range(40)}))
    np.testing.assert_array_equal(bare.item_draws_, whole.item_draws_)
    assert not whole.fitted_.featured_items.size
    for wrong, match in (({"features": {"age": 1.0}}, "no features of users"), ({"friends": [3]}, "no links")):
        with pytest.raises(InputError, match=match):
            whole.fold_in([0, 1], **wrong)
    for known in (data, plain.with_links({"user": [1], "friend": [2]})):
        with pytest.raises(InputError, match="does not go with features or links"):
            small.clone().set_params(covariance="full").fit(known)
