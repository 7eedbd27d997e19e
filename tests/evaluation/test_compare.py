"""evaluate and compare: every person's result, on every kind of split, whatever a model does."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank.core.estimates import Estimate
from permrank.core.ranker import Ranker
from permrank.errors import InputError, UnknownIdError
from permrank.evaluation.comparison import by_known_entries
from permrank.evaluation.metrics import Metric, blind_log_likelihood, per_list
from permrank.evaluation.scoring import hidden_scores, indices_in, pair_probabilities
from permrank.evaluation.significance import Sample, all_pairs, interval
from permrank.learning.learner import at_once


class Broken(Ranker):
    """A model that fails where it is told to."""

    def __init__(self, where="fit"):
        self.where = where

    def _learn(self, rankings):
        if self.where == "fit":
            raise ZeroDivisionError("on purpose")
        return Estimate()

    def _scores(self, fitted, person, items):
        raise ValueError("no scores\n today")


class Echo(Ranker):
    """Likes best what stands near the first thing that a person says."""

    def __init__(self):
        pass

    def _learn(self, rankings):
        return Estimate()

    def _scores(self, fitted, person, items):
        first = fitted.item_ids.index(person.rankings.lists()[0][0])
        return -np.abs(items - first).astype(float)


@pytest.fixture(scope="module")
def rankings():
    return pr.datasets.load(
        "simulated", n_users=150, n_items=30, list_length=(8, 14), separation=0.0, noise=0.3, seed=3
    )


def test_the_value_of_a_person_is_the_metric_of_the_persons_scores(rankings):
    split = pr.Given(5).split(rankings, seed=1)
    result = pr.evaluate(pr.MeanRating(), split, metrics=["pairs_right", "ndcg", "mrr"], k=3)
    model = pr.MeanRating().fit(split.train)
    assert result.per_user.height == split.test.n_rankings
    for row in result.per_user.head(20).iter_rows(named=True):
        (items,) = split.test.lists(row["user"])
        grades = np.linspace(5, 1, len(items))
        found = per_list(["pairs_right", "ndcg", "mrr"], [0, len(items)], grades, model.score(row["user"], items), k=3)
        for name, value in found.items():
            assert row[name] == pytest.approx(value[0], abs=1e-12)
    assert result.means()["ndcg"] == pytest.approx(result.per_user["ndcg"].mean())
    table = result.table()
    assert ((table["low"] <= table["mean"]) & (table["mean"] <= table["high"])).all()


def test_a_fitted_model_is_measured_as_it_is_and_stays_as_it_is(rankings):
    split = pr.Given(5).split(rankings, seed=1)
    model = pr.MeanRating().fit(split.train)
    direct, fitted = pr.evaluate(model, split.test), pr.evaluate(pr.MeanRating(), split)
    assert direct.per_user.equals(fitted.per_user)
    assert direct.model is model
    unfitted = pr.MeanRating()
    pr.evaluate(unfitted, split)
    assert not hasattr(unfitted, "rankings_")


def test_items_that_nobody_has_in_training_are_neutral():
    train = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["a", "c", "b"]})
    test = pr.Rankings.from_lists({"ann": ["a", "new", "c"], "eve": ["a", "c"]})
    scores = hidden_scores(pr.Borda().fit(train), test, None)
    assert np.isnan(scores).tolist() == [False, True, False, True, True]
    result = pr.evaluate(pr.Borda().fit(train), test, metrics=["pairs_right"])
    assert result.per_user["pairs_right"].to_list() == [1.0, 0.5]


def test_indices_of_ids_in_another_vocabulary():
    for ids, known in (([1, 5, 9], [5, 9, 11]), (["a", "é", "z"], ["b", "é", "zz"])):
        first, second = (pr.Rankings.from_lists({0: each}).item_ids for each in (ids, known))
        expected = [second.index(x) if x in second else -1 for x in first]
        assert indices_in(first, second).tolist() == expected


def test_new_people_are_folded_in_and_ranked_for(rankings):
    split = pr.StrongGeneralisation(n_given=5, min_test=3).split(rankings, seed=0)
    result = pr.evaluate(Echo(), split)
    for place, user in enumerate(split.test.user_ids):
        new = result.model.fold_in(split.given.lists(user)[0])
        (items,) = split.test.lists(user)
        found = per_list(["pairs_right"], [0, len(items)], range(len(items), 0, -1), result.model.score(new, items))
        assert result.per_user["pairs_right"][place] == pytest.approx(found["pairs_right"][0])
    rated = pr.datasets.load("simulated", n_users=80, n_items=20, list_length=12, ties=5, separation=0.0, noise=0.3)
    split = pr.StrongGeneralisation(n_given=5, min_test=3).split(rated, seed=0)
    assert pr.evaluate(pr.MeanRating(), split).means()["pairs_right"] > 0.6


def test_whole_lists_of_new_people_are_judged_by_their_probability(rankings):
    split = pr.Folds(5).split(rankings, seed=0)
    result = pr.evaluate(pr.Random(), split)
    np.testing.assert_allclose(result.per_user["log_likelihood"], blind_log_likelihood(split.test), rtol=1e-12)
    stages = np.diff(split.test.indptr) - 1
    np.testing.assert_allclose(
        result.per_user["log_likelihood_per_stage"] * stages, result.per_user["log_likelihood"], rtol=1e-12
    )
    better = pr.evaluate(pr.PlackettLuce(prior="gaussian"), split)
    assert better.means()["log_likelihood"] > result.means()["log_likelihood"] + 1
    with pytest.raises(InputError, match="ndcg needs people that the model knows"):
        pr.evaluate(pr.Random(), split, metrics=["ndcg"])


def test_the_whole_catalogue_is_ranked_but_for_what_is_listed(rankings):
    split = pr.Given(5).split(rankings, seed=1)
    options = {"metrics": ["recall", "precision", "ndcg"], "k": 4, "candidates": "all", "relevant_from": 1.0}
    result = pr.evaluate(pr.MeanRating(), split, **options)
    for row in result.per_user.head(10).iter_rows(named=True):
        top = result.model.recommend(row["user"], 4)["item"].to_list()
        hits = len(set(top) & set(split.test.lists(row["user"])[0]))
        assert row["precision"] == pytest.approx(hits / 4)
        assert row["recall"] == pytest.approx(hits / len(split.test.lists(row["user"])[0]))
    random = pr.evaluate(pr.Random(), split, **options)
    # Every unlisted item is as likely as every other to be among the first four.
    left = np.diff(split.test.indptr) / (split.train.n_items - 5)
    # About 0.24 a draw, so sqrt(0.24 * 0.76 / 4) = 0.21 a person and 0.018 the mean of 150: over four standard errors.
    assert random.means()["precision"] == pytest.approx(left.mean(), abs=0.08)


def test_a_random_scorer_gets_half_of_the_pairs_and_the_best_is_found(rankings):
    models = {"good": pr.MeanRating(), "twin": pr.MeanRating(tol=1e-7), "guess": pr.Random()}
    found = pr.compare(models, rankings, protocol=pr.Given(5), seeds=range(3))
    table = found.table()
    assert table["model"][2] == "guess"
    # Of n items in a random order (2n + 5) / (18 n (n - 1)) is the variance of the share of pairs, 0.04 for the 3 to 9
    # here: a standard error of 0.0095 over 150 people and three splits, of 0.016 if the splits say the same.
    assert table["pairs_right"][2] == pytest.approx(0.5, abs=0.06)
    assert table["verdict"].to_list() == ["best", "same", "worse"]
    assert table["p"][2] < 0.001 < 0.05 < table["p"][1]
    assert found.by_seed().height == 3 + 3 + 3 * 4  # of what draws ten fits, on three splits
    assert found.per_user("pairs_right").height == rankings.n_users
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_model_that_fails_does_not_stop_the_others(rankings):
    models = {"bad": Broken(), "worse": Broken("score"), "good": pr.MeanRating(), "none": pr.PlackettLuce(tol=-1.0)}
    seen = []
    found = pr.compare(models, rankings, seeds=(0, 1), on_result=seen.append)
    assert len(seen) == 8
    assert found.table().select("model", "verdict").rows()[0] == ("good", "best")
    assert set(found.table().filter(pl.col("verdict") == "failed")["model"]) == {"bad", "worse", "none"}
    assert found.problems()["bad"] == "failed on 2 of 2 splits: ZeroDivisionError: on purpose"
    assert found.problems()["worse"] == "failed on 2 of 2 splits: ValueError: no scores today"
    assert "tol=-1.0" in found.problems()["none"]
    only_bad = pr.compare({"bad": Broken()}, rankings)
    assert only_bad.table()["verdict"].to_list() == ["failed"]
    json.dumps(only_bad.to_dict(), allow_nan=False)


def test_costs_are_told_apart(rankings):
    result = pr.compare([pr.PlackettLuce(prior="gaussian")], rankings).results[0]
    assert result.first_seconds > 0
    assert result.fit_seconds > 0
    assert result.score_seconds > 0
    assert result.peak_megabytes is None or result.peak_megabytes >= 0


def test_a_fit_can_be_given_a_time_limit(rankings):
    split = pr.Given(5).split(rankings)
    model = pr.PlackettLuce(prior="gaussian", method="mm", tol=1e-15, prior_scale=1.0)
    result = pr.evaluate(model, split, max_seconds=0.0)
    assert result.model.n_iter_ == 1
    assert result.notes == ["stopped after 0 s, 1 sweeps"]
    assert result.cut_off == 0.0
    assert pr.evaluate(model.clone().set_params(tol=1e-3), split, max_seconds=600.0).cut_off is None


def test_a_fit_that_was_cut_off_is_marked_and_gets_no_verdict(rankings):
    slow = pr.PlackettLuce(prior="gaussian", method="mm", tol=1e-15, prior_scale=1.0)
    models = {"slow": slow, "Random": pr.Random(), "Borda": pr.Borda()}
    found = pr.compare(models, rankings, max_seconds=0.0)
    rows = {row["model"]: row for row in found.table().to_dicts()}
    assert rows["slow"]["verdict"] == "cut off"
    assert rows["slow"]["cut_off"] == 0.0
    assert rows["slow"]["p"] is None
    assert rows["slow"][found.metric] > rows["Random"][found.metric]
    assert (rows["Borda"]["verdict"], rows["Borda"]["cut_off"]) == ("best", None)
    assert rows["Random"]["verdict"] == "worse"
    assert [row["cut_off"] for row in found.to_dict()["table"]].count(0.0) == 1
    assert found.by_seed().filter(pl.col("cut_off").is_not_null())["model"].to_list() == ["slow"]
    alone = pr.compare({"slow": slow}, rankings, max_seconds=0.0)
    assert alone.table()["verdict"].to_list() == ["cut off"]


def test_calibration_is_measured_where_there_are_probabilities():
    rankings, truth = pr.datasets.simulated(
        n_users=1500, n_items=12, list_length=10, n_communities=1, separation=0.0, n_factors=0, seed=3
    )

    class Oracle(pr.PlackettLuce):
        """Knows the worths that the lists were drawn with; `tol` blows them up."""

        def _learner(self, rankings):
            return at_once(self.estimate_type(truth.popularity * self.tol, 1.0, **self._rules()))

    split = pr.Given(5).split(rankings)
    right = pr.evaluate(Oracle(tol=1.0), split, n_pairs=1500)
    assert right.reliability["n"].sum() == 1500
    # A bin of 150 pairs is off by 0.03 on average, give or take 0.02: over ten bins four of these errors are 0.06.
    assert right.means()["calibration_error"] < 0.06
    assert pr.evaluate(Oracle(tol=3.0), split, n_pairs=1500).means()["calibration_error"] > 0.1
    assert pr.evaluate(pr.MeanRating(), split, n_pairs=10).reliability is None


def wrong_pairs(grades, scores):
    """The share of pairs put wrong: the mirror of pairs_right."""
    if np.unique(grades).size < 2:
        return math.nan
    asked = np.sign(np.subtract.outer(grades, grades))
    told = np.sign(np.subtract.outer(scores, scores))
    return float((1.0 - asked * told)[asked != 0].mean() / 2.0)


WRONG = Metric("wrong_pairs", wrong_pairs, title="pairs wrong", higher_is_better=False)


def test_a_metric_of_which_lower_is_better_gives_the_same_verdicts_as_its_mirror(rankings):
    models = {"guess": pr.Random(), "twin": pr.MeanRating(tol=1e-7), "good": pr.MeanRating(), "bad": Broken()}
    found = pr.compare(models, rankings, protocol=pr.Given(5), seeds=range(2), metrics=[WRONG, "pairs_right"])
    table, mirror = found.table(), found.table("pairs_right")
    assert found.metric == "wrong_pairs"
    assert table["verdict"].to_list() == mirror["verdict"].to_list() == ["best", "same", "worse", "failed"]
    assert set(table["model"][:2]) == {"twin", "good"}
    np.testing.assert_allclose(1.0 - table["wrong_pairs"][:3], mirror["pairs_right"][:3], rtol=1e-12)
    assert table["p"][2] == mirror["p"][2] < 0.001
    assert (table["low"][:3] <= table["wrong_pairs"][:3]).all()
    assert found.table(WRONG).select("model").equals(table.select("model"))
    assert found.to_dict()["table"][0]["wrong_pairs"] < 0.5
    with pytest.raises(UnknownIdError, match="unknown metric 'wrong'"):
        found.table("wrong")


def test_an_unknown_metric_stops_a_comparison_before_anything_is_fitted(rankings):
    with pytest.raises(UnknownIdError, match="nearest known one is 'ndcg'"):
        pr.compare([pr.Random()], rankings, metrics=["nddcg"])
    with pytest.raises(InputError, match="two metrics are called 'mine'"):
        pr.evaluate(
            pr.Random(), pr.Given(5).split(rankings), metrics=[Metric("mine", f) for f in (min_of, wrong_pairs)]
        )


def min_of(grades, scores):
    return float(grades.min())


def test_models_can_be_ordered_by_their_calibration_but_not_tested(rankings):
    models = {"BradleyTerry": pr.BradleyTerry(prior="gaussian"), "PlackettLuce": pr.PlackettLuce(prior="gaussian"),
              "MeanRating": pr.MeanRating()}  # fmt: skip
    found = pr.compare(models, rankings, protocol=pr.Given(5), metrics=["calibration_error"])
    table = found.table()
    assert found.metric == "calibration_error"
    known = table["calibration_error"].drop_nulls()
    assert known.to_list() == sorted(known)
    assert table["verdict"].to_list() == ["best", "untested", "failed"]  # MeanRating has no probabilities
    assert table["p"].is_null().all()
    assert table["low"].is_null().all()
    json.dumps(found.to_dict(), allow_nan=False)


class Contrary(pr.PlackettLuce):
    """Says the opposite of what it knows, in a whisper: every probability is next to one half."""

    def _prefers(self, fitted, person, first, second):
        return 0.5 - 1e-3 * np.sign(super()._prefers(fitted, person, first, second) - 0.5)


def test_saying_nothing_is_never_the_best_calibration(rankings):
    models = {
        "Random": pr.Random(), "Contrary": Contrary(prior="gaussian"), "PlackettLuce": pr.PlackettLuce(prior="gaussian")
    }  # fmt: skip
    found = pr.compare(models, rankings, protocol=pr.Given(5), metrics=["calibration_error"], n_pairs=800)
    table = found.table("calibration_error")
    verdicts = dict(table.select("model", "verdict").iter_rows())
    assert verdicts == {"PlackettLuce": "best", "Contrary": "uninformative", "Random": "failed"}
    losses = {result.name: result.overall["pair_log_loss"] for result in found.results}
    assert losses["PlackettLuce"] < losses["Random"] == 1.0 < losses["Contrary"]


def test_probabilities_of_hidden_pairs_are_those_that_people_can_ask_for(rankings):
    split = pr.Given(5).split(rankings)
    model = pr.PlackettLuce(prior="gaussian").fit(split.train)
    p, _ = pair_probabilities(model, split.test, None, 40, seed=0)
    asked = set()
    for user, (items,) in ((user, split.test.lists(user)) for user in split.test.user_ids):
        asked |= {round(model.prefers(user, a, b), 9) for a, b in itertools.permutations(items, 2)}
    assert p.size == 40
    assert {round(float(each), 9) for each in p} <= asked


def test_sweeps_of_an_earlier_part_of_learning_are_counted():
    rankings = pr.datasets.load("simulated", n_users=60, n_items=15, list_length=8, ties=3)
    split, parts = pr.Given(6).split(rankings), []
    model = pr.FactoredPlackettLuce(n_factors=2, max_iter=24, rating_thresholds=False)
    model.clone().fit(split.train, callback=lambda progress: parts.append(progress.part))
    result = pr.evaluate(model, split)
    assert parts == sorted(parts)
    assert set(parts) == {0, 1}  # a part of the entries is held out at first
    assert result.earlier_sweeps == parts.count(0)
    assert len(result.history) == len(parts)
    assert pr.evaluate(pr.PlackettLuce(prior="gaussian"), split).earlier_sweeps == 0


def test_differences_are_those_of_people_and_say_who_gains(rankings):
    models = {"good": pr.MeanRating(), "guess": pr.Random(), "bad": Broken()}
    found = pr.compare(models, rankings, protocol=pr.Given(5), seeds=range(2))
    people, rows = found.per_user(found.metric), {row["model"]: row for row in found.differences().to_dicts()}
    assert set(rows) == {"good", "guess"}
    assert rows["good"]["difference"] == rows["good"]["better"] == rows["good"]["worse"] == 0.0
    each = (people["guess"] - people["good"]).to_numpy()
    assert rows["guess"]["difference"] == pytest.approx(each.mean(), rel=1e-12)
    assert rows["guess"]["better"] == pytest.approx(np.mean(each > 1e-12))
    assert rows["guess"]["worse"] == pytest.approx(np.mean(each < -1e-12))
    assert rows["guess"]["low"] < rows["guess"]["difference"] < rows["guess"]["high"] < 0
    # A paired interval is narrower than those of the two means: people differ more than models do on a person.
    table = {row["model"]: row for row in found.table().to_dicts()}
    assert rows["guess"]["difference"] == pytest.approx(table["guess"][found.metric] - table["good"][found.metric])
    assert found.differences("calibration_error").is_empty()
    known = dict(found.known.iter_rows())
    assert set(known.values()) == {5}
    parts = by_known_entries(people, found.known.with_columns(entries=pl.int_range(pl.len())), "guess", "good")
    assert [part["people"] for part in parts] == pytest.approx([people.height / 4] * 4, abs=1)
    mean = np.average([part["mean"] for part in parts], weights=[part["people"] for part in parts])
    assert mean == pytest.approx(each.mean(), rel=1e-12)


def test_a_ballot_counts_by_its_weight_in_every_mean_interval_and_p_value():
    rng = np.random.default_rng(4)
    weights = rng.integers(1, 9, 60).astype(float)
    lists = [list(order) for order in rng.permutation(list(itertools.permutations("abcde")))[:60].tolist()]
    test = pr.Rankings.from_lists(lists, weights=weights)
    split = pr.Split(pr.Rankings.from_lists(dict(zip("abcdefghi", lists, strict=False))), test, None, "by hand", 0)
    models = {"few": pr.PlackettLuce(prior="gaussian"), "Mallows": pr.Mallows(), "blind": pr.Random()}
    found = pr.compare(models, split)
    assert found.metric == "log_likelihood"
    values = {name: found.of(name)[0].per_user["log_likelihood"].to_numpy() for name in models}
    order, weights = found.table()["model"].to_list(), test.weights
    pairs = all_pairs([Sample(values[name][:, None], np.zeros(1), False) for name in order], weights)
    unweighted = all_pairs([Sample(values[name][:, None], np.zeros(1), False) for name in order], np.ones(60))
    for n, (row, apart) in enumerate(zip(found.table().to_dicts(), found.differences().to_dicts(), strict=True)):
        own = values[row["model"]]
        mean, ends = np.average(own, weights=weights), interval(own, weights)
        alone = found.of(row["model"])[0].table().row(0, named=True)
        for each in ([row["log_likelihood"], row["low"], row["high"]], [alone["mean"], alone["low"], alone["high"]]):
            np.testing.assert_allclose(each, [mean, *ends], rtol=1e-12)
        if n:
            assert row["p"] == pytest.approx(pairs[0, n].p, abs=1e-3)
            ends = -pairs[0, n].high, -pairs[0, n].low
            assert abs(ends[0] + unweighted[0, n].high) > 1e-4
            np.testing.assert_allclose((apart["low"], apart["high"]), ends, rtol=1e-9)
            gain = own - values[order[0]]
            assert apart["better"] == pytest.approx(weights[gain > 1e-12].sum() / weights.sum())


def test_every_fit_has_its_own_seed_and_is_the_same_again(rankings):
    models, seeds = {"one": pr.Random(), "other": pr.Random(), "fixed": pr.MeanRating()}, []
    options = {"protocol": pr.Given(5), "seeds": 2, "fits": 3}
    found = pr.compare(
        models, rankings, on_result=lambda r: seeds.append(r.model and r.model.get_params().get("seed")), **options
    )
    own = [result for result in found.results if result.random]
    assert [(r.name, r.split, r.fit) for r in own] == [
        (name, split, fit) for split in range(2) for name in ("one", "other") for fit in range(3)
    ]
    means = [result.means()["pairs_right"] for result in own]
    assert len(set(means)) == 12
    assert len(found.of("fixed")) == 2
    assert [result.model is None for result in own] == [fit > 0 for _ in range(4) for fit in range(3)]
    assert len({seed for seed in seeds if seed is not None}) == 4
    alone = pr.compare({"other": pr.Random()}, rankings, protocol=pr.Given(5), seeds=2, fits=3)
    assert [r.means()["pairs_right"] for r in alone.results] == means[3:6] + means[9:]
    people = found.per_user("pairs_right")
    each = [result.per_user["pairs_right"].to_numpy() for result in found.of("one")]
    np.testing.assert_allclose(people["one"], np.mean(each, axis=0), rtol=1e-12)


def test_how_often_a_model_is_fitted(rankings):
    asked = {"protocol": pr.Given(5)}
    for seeds, number in ((1, 10), (3, 12), (12, 12)):
        assert len(pr.compare([pr.Random()], rankings, seeds=seeds, **asked).results) == number
    # It has a seed, but learning makes no use of it.
    assert len(pr.compare([pr.PlackettLuce(prior="gaussian")], rankings, **asked).results) == 2
    inner = pr.compare({"found": pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=2))}, rankings, fits=2, **asked)
    assert inner.results[0].model.order.get_params()["seed"] == inner.results[0].model.get_params()["seed"] != 0
    with pytest.raises(InputError, match="fits=0"):
        pr.compare([pr.Random()], rankings, fits=0)


def test_the_same_model_twice_is_not_worse_than_itself():
    # Few people, many factors, and no prior to speak of: the luck of a fit is a multiple of what people say of it.
    model = pr.FactoredPlackettLuce(n_factors=4, method="point", user_penalty=0.3, item_penalty=0.3)
    wrong = 0
    for number in range(12):
        data, _ = pr.datasets.simulated(n_users=40, n_items=15, list_length=10, n_communities=3, seed=number)
        found = pr.compare({"one": model, "other": model}, pr.Given(5).split(data, number), fits=4)
        wrong += "worse" in found.table()["verdict"].to_list()
        assert found.table()["p"].is_not_null().sum() == 1
    assert wrong <= 4  # of .05, more than 4 of 12 have a probability of 2e-4


def test_few_people_and_single_fits_are_undecided(rankings, tmp_path):
    few = pr.datasets.load("simulated", n_users=3, n_items=30, list_length=12, separation=0.0)
    found = pr.compare([pr.MeanRating(), pr.Random()], few, protocol=pr.Given(5))
    assert found.table()["verdict"].to_list() == ["undecided"] * 2
    assert found.why_undecided() == "3 people decide nothing: a verdict takes at least 6."
    assert found.to_dict()["undecided"] == found.why_undecided()
    assert found.differences().is_empty()
    found.report(tmp_path / "out.html")
    assert "No model can be called best. 3 people decide nothing" in (tmp_path / "out.html").read_text(encoding="utf-8")
    assert pr.compare([pr.MeanRating()], few, protocol=pr.Given(5)).table()["verdict"].to_list() == ["undecided"]
    once = pr.compare([pr.MeanRating(), pr.Random()], rankings, protocol=pr.Given(5), fits=1)
    assert once.table()["verdict"].to_list() == ["undecided"] * 2
    assert once.why_undecided() == "A fit with another seed may come out otherwise: fit Random() more than once."
    two = pr.compare({"a": pr.MeanRating(), "b": pr.Borda(), "c": pr.Random()}, rankings, protocol=pr.Given(5), fits=1)
    verdicts = dict(two.table().select("model", "verdict").iter_rows())
    assert verdicts["c"] == "undecided"
    assert "best" in verdicts.values()
    assert pr.compare([pr.MeanRating(), pr.Random()], rankings, protocol=pr.Given(5)).why_undecided() == ""


def test_bad_arguments_are_named(rankings):
    split = pr.Given(5).split(rankings)
    with pytest.raises(UnknownIdError, match="unknown metric 'nddcg'; the nearest known one is 'ndcg'"):
        pr.evaluate(pr.Random(), split, metrics=["nddcg"])
    with pytest.raises(InputError, match="candidates='some'"):
        pr.evaluate(pr.Random(), split, candidates="some")
    with pytest.raises(InputError, match="expected Rankings, got list"):
        pr.evaluate(pr.Random(), [[1, 2]])
    for wrong, text in (([], "no models"), ([3], "expected models, got int"), ([pr.Random(), pr.Random()], "twice")):
        with pytest.raises(InputError, match=text):
            pr.compare(wrong, rankings)
    with pytest.raises(InputError, match="expected Rankings, a Split or several"):
        pr.compare([pr.Random()], ["x"])


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("dataset", "protocol", "model", "metric", "mean", "deviation"),
    [
        # Measured once by code that shares nothing with the library: means and standard deviations over five seeds.
        ("ml-100k", pr.WeakGeneralisation(10), pr.MeanRating(), "ndcg", 0.7163, 0.0052),
        ("sushi", pr.Given(7), pr.MeanRating(), "pairs_right", 0.6638, 0.0032),
        ("sushi", pr.Given(5), pr.PlackettLuce(prior="gaussian"), "pairs_right", 0.6602, 0.0026),
    ],
)
def test_baselines_get_what_independent_code_measured(data_folder, dataset, protocol, model, metric, mean, deviation):
    found = pr.compare([model], pr.datasets.load(dataset), protocol=protocol, seeds=range(5), metrics=[metric])
    values = [result.means()[metric] for result in found.results]
    error = np.sqrt((np.var(values, ddof=1) + deviation**2) / 5)
    assert abs(np.mean(values) - mean) < 4 * error
