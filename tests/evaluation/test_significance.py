"""Variances and intervals of means against theory; how often equal models are told apart; controls that must fail."""

import numpy as np
import pytest
from scipy import stats

from permrank.errors import InputError
from permrank.evaluation.significance import LEAST_PEOPLE, Sample, all_pairs, interval, mean_interval, variance_of


def test_the_interval_is_students():
    values = np.random.default_rng(3).normal(size=12)
    expected = stats.t.interval(0.9, 11, values.mean(), stats.sem(values))
    assert interval(values, level=0.9) == pytest.approx(expected, rel=1e-12)
    assert interval(values, 7.0 * np.ones(12), level=0.9) == pytest.approx(expected, rel=1e-12)


def test_one_person_and_nobody_have_no_interval():
    for values in ([], [0.3]):
        assert np.isnan(interval(values)).all()
    assert interval([0.5] * 4) == (0.5, 0.5)
    for wrong, words in (([0.1, np.nan], "finite"), ([[0.1]], "list of finite")):
        with pytest.raises(InputError, match=words):
            interval(wrong)
    with pytest.raises(InputError, match="level"):
        interval([0.1, 0.2], level=1.0)


@pytest.mark.parametrize(
    ("draw", "mean", "shares"),
    [
        # Of 3,000 samples, by benchmarks/verdicts.py --only intervals.
        (lambda rng, n: rng.beta(5, 1, n), 5 / 6, {5: 0.90, 8: 0.92, 15: 0.92, 30: 0.94, 100: 0.95}),
        (lambda rng, n: rng.beta(0.5, 0.5, n), 0.5, {5: 0.92, 8: 0.95, 15: 0.95, 30: 0.95, 100: 0.95}),
        (lambda rng, n: rng.exponential(size=n), 1.0, {5: 0.87, 8: 0.89, 15: 0.91, 30: 0.925, 100: 0.94}),
    ],
    ids=["near its bound", "two heaps", "skewed"],
)
def test_intervals_of_few_people_hold_the_mean(draw, mean, shares):
    rng = np.random.default_rng(5)
    for n, share in shares.items():
        samples = [draw(rng, n) for _ in range(500)]
        ends = np.array([interval(each) for each in samples])
        held = np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1]))
        assert abs(held - share) < 5 * np.sqrt(share * (1 - share) / 500) + 0.005, n


def test_five_normal_people_need_students_quantiles():
    samples = np.random.default_rng(12).normal(size=(1000, 5))
    ends = np.array([interval(each) for each in samples])
    # .95 and .88 of 1,000 are known to .007 and .010.
    assert 0.92 <= np.mean((ends[:, 0] <= 0.0) & (ends[:, 1] >= 0.0)) <= 0.98
    assert np.mean(np.abs(samples.mean(axis=1)) <= 1.96 * stats.sem(samples, axis=1)) < 0.92  # the control


def test_intervals_of_weighted_people_hold_the_mean_and_without_weights_they_do_not():
    # People with much weight vary more: the variance without weights is half of what it should be.
    rng, weights = np.random.default_rng(6), np.repeat([1.0, 4.0], 20)
    weighted, bare = 0, 0
    for _ in range(400):
        values = rng.normal(size=40) * weights
        low, high = interval(values, weights)
        weighted += low <= 0.0 <= high
        mean, reach = np.average(values, weights=weights), np.diff(interval(values))[0] / 2
        bare += abs(mean) <= reach
    assert 0.91 <= weighted / 400 <= 0.985
    assert bare / 400 < 0.88  # the control


def test_parts_of_the_variance_are_those_of_the_two_way_layout():
    rng = np.random.default_rng(8)
    n, m = 40, 5
    values = rng.normal(size=(n, 1)) + rng.normal(size=m) + rng.normal(size=(n, m))
    part = variance_of(values, np.ones(n))
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    assert part.mean == pytest.approx(values.mean(), rel=1e-12)
    assert part.people == pytest.approx(values.mean(axis=1).var(ddof=1) / n, rel=1e-12)
    assert part.people_df == pytest.approx(n - 1)
    assert part.columns == pytest.approx(values.mean(axis=0).var(ddof=1) / m, rel=1e-12)
    assert part.noise == pytest.approx((rest**2).sum() / ((n - 1) * (m - 1)) / (n * m), rel=1e-12)


def test_people_who_are_in_one_column_each_make_no_difference_of_columns():
    # Folds: every person is in one split, and means of splits differ by their people alone.
    rng, n, m, excess = np.random.default_rng(9), 60, 5, []
    for _ in range(300):
        values = np.full((n, m), np.nan)
        values[np.arange(n), np.arange(n) % m] = rng.normal(size=n)
        part = variance_of(values, np.ones(n))
        excess.append(part.columns - part.noise)
        assert part.people == pytest.approx(1 / n, rel=1.0)
    assert abs(np.mean(excess)) < 4 * np.std(excess) / np.sqrt(300)
    assert np.mean(excess) < 0.2 / n


