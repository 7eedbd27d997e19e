"""More data for a fitted factored model, and the number of factors."""

import numpy as np
import pytest

import permrank as pr
from permrank.errors import InputError, NotFittedError
from permrank.rankings.joining import joined


def parts(ties=None, seed=0):
    whole = pr.datasets.simulated(600, 40, n_communities=1, separation=0.0, n_factors=2, ties=ties, seed=seed).rankings
    ids = list(whole.user_ids)
    # Some items are met by the new users only.
    late = list(whole.item_ids)[:4]
    old = whole.select(users=ids[:450]).drop(items=late)
    new = whole.select(users=ids[450:])
    return old, new


def alike(model, other, users):
    return np.mean([np.corrcoef(model.score(user), other.score(user))[0, 1] for user in users])


@pytest.mark.parametrize(("ties", "thresholds"), [(None, True), (4, False), (4, True)])
def test_a_grown_model_is_as_near_to_a_full_fit_as_another_full_fit(ties, thresholds):
    old, new = parts(ties)
    given = {"max_iter": 240, "rating_thresholds": thresholds, "factor_scale": 1.0}
    model = pr.FactoredPlackettLuce(2, **given).fit(old)
    model.partial_fit(new)
    everything = joined(old, new)
    assert model.rankings_ == everything
    full, twin = (pr.FactoredPlackettLuce(2, seed=seed, **given).fit(everything) for seed in (1, 2))
    for users in (list(new.user_ids)[:50], list(old.user_ids)[:50]):
        expected = alike(full, twin, users)
        assert expected > 0.95  # each fit also learns the weight of its personal part anew, from its own held-out pairs
        assert alike(model, full, users) > expected - 0.01
    model.rank(new.user_ids[0], list(everything.item_ids)[:6])


def test_a_grown_point_estimate_is_at_the_optimum_of_all_the_data():
    old, new = parts(seed=1)
    model = pr.FactoredPlackettLuce(2, method="point", tol=1e-7).fit(old).partial_fit(new)
    full = pr.FactoredPlackettLuce(2, method="point", tol=1e-7).fit(joined(old, new))
    np.testing.assert_allclose(model.history_[-1], full.history_[-1], rtol=2e-4)
    assert model.n_iter_ <= full.n_iter_


def test_growing_goes_on_with_the_parameters_of_the_fit():
    old, new = parts()
    model = pr.FactoredPlackettLuce(2, max_iter=6, damping="none").fit(old)
    before = model.score(old.user_ids[0])
    for name, value, was in (("ties", "efron", "'breslow'"), ("n_factors", 3, "2"), ("method", "point", "'draws'")):
        setattr(model, name, value)
        with pytest.raises(InputError, match=rf"{name}={value!r} was set after fit, which learnt with {was}"):
            model.partial_fit(new)
        np.testing.assert_array_equal(model.score(old.user_ids[0]), before)
        model.set_params(**model.fitted_params_)
    model.set_params(max_iter=9, n_draws=2, seed=5).partial_fit(new)  # how it learns may change
    assert model.n_iter_ == 3
    assert model.fitted_params_ == model.get_params()


def test_growing_needs_a_fit_and_something_to_add():
    old, _ = parts()
    with pytest.raises(NotFittedError):
        pr.FactoredPlackettLuce(2).partial_fit(old)
    model = pr.FactoredPlackettLuce(2, max_iter=6).fit(old)
    before = model.score(old.user_ids[0])
    with pytest.raises(InputError, match="nothing to add"):
        model.partial_fit(pr.Rankings.from_lists({"new": []}))
    with pytest.raises(InputError, match="strings on one side"):
        model.partial_fit(pr.Rankings.from_lists({"new": [1, 2]}))
    np.testing.assert_array_equal(model.score(old.user_ids[0]), before)


def test_the_number_of_factors_follows_the_data(tmp_path):
    # Two factors, and lists that are nearly free of noise: more of them cost visibly.
    few = pr.datasets.simulated(500, 30, n_communities=1, separation=0.0, noise=0.5, list_length=10, seed=3).rankings
    many = pr.datasets.simulated(
        900, 60, n_communities=1, separation=0.0, n_factors=12, list_length=40, seed=4
    ).rankings
    model = pr.FactoredPlackettLuce("auto", max_iter=20, n_draws=4).fit(many)
    assert model.curve_[:, 0].tolist() == [4, 8, 16, 32]
    assert model.curve_[2, 1] < model.curve_[0, 1] - 2 * model.curve_[0, 2]
    assert model.user_modes_.shape[2] in (16, 32)
    model.save(tmp_path / "auto.permrank")
    again = pr.load(tmp_path / "auto.permrank")
    np.testing.assert_array_equal(again.score(many.user_ids[0]), model.score(many.user_ids[0]))
    simple = pr.FactoredPlackettLuce("auto", max_iter=20, n_draws=4).fit(few)
    assert simple.user_modes_.shape[2] <= 8
    with pytest.raises(InputError, match="give a number"):
        pr.FactoredPlackettLuce("auto", method="point").fit(few)
