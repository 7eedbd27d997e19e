"""Bradley-Terry: the contract, choix, planted ties, two solvers, standard errors and when there is an estimate."""

import itertools
import math

import choix
import numpy as np
import pytest
from scipy.optimize import linprog, minimize

import permrank as pr
from permrank.errors import EstimateError, InputError
from permrank.testing import ModelContract
from permrank.testing.learning import LearningContract

FORMS = ("davidson", "rao-kupper")


class TestBradleyTerryContract(ModelContract):
    supports = frozenset({"prefers", "log_likelihood"})
    other = {"prior_scale": 2.0}  # noqa: RUF012

    def make(self, **parameters):
        return pr.BradleyTerry(**{"prior": "gaussian", **parameters})


class TestRaoKupperContract(LearningContract):
    other = {"prior_scale": 2.0}  # noqa: RUF012

    def make(self, **parameters):
        return pr.BradleyTerry(**{"prior": "gaussian", "ties": "rao-kupper", "method": "mm", **parameters})


def outcome_probabilities(first, second, tie, form):
    """(win, tie, loss) from the definitions, by worths."""
    if form == "davidson":
        parts = np.array([first, tie * math.sqrt(first * second), second])
        return parts / parts.sum()
    win, loss = first / (first + tie * second), second / (second + tie * first)
    return np.array([win, 1 - win - loss, loss])


