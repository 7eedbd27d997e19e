"""Likelihood-ratio tests, tests of fit and numbers of communities."""

import json

import numpy as np
import pytest

import permrank as pr
from permrank.errors import EstimateError, InputError, NotFittedError, NotSupportedError
from permrank.evaluation.goodness_of_fit import _Counts, _counts, _statistics
from published import baseball, pudding

SCORES = np.array([1.0, 0.5, 0.0, -0.5, -1.0])


def orders(rng, n, scores=SCORES):
    return np.argsort(-(scores + rng.gumbel(size=(n, scores.size))), axis=1).tolist()


# Likelihood-ratio test


def test_equal_worths_are_tested_against_any():
    games = baseball()
    test = pr.likelihood_ratio_test(pr.Random().fit(games), pr.BradleyTerry().fit(games))
    # BradleyTerry2 prints the null deviance 78.015 and the residual deviance 44.053 (tests/baseball.Rout.save).
    assert test.statistic == pytest.approx(78.015 - 44.053, abs=1.1e-3)
    assert test.df == 6
    same = pr.likelihood_ratio_test(pr.Random().fit(games), pr.PlackettLuce().fit(games))
    assert same.statistic == pytest.approx(test.statistic, rel=1e-8)
    assert same.statistic == pytest.approx(pr.PlackettLuce().fit(games).summary().null_test[0], rel=1e-8)


def test_groups_that_do_not_differ_are_rejected_as_often_as_the_level_says():
    rng = np.random.default_rng(11)
    found = []
    for _ in range(60):
        first, second = orders(rng, 60), orders(rng, 60)
        fits = [pr.PlackettLuce().fit(pr.Rankings.from_lists(lists)) for lists in (first + second, first, second)]
        found.append(pr.likelihood_ratio_test(fits[0], fits[1:]))
    assert {test.df for test in found} == {4.0}
    p = np.array([test.p for test in found])
    # Uniform: the mean of 60 has a standard error of 0.037, and 24 of 60 below 0.2 are five of 3.1 too many.
    assert abs(p.mean() - 0.5) < 5 * 0.037
    assert np.sum(p < 0.2) < 28
    turned = [pr.PlackettLuce().fit(pr.Rankings.from_lists(orders(rng, 60, scores))) for scores in (SCORES, -SCORES)]
    both = [line for fit in turned for line in fit.rankings_.shuffled_ties().lists()]
    weights = np.concatenate([fit.rankings_.weights for fit in turned])
    control = pr.likelihood_ratio_test(pr.PlackettLuce().fit(pr.Rankings.from_lists(both, weights=weights)), turned)
    assert control.p < 1e-6


def test_a_likelihood_ratio_test_refuses_what_is_not_nested():
    rng = np.random.default_rng(12)
    lists = orders(rng, 40)
    whole, half, rest = (pr.Rankings.from_lists(part) for part in (lists, lists[:20], lists[20:]))

    tied = pr.Rankings.from_lists([[{0, 1}, 2], [2, 0, 1], [1, 2, 0]])

    def fit(data):
        return pr.PlackettLuce().fit(data)

    refused = [
        ([fit(whole), fit(whole)], InputError, "the same model"),
        ([fit(whole), [fit(half), fit(half)]], InputError, "different rankings"),
        ([pr.Random().fit(half), fit(whole)], InputError, "different rankings"),
        ([fit(whole), [fit(half), pr.PlackettLuce(prior="gaussian").fit(rest)]], NotSupportedError, "prior=None"),
        ([fit(whole), pr.BradleyTerry().fit(whole)], NotSupportedError, "broken into pairs"),
        ([fit(whole), pr.Mallows().fit(whole)], NotSupportedError, "choose_communities"),
        ([pr.Borda().fit(whole), fit(whole)], NotSupportedError, "Borda"),
        ([fit(whole), pr.PlackettLuce(ties="shuffle").fit(tied)], NotSupportedError, "shuffled ties"),
        ([pr.Random().fit(pudding()), pr.BradleyTerry().fit(pudding())], InputError, "not nested"),
        ([fit(whole), []], InputError, "expected a fitted model"),
        ([pr.PlackettLuce(), fit(whole)], NotFittedError, "not fitted"),
    ]
    for models, kind, message in refused:
        with pytest.raises(kind, match=message):
            pr.likelihood_ratio_test(*models)
    test = pr.likelihood_ratio_test(fit(whole), [fit(half), fit(rest)])
    assert "all parts" in str(test)
    assert "<table>" in test._repr_html_()
    assert json.loads(test.to_json())["df"] == 4


