"""Summaries, covariances and intervals: against what R's packages print, and against other computations."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import chi2

import permrank as pr
from permrank.errors import InputError, NotFittedError, NotSupportedError, UnknownIdError
from published import (
    BASEBALL,
    BASEBALL_AIC,
    BASEBALL_DEVIANCES,
    BASEBALL_SUMMARY,
    CITATIONS_BY_REFERENCE,
    PUDDING_QUASI,
    PUDDING_SUMMARY,
    baseball,
    citations,
    pudding,
)


@pytest.fixture(scope="module")
def brands():
    return pr.BradleyTerry().fit(pudding())


@pytest.fixture(scope="module")
def teams():
    return pr.BradleyTerry().fit(baseball())


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(10)
    scores = np.array([1.0, 0.4, 0.0, -0.4])
    drawn = [np.argsort(-(scores + rng.gumbel(size=4)))[: rng.integers(2, 5)].tolist() for _ in range(60)]
    return pr.PlackettLuce().fit(pr.Rankings.from_lists(drawn))


def by_item(frame):
    return {row["item"]: row for row in frame.iter_rows(named=True)}


# Published tables


@pytest.mark.parametrize("reference", list(CITATIONS_BY_REFERENCE))
@pytest.mark.parametrize("kind", [pr.BradleyTerry, pr.PlackettLuce])
def test_citations_are_those_of_bradleyterry2(kind, reference):
    rows = by_item(kind().fit(citations()).summary(reference=reference).frame)
    for journal, (ability, error) in CITATIONS_BY_REFERENCE[reference].items():
        assert rows[journal]["estimate"] == pytest.approx(ability, abs=2e-7)
        assert rows[journal]["standard_error"] == pytest.approx(error, abs=2e-8)
    if reference is not None:
        assert rows[reference]["estimate"] == 0.0
        assert rows[reference]["standard_error"] is rows[reference]["z"] is rows[reference]["p"] is None


def test_baseball_is_that_of_bradleyterry2_to_its_digits(teams):
    summary = teams.summary(reference="Baltimore")
    rows = by_item(summary.frame)
    for team, (estimate, error, z, p) in BASEBALL_SUMMARY.items():
        row = rows[team]
        assert (f"{row['estimate']:.4f}", f"{row['standard_error']:.4f}", f"{row['z']:.3f}") == (estimate, error, z)
        assert row["p"] == pytest.approx(float(p), rel=5e-3)
    # R counts the 42 rows of home games as binomial: its log-likelihood has the logarithms of their coefficients more.
    counts = [tuple(map(int, each.split("-"))) for row in BASEBALL.values() for each in row.split()]
    ways = sum(math.log(math.comb(wins + losses, wins)) for wins, losses in counts)
    assert f"{summary.aic - 2 * ways:.2f}" == BASEBALL_AIC
    statistic, df, _ = summary.null_test
    assert statistic == pytest.approx(BASEBALL_DEVIANCES[0] - BASEBALL_DEVIANCES[1], abs=1.1e-3)
    assert df == 6
    assert summary.n == sum(map(sum, counts))


def test_pudding_is_that_of_plackettluce(brands):
    summary = brands.summary(reference=1)
    rows = by_item(summary.frame)
    for brand, (estimate, error, z, p) in PUDDING_SUMMARY.items():
        row = rows[brand]
        slack = 3e-4 if brand == 4 else 6e-5  # R was told to stop after 7 sweeps
        assert row["estimate"] == pytest.approx(estimate, abs=slack)
        assert row["standard_error"] == pytest.approx(error, abs=6e-5)
        assert row["z"] == pytest.approx(z, abs=6e-4 + 6 * (slack - 6e-5))
        assert row["p"] == pytest.approx(p, abs=2e-4 + (brand == 4) * 4e-4)
    for brand, quasi in PUDDING_QUASI.items():
        assert rows[brand]["quasi_standard_error"] == pytest.approx(quasi, abs=5e-6)
    assert f"{-2 * summary.log_likelihood:.1f}" == "1619.4"  # "Residual deviance"
    assert f"{summary.aic:.1f}" == "1631.4"
    assert summary.df == 6
    assert summary.frame["parameter"].to_list()[-1] == "log tie"


def test_a_toy_example_of_plackettluce_with_its_deviance():
    # The vignette's R2: A > B, C > A, B > A, B > C with npseudo = 0.
    model = pr.PlackettLuce().fit(pr.Rankings.from_lists([["A", "B"], ["C", "A"], ["B", "A"], ["B", "C"]]))
    summary = model.summary(reference="A")
    rows = by_item(summary.frame)
    assert {item: f"{row['estimate']:.4f}" for item, row in rows.items()} == {
        "A": "0.0000", "B": "0.8392", "C": "0.4196",
    }  # fmt: skip
    assert [f"{rows[item]['standard_error']:.4f}" for item in "BC"] == ["1.3596", "1.5973"]
    assert [f"{rows[item]['z']:.3f}" for item in "BC"] == ["0.617", "0.263"]
    assert [f"{rows[item]['p']:.3f}" for item in "BC"] == ["0.537", "0.793"]
    assert (f"{-2 * summary.log_likelihood:.4f}", f"{summary.aic:.4f}") == ("5.1356", "9.1356")


@pytest.mark.realdata
def test_nascar_coefficients_are_those_of_plackettluce(data_folder):
    races = pr.datasets.load("nascar")
    races = races.drop(items=["Andy Hillenburg", "Gary Bradberry", "Jason Hedlesky", "Randy Renfrow"])
    summary = pr.PlackettLuce().fit(races).summary(reference="Austin Cameron")  # the first driver by name
    rows = by_item(summary.frame)
    published = {
        "PJ Jones": 4.15, "Scott Pruett": 3.62, "Mark Martin": 2.08, "Dave Marcis": 0.03, "Dick Trickle": -0.31,
        "Joe Varde": -0.15,
    }  # fmt: skip
    assert {driver: round(rows[driver]["estimate"], 2) for driver in published} == published
    assert summary.df == 82


# Definitions


def test_the_covariance_of_a_reference_is_that_of_differences(brands):
    plain, moved = brands.vcov(), brands.vcov(reference=3)
    place = brands.item_ids.index(3)
    assert plain.shape == (7, 7)
    np.testing.assert_allclose(moved[place], 0.0, atol=1e-12)
    wanted = plain[0, 0] + plain[place, place] - 2 * plain[0, place]
    assert moved[0, 0] == pytest.approx(wanted, rel=1e-9)
    rows = by_item(brands.summary(reference=3).frame)
    assert rows[1]["standard_error"] == pytest.approx(math.sqrt(wanted), rel=1e-9)
    assert moved[6, 6] == pytest.approx(brands.tie_standard_error() ** 2, rel=1e-9)


def test_wald_intervals_have_their_level(lists):
    frame = lists.confint(level=0.9, reference=2)
    row = by_item(frame)[0]
    error = by_item(lists.summary(reference=2).frame)[0]["standard_error"]
    assert (row["high"] - row["low"]) / 2 == pytest.approx(1.6448536 * error, rel=1e-6)
    assert lists.summary(reference=2, level=0.9).frame["low"].to_list() == frame["low"].to_list()


def slow_profile(data, scores, item, other, drop):
    """Where the likelihood, maximised over all other scores by a general optimiser, has fallen by so much."""

    def loss(free, gap):
        full = np.zeros(scores.size)
        rest = [i for i in range(scores.size) if i not in (item, other)]
        full[rest], full[item] = free, gap
        total = 0.0
        for ranking in range(data.n_rankings):
            part = full[data.items[data.indptr[ranking] : data.indptr[ranking + 1]]]
            total -= data.weights[ranking] * np.sum(part - np.logaddexp.accumulate(part[::-1])[::-1])
        return total

    start = np.delete(scores - scores[other], [item, other])
    best = -minimize(
        lambda all_: loss(all_[1:], all_[0]), np.append(scores[item] - scores[other], start), tol=1e-10
    ).fun

    def gap_to(gap):
        return best + minimize(loss, start, args=(gap,), tol=1e-8).fun - drop

    middle = scores[item] - scores[other]
    return brentq(gap_to, middle - 3.0, middle, xtol=1e-5), brentq(gap_to, middle, middle + 3.0, xtol=1e-5)


def test_profile_intervals_end_where_the_likelihood_ratio_test_rejects(lists):
    row = by_item(lists.confint(reference=2, method="profile"))[0]
    wanted = slow_profile(lists.rankings_, lists.scores_, 0, 2, chi2.ppf(0.95, 1) / 2)
    assert (row["low"], row["high"]) == pytest.approx(wanted, abs=2e-4)
    wald = by_item(lists.confint(reference=2))[0]
    assert abs(row["high"] - wald["high"]) > 1e-3  # or the comparison would say nothing


def test_profile_limits_are_points_of_the_likelihood_of_ties_too(brands):
    frame = brands.confint(method="profile", level=0.5)
    inside = frame.filter((frame["low"] < frame["estimate"]) & (frame["estimate"] < frame["high"]))
    assert inside.height == 7
    wald = brands.confint(level=0.5)
    np.testing.assert_allclose(frame["low"], wald["low"], atol=2e-3)  # many comparisons: nearly the same


def test_under_a_prior_degrees_of_freedom_are_effective(lists):
    data = lists.rankings_
    strong, weak = (pr.PlackettLuce(prior="gaussian", prior_scale=scale).fit(data).summary() for scale in (1e-3, 1e3))
    assert strong.df == pytest.approx(0.0, abs=1e-3)
    assert weak.df == pytest.approx(3.0, abs=1e-3)
    assert weak.log_likelihood == pytest.approx(lists.summary().log_likelihood, abs=1e-3)
    assert strong.null_test is None
    with pytest.raises(InputError, match="prior=None"):
        pr.PlackettLuce(prior="gaussian").fit(data).confint(method="profile")


def test_mallows_dispersion_has_the_error_of_an_exponential_family():
    ballots = [["a", "b", "c", "d"], ["b", "a", "c", "d"], ["a", "b", "d", "c"], ["d", "c", "b", "a"]]
    model = pr.Mallows().fit(pr.Rankings.from_lists(ballots, weights=[9, 4, 3, 6]))
    summary = model.summary()
    theta = float(model.dispersions_[0])
    # Kendall's distance is a sum of independent truncated geometric variables: enumerate their law.
    law = np.ones(1)
    for m in range(2, 5):
        law = np.convolve(law, np.exp(-theta * np.arange(m)))
    law /= law.sum()
    distance = np.arange(law.size)
    variance = law @ distance**2 - (law @ distance) ** 2
    row = summary.frame.row(0, named=True)
    assert row["standard_error"] == pytest.approx(1 / math.sqrt(22 * variance), rel=1e-4)
    assert (summary.df, summary.n) == (1.0, 22.0)
    assert summary.log_likelihood == pytest.approx(model.total_log_likelihood(model.rankings_), abs=1e-9)
    two = pr.Mallows(2, n_starts=4).fit(model.rankings_).summary()
    assert two.frame["parameter"].to_list() == ["dispersion", "dispersion", "share", "share"]
    assert two.frame["estimate"][2] + two.frame["estimate"][3] == pytest.approx(1.0)
    assert two.frame["standard_error"][2] == pytest.approx(two.frame["standard_error"][3])


def test_a_summary_prints_as_text_html_and_json(teams):
    summary = teams.summary(reference="Baltimore", level=0.9)
    text = str(summary)
    for part in ("BradleyTerry() fitted to", "7 items", "90% intervals, measured from Baltimore", "Milwaukee", "1.5814",
                 "AIC", "BIC", "n = 273 comparisons", "against equal worths"):  # fmt: skip
        assert part in text, part
    assert "<table>" in summary._repr_html_()
    read = json.loads(summary.to_json())
    assert read["parameters"][0]["item"] == "Milwaukee"
    assert read["equal_worths"]["df"] == 6
    many = pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists([list(range(80)), list(range(79, -1, -1))]))
    assert "... and 20 more rows in .frame" in str(many.summary())


def test_titles_stand_for_items_where_there_are_some(teams):
    summary = teams.summary()
    titled = replace(summary, frame=summary.frame.with_columns(title=pl.lit("The ") + pl.col("item")))
    assert "The Milwaukee" in str(titled)
    assert titled._cells()[0] == summary._cells()[0]


def test_ids_are_escaped_in_notebooks_and_on_terminals():
    evil = pr.Rankings.from_lists(
        [["<script>", "\x1b[31m"], ["\x1b[31m", "<script>"], ["b", "<script>"], ["<script>", "b"]]
    )
    model = pr.PlackettLuce().fit(evil)
    for html in (model.summary()._repr_html_(), evil._repr_html_(), model._repr_html_()):
        assert "<script>" not in html
        assert "\x1b" not in html
    assert "&lt;script&gt;" in evil._repr_html_()
    assert "\x1b" not in str(model.summary())


def test_what_cannot_be_summarised_says_why(brands):
    with pytest.raises(NotFittedError):
        pr.PlackettLuce().summary()
    with pytest.raises(UnknownIdError, match="unknown item"):
        brands.summary(reference="nobody")
    for level in (0.0, 1.0, "x"):
        with pytest.raises(InputError, match="level"):
            brands.summary(level=level)
    with pytest.raises(InputError, match="method"):
        brands.confint(method="exact")
    broken = pr.BradleyTerry().fit(pr.Rankings.from_lists([["a", "b", "c"], ["c", "b", "a"]]))
    assert "broken into pairs" in str(broken.summary())
    shuffled = pr.PlackettLuce(ties="shuffle").fit(pr.Rankings.from_lists([[{"a", "b"}, "c"], ["c", "a", "b"]]))
    with pytest.raises(NotSupportedError, match="shuffle"):
        shuffled.confint(method="profile")


def test_a_fitted_model_says_what_it_was_fitted_to(brands):
    bare = pr.BradleyTerry(ties="half")
    assert repr(bare) == "BradleyTerry(ties='half')"
    assert eval(repr(bare), {"BradleyTerry": pr.BradleyTerry}).get_params() == bare.get_params()
    assert repr(brands) == "BradleyTerry() fitted to 745 rankings (45 distinct) of 6 items"
    one = pr.PlackettLuce(prior="gaussian").fit(pr.Rankings.from_lists([["a", "b"]]))
    assert repr(one) == "PlackettLuce(prior='gaussian') fitted to 1 ranking of 2 items"
    one.set_params(prior="gamma")  # for the next fit
    assert "prior='gaussian'" in repr(one)
    assert pr.evaluate(one, one.rankings_).name == "PlackettLuce(prior='gamma')"


@pytest.mark.parametrize("kind", [pr.PlackettLuce, lambda: pr.Mallows(n_starts=1)])
def test_criteria_are_those_of_akaike_and_schwarz(kind):
    ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"], ["c", "a", "b"]], weights=[7, 4, 2])
    model = kind().fit(ballots)
    found = model.summary()
    log_likelihood = float(ballots.weights @ model.log_likelihood(ballots))
    df = {"PlackettLuce": 2, "Mallows": 1}[type(model).__name__]  # two free worths; one dispersion
    assert found.n == 13
    assert found.aic == pytest.approx(2 * df - 2 * log_likelihood, abs=1e-6)
    assert found.bic == pytest.approx(df * math.log(13) - 2 * log_likelihood, abs=1e-6)
