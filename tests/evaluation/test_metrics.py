"""Metrics against enumeration over random orders, against scikit-learn and scipy, and at their edges."""

import itertools
import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score, ndcg_score

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.evaluation.metrics import (
    METRICS,
    Metric,
    blind_log_likelihood,
    calibration_error,
    filled,
    find_metric,
    grades_of,
    of_kind,
    per_list,
    reliability,
    stages,
)

GRADED, ORDERED = of_kind("graded"), of_kind("order")
ALL = (*GRADED, *ORDERED)
TOP, RELEVANT = 4.0, 2.0


def in_order(name, grades, k):
    """A metric of grades in the order shown, straight from its definition."""
    shown, best = grades[:k], sorted(grades, reverse=True)[:k]
    n_relevant = sum(g >= RELEVANT for g in grades)
    hits = [g >= RELEVANT for g in shown]
    if name in ("ndcg", "ndcg_linear"):
        gain = (lambda g: 2.0**g - 1) if name == "ndcg" else float
        ideal = sum(gain(g) / math.log2(p + 2) for p, g in enumerate(best))
        return sum(gain(g) / math.log2(p + 2) for p, g in enumerate(shown)) / ideal if ideal else math.nan
    if name == "err":
        chances = [(2.0**g - 1) / 2.0**TOP for g in shown]
        return sum(r / (p + 1) * math.prod(1 - q for q in chances[:p]) for p, r in enumerate(chances))
    if n_relevant == 0:
        return math.nan
    if name == "mrr":
        return next((1 / (p + 1) for p, hit in enumerate(hits) if hit), 0.0)
    if name == "hit_rate":
        return float(any(hits))
    if name == "map":
        return sum(sum(hits[: p + 1]) / (p + 1) for p, hit in enumerate(hits) if hit) / n_relevant
    return sum(hits) / (len(shown) if name == "precision" else n_relevant)


def orders(scores):
    """Every order of the entries in which no score rises."""
    places = range(len(scores))
    return [p for p in itertools.permutations(places) if all(scores[a] >= scores[b] for a, b in itertools.pairwise(p))]


def enumerated(name, grades, scores, k):
    if name == "overlap":
        reach = min(k, len(grades))
        shares = [len(set(a[:reach]) & set(b[:reach])) / reach for a in orders(scores) for b in orders(grades)]
        return np.mean(shares)
    return np.mean([in_order(name, [grades[p] for p in order], k) for order in orders(scores)])


def one(name, grades, scores, **options):
    options = {"relevant_from": RELEVANT, "top_grade": TOP} | options
    return per_list([name], [0, len(grades)], grades, scores, **options)[name][0]


@pytest.mark.parametrize("name", GRADED)
def test_a_metric_is_its_mean_over_all_orders_of_tied_scores(name):
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, k = int(rng.integers(1, 7)), int(rng.integers(1, 8))
        grades, scores = rng.integers(0, 5, n).tolist(), rng.integers(0, 3, n).tolist()
        np.testing.assert_allclose(
            one(name, grades, scores, k=k), enumerated(name, grades, scores, k), rtol=1e-12, atol=1e-14
        )


def test_a_random_scorer_gets_the_mean_over_all_orders():
    """All scores equal is the random scorer; a control with its ties broken by position must differ."""
    grades = [4, 0, 2, 1, 3, 0]
    for name in GRADED:
        everything = np.mean([one(name, [grades[p] for p in order], range(6, 0, -1), k=3) for order in orders([0] * 6)])
        np.testing.assert_allclose(one(name, grades, [0.0] * 6, k=3), everything, rtol=1e-12)
        assert abs(one(name, grades, range(6, 0, -1), k=3) - everything) > 1e-3
    assert one("pairs_right", grades, [0.0] * 6) == 0.5
    assert one("tau_b", grades, [0.0] * 6) == one("spearman", grades, [0.0] * 6) == 0.0


def test_random_lists_agree_with_scikit_learn_and_scipy():
    """Five hundred here; benchmarks/metrics.py compares ten thousand with scikit-learn, scipy and ranx."""
    rng = np.random.default_rng(11)
    n_lists = 500
    lengths = rng.integers(2, 16, n_lists)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    grades = rng.integers(0, 6, indptr[-1]).astype(float)
    scores = np.where(rng.random(indptr[-1]) < 0.5, rng.integers(0, 4, indptr[-1]), rng.normal(size=indptr[-1]))
    found = per_list(("ndcg", "ndcg_linear", *ORDERED), indptr, grades, scores, k=5)
    for u in range(n_lists):
        g, s = grades[indptr[u] : indptr[u + 1]], scores[indptr[u] : indptr[u + 1]]
        if g.max() > 0:
            # scikit-learn also averages over tied scores.
            for name, gain in (("ndcg", 2.0**g - 1.0), ("ndcg_linear", g)):
                np.testing.assert_allclose(found[name][u], ndcg_score([gain], [s], k=5), rtol=1e-9, atol=1e-12)
        else:
            assert np.isnan(found["ndcg"][u])
        if np.unique(g).size == 1:
            assert all(np.isnan(found[name][u]) for name in ORDERED)
        elif np.unique(s).size > 1:
            tau = stats.kendalltau(g, s).statistic
            np.testing.assert_allclose(found["tau_b"][u], tau, rtol=1e-9, atol=1e-12)
            if u % 10 == 0:  # scipy's takes most of the time
                np.testing.assert_allclose(found["spearman"][u], stats.spearmanr(g, s).statistic, rtol=1e-9, atol=1e-12)