# Data drawn from models


def test_simulated_data_have_the_design_and_the_law_of_the_model():
    rng = np.random.default_rng(13)
    lists = [[*row[:2], set(row[2:])] for row in orders(rng, 400)]
    model = pr.PlackettLuce().fit(pr.Rankings.from_lists(lists))
    drawn = model.simulate(seed=3)
    assert drawn.n_rankings == 400
    assert drawn.levels.tolist() == [0, 1, 2, 2, 2] * 400
    first = np.bincount(drawn.items[::5], minlength=5) / 400
    worths = np.exp(model.scores_) / np.exp(model.scores_).sum()
    assert np.abs(first - worths).max() < 5 * np.sqrt(0.25 / 400)
    assert (model.simulate(seed=3).items == drawn.items).all()
    assert (model.simulate(seed=4).items != drawn.items).any()
    efron = pr.PlackettLuce(ties="efron").fit(model.rankings_)
    with pytest.raises(NotSupportedError, match="ties='exact'"):
        efron.simulate()


def test_simulated_comparisons_have_the_outcomes_of_the_model():
    model = pr.BradleyTerry().fit(pudding())
    totals = [_counts(model.simulate(seed=seed), 2) for seed in range(60)]
    win, tie, _ = model.outcomes(1, 2)
    wins, ties = (np.array([getattr(counts, name)[0, 1] for counts in totals]) for name in ("above", "tied"))
    for seen, wanted in ((wins, win), (ties, tie)):
        assert abs(seen.mean() - 57 * wanted) < 5 * np.sqrt(57 * wanted * (1 - wanted) / 60)
    with pytest.raises(NotSupportedError, match="davidson"):
        pr.BradleyTerry(ties="half").fit(pudding()).simulate()
    kept = pr.BradleyTerry(ties="ignore").fit(pudding())
    assert _counts(kept.simulate(), 2).tied.sum() == _counts(model.rankings_, 2).tied.sum() == 202


def test_simulated_mallows_data_have_the_pairs_of_the_model():
    ballots = pr.Rankings.from_lists([["a", "b", "c", "d"], ["b", "a", "c"], ["d", "a"]], weights=[200, 100, 100])
    model = pr.Mallows().fit(ballots)
    drawn = model.simulate(seed=5)
    assert sorted(drawn.lengths.tolist()) == [2] * 100 + [3] * 100 + [4] * 200
    above = _counts(drawn, 4).above
    wanted = model.prefers(None, "a", "b")
    assert abs(above[0, 1] / (above[0, 1] + above[1, 0]) - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 300)


def test_weights_that_are_no_numbers_of_rankings_cannot_be_drawn():
    model = pr.PlackettLuce().fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"]], weights=[1.5, 1.0]))
    with pytest.raises(InputError, match=r"weight 1\.5"):
        model.simulate()


# Test of fit


def test_the_test_of_fit_has_its_size_and_without_refitting_is_conservative():
    rng = np.random.default_rng(14)
    p, careless = [], []
    for seed in range(20):
        model = pr.PlackettLuce().fit(pr.Rankings.from_lists(orders(rng, 40, SCORES[:4])))
        p.append(pr.goodness_of_fit(model, n_simulations=13, seed=seed).frame["p"].to_list())
        careless.append(pr.goodness_of_fit(model, n_simulations=13, refit=False, seed=seed).frame["p"].to_list())
    p, careless = np.array(p), np.array(careless)
    # Uniform on 1/14 .. 1: mean 0.536, standard deviation 0.29, so 0.065 for a mean of 20.
    assert (np.abs(p.mean(axis=0) - 0.536) < 4.5 * 0.065).all()
    assert (np.sum(p < 0.1, axis=0) < 8).all()  # binomial(20, 1/14): 8 or more once in 20,000 times
    assert careless[:, 0].mean() > 0.75  # pairs: the scores were fitted to them


