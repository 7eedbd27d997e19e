"""The factored model: point estimate, posterior, new users, integrated likelihood."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import permrank as pr
from permrank.errors import ConvergenceWarning, InputError
from permrank.rankings.selection import hold_out, keep_entries
from permrank.testing import ModelContract

ALL = frozenset(
    {
        "prefers",
        "top_probability",
        "position_probabilities",
        "sample",
        "log_likelihood",
        "similar_items",
        "similar_users",
    }
)


class TestDrawsContract(ModelContract):
    supports = ALL

    def make(self, **parameters):
        return pr.FactoredPlackettLuce(**{"n_factors": 2, "max_iter": 12, "n_draws": 4, **parameters})

    def burn_in(self, model):
        return 8  # half of the sweeps if there are pairs to hold out, and a third of the rest


class TestPointContract(ModelContract):
    supports = ALL

    def make(self, **parameters):
        return pr.FactoredPlackettLuce(**{"n_factors": 2, "method": "point", "max_iter": 500, **parameters})


def listed(rankings, user):
    """Items of a user with one ranking, best first."""
    return rankings.items[rankings.indptr[user] : rankings.indptr[user + 1]]


def planted(n_users, seed=0, **options):
    return pr.datasets.simulated(n_users, 40, n_communities=1, separation=0.0, n_factors=2, seed=seed, **options)


@pytest.mark.parametrize("ties", ["exact", "efron", "breslow", "partition"])
@pytest.mark.parametrize("intercepts", [True, False])
def test_the_objective_of_the_point_estimate_never_falls(ties, intercepts):
    rankings = planted(150, ties=4, list_length=8).rankings
    model = pr.FactoredPlackettLuce(3, method="point", ties=ties, intercepts=intercepts, max_iter=200).fit(rankings)
    assert (np.diff(model.history_) >= 0).all()
    assert model.converged_
    if not intercepts:
        np.testing.assert_array_equal(model.item_draws_[..., -1], 0)


def test_the_point_estimate_is_a_stationary_point_of_the_papers_objective():
    rankings = planted(60, list_length=6).rankings
    alpha, beta = 0.7, 0.4
    model = pr.FactoredPlackettLuce(2, method="point", user_penalty=alpha, item_penalty=beta, tol=1e-12, max_iter=3000)
    model.fit(rankings)
    users, theta = model.user_modes_[0].astype(float), model.item_draws_[0].astype(float)

    def objective(users, theta):
        total = -alpha * np.sum(users**2) - beta * np.sum(theta**2)
        for u, (a, b) in enumerate(zip(rankings.indptr, rankings.indptr[1:], strict=False)):
            s = theta[rankings.items[a:b], 2] + theta[rankings.items[a:b], :2] @ users[u]
            total += sum(s[i] - np.logaddexp.reduce(s[i:]) for i in range(s.size))
        return total

    np.testing.assert_allclose(objective(users, theta), model.history_[-1], rtol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(10):
        d, e, h = rng.normal(size=users.shape), rng.normal(size=theta.shape), 1e-4
        slope = (objective(users + h * d, theta + h * e) - objective(users - h * d, theta - h * e)) / (2 * h)
        size = np.sqrt(np.sum(d**2) + np.sum(e**2))
        assert abs(slope) / size < 2e-2  # of gradients that are of size 1 to 10 away from the optimum


def test_a_point_estimate_that_is_stopped_short_warns():
    with pytest.warns(ConvergenceWarning):
        pr.FactoredPlackettLuce(2, method="point", max_iter=2).fit(planted(50).rankings)


def test_planted_scores_are_recovered_and_the_more_the_more_data_there_is():
    found = []
    for n_users in (100, 1_500):
        rankings, truth = planted(n_users, seed=1)
        model = pr.FactoredPlackettLuce(4, max_iter=80).fit(rankings)
        unseen = []
        for u in range(0, 100):
            items = np.setdiff1d(np.arange(40), listed(rankings, u))
            ids = rankings.item_ids.take(items).to_list()
            unseen.append(np.corrcoef(model.score(rankings.user_ids[u], ids), truth.scores(u)[0, items])[0, 1])
        found.append(np.mean(unseen))
    assert found[1] > found[0] + 0.03
    pooled = pr.PlackettLuce(prior="gaussian").fit(rankings)
    alike = [np.corrcoef(pooled.scores_, truth.scores(u)[0])[0, 1] for u in range(100)]
    assert found[1] > np.mean(alike) + 0.03  # the control: an order that is the same for everybody


def test_the_posterior_beats_the_bare_point_estimate_on_short_noisy_lists():
    rankings = planted(800, seed=2, list_length=9).rankings
    train, test = hold_out(rankings, 0.35, seed=1)
    right = {}
    for posterior in ("draws", "point"):
        model = pr.FactoredPlackettLuce(6, method=posterior, user_penalty=0.05, item_penalty=0.05, tol=1e-4)
        model.set_params(max_iter=100 if posterior == "draws" else 2_000)
        model.fit(train)
        hits = []
        for u in range(test.n_users):
            order = listed(test, u)
            scores = model.score(test.user_ids[u], test.item_ids.take(order.astype(int)).to_list())
            hits += [scores[i] > scores[j] for i in range(order.size) for j in range(i + 1, order.size)]
        right[posterior] = np.mean(hits)
    assert right["draws"] > right["point"] + 0.01


def test_folding_in_a_users_own_list_gives_that_users_scores():
    rankings = planted(400, seed=3).rankings
    model = pr.FactoredPlackettLuce(4, max_iter=60).fit(rankings)
    for user in list(rankings.user_ids)[:5]:
        new = model.fold_in(rankings.lists(user)[0])
        # Somebody new is found under the few draws that are kept whole, a known person under all of them.
        # Five draws of four factors leave a correlation of about .99 between the two.
        assert np.corrcoef(model.score(new), model.score(user))[0, 1] > 0.97
    many = model.fold_in_many(rankings.select(users=list(rankings.user_ids)[:5]))
    np.testing.assert_allclose(many[4], new.state["modes"], rtol=0, atol=1e-6)


def test_an_explanation_adds_up_to_the_score():
    rankings = planted(200, seed=6, ties=4).rankings
    model = pr.FactoredPlackettLuce(3, max_iter=30).fit(rankings)
    user = rankings.user_ids[3]
    unseen = model.recommend(user, k=1)["item"][0]
    for who in (user, model.fold_in(rankings.lists(user)[0])):
        short, frame = model.explain(who, unseen), model.explain(who, unseen, full=True)
        for each in (short, frame):
            np.testing.assert_allclose(each["contribution"].sum(), model.score(who, [unseen])[0], rtol=1e-9)
        assert short.height <= 5
        assert frame["item"][-1] is None
        blocks = [block if isinstance(block, set) else {block} for block in rankings.lists(user)[0]]
        assert set(frame["item"][:-1]) == set.union(*blocks)
        for reason in ("for", "against"):
            assert frame.filter(pl.col("reason") == reason)["contribution"].abs().is_sorted(descending=True)
    assert_baseline(model, frame["contribution"][-1], who, unseen)


def assert_baseline(model, baseline, new, item):
    """Of somebody new without ratings: what the item has for everybody, and what the list adds to all on average."""
    n = len(model.item_ids)
    common = model.temperature_ * model.item_intercepts_
    often = np.bincount(model.rankings_.items, model.rankings_.entry_weights(), n)
    on_average = np.average(model.score(new) - common, weights=often)
    np.testing.assert_allclose(baseline, common[model.item_ids.index(item)] + on_average, rtol=0, atol=1e-4)


def test_items_and_users_of_one_taste_are_neighbours():
    rng = np.random.default_rng(0)
    lists = {}
    for user in range(300):  # even users like even items, odd users odd ones
        seen = rng.permutation(20)[:10]
        keys = 3.0 * (seen % 2 == user % 2) + rng.gumbel(size=10)
        lists[user] = seen[np.argsort(-keys)].tolist()
    model = pr.FactoredPlackettLuce(2, max_iter=60).fit(pr.Rankings.from_lists(lists))
    assert all(item % 2 == 0 for item in model.similar_items(4, k=9)["item"])
    alike = model.similar_users(7, k=20)
    assert (alike["user"] % 2 == 1).mean() > 0.8
    assert 7 not in alike["user"]
    assert (model.similar_users(model.fold_in(lists[7]), k=20)["user"] % 2 == 1).mean() > 0.8
    with pytest.raises(InputError, match="k=0"):
        model.similar_items(4, k=0)


def test_pairs_are_scored_as_one_at_a_time():
    rankings = planted(60).rankings
    model = pr.FactoredPlackettLuce(2, max_iter=15).fit(rankings)
    users, items = list(rankings.user_ids)[:3], list(rankings.item_ids)[:3]
    expected = [model.score(u, [i])[0] for u, i in zip(users, items, strict=True)]
    np.testing.assert_allclose(model.score_pairs(users, items), expected, rtol=1e-5, atol=1e-6)


def test_the_integrated_likelihood_is_that_of_a_one_dimensional_integral():
    model = pr.FactoredPlackettLuce(1, method="point", user_penalty=0.5, item_penalty=0.05, max_iter=300)
    model.fit(planted(300).rankings)
    theta = model.item_draws_[0].astype(float)
    rankings = planted(5, seed=9).rankings
    values, errors = model.log_likelihood_with_error(rankings, size=2_000)
    grid = np.linspace(-8, 8, 4_001)
    for r in range(5):
        items = rankings.items[rankings.indptr[r] : rankings.indptr[r + 1]]
        s = theta[items, 1][None, :] + grid[:, None] * theta[items, 0][None, :]
        log_p = sum(s[:, i] - np.logaddexp.reduce(s[:, i:], axis=1) for i in range(items.size))
        density = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi)  # alpha = 1/2 is a standard normal prior
        exact = np.log(np.trapezoid(np.exp(log_p) * density, grid))
        assert abs(values[r] - exact) < max(5 * errors[r], 1e-6)
        assert errors[r] < 0.05


def test_preferences_are_averages_over_the_posterior_and_agree_with_samples():
    rankings = planted(200, seed=4, list_length=4).rankings
    model = pr.FactoredPlackettLuce(3, max_iter=40).fit(rankings)
    user, (a, b) = rankings.user_ids[0], list(rankings.item_ids)[:2]
    rows = model.sample(user, [a, b], size=4_000, seed=1)
    assert abs((rows[:, 0] == a).mean() - model.prefers(user, a, b)) < 0.03
    plug_in = expit(np.subtract(*model.score(user, [a, b])))
    assert abs(model.prefers(user, a, b) - 0.5) < abs(plug_in - 0.5) + 1e-9  # uncertainty pulls towards one half


def test_the_scale_is_smaller_where_there_are_ties():
    for ties, expected in ((None, 1.0), (5, 0.7)):
        rankings = pr.datasets.simulated(30, 90, list_length=40, **({"ties": ties} if ties else {})).rankings
        model = pr.FactoredPlackettLuce(2, max_iter=4, rating_thresholds=False).fit(rankings)
        assert model.factor_scale_ == expected
    # Proportional odds do not take a tie for closeness.
    assert model.set_params(rating_thresholds=True).fit(rankings).factor_scale_ == 1.0


def test_holding_out_parts_the_entries():
    rankings = planted(50, ties=3).rankings
    train, test = hold_out(rankings, 0.25, seed=3)
    assert train.n_entries + test.n_entries == rankings.n_entries
    assert train.user_ids == test.user_ids == rankings.user_ids
    both = {*train.to_frame().select("user", "item").iter_rows(), *test.to_frame().select("user", "item").iter_rows()}
    assert both == set(rankings.to_frame().select("user", "item").iter_rows())
    assert keep_entries(rankings, np.ones(rankings.n_entries, bool)) == rankings
    with pytest.raises(InputError, match="share=1"):
        hold_out(rankings, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_factors": 0}, "n_factors=0, expected a whole number from 1"),
        ({"max_iter": 1.5}, "max_iter=1.5"),
        ({"n_draws": True}, "n_draws=True"),
        ({"method": "exact"}, "method='exact'"),
        ({"ties": "none"}, "ties='none'"),
        ({"user_penalty": -1}, "user_penalty=-1, expected a finite number above 0"),
        ({"item_penalty": float("nan")}, "item_penalty=nan"),
        ({"factor_scale": float("inf")}, "factor_scale=inf"),
    ],
)
def test_bad_parameters_are_refused_by_fit(parameters, message):
    with pytest.raises(InputError, match=message):
        pr.FactoredPlackettLuce(**parameters).fit(planted(10).rankings)


def test_probabilities_are_less_sure_of_a_rare_item():
    rng = np.random.default_rng(0)
    lists = {user: [*rng.permutation(6).tolist()] for user in range(200)}
    for user in range(3):
        lists[user].insert(0, 6)  # three people, and all of them put it first
    model = pr.FactoredPlackettLuce(2, max_iter=60).fit(pr.Rankings.from_lists(lists))
    variances = model.item_variances_.mean(axis=0)
    assert variances[6] > 3 * variances[:6].max()
    gap = model.score(150, [6])[0] - model.score(150, [0])[0]
    assert gap > 0.3
    certain = 1 / (1 + np.exp(-gap))
    assert 0.5 < model.prefers(150, 6, 0) < certain
    np.testing.assert_allclose(model.prefers(150, 6, 0) + model.prefers(150, 0, 6), 1.0, rtol=1e-12)


def test_items_that_nobody_lists_stay_in_the_middle_where_all_others_are_listed_alike():
    rng = np.random.default_rng(0)
    lists = {user: rng.permutation(10).tolist() for user in range(100)}
    model = pr.FactoredPlackettLuce(2, max_iter=60).fit(pr.Rankings.from_lists(lists, items=range(15)))
    intercepts = model.item_draws_[:, :, -1].mean(axis=0)
    assert np.abs(intercepts[10:]).max() < 1.0
    assert 0.2 < model.prefers(0, 12, 3) < 0.8


def test_growing_in_a_few_sweeps_keeps_most_of_them():
    rankings = planted(60, seed=8).rankings
    model = pr.FactoredPlackettLuce(2, max_iter=12, n_draws=8).fit(rankings)
    model.partial_fit(pr.Rankings.from_lists({"new": list(rankings.item_ids)[:3]}))
    assert model.n_iter_ == 4
    assert len(model.item_draws_) == 3


def rated(seed=0, n_users=40, n_items=11):
    """Ratings from 1 to 5 of eleven items."""
    rng = np.random.default_rng(seed)
    users, items = np.divmod(rng.choice(n_users * n_items, 250, replace=False), n_items)
    ratings = rng.integers(1, 6, 250)
    return pr.Rankings.from_ratings({"user": users, "item": [f"i{item:02}" for item in items], "rating": ratings})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"co_listing": False},
        {"rating_thresholds": False},
        {"method": "point", "max_iter": 500},
    ],
)
def test_thresholds_between_ratings_are_never_taken_for_items(settings):
    rankings = rated()
    model = pr.FactoredPlackettLuce(2, **{"max_iter": 20, "n_draws": 4, **settings}).fit(rankings)
    assert (model.thresholds_.size > 0) == (settings.get("rating_thresholds", True) and "method" not in settings)
    items, users = set(rankings.item_ids), set(rankings.user_ids)
    for grown in (False, True):
        if grown:
            model.partial_fit(pr.Rankings.from_ratings({"user": [90, 90], "item": ["i00", "new"], "rating": [5, 1]}))
            items, users = items | {"new"}, users | {90}
        for item in items:
            near = model.similar_items(item, k=5)
            assert near.height == 5
            assert set(near["item"]) <= items - {item}
            assert set(model.similar_items(item, k=100)["item"]) == items - {item}
        assert set(model.similar_users(0, k=100)["user"]) == users - {0}
        assert set(model.recommend(0, k=100)["item"]) <= items
        explained = model.explain(0, "i00")
        assert set(explained["item"].drop_nulls()) <= items
        new = model.fold_in({"i01": 5, "i02": 1})
        assert set(model.recommend(new, k=100)["item"]) == items - {"i01", "i02"}
        assert model.score(new).shape == (len(items),)
        assert set(model.sample(new, size=1)[0]) == items
        assert set(model.similar_users(new, k=100)["user"]) == users


def test_rows_of_scores_are_the_scores_for_few_users_and_for_many():
    rankings = pr.datasets.load("simulated", n_users=30, n_items=25)
    model = pr.FactoredPlackettLuce(n_factors=2, max_iter=12, n_draws=4).fit(rankings)
    users = list(rankings.user_ids)[:7]
    for some in (users[:1], users):
        rows = model.fitted_.rows([model.person(user) for user in some])
        np.testing.assert_allclose(rows, [model.score(user) for user in some], rtol=1e-4, atol=1e-4)
        several = model.recommend(some, k=2)
        for user in some:
            mine = several.filter(pl.col("user") == user).drop("user")
            assert mine["item"].to_list() == model.recommend(user, k=2)["item"].to_list()