def test_average_precision_without_ties_agrees_with_scikit_learn():
    rng = np.random.default_rng(3)
    for _ in range(300):
        n = int(rng.integers(2, 30))
        relevant, scores = rng.integers(0, 2, n), rng.permutation(n)
        if relevant.any():
            found = one("map", relevant, scores, k=None, relevant_from=1.0)
            np.testing.assert_allclose(found, average_precision_score(relevant, scores), rtol=1e-12)


def test_pairs_right_is_the_share_of_pairs_counted_one_by_one():
    rng = np.random.default_rng(8)
    for n in (2, 3, 7, 40, 200):
        grades, scores = rng.integers(0, 5, n), rng.integers(0, 9, n)
        pairs = [(a, b) for a in range(n) for b in range(n) if grades[a] > grades[b]]
        if pairs:
            right = np.mean([(scores[a] > scores[b]) + 0.5 * (scores[a] == scores[b]) for a, b in pairs])
            np.testing.assert_allclose(one("pairs_right", grades, scores), right, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_metrics_lie_in_their_range_and_do_not_see_the_order_of_the_input(data):
    n = data.draw(st.integers(1, 25))
    grades = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), float)
    scores = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), float)
    order = np.array(data.draw(st.permutations(range(n))))
    k = data.draw(st.integers(1, 30))
    options = {"k": k, "relevant_from": RELEVANT, "top_grade": TOP}
    first = per_list(ALL, [0, n], grades, scores, **options)
    second = per_list(ALL, [0, n], grades[order], 2.0 * scores[order] + 7.0, **options)
    for name in ALL:
        np.testing.assert_allclose(first[name], second[name], rtol=1e-11, atol=1e-13)
        low = -1.0 if name in ("tau_b", "spearman") else 0.0
        assert np.isnan(first[name][0]) or low - 1e-12 <= first[name][0] <= 1 + 1e-12, name


def test_perfect_scores_are_perfect():
    grades = [4, 3, 3, 1, 0]
    for name in ("ndcg", "ndcg_linear", "mrr", "map", "overlap", "tau_b", "spearman", "pairs_right"):
        assert one(name, grades, grades, k=2 if name == "overlap" else None) == pytest.approx(
            1.0 if name != "overlap" else 0.75
        )


def test_lists_with_nothing_to_measure_are_nan_and_nothing_else_is():
    found = per_list(ALL, [0, 0, 1, 3, 5], [4, 0, 0, 4, 4], [1, 1, 2, 1, 2], relevant_from=1.0)
    empty, single, worthless, all_alike = range(4)
    for name in ALL:
        assert np.isnan(found[name][empty])
        assert np.isnan(found[name][single]) == (name in ORDERED)
        assert np.isnan(found[name][worthless]) == (name not in ("err", "overlap"))
        assert np.isnan(found[name][all_alike]) == (name in ORDERED)


def test_one_thread_and_two_give_the_same_bits():
    rng = np.random.default_rng(0)
    indptr = np.arange(0, 5001, 50)
    grades, scores = rng.integers(0, 5, 5000), rng.normal(size=5000)
    before, found = numba.get_num_threads(), []
    try:
        for n_threads in {1, numba.config.NUMBA_NUM_THREADS}:
            numba.set_num_threads(n_threads)
            found.append(per_list(ALL, indptr, grades, scores))
    finally:
        numba.set_num_threads(before)
    for name in ALL:
        np.testing.assert_array_equal(found[0][name], found[-1][name])


def test_bad_arguments_are_named():
    with pytest.raises(UnknownIdError, match="unknown metric 'ndgc'; the nearest known one is 'ndcg'"):
        per_list(["ndgc"], [0, 1], [1], [1])
    with pytest.raises(InputError, match=r"score nan of entry 1 is not finite"):
        per_list(["ndcg"], [0, 2], [1, 2], [1, math.nan])
    with pytest.raises(InputError, match="2 grades and 1 scores for 2 entries"):
        per_list(["ndcg"], [0, 2], [1, 2], [1])
    with pytest.raises(InputError, match="indptr must begin with 0"):
        per_list(["ndcg"], [1, 2], [1, 2], [1, 2])
    with pytest.raises(InputError, match="k=0"):
        per_list(["ndcg"], [0, 1], [1], [1], k=0)