def simulated(form, tie, n_items=8, n_comparisons=6000, seed=0):
    """Comparisons with ties, and the scores that they were drawn from."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n_items)
    scores -= scores.mean()
    lists = []
    for _ in range(n_comparisons):
        y, x = rng.permutation(n_items)[:2].tolist()
        result = rng.choice(3, p=outcome_probabilities(np.exp(scores[y]), np.exp(scores[x]), tie, form))
        lists.append(([y, x], [{y, x}], [x, y])[result])
    return pr.Rankings.from_lists(lists), scores


def pair_list(rankings):
    return [
        pair for pair, weight in zip(rankings.lists(), rankings.weights, strict=True) for _ in range(int(weight))
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["newton", "mm"])
def test_the_estimate_is_that_of_choix_on_the_same_pairs(method):
    rng = np.random.default_rng(5)
    scores = rng.normal(size=20)
    pairs = [rng.permutation(20)[:2] for _ in range(2000)]
    pairs = [(y, x) if rng.random() < 1 / (1 + np.exp(scores[x] - scores[y])) else (x, y) for y, x in pairs]
    wanted = choix.opt_pairwise(20, pairs, tol=1e-12)
    frame = {"winner": [int(y) for y, _ in pairs], "loser": [int(x) for _, x in pairs]}
    model = pr.BradleyTerry(method=method, tol=1e-10).fit(pr.Rankings.from_pairs(frame, user=None))
    np.testing.assert_allclose(model.scores_, wanted - wanted.mean(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.scores_, choix.ilsr_pairwise(20, pairs, tol=1e-12), rtol=0, atol=1e-6)
    assert model.tie_parameter_ == 0.0


def test_a_list_is_broken_into_its_pairs_as_choix_does_and_a_weight_is_a_number_of_repetitions():
    rng = np.random.default_rng(1)
    lists = [rng.permutation(7)[:4].tolist() for _ in range(60)]
    pairs = [pair for ranking in lists for pair in itertools.combinations(ranking, 2)]
    model = pr.BradleyTerry(tol=1e-10).fit(pr.Rankings.from_lists(lists, users=range(60)))
    np.testing.assert_allclose(model.scores_, choix.ilsr_pairwise(7, pairs, tol=1e-12), rtol=0, atol=1e-6)
    doubled = pr.BradleyTerry(tol=1e-10).fit(pr.Rankings.from_lists(lists, users=range(60), weights=[2.0] * 60))
    np.testing.assert_allclose(doubled.scores_, model.scores_, rtol=0, atol=1e-9)
    ratio = doubled.standard_errors()["standard_error"] / model.standard_errors()["standard_error"]
    np.testing.assert_allclose(ratio, np.sqrt(0.5), rtol=1e-9)


@pytest.mark.parametrize(("form", "tie"), [("davidson", 0.7), ("rao-kupper", 1.6)])
def test_planted_ties_are_found_again_by_both_solvers_and_by_the_other_form_less_well(form, tie):
    rankings, scores = simulated(form, tie)
    model = pr.BradleyTerry(ties=form).fit(rankings)
    error = model.tie_standard_error()
    assert abs(np.log(model.tie_parameter_) - np.log(tie)) < 4 * error
    assert error < 0.06
    frame = model.standard_errors().sort("item")
    assert (np.abs(frame["score"].to_numpy() - scores) < 4 * frame["standard_error"].to_numpy()).all()
    by_mm = pr.BradleyTerry(ties=form, method="mm", tol=1e-10).fit(rankings)
    np.testing.assert_allclose(by_mm.scores_, model.scores_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(by_mm.tie_parameter_, model.tie_parameter_, rtol=1e-6)
    assert (np.diff(by_mm.history_) >= -1e-9 * abs(by_mm.history_[-1])).all()
    np.testing.assert_allclose(by_mm.history_[-1], model.history_[-1], rtol=1e-10)
    # Expected counts in place of drawn ones: the form that they come from then fits best, by Gibbs' inequality.
    lists, weights = [], []
    for y, x in itertools.combinations(range(scores.size), 2):
        lists += [[y, x], [{y, x}], [x, y]]
        weights += [*(100 * outcome_probabilities(np.exp(scores[y]), np.exp(scores[x]), tie, form))]
    expected = pr.Rankings.from_lists(lists, weights=weights)
    best = {each: pr.BradleyTerry(ties=each, tol=1e-10).fit(expected) for each in FORMS}
    np.testing.assert_allclose(best[form].tie_parameter_, tie, rtol=1e-6)
    assert best[FORMS[1 - FORMS.index(form)]].history_[-1] < best[form].history_[-1] - 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_the_maximum_and_its_errors_follow_from_the_definition(form):
    rankings, _ = simulated(form, 1.4, n_items=4, n_comparisons=150, seed=3)
    pairs = pair_list(rankings)

    def negative(point):
        worths, tie = np.exp(np.append(point[:3], 0.0)), np.exp(point[3])
        if form == "rao-kupper" and tie <= 1:
            return np.inf
        total = 0.0
        for pair in pairs:
            if len(pair) == 1:
                y, x = pair[0]
                total -= np.log(outcome_probabilities(worths[y], worths[x], tie, form)[1])
            else:
                total -= np.log(outcome_probabilities(worths[pair[0]], worths[pair[1]], tie, form)[0])
        return total

    found = minimize(
        negative, [0, 0, 0, np.log(1.4)], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    )
    model = pr.BradleyTerry(ties=form).fit(rankings)
    np.testing.assert_allclose(model.history_[-1], -found.fun, rtol=1e-10)
    np.testing.assert_allclose(model.scores_ - model.scores_[3], np.append(found.x[:3], 0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.tie_parameter_, np.exp(found.x[3]), rtol=1e-5)
    # The Hessian of the plain function, by differences, gives the variance of log tie and of s_0 - s_3.
    step, eye = 1e-3, np.eye(4)
    hessian = np.array(
        [
            [
                (
                    negative(found.x + step * (a + b))
                    - negative(found.x + step * (a - b))
                    - negative(found.x + step * (b - a))
                    + negative(found.x - step * (a + b))
                )
                / (4 * step**2)
                for b in eye
            ]
            for a in eye
        ]
    )
    covariance = np.linalg.inv(hessian)
    np.testing.assert_allclose(model.tie_standard_error() ** 2, covariance[3, 3], rtol=1e-4)
    inside = model.likelihood().covariance
    np.testing.assert_allclose(inside[0, 0] + inside[3, 3] - 2 * inside[0, 3], covariance[0, 0], rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_outcomes_add_up_and_log_likelihood_is_theirs(form):
    rankings, _ = simulated(form, 1.5, n_items=5, n_comparisons=300)
    model = pr.BradleyTerry(ties=form).fit(rankings)
    win, tie, loss = model.outcomes(0, 3)
    np.testing.assert_allclose(
        [win, tie, loss], outcome_probabilities(*np.exp(model.scores_[[0, 3]]), model.tie_parameter_, form)
    )
    assert math.isclose(model.prefers(None, 0, 3), win / (win + loss))
    asked = pr.Rankings.from_lists({"a": [0, 3], "b": [{0, 3}], "c": [3, 0], "d": [2]})
    np.testing.assert_allclose(np.exp(model.log_likelihood(asked)), [win, tie, loss, 1.0])
    with pytest.raises(InputError, match="ranking 1 has 3 items"):
        model.log_likelihood(pr.Rankings.from_lists({"a": [0, 3], "b": [0, 1, 2]}))


def test_half_and_ignored_ties_are_plain_comparisons():
    rankings, _ = simulated("davidson", 1.0, n_items=5, n_comparisons=300, seed=2)
    decisive = [pair for pair in pair_list(rankings) if len(pair) == 2]
    draws = [sorted(pair[0]) for pair in pair_list(rankings) if len(pair) == 1]
    ignored = pr.BradleyTerry(ties="ignore").fit(rankings)
    np.testing.assert_allclose(ignored.scores_, choix.ilsr_pairwise(5, decisive, tol=1e-12), rtol=0, atol=1e-6)
    both = 2 * decisive + draws + [pair[::-1] for pair in draws]
    half = pr.BradleyTerry(ties="half").fit(rankings)
    np.testing.assert_allclose(half.scores_, choix.ilsr_pairwise(5, both, tol=1e-12), rtol=0, atol=1e-6)
    assert half.tie_standard_error() is None
    tied = pr.Rankings.from_lists({"a": [{0, 1}]})
    assert ignored.log_likelihood(tied).tolist() == [0.0]
    np.testing.assert_allclose(half.log_likelihood(tied), np.log(np.array(half.outcomes(0, 1))[[0, 2]]).mean())


def test_a_prior_is_a_penalty_and_gives_an_estimate_where_there_is_none_without():
    rankings = pr.Rankings.from_lists([["a", "b"], ["b", "c"], ["a", "c"]])
    with pytest.raises(EstimateError, match="never ranked below another item: 'a'"):
        pr.BradleyTerry().fit(rankings)
    model = pr.BradleyTerry(prior="gaussian", prior_scale=0.5).fit(rankings)
    a, b, c = model.scores_

    def slope(winner, loser):
        return 1 / (1 + np.exp(winner - loser))

    np.testing.assert_allclose(slope(a, b) + slope(a, c) - a / 0.25, 0, atol=1e-7)
    np.testing.assert_allclose(slope(b, c) - slope(a, b) - b / 0.25, 0, atol=1e-7)
    assert model.standard_errors()["standard_error"].max() < 0.5  # never wider than the prior
    by_mm = pr.BradleyTerry(prior="gaussian", prior_scale=0.5, method="mm", tol=1e-10).fit(rankings)
    np.testing.assert_allclose(by_mm.scores_, model.scores_, rtol=0, atol=1e-7)


def has_maximum(pairs, n_items):
    """Davidson's likelihood has a maximum if no direction (s, δ) but (1, ..., 1, 0) keeps it from falling."""
    rows = []
    for pair in pairs:
        y, x = pair if len(pair) == 2 else sorted(pair[0])
        d = np.zeros(n_items + 1)
        d[y], d[x] = 1, -1
        level = np.eye(n_items + 1)[n_items] * 2
        # What happened must stay the likeliest of the three outcomes.
        rows += [d, d - level] if len(pair) == 2 else [level - d, level + d]
    rows = np.array(rows)
    fixed = [(0, 0)] + [(-1, 1)] * n_items
    for sign, place in itertools.product((1, -1), range(1, n_items + 1)):
        cost = np.zeros(n_items + 1)
        cost[place] = sign
        if linprog(cost, -rows, np.zeros(len(rows)), bounds=fixed).fun < -1e-9:
            return False
    return True