def samples(rng, n_models, *, n=40, fits=1, splits=1, person=0.0, luck=0.0, split=0.0, noise=0.3):
    """Equal models: what people share, what each has of a model, what seeds and splits do to it, and the rest."""
    people, found = rng.normal(size=(n, 1)), []
    of_split = np.repeat(np.arange(splits), fits)
    for _ in range(n_models):
        own = people + person * rng.normal(size=(n, 1))
        shared = split * rng.normal(size=splits)[of_split] + luck * rng.normal(size=of_split.size)
        found.append(Sample(own + shared + noise * rng.normal(size=(n, of_split.size)), of_split, fits > 1))
    return found


def share_told_apart(n_models, *, repeats, seed, weights=None, change=lambda models: models, **options):
    """How often any two of equal models have p < .05."""
    rng, wrong = np.random.default_rng(seed), 0
    for number in range(repeats):
        models = change(samples(rng, n_models, **options))
        given = np.ones(models[0].values.shape[0]) if weights is None else weights
        wrong += any(pair.p < 0.05 for pair in all_pairs(models, given, seed=number).values())
    return wrong / repeats


def given_the_fits(models):
    """As if fits were the same every time."""
    return [model._replace(random=False) for model in models]


# Of 300 comparisons a share of .05 is known to .0126; .10 is four of these away, and .003 below is one of 300.
@pytest.mark.parametrize(
    "options",
    [
        {"fits": 3, "luck": 0.5},
        {"fits": 10, "luck": 0.5},
        {"fits": 3, "person": 0.5, "luck": 0.1},
        {"fits": 3, "noise": 1.0},  # people alone, drawn anew by every fit
        {"person": 1.0, "n": 8},
        {"fits": 3, "splits": 3, "luck": 0.3},
        {"splits": 4, "person": 0.5, "split": 0.2},
    ],
    ids=str,
)
def test_two_equal_models_are_told_apart_in_five_of_a_hundred(options):
    assert 0.003 <= share_told_apart(2, repeats=300, seed=1, **options) <= 0.10


def test_given_the_fits_two_fits_of_one_model_are_told_apart_most_of_the_time():
    assert share_told_apart(2, repeats=60, seed=2, fits=3, luck=0.5, change=given_the_fits) > 0.5  # the control


def test_of_many_equal_models_none_is_told_apart_in_nineteen_of_twenty():
    for options in ({"person": 0.7}, {"fits": 6, "luck": 0.5}):
        assert share_told_apart(8, repeats=60, seed=3, **options) <= 0.15  # .05 and four standard deviations


def test_without_the_adjustment_some_of_many_equal_models_are_told_apart():
    rng, wrong = np.random.default_rng(4), 0
    for _ in range(60):
        values = [model.values[:, 0] for model in samples(rng, 8, person=0.7)]
        wrong += any(stats.ttest_rel(a, b).pvalue < 0.05 for n, a in enumerate(values) for b in values[:n])
    assert wrong / 60 > 0.25  # the control


def test_weights_are_those_of_the_means_and_of_their_variance():
    # Heavy people have an opinion of their own: without weights neither the difference nor its variance is right.
    rng, weights = np.random.default_rng(5), np.repeat([1.0, 5.0], 20)
    own = np.repeat([0.0, 1.0], 20)
    one, other = (Sample(rng.normal(0.0, 0.1, (40, 1)) + by, np.zeros(1), False) for by in (0.0, own[:, None]))
    pair = all_pairs([one, other], weights)[0, 1]
    expected = np.average((one.values - other.values)[:, 0], weights=weights)
    assert pair.difference == pytest.approx(expected, rel=1e-12)
    assert pair.difference < -0.75 < all_pairs([one, other], np.ones(40))[0, 1].difference
    # Under no difference: people of weight 5 vary five times as much.
    spread, wrong, bare = np.repeat([0.2, 1.0], 20)[:, None], 0, 0
    for number in range(300):
        models = [Sample(spread * rng.normal(size=(40, 1)), np.zeros(1), False) for _ in range(2)]
        wrong += all_pairs(models, weights, seed=number)[0, 1].p < 0.05
        unweighted = all_pairs(models, np.ones(40), seed=number)[0, 1]
        reach = (unweighted.high - unweighted.low) / 2
        bare += abs(np.average((models[0].values - models[1].values)[:, 0], weights=weights)) > reach
    assert 0.01 <= wrong / 300 <= 0.10
    assert bare / 300 > 0.12  # the control


