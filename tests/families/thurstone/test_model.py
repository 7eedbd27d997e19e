"""Thurstone's model with factors: the contract, planted parameters, probabilities against enumeration."""

import json
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

import permrank as pr
from permrank.families.thurstone import answers
from permrank.families.thurstone.kept import Mean
from permrank.families.thurstone.problem import problem_of
from permrank.interfaces.fit import choose_model
from permrank.learning.shards import LocalEngine, using
from permrank.testing import ModelContract
from permrank.testing.forging import header_of, resigned
from permrank.testing.learning import LearningContract

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


class TestContract(ModelContract):
    supports = ALL

    def make(self, **parameters):
        settings = {"n_factors": 2, "covariance": "factors", "max_iter": 24, "n_draws": 8}
        return pr.FactoredThurstone(**{**settings, **parameters})

    def burn_in(self, model):
        return model.max_iter // 3


class TestMixtureContract(LearningContract):
    strangers_are_alike = False  # a component is drawn for everybody

    def make(self, **parameters):
        settings = {"covariance": "full", "n_components": 2, "max_iter": 9, "n_draws": 3}
        return pr.FactoredThurstone(**{**settings, **parameters})

    def burn_in(self, model):
        return model.max_iter // 3

    def test_a_file_whose_parameters_do_not_fit_what_was_learnt_is_refused(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        saved = json.loads(header_of(tmp_path / "m")["parameters"])
        for name, value in (("n_components", 3), ("covariance", "factors")):  # n_factors says nothing here
            resigned(tmp_path / "m", {"parameters": json.dumps(saved | {name: value})})
            with pytest.raises(pr.errors.FormatError, match="not a whole permrank model"):
                self.load(tmp_path / "m")


def planted(n_users, n_items=12, n_factors=2, length=8, seed=0, noise=1.0):
    """Lists by normal utilities with factors, and the utilities."""
    rng = np.random.default_rng(seed)
    loads, means = 1.2 * rng.normal(size=(n_items, n_factors)), rng.normal(size=n_items)
    x = means + rng.normal(size=(n_users, n_factors)) @ loads.T + noise * rng.normal(size=(n_users, n_items))
    lists = {}
    for user in range(n_users):
        chosen = rng.choice(n_items, length, replace=False)
        lists[user] = chosen[np.argsort(-x[user, chosen])].tolist()
    return pr.Rankings.from_lists(lists, items=range(n_items)), x, loads, means


@pytest.fixture(scope="module", params=["factors", "full"])
def learnt(request):
    rankings, x, loads, means = planted(700)
    return pr.FactoredThurstone(4, covariance=request.param, max_iter=120).fit(rankings), x, loads, means


def test_planted_parameters_are_found_again(learnt):
    model, _, loads, means = learnt
    draws = model.item_draws_[:, 0].astype(float)
    covariance = np.mean(
        [d[:, :-1] @ d[:, :-1].T + np.diag(v[0]) for d, v in zip(draws, model.noise_variances_, strict=True)], 0
    )
    truth = loads @ loads.T + np.eye(len(means))
    centre = np.eye(len(means)) - 1.0 / len(means)  # an order says nothing about what all items share
    found, wanted = (centre @ matrix @ centre for matrix in (covariance, truth))
    found, wanted = found / np.trace(found), wanted / np.trace(wanted)  # nor about the scale
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.97
    assert np.abs(found - wanted).max() < 0.05
    assert np.corrcoef(draws[..., -1].mean(axis=0), means)[0, 1] > 0.97


def test_probabilities_of_pairs_come_true(learnt):
    model, x, *_ = learnt
    listed = [set(model.rankings_.items_of(user).tolist()) for user in range(300)]
    rows = [(u, *sorted(set(range(12)) - listed[u])[:2]) for u in range(300)]
    rows += [(u, sorted(listed[u])[0], sorted(set(range(12)) - listed[u])[0]) for u in range(300)]
    who, first, second = np.array(rows).T
    p = model.prefers_pairs(who.tolist(), first.tolist(), second.tolist())
    came = x[who, first] > x[who, second]
    # The sum of independent outcomes, each with its own probability.
    assert abs(np.sum(came - p)) < 4.5 * np.sqrt(np.sum(p * (1 - p)))
    assert np.mean((p > 0.5) == came) > 0.72
    one = model.prefers(int(who[0]), int(first[0]), int(second[0]))
    assert abs(one - p[0]) < 0.12  # other draws of the same chains


def test_what_follows_from_answers_is_known_and_the_rest_is_not(learnt):
    model = learnt[0]
    new = model.fold_in(pr.Rankings.from_lists([[3, 5], [5, 7]], users=[0, 0]))
    assert model.prefers(new, 3, 7) > 1 - 1e-6
    assert 1e-4 < model.prefers(new, 3, 9) < 1 - 1e-4
    circle = model.fold_in(pr.Rankings.from_lists([[3, 5], [5, 7], [7, 3]], users=[0] * 3))
    assert 0.02 < model.prefers(circle, 3, 7) < 0.98


def test_fresh_noise_forgets_what_was_said_of_items():
    rankings = planted(80)[0]
    own, other = (pr.FactoredThurstone(2, max_iter=40, one_draw=flag).fit(rankings) for flag in (True, False))
    best, second = (int(item) for item in rankings.items[:2])
    assert own.prefers(0, best, second) > 0.999
    assert 0.2 < other.prefers(0, best, second) < 0.97


def test_the_next_question_tells_most_and_answers_make_sure(learnt):
    model, x, *_ = learnt
    candidates, truth = list(range(6)), np.argsort(-x[0, :6])
    answers, sure = [], []
    for _ in range(15):  # all pairs of six items
        new = model.fold_in(pr.Rankings.from_lists(answers, users=[0] * len(answers)) if answers else [])
        found = model.ask(new, candidates, n=3)
        assert found["gain"].is_sorted(descending=True)
        row = found.row(0, named=True)
        sure.append(model.sure(new, 6, candidates))
        if sure[-1] > 0.95:
            break
        assert 0.02 < row["probability"] < 0.98  # what is known already is not asked
        pair = [row["item"], row["other"]]
        answers.append(sorted(pair, key=lambda item: -x[0, item]))
    assert sure[-1] > 0.95 > 0.5 > sure[0]
    assert model.rank(new, candidates)["item"].to_list() == truth.tolist()
    with pytest.raises(pr.errors.InputError, match="give at least two"):
        model.ask(new, [1])


def test_the_gain_of_a_question_is_that_of_enumerated_orders():
    orders = np.array(list(permutations(range(4))))
    p = np.random.default_rng(7).integers(1, 9, len(orders))  # multiplicities: exact probabilities of all orders
    x = np.repeat(-np.argsort(orders, axis=1), p, axis=0).astype(float)
    pairs = np.column_stack(np.triu_indices(4, 1))
    above = -np.argsort(orders, axis=1)
    wins = above[:, pairs[:, 0]] > above[:, pairs[:, 1]]

    def agreeing(weights):  # expected number of pairs that two people of these orders agree on
        share = weights @ wins / weights.sum()
        return np.sum(share**2 + (1 - share) ** 2)

    expected = []
    for answer in wins.T:
        yes, no = p * answer, p * ~answer
        after = (yes.sum() * agreeing(yes) + no.sum() * agreeing(no)) / p.sum()
        expected.append(after - agreeing(p))
    np.testing.assert_allclose(pr.FactoredThurstone.information(x), expected, rtol=1e-4, atol=1e-6)
    sure = p[(orders[:, :2] == [2, 0]).all(axis=1)].sum() / p.sum()
    np.testing.assert_allclose(answers.sure(x, np.array([2, 0, 1, 3]), 2), sure)


def test_ask_and_sure_agree_with_the_likelihood_of_all_orders(learnt):
    model, items = learnt[0], [0, 3, 6, 9]
    orders = [list(order) for order in permutations(items)]
    p = np.exp(model.log_likelihood(pr.Rankings.from_lists(orders)))
    p *= [order.index(3) < order.index(9) for order in orders]  # what the new person says
    p /= p.sum()
    new = model.fold_in([3, 9])
    best = model.rank(new, items)["item"].to_list()
    expected = sum(p[i] for i, order in enumerate(orders) if order[:2] == best[:2])
    # 256 draws of one chain for each population, which are not independent: six deviations of half as many
    tolerance = 6 * np.sqrt(expected * (1 - expected) / 128)
    assert abs(model.sure(new, 2, items) - expected) < tolerance
    asked = model.ask(new, items).row(0, named=True)
    told = sum(p[i] for i, o in enumerate(orders) if o.index(asked["item"]) < o.index(asked["other"]))
    assert abs(asked["probability"] - told) < 6 * np.sqrt(0.25 / 128)


def test_questions_are_about_utilities_with_the_noise_of_items_that_were_not_spoken_of(learnt, monkeypatch):
    """What an item has for this person alone is not known before it is spoken of."""
    model = learnt[0]
    known = np.tile([0.3, 0.0], (256, 1)), np.tile([1.0, 1.0], (256, 1))
    monkeypatch.setattr(answers, "utilities", lambda *_: known)
    new = model.fold_in([])
    told = ndtr(0.3 / np.sqrt(2.0))  # 1 without noise
    tolerance = 5 * np.sqrt(told * (1 - told) / 2048)
    assert abs(model.ask(new, [0, 3])["probability"][0] - told) < tolerance
    best, _ = model.rank(new, [0, 3])["item"]
    assert abs(model.sure(new, 2, [0, 3]) - (told if best == 0 else 1 - told)) < tolerance


def test_utilities_that_are_simulated_have_their_means_and_deviations():
    rng = np.random.default_rng(4)
    means, deviations = rng.normal(size=(16, 3)), np.array([0.0, 0.5, 2.0]) * np.ones((16, 1))
    drawn = answers.simulated(means, deviations, 1).reshape(-1, 16, 3)
    assert len(drawn) * 16 >= 2048
    away = drawn - means
    assert not away[..., 0].any()
    n = away[..., 0].size  # a standard deviation errs by its 2 n-th root
    np.testing.assert_allclose(away[..., 1:].std(axis=(0, 1)), [0.5, 2.0], rtol=5 / np.sqrt(2 * n))
    np.testing.assert_array_equal(answers.simulated(means, np.zeros((16, 3)), 1), means)


def test_more_data_stand_where_a_fit_of_everything_does(learnt):
    model, x, *_ = learnt
    everything, known = model.rankings_, list(model.user_ids)
    grown = model.clone().fit(everything.select(users=known[:500]))
    grown.set_params(one_draw=False)
    with pytest.raises(pr.errors.InputError, match="was set after fit"):
        grown.partial_fit(everything)
    grown.set_params(one_draw=True, max_iter=240).partial_fit(everything.select(users=known[500:]))
    assert list(grown.user_ids) == known
    assert grown.n_iter_ == 80
    rows = np.repeat(range(700), 12), np.tile(range(12), 700)
    scores = [m.score_pairs(*rows).reshape(x.shape) for m in (model, grown)]
    # An order says nothing about the level of a person.
    truth, *within = (values - values.mean(axis=1, keepdims=True) for values in (x, *scores))
    full, added = (np.corrcoef(values.ravel(), truth.ravel())[0, 1] for values in within)
    assert added > full - 0.02 > 0.8
    wider = grown.set_params(max_iter=9).partial_fit(
        pr.Rankings.from_lists({9999: [0, 777]})
    )  # and an item that nobody knew
    assert np.isfinite(wider.score(9999, [777])).all()


def test_answers_to_pairs_that_agree_are_taken_for_one_order():
    rng = np.random.default_rng(3)
    rows = [(u, *sorted(rng.choice(6, 2, replace=False).tolist())) for u in range(30) for _ in range(4)]

    def chosen(rows):
        columns = dict(zip(("user", "winner", "loser"), zip(*rows, strict=True), strict=True))
        return type(choose_model(pr.Rankings.from_pairs(columns))[0]).__name__

    assert chosen(rows) == "FactoredThurstone"
    assert chosen([row for row in rows if row[0] < 10]) == "PlackettLuce"
    circles = [(u, *pair) for u in range(4) for pair in ((0, 1), (1, 2), (2, 0))]
    assert chosen(rows + circles[:3]) == "FactoredThurstone"
    assert chosen(rows + circles) == "PlackettLuce"  # four of thirty contradict themselves


def test_ratings_have_thresholds_and_levels():
    rankings, x, *_ = planted(300, seed=2)
    level = 0.8 * np.random.default_rng(1).normal(size=300)
    user, item = rankings.entry_users(), rankings.items
    rating = 1 + np.searchsorted([-1.0, 0.5, 1.5], x[user, item] + level[user])
    rated = pr.Rankings.from_ratings({"user": user, "item": item, "rating": rating})
    model = pr.FactoredThurstone(3, max_iter=80).fit(rated)
    steps = np.diff(model.threshold_draws_.mean(axis=0))
    np.testing.assert_allclose(steps[0] / steps[1], 1.5, rtol=0.25)  # where they were planted, up to the scale
    unlisted = [(u, *sorted(set(range(12)) - set(rankings.items_of(u).tolist()))[:2]) for u in range(200)]
    who, first, second = np.array(unlisted).T
    p = model.prefers_pairs(who.tolist(), first.tolist(), second.tolist())
    came = x[who, first] > x[who, second]
    assert np.mean((p > 0.5) == came) > 0.65
    assert abs(np.sum(came - p)) < 4.5 * np.sqrt(np.sum(p * (1 - p)))
    assert model.score(model.fold_in({0: 4, 1: 1}), [0])[0] > model.score(model.fold_in({0: 1, 1: 1}), [0])[0]


def test_a_ballot_cast_thrice_is_three_people():
    ballots = pr.Rankings.from_lists([["a", "b", "c"], ["c", "b", "a"]], weights=[30, 10])
    problem, first = problem_of(ballots, np.zeros(0), np.zeros((3, 0)))
    assert problem.rankings.n_users == 40
    assert first.tolist() in ([0, 30], [0, 10])
    model = pr.FactoredThurstone(1, max_iter=20).fit(ballots)
    assert len(model.user_scores_) == 2
    assert np.isfinite(model.score(model.user_ids[1])).all()
    with pytest.raises(pr.errors.InputError, match="weights must be whole numbers"):
        pr.FactoredThurstone(1).fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"]], weights=[1.5, 1]))


def test_shards_give_the_same_bits():
    rankings = planted(120)[0]
    whole = pr.FactoredThurstone(2, max_iter=8, n_draws=3).fit(rankings)
    with using(LocalEngine(3)):
        cut = pr.FactoredThurstone(2, max_iter=8, n_draws=3).fit(rankings)
    for name in whole.estimate_.names():
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name))