@pytest.mark.parametrize("form", FORMS)
def test_an_estimate_is_refused_exactly_where_the_likelihood_has_no_maximum(form):
    rng = np.random.default_rng(11)
    seen = {True: 0, False: 0}
    for _ in range(80):
        pairs = [[0, 1]]
        for _ in range(rng.integers(2, 8)):
            y, x = rng.permutation(4)[:2].tolist()
            pairs.append([{y, x}] if rng.random() < 0.5 else [y, x])
        rankings = pr.Rankings.from_lists(pairs, items=range(4))
        # Without a tie there is no tie parameter to be estimated.
        expected = has_maximum(pairs, 4) if rankings.has_ties else None
        if expected is None:
            continue
        seen[expected] += 1
        if expected:
            assert pr.BradleyTerry(ties=form).fit(rankings).converged_
        else:
            with pytest.raises(EstimateError):
                pr.BradleyTerry(ties=form).fit(rankings)
    assert min(seen.values()) > 5


def test_bad_parameters_and_hopeless_data_are_refused():
    rankings = pr.Rankings.from_lists([["a", "b"], ["b", "a"]])
    for parameters in (
        {"ties": "exact"},
        {"prior": "gamma"},
        {"method": "sgd"},
        {"prior_scale": 1e-9},
        {"tol": 0},
        {"max_iter": 0},
    ):
        with pytest.raises(InputError, match=next(iter(parameters))):
            pr.BradleyTerry(**parameters).fit(rankings)
    equal = {"user": ["u", "u"], "item": ["a", "b"], "rating": [3, 3]}
    with pytest.raises(EstimateError, match="every comparison is a tie"):
        pr.BradleyTerry(prior="gaussian").fit(pr.Rankings.from_ratings(equal))


def test_answers_keep_to_the_ties_and_the_prior_of_the_fit():
    model = pr.BradleyTerry().fit(simulated("davidson", 1.4, n_items=5, n_comparisons=300)[0])

    def answers():
        errors = model.standard_errors()["standard_error"].to_list()
        return model.outcomes(0, 3), model.simulate(seed=1).fingerprint, model.tie_standard_error(), errors

    before = answers()
    model.set_params(ties="half")
    assert answers() == before
    model.set_params(ties="rao-kupper", prior="gaussian", prior_scale=0.1)
    assert answers() == before


def test_many_pairs_at_once_are_those_of_one_at_a_time():
    model = pr.BradleyTerry().fit(pr.Rankings.from_lists({"u": ["a", "b"], "v": ["b", "a"], "w": [{"b", "c"}, "a"]}))
    found = model.prefers_pairs(["u", "w", "u"], ["a", "b", "c"], ["b", "b", "a"])
    assert found.tolist() == [model.prefers("u", "a", "b"), 0.5, model.prefers("u", "c", "a")]
    assert len(set(found.tolist())) == 3
