"""Features, links and new items in both models with a posterior over factors: what is planted is found."""

import numba
import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import norm

import permrank as pr
from permrank.errors import InputError, NotSupportedError, UnknownIdError
from permrank.learning.shards import LocalEngine, using

N_USERS, N_ITEMS, COLD = 300, 60, range(50, 60)
MODELS = {
    "luce": lambda **options: pr.FactoredPlackettLuce(**{"n_factors": 3, "max_iter": 150, "seed": 1} | options),
    "thurstone": lambda **options: pr.FactoredThurstone(
        **{"n_factors": 2, "max_iter": 90, "n_draws": 32, "seed": 1, "covariance": "factors"} | options
    ),
}
NOISE = {"luce": np.random.Generator.gumbel, "thurstone": np.random.Generator.normal}
CHANCE = {"luce": expit, "thurstone": lambda gap: norm.cdf(gap / np.sqrt(2.0))}


def listed(scores, kind, rng, n_items=N_ITEMS, length=12):
    """Lists of some of the first items by noisy scores."""
    lists = {}
    for user, own in enumerate(scores):
        some = rng.permutation(n_items)[:length]
        lists[user] = some[np.argsort(-(own[some] + NOISE[kind](rng, size=length)))].tolist()
    return lists


@pytest.fixture(scope="module", params=list(MODELS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def world(kind):
    """Lists of 12 of 50 items; ten more have features only. Scores depend on a feature of items, and on a pair."""
    rng = np.random.default_rng(7)
    sweet, salty = rng.normal(size=(2, N_ITEMS))
    age = rng.normal(size=N_USERS + 1)
    scores = 0.9 * sweet + np.outer(1.2 * age, salty) + 0.3 * rng.normal(size=N_ITEMS)
    lists = listed(scores[:N_USERS], kind, rng, N_ITEMS - 10)
    items = {"item": np.arange(N_ITEMS), "sweet": sweet, "salty": salty, "noise": rng.normal(size=N_ITEMS)}
    users = {"user": np.arange(N_USERS + 1), "age": age, "luck": rng.normal(size=N_USERS + 1)}  # the last has no list
    return pr.Rankings.from_lists(lists).with_features(items=items, users=users), scores


@pytest.fixture(scope="module")
def model(world, kind):
    return MODELS[kind]().fit(world[0])


def effect(model, item, user=None, level=0.95):
    same = pl.col("user_feature").is_null() if user is None else pl.col("user_feature") == user
    rows = model.effects(level).filter((pl.col("of") == "score") & (pl.col("item_feature") == item) & same)
    return rows.row(0, named=True)


def test_planted_effects_are_found(model, kind):
    sweet, pair, noise = effect(model, "sweet"), effect(model, "salty", "age"), effect(model, "noise", "luck")
    # Planted are 0.9 and 1.2 times the deviations, which are near 1.
    assert 0.2 < sweet["low"] < sweet["high"] < 1.5
    assert 0.2 < pair["low"] < pair["high"] < 2.2
    assert abs(noise["mean"]) < 0.15
    assert abs(effect(model, "noise")["mean"]) < 0.25
    # The factored model has effects also of sweeps with a fold held out.
    assert len(model.item_effects_) > (2 * len(model.item_draws_) if kind == "luce" else 0)


def test_cold_start_items_are_ranked_as_well_as_the_posterior_says(model, world, kind):
    rankings, scores = world
    assert not set(COLD) & set(rankings.item_ids)
    rng, users = np.random.default_rng(0), np.arange(N_USERS)
    first, second = np.array([rng.permutation(COLD)[:2] for _ in users]).T
    chance = CHANCE[kind](scores[users, first] - scores[users, second])  # what the planted model says
    p = model.prefers_pairs(users, first, second)
    # The expected mass on what happens, under the truth and under the posterior itself.
    right, expected = chance * p + (1 - chance) * (1 - p), p**2 + (1 - p) ** 2
    assert np.mean(right) > 0.6
    assert abs(np.mean(right) - np.mean(expected)) < 0.05
    # Control: three times as sure, they would not come true so often.
    surer = norm.cdf(3.0 * norm.ppf(np.clip(p, 1e-6, 1 - 1e-6)))
    wanted, true = surer**2 + (1 - surer) ** 2, chance * surer + (1 - chance) * (1 - surer)
    assert np.mean(wanted) - np.mean(true) > 0.04
    alike = [np.corrcoef(model.score(user)[50:], scores[user, 50:])[0, 1] for user in range(50)]
    assert np.mean(alike) > 0.4  # of ten items each


def test_recommend_includes_new_items_when_asked(model):
    usual, more = model.recommend(3, k=60), model.recommend(3, k=60, include_new=True)
    assert set(usual["item"]) == set(range(50)) - set(model.rankings_.lists(3)[0])
    assert set(more["item"]) - set(usual["item"]) == set(COLD)
    stands_on = dict(more.select("item", "stands_on").rows())
    assert {stands_on[item] for item in COLD} == {"features"}
    assert {stands_on[item] for item in usual["item"]} == {"rankings"}
    assert set(model.rank(3, [50, 0, 55])["item"]) == {0, 50, 55}


def test_new_users_are_known_by_their_features(model, world):
    scores = world[1]
    assert np.corrcoef(model.score(N_USERS), scores[N_USERS])[0, 1] > 0.7  # who is in the data without a list
    old, young = (model.score(model.fold_in([], features={"age": age}), range(60)) for age in (2.0, -2.0))
    features = model.rankings_.features("item")
    assert np.corrcoef(old - young, features.of(range(60))[:, features.names.index("salty")])[0, 1] > 0.8
    own = model.rankings_.lists(3)[0]
    assert model.prefers(model.fold_in(own, features={"age": 0.0}), own[0], own[-1]) > 0.6
    with pytest.raises(UnknownIdError, match="agee"):
        model.fold_in([], features={"agee": 1.0})
    with pytest.raises(InputError, match="no links"):
        model.fold_in([], friends=[1])


def test_a_new_item_by_features_and_by_lists(model):
    like = {"sweet": 2.0, "salty": 0.0, "noise": 0.0}
    more = model.fold_in_item(99, features=like)
    assert more.item_ids.ids.to_list()[-1] == 99
    assert len(model.item_ids) == 60
    worst = int(np.argmin(model.rankings_.features("item").of(range(60))[:, 0]))
    assert np.mean([more.prefers(user, 99, worst) for user in range(0, 40, 4)]) > 0.7
    lists = {user: [*model.rankings_.lists(user)[0][:6], 99] for user in range(120)}
    disliked = model.fold_in_item(99, features=like, rankings=pr.Rankings.from_lists(lists))
    before, after = (np.mean([each.prefers(user, 99, 7) for user in range(0, 40, 4)]) for each in (more, disliked))
    assert after < before - 0.1
    with pytest.raises(InputError, match="knows item 5"):
        model.fold_in_item(5)
    with pytest.raises(InputError, match="no ranking mentions"):
        model.fold_in_item(99, rankings=pr.Rankings.from_lists({1: [2, 3]}))


@pytest.mark.parametrize("rated", [False, True])
def test_an_item_that_is_folded_in_is_where_a_refit_has_it(kind, rated):
    rng = np.random.default_rng(3)
    scores = 1.2 * rng.normal(size=(400, 2)) @ rng.normal(size=(2, 20)) + rng.normal(size=20)
    if rated:
        rows = [(u, int(y)) for u in range(400) for y in rng.permutation(20)[:10]]
        who, what = np.array(rows).T
        stars = np.digitize(scores[who, what] + NOISE[kind](rng, size=who.size), [-1.5, -0.5, 0.5, 1.5])
        whole = pr.Rankings.from_ratings({"user": who, "item": what, "rating": stars})
    else:
        whole = pr.Rankings.from_lists(listed(scores, kind, rng, 20, 10))
    # An item in the middle: one that everybody rates lowest is anywhere below the lowest threshold.
    below, item, above = (int(y) for y in np.argsort(scores.mean(axis=0))[9:12])
    options = {"n_factors": 2, "max_iter": 90, "seed": 2}
    mention = [user for user in range(400) if item in whole.items_of(user)]
    without = MODELS[kind](**options).fit(whole.drop(items=[item]))
    folded = without.fold_in_item(item, rankings=whole.select(users=mention[: len(mention) // 2]))
    refit = MODELS[kind](**options).fit(whole.drop(users=mention[len(mention) // 2 :]))
    users = sorted(set(range(400)) - set(mention))  # those who say nothing of the item

    def beside_others(model):
        pairs = [model.score_pairs(users, [other] * len(users)) for other in (item, below, above)]
        return pairs[0] - (pairs[1] + pairs[2]) / 2

    ours, theirs = beside_others(folded), beside_others(refit)
    # Two fits of few lists differ by a half in the weights that they give to their scores.
    assert np.corrcoef(ours, theirs)[0, 1] > 0.8
    assert abs(np.mean(ours) - np.mean(theirs)) < 0.5 * max(np.std(ours), np.std(theirs))
    assert 0.4 < np.std(ours) / np.std(theirs) < 2.5
    p, q = (each.prefers_pairs(users, [item] * len(users), [below] * len(users)) for each in (folded, refit))
    assert np.mean(np.abs(p - q)) < 0.15
    assert np.mean(np.abs(1 - p - q)) > 0.2  # the control


def test_a_full_covariance_takes_no_new_item():
    lists = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["c", "b", "a"]})
    with pytest.raises(NotSupportedError, match="covariance='factors'"):
        pr.FactoredThurstone(max_iter=6).fit(lists).fold_in_item("d")


def test_files_checkpoints_and_more_data_keep_all_of_it(model, world, kind, tmp_path):
    model.save(tmp_path / "m.permrank")
    again = pr.load(tmp_path / "m.permrank")
    assert again.effects().equals(model.effects())
    assert again.prefers(1, 55, 3) == model.prefers(1, 55, 3)
    data = world[0].select(users=range(60)).with_links({"user": list(range(30)), "friend": list(range(30, 60))})
    small, n_threads = MODELS[kind](max_iter=16, n_draws=4, seed=2), numba.get_num_threads()
    whole = small.clone().fit(data)
    broken = small.clone().fit(data, checkpoint=tmp_path / "c", callback=lambda progress: progress.iteration == 9)
    assert broken.n_iter_ < 16
    numba.set_num_threads(1)
    try:
        with using(LocalEngine(3)):
            went_on = small.clone().fit(data, checkpoint=tmp_path / "c")
    finally:
        numba.set_num_threads(n_threads)
    for name in ("item_draws_", "item_effects_", "pair_effects_", "user_slopes_", "link_strength_"):
        np.testing.assert_array_equal(getattr(went_on, name), getattr(whole, name))
    went_on.partial_fit(pr.Rankings.from_lists({99: [50, 0, 1]}))
    assert 50 not in went_on.item_ids.take(went_on.fitted_.featured_items)
    other = small.clone().set_params(seed=3).fit(data)
    assert not np.array_equal(other.link_strength_, whole.link_strength_)


def test_friends_are_found_alike_and_strangers_not(kind):
    rng, n_users, n_items = np.random.default_rng(5), 240, 40
    groups = np.arange(n_users) % 60
    scores = 1.2 * rng.normal(size=(60, 2))[groups] @ rng.normal(size=(n_items, 2)).T
    rankings = pr.Rankings.from_lists(listed(scores, kind, rng, n_items))
    friends = rankings.with_users({"user": np.arange(n_users), "home": groups.astype(str)}).with_links(groups="home")
    strangers = {"user": rng.permutation(n_users), "friend": rng.permutation(n_users)}
    made = MODELS[kind](n_factors=2, max_iter=120)
    linked, none, plain = (made.clone().fit(data) for data in (friends, rankings.with_links(strangers), rankings))
    tau, chance = (float(np.median(each.link_strength_)) for each in (linked, none))
    assert tau > 10 * chance
    alike, alone, strange = (
        np.mean([np.corrcoef(each.score(u), scores[u])[0, 1] for u in range(n_users)]) for each in (linked, plain, none)
    )
    assert alike > alone + 0.025
    assert strange > alone - 0.01
    # Somebody new with friends has their taste, and so says every probability.
    new, nobody = linked.fold_in([], friends=[0, 60, 120, 180]), linked.fold_in([])
    assert np.corrcoef(linked.score(new), scores[0])[0, 1] > 0.3
    best, worst = int(np.argmax(scores[0])), int(np.argmin(scores[0]))
    assert linked.prefers(new, best, worst) > linked.prefers(nobody, best, worst) + 0.05


def test_people_without_friends_are_asked_like_anybody_else(world, kind):
    data = world[0].select(users=range(40)).with_links({"user": list(range(10)), "friend": list(range(10, 20))})
    model = MODELS[kind](n_factors=2, max_iter=16, n_draws=8, seed=2).fit(data)
    for user in (0, 30, model.fold_in([1, 2], friends=[])):
        assert 0.0 < model.prefers(user, 1, 2) < 1.0
    some = [0, 5, 30]  # with friends and without
    assert ((p := model.prefers_pairs(some, [1, 2, 3], [4, 5, 6])) > 0.0).all()
    assert (p < 1.0).all()
    alone, linked = (model.score(model.fold_in([1, 2], friends=friends)) for friends in (None, [0, 3]))
    np.testing.assert_array_equal(model.score(user), alone)
    assert np.abs(linked - alone).max() > 0.0  # the control