def test_the_likelihood_of_all_orders_adds_up_to_one(learnt):
    model = learnt[0]
    orders = [list(order) for order in permutations([0, 4, 8])]
    values, errors = model.log_likelihood_with_error(pr.Rankings.from_lists(orders))
    assert errors.max() < 0.05
    assert abs(np.exp(values).sum() - 1.0) < 6 * np.sqrt(np.sum((errors * np.exp(values)) ** 2)) + 1e-3


@pytest.mark.parametrize("n_components", [1, 2])
def test_mean_scores_are_the_mean_over_the_draws(n_components):
    rng, users, mean = np.random.default_rng(4), np.arange(9), Mean(9, 4, 2, n_components)
    expected = np.zeros((9, 4))  # as many items as the rank: nothing is left out
    for _ in range(4):
        theta, means = rng.normal(size=(n_components, 4, 3)), rng.normal(size=(9, 2))
        shares, components = rng.dirichlet(np.ones(n_components)), rng.integers(n_components, size=9)
        mean.add(SimpleNamespace(theta=theta, means=means, shares=shares, components=components), users)
        expected += (np.einsum("uyk,uk->uy", theta[components][..., :-1], means) + theta[components][..., -1]) / 4
    parts = mean.parts()
    found = parts["item_means"] + parts["user_scores"].astype(float) @ parts["item_scores"].astype(float).T
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.abs(found - expected[::-1]).max() > 0.1  # control
