"""Parameters as they are set, and as they were when the estimate was learnt."""

import pickle

import numpy as np
import polars as pl
import pytest

import permrank as pr
from permrank import checks

RANKINGS = pr.Rankings.from_lists({"u": ["a", "b", "c"], "v": ["c", "a", "b"], "w": ["b", "c", "a"], "x": ["a", "c"]})


def test_a_list_that_is_changed_in_place_changes_no_answer():
    damping = [1.0, 0.9, 0.8]
    model = pr.FactoredPlackettLuce(2, method="point", damping=damping, max_iter=20, tol=1e-3)
    before = model.fit(RANKINGS).sample("u", ["a", "b", "c"], size=50), model.log_likelihood(RANKINGS)
    damping[:] = [1.0, 0.01, 0.01]
    np.testing.assert_array_equal(model.sample("u", ["a", "b", "c"], size=50), before[0])
    np.testing.assert_array_equal(model.log_likelihood(RANKINGS), before[1])
    assert model.fitted_params_["damping"] == [1.0, 0.9, 0.8]


def test_features_that_are_exchanged_after_fit_change_no_answer():
    pairs = pl.DataFrame({"user": ["u", "u", "u", "v", "v", "v"], "item": [*"abcabc"], "x": [1.0, 2, 3, 3, 1, 2]})
    rest = pl.DataFrame({"user": ["w", "w", "w", "x", "x"], "item": [*"abcac"], "x": [2.0, 5, 1, 0, 1]})
    model = pr.ListNet(0, features=pl.concat([pairs, rest])).fit(RANKINGS)
    before = model.score("u")
    model.features = pairs.with_columns(x=-pl.col("x"))
    np.testing.assert_array_equal(model.score("u"), before)
    model.features = None
    np.testing.assert_array_equal(model.score_pairs(["u"], ["b"]), before[1:2])
    assert model.feature_weights()["feature"].to_list() == ["x"]


def test_a_fit_that_fails_leaves_the_record_as_it_was():
    model = pr.PlackettLuce(prior="gaussian", prior_scale=1.0).fit(RANKINGS)
    before = model.score(None)
    with pytest.raises(pr.errors.InputError):
        model.set_params(tol=-1.0).fit(RANKINGS)
    assert model.fitted_params_["tol"] > 0
    np.testing.assert_array_equal(model.score(None), before)


def test_memory_that_is_not_there_is_asked_for_in_vain(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(checks, "_CONTAINER", tmp_path)
    assert checks.free_bytes() == 8 * 2**30
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    1048576 kB\n", encoding="utf-8")
    (tmp_path / "memory.max").write_text("max\n", encoding="utf-8")
    assert checks.free_bytes() == 2**30
    (tmp_path / "memory.max").write_text(f"{2**29}\n", encoding="utf-8")
    (tmp_path / "memory.current").write_text(f"{2**28}\n", encoding="utf-8")
    assert checks.free_bytes() == 2**28
    (tmp_path / "memory.max").unlink()
    checks.require_memory(2**29, "arrays", "nothing")
    with pytest.raises(
        pr.errors.InputError, match=r"arrays take 0\.6 GiB, more than half of the 1\.0 GiB .* free; wait"
    ):
        checks.require_memory(0.6 * 2**30, "arrays", "wait")


@pytest.mark.parametrize("model", [pr.BradleyTerry(prior="gaussian"), pr.BradleyTerry(prior="gaussian", ties="half")])
def test_pairs_that_would_fill_the_memory_are_counted_and_refused(model, monkeypatch):
    monkeypatch.setattr(checks, "free_bytes", lambda: 2**24)
    n = 900
    lists = pr.Rankings.from_lists([list(range(n)), list(range(n))[::-1]], users=[0, 1])
    with pytest.raises(
        pr.errors.InputError, match=r"404,550 pairs of items that share a list take .* GiB.*; leave out rare"
    ):
        model.fit(lists)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (
            pr.FactoredPlackettLuce(500, n_draws=100_000, max_iter=300),
            r"300 draws of 500 factors take .*; take fewer",
        ),
        (pr.LatentPlackettLuce(1_000, n_starts=1_000, concentration=1.0, prior_strength=1.0), "n_starts=1000 of 1000"),
        (pr.Mallows(1_000), "pairs of 3 items in 1000 communities take"),
    ],
)
def test_estimates_that_would_fill_the_memory_are_refused_before_they_are_made(model, what, monkeypatch):
    monkeypatch.setattr(checks, "free_bytes", lambda: 2**14)
    with pytest.raises(pr.errors.InputError, match=what):
        model.fit(RANKINGS)


def test_two_long_lists_are_counted_without_their_pairs(monkeypatch):
    monkeypatch.setattr(checks, "free_bytes", lambda: 2**10)
    n = 900
    lists = pr.Rankings.from_lists([list(range(n)), list(range(n))], users=[0, 1])
    np.testing.assert_allclose(pr.Copeland().fit(lists).score(None), np.linspace(1, -1, n), rtol=0, atol=1e-12)


class Open(pr.PlackettLuce):
    def __init__(self, prior="gaussian", *more, **options):
        super().__init__(prior=prior)


def test_arguments_without_names_are_no_parameters():
    model = Open("gaussian").fit(RANKINGS)
    assert model.get_params() == model.fitted_params_ == {"prior": "gaussian"}


def test_a_copy_that_was_sent_elsewhere_answers_the_same():
    model = pr.PlackettLuce(prior="gaussian", prior_scale=0.7).fit(RANKINGS)
    sent = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(sent.set_params(prior_scale=0.8).score(None), model.score(None))
    assert sent.fitted_params_["prior_scale"] == 0.7


def test_somebody_new_is_introduced_again_to_another_model():
    first, second = (pr.MeanRating(item_penalty=penalty).fit(RANKINGS) for penalty in (1.0, 9.0))
    new = first.fold_in(["a", "c"])
    np.testing.assert_array_equal(second.score(new), second.score(second.fold_in(["a", "c"])))
    with pytest.raises(pr.errors.InputError, match="of another model was given; ask by the id"):
        second.score(first.person("u"))
    with pytest.raises(pr.errors.InputError, match="does not learn from features of users"):
        first.fold_in(["a"], features={"age": 3})