def test_missing_scores_get_the_mean_of_the_list():
    indptr = np.array([0, 3, 3, 5])
    np.testing.assert_array_equal(filled(indptr, [1, np.nan, 3, np.inf, np.nan]), [1, 2, 3, 0, 0])


def test_grades_are_ratings_or_fall_evenly_from_five_to_one():
    rated = pr.Rankings.from_ratings({"user": [1, 1], "item": [1, 2], "rating": [2.5, 4.0]})
    assert grades_of(rated).tolist() == [4.0, 2.5]
    assert grades_of(pr.Rankings.from_lists({1: list("abcde")})).tolist() == [5, 4, 3, 2, 1]


def test_a_blind_guess_of_a_list_is_one_over_the_number_of_its_orders():
    rankings = pr.Rankings.from_lists({1: ["a", "b", "c"], 2: [{"a", "b"}, {"c", "d"}], 3: [{"a", "b"}]})
    np.testing.assert_allclose(np.exp(blind_log_likelihood(rankings)), [1 / 6, 4 / 24, 1.0], rtol=1e-12)
    assert stages(rankings).tolist() == [2, 3, 1]


def test_calibrated_probabilities_have_no_error_and_others_have_theirs():
    rng = np.random.default_rng(1)
    p = rng.random(200_000)
    happened = rng.random(p.size) < p
    assert calibration_error(reliability(p, happened)) < 0.006
    # Overconfident by a known amount: 0.7 is called 0.9, either way round.
    told = np.where(rng.random(50_000) < 0.5, 0.9, 0.1)
    happened = rng.random(told.size) < np.where(told > 0.5, 0.7, 0.3)
    assert calibration_error(reliability(told, happened)) == pytest.approx(0.2, abs=0.006)
    assert math.isnan(calibration_error(reliability([], [])))
    assert reliability([0.5, 0.5], [1, 1])["observed"].to_list() == [0.5]
    with pytest.raises(InputError, match=r"1\.5 is not a probability"):
        reliability([1.5], [1])


def test_every_entry_has_its_own_column_a_title_and_is_found_by_its_name():
    for kind in ("graded", "order"):
        columns = [METRICS[name].column for name in of_kind(kind)]
        assert sorted(columns) == list(range(len(columns)))
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.title
        assert find_metric(name) is find_metric(metric) is metric
        assert ("{k}" in metric.title) == metric.top_k
    assert [name for name, metric in METRICS.items() if not metric.higher_is_better] == [
        "popularity_bias",
        "cross_entropy",
        "calibration_error",
    ]


def test_a_metric_of_the_callers_sees_each_list_once_and_cannot_change_it():
    seen = []

    def spread(grades, scores):
        assert not grades.flags.writeable
        assert not scores.flags.writeable
        seen.append(grades.size)
        return float("nan") if grades.size == 1 else scores.max() - scores.min()

    metric = Metric("spread", spread)
    found = per_list([metric, "mrr"], [0, 2, 2, 3], [5, 1, 4], [0.5, 2.0, 1.0])
    assert seen == [2, 1]
    assert list(found) == ["spread", "mrr"]
    np.testing.assert_array_equal(found["spread"], [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(found["mrr"], per_list(["mrr"], [0, 2, 2, 3], [5, 1, 4], [0.5, 2.0, 1.0])["mrr"])


def test_metrics_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="there is a metric 'ndcg' already"):
        find_metric(Metric("ndcg", lambda grades, scores: 0.0))
    for name in ("weight", "a@3", "", 7):
        with pytest.raises(InputError, match="name="):
            Metric(name, lambda grades, scores: 0.0)
    with pytest.raises(InputError, match="needs a function"):
        Metric("mine")
    with pytest.raises(InputError, match="leave top_k out"):
        Metric("mine", lambda grades, scores: 0.0, top_k=True)
    with pytest.raises(InputError, match="metric 'mine' gave 'x' for a list, expected one number"):
        per_list([Metric("mine", lambda grades, scores: "x")], [0, 1], [1], [1])
    with pytest.raises(InputError, match="metric 'mine' gave inf for a list, expected a finite number or NaN"):
        per_list([Metric("mine", lambda grades, scores: np.inf)], [0, 1], [1], [1])
    with pytest.raises(UnknownIdError, match="unknown metric"):
        per_list(["log_likelihood"], [0, 1], [1], [1])
    with pytest.raises(UnknownIdError, match="unknown metric"):
        find_metric(3)
