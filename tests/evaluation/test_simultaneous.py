"""All pairs of models: how often equal ones are told apart, with controls that must fail."""

import numpy as np
import pytest
from scipy import stats

from permrank.evaluation.significance import LEAST_PEOPLE, Sample, all_pairs, mean_interval


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