def test_of_two_models_p_is_students_for_the_effective_number_of_people():
    # Eight people have nearly all the weight: seven degrees of freedom and not 99.
    rng, weights = np.random.default_rng(12), np.array([1.0] * 8 + [0.01] * 92)
    share, apart = weights / weights.sum(), rng.normal(size=100)
    df = np.sum(share**2) ** 2 / np.sum(share**4) - 1.0
    error = np.sqrt(np.sum((share * (apart - share @ apart)) ** 2) / (1.0 - np.sum(share**2)))
    for p in (0.05, 0.3):
        values = apart - share @ apart + stats.t.isf(p / 2, df) * error
        one, other = (Sample(each[:, None], np.zeros(1), False) for each in (values, np.zeros(100)))
        assert abs(all_pairs([one, other], weights)[0, 1].p - p) < 4 * np.sqrt(p * (1 - p) / 4000)


def test_a_difference_is_found_with_the_power_of_theory():
    rng, found = np.random.default_rng(6), 0
    for number in range(200):
        better, other = samples(rng, 2, fits=10, luck=0.5, noise=0.0)
        better = better._replace(values=better.values + 2.8 * 0.5 * np.sqrt(2 / 10))
        found += all_pairs([better, other], np.ones(40), seed=number)[0, 1].p < 0.05
    theory = stats.nct.sf(stats.t.ppf(0.975, 18), 18, 2.8)  # .75
    assert found / 200 == pytest.approx(theory, abs=0.13)


def test_intervals_and_p_values_agree():
    models = samples(np.random.default_rng(7), 6, fits=4, person=0.3, luck=0.4)
    models = [model._replace(values=model.values + 0.4 * number) for number, model in enumerate(models)]
    pairs = all_pairs(models, np.ones(40))
    told = [pair.p < 0.05 for pair in pairs.values()]
    assert told == [pair.low > 0.0 or pair.high < 0.0 for pair in pairs.values()]
    assert {True, False} == set(told)


def test_few_people_or_one_fit_decide_nothing():
    rng = np.random.default_rng(8)
    few = samples(rng, 2, n=LEAST_PEOPLE - 1)
    assert all_pairs(few, np.ones(5))[0, 1].p is None
    assert all_pairs(few, np.ones(5))[0, 1].undecided == "people"
    heavy = np.array([100.0, 100.0, *np.ones(38)])  # as good as two people
    assert all_pairs(samples(rng, 2), heavy)[0, 1].undecided == "people"
    once = [model._replace(random=True) for model in samples(rng, 2)]
    assert all_pairs(once, np.ones(40))[0, 1].undecided == "fits"
    on_splits = [model._replace(random=True) for model in samples(rng, 2, splits=3)]
    assert all_pairs(on_splits, np.ones(40))[0, 1].undecided == ""
    endless = samples(rng, 2)
    endless[0].values[0] = -np.inf
    with np.errstate(invalid="ignore"):
        assert all_pairs(endless, np.ones(40))[0, 1].undecided == "infinite"


def test_no_difference_is_no_evidence_and_rounding_is_no_difference():
    (model,) = samples(np.random.default_rng(9), 1, fits=3, luck=0.5)
    same = all_pairs([model, model._replace(values=model.values * (1 + 1e-16) + 1e-17)], np.ones(40))[0, 1]
    assert same.p == 1.0
    fixed = model._replace(values=model.values[:, :1], splits=np.zeros(1), random=False)
    apart = all_pairs([fixed, fixed._replace(values=fixed.values + 0.1)], np.ones(40))[0, 1]
    assert apart.p < 0.001  # everybody agrees


def test_missing_people_and_splits_are_left_out_pair_by_pair():
    rng = np.random.default_rng(10)
    models = samples(rng, 3, splits=3, person=0.2)
    models[1].values[:10] = np.nan
    models[2] = Sample(models[2].values[:, :2], np.array([0, 1]), False)  # it failed on the last split
    pairs = all_pairs(models, np.ones(40))
    assert pairs[0, 1].difference == pytest.approx(np.nanmean(models[0].values[10:] - models[1].values[10:]))
    assert pairs[0, 2].difference == pytest.approx((models[0].values[:, :2] - models[2].values).mean())
    assert all(pair.low < pair.difference < pair.high for pair in pairs.values())


def test_the_interval_of_a_mean_holds_that_of_all_people_fits_and_splits():
    rng, hits = np.random.default_rng(11), 0
    for _ in range(300):
        (model,) = samples(rng, 1, fits=6, luck=0.5)
        mean, low, high = mean_interval(model, np.ones(40))
        assert mean == pytest.approx(model.values.mean())
        hits += low <= 0.0 <= high
    assert 0.90 <= hits / 300 <= 0.99
    (model,) = samples(rng, 1, fits=6, luck=0.5)
    narrow, wide = (np.diff(mean_interval(each, np.ones(40))[1:])[0] for each in (*given_the_fits([model]), model))
    assert narrow < 0.95 * wide