def test_what_the_model_cannot_say_is_rejected_and_shown():
    rng = np.random.default_rng(15)
    two = orders(rng, 60, 4 * SCORES) + orders(rng, 60, -4 * SCORES)  # two camps, which no worths describe
    model = pr.PlackettLuce().fit(pr.Rankings.from_lists(two))
    found = pr.goodness_of_fit(model, n_simulations=39)
    assert found.frame["test"].to_list() == ["pairs", "positions"]
    assert found.frame["p"][1] == 1 / 40
    assert found.p == 2 / 40
    ends = found.positions.filter(found.positions["item"].is_in([0, 4]))  # the two that the camps dispute
    assert ends["z"].max() > 3  # first or last more often than any worths could make them
    assert found.pairs.columns == ["item", "other", "observed", "expected", "z"]
    assert "residuals of" in str(found)
    assert "<table>" in found._repr_html_()
    assert json.loads(found.to_json())["n_simulations"] == 39


def test_comparisons_of_two_are_tested_by_pairs():
    found = pr.goodness_of_fit(pr.BradleyTerry().fit(pudding()), n_simulations=9)
    assert found.frame["test"].to_list() == ["pairs"]
    assert found.p > 0.1  # Davidson (1970) finds no lack of fit
    with pytest.raises(NotSupportedError, match="does not draw data"):
        pr.goodness_of_fit(pr.Borda().fit(pudding()))
    with pytest.raises(InputError, match="n_simulations"):
        pr.goodness_of_fit(pr.BradleyTerry().fit(pudding()), n_simulations=0)


def test_simulations_without_an_estimate_are_not_left_out_in_silence():
    rare = pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"]], weights=[20, 20, 1, 1])
    model = pr.PlackettLuce().fit(rare)  # c is above b in all of two comparisons every other time
    with pytest.raises(EstimateError, match="have no estimate"):
        pr.goodness_of_fit(model, n_simulations=29)
    assert pr.goodness_of_fit(model, n_simulations=9, refit=False).n_simulations == 9


# Number of communities


def test_two_camps_are_found_and_everybody_is_put_in_one():
    rng = np.random.default_rng(16)
    strong = 2.5 * SCORES
    lists = dict(enumerate(orders(rng, 50, strong) + orders(rng, 30, -strong)))
    data = pr.Rankings.from_lists(lists)
    found = pr.choose_communities(pr.Mallows(n_starts=4, tol=0.01), data, (1, 2, 3), folds=3)
    assert found.best > 1
    assert found.frame["below_best"][0] > 0.5  # nats a ranking
    assert found.frame["bic"].to_list()[0] > min(found.frame["bic"].to_list()[1:])
    assert found.frame["df"].to_list() == [1, 3, 5]
    assert (found.frame["icl"] >= found.frame["bic"] - 1e-9).all()
    assert "best by held-out likelihood" in str(found)
    who = pr.Mallows(2, n_starts=4, tol=0.01).fit(data).assignments()
    assert who.columns == ["user", "community", "probability", "entropy"]
    assert (who["community"][:50] == 1).mean() > 0.9
    assert (who["community"][50:] == 2).mean() > 0.9
    assert who["entropy"].is_between(0, 1).all()
    alike = pr.Mallows().fit(data.select(users=range(50))).simulate(1)  # the control: one camp
    assert pr.choose_communities(pr.Mallows(n_starts=2, tol=0.01), alike, (1, 2), folds=3).frame["below_best"][0] < 0.2


def test_numbers_of_communities_are_for_models_that_have_them():
    data = pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "b"]])
    with pytest.raises(NotSupportedError, match="no communities"):
        pr.choose_communities(pr.PlackettLuce(), data)
    with pytest.raises(InputError, match="numbers"):
        pr.choose_communities(pr.Mallows(), data, (0, 1))
    with pytest.raises(InputError, match="folds"):
        pr.choose_communities(pr.Mallows(), data, (1,), folds=9)


def test_a_rare_outcome_counts_as_if_one_were_expected():
    usual, nothing = np.array([[0.0, 40.0], [60.0, 0.0]]), np.zeros((2, 2))
    expected = _Counts(usual, nothing, np.array([[50.0, 0.01]]))
    seen = _Counts(usual + np.array([[0, 3], [-3, 0]]), nothing, np.array([[49.0, 1.0]]))
    found = _statistics(seen, expected)
    np.testing.assert_allclose(found, [9 / 40 + 9 / 60, 1 / 50 + 0.99**2])
    # One such outcome of a cell of .01 would be worth 98 otherwise.
    assert found[1] < 1.01
