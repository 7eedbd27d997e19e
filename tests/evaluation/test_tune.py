"""Tuning never looks at test data, never ends below the parameters it began with, and survives a kill."""

import json
import os
import resource
import signal
import subprocess
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.core.settings import Categorical
from permrank.errors import FormatError, InputError, NotSupportedError, UnknownIdError
from permrank.evaluation.defaults import default_validation
from permrank.evaluation.metrics import Metric, per_list
from permrank.evaluation.tune import space_of
from permrank.families import MODELS
from permrank.interfaces.cli.app import app

MODEL = pr.MeanRating(item_penalty=500.0, user_penalty=300.0)


@pytest.fixture(scope="module")
def ratings():
    """Items differ little and are seldom rated: how much to shrink them matters."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=40)
    rows = [(u, i) for u in range(150) for i in rng.choice(40, 8, replace=False)]
    users, items = np.array(rows).T
    grades = np.clip(np.round(3 + 0.7 * quality[items] + rng.normal(size=len(rows))), 1, 5)
    return pr.Rankings.from_ratings(
        pl.DataFrame({"user": users, "item": items, "rating": grades}), user="user", item="item", rating="rating"
    )


def test_the_best_is_never_below_the_parameters_given_and_is_what_it_says(ratings):
    seen = []
    found = pr.tune(MODEL, ratings, trials=12, on_trial=lambda trials: seen.append(trials.height))
    assert seen == list(range(1, 13))
    assert found.best >= found.first
    assert found.trials["parameters"][0] == "item_penalty=500, user_penalty=300"
    again = pr.tune(found.model, ratings, trials=1)
    assert again.first == found.best
    assert MODEL.get_params() == pr.MeanRating(item_penalty=500.0, user_penalty=300.0).get_params()
    scores = found.trials["score"].drop_nulls()
    assert scores.n_unique() > 3
    assert found.best == scores.max()


def test_the_score_is_the_mean_over_the_validation_splits(ratings):
    protocol = pr.LeaveOut(k=3)
    found = pr.tune(MODEL, ratings, trials=1, splits=2, protocol=protocol, metric="tau_b")
    means = [pr.evaluate(MODEL, protocol.split(ratings, 1000 + i), metrics=["tau_b"]).means()["tau_b"] for i in (0, 1)]
    np.testing.assert_allclose(found.first, np.mean(means), rtol=1e-12, atol=0)


def test_the_test_part_of_a_split_is_never_looked_at(ratings):
    split = pr.LeaveOut(k=2).split(ratings, 0)
    other = pr.LeaveOut(k=2).split(ratings, 5)
    found = pr.tune(MODEL, split, trials=4)
    poisoned = pr.Split(split.train, other.test, None, split.protocol, split.seed)
    drop = ["seconds"]
    assert pr.tune(MODEL, poisoned, trials=4).trials.drop(drop).equals(found.trials.drop(drop))
    assert pr.tune(MODEL, split.train, trials=4).trials.drop(drop).equals(found.trials.drop(drop))


def test_nothing_is_tried_twice(ratings):
    assert pr.tune(pr.Popularity(), ratings, trials=10).trials.height == 2
    found = pr.tune(pr.PlackettLuce(prior="gaussian", ties="efron"), ratings, trials=12, splits=1)
    assert found.trials["parameters"].n_unique() == 12
    strict = ratings.shuffled_ties(0)
    assert "ties" not in pr.tune(pr.PlackettLuce(prior="gaussian"), strict, trials=1).trials["parameters"][0]


def test_poor_trials_are_given_up_and_good_ones_are_not(ratings):
    found = pr.tune(pr.MeanRating(), ratings, trials=20)
    given_up = found.trials.filter(pl.col("note").str.contains("given up at"))
    assert 0 < given_up.height < 15
    assert given_up["score"].is_null().all()
    assert found.trials["note"].head(5).to_list() == [""] * 5


def test_a_trial_that_fails_is_told_and_does_not_stop_the_others(ratings):
    class Moody(pr.MeanRating):
        def _learner(self, rankings):
            if self.item_penalty < 20:
                raise InputError("not in the mood")
            return super()._learner(rankings)

    found = pr.tune(Moody(item_penalty=50.0), ratings, trials=8)
    assert "not in the mood" in found.trials["note"].to_list()
    assert found.model.item_penalty >= 20
    with pytest.raises(InputError, match="no trial had a score; the first says: not in the mood"):
        pr.tune(Moody(item_penalty=1.0).set_params(item_penalty=1.0), ratings, trials=1)


def test_a_study_goes_on_to_the_same_trials_as_one_that_was_never_broken_off(ratings, tmp_path):
    whole = pr.tune(MODEL, ratings, trials=9)
    path = tmp_path / "study.db"

    def die(trials):
        if trials.height in (1, 4):
            raise InterruptedError

    for _ in range(2):
        with pytest.raises(InterruptedError):
            pr.tune(MODEL, ratings, trials=9, study=path, on_trial=die)
    resumed = pr.tune(MODEL, ratings, trials=9, study=path)
    assert resumed.trials.drop("seconds").equals(whole.trials.drop("seconds"))
    begin = []
    assert pr.tune(MODEL, ratings, trials=9, study=path, on_trial=begin.append).best == whole.best
    assert begin == []
    assert pr.tune(MODEL, ratings, trials=3, study=path).trials.equals(resumed.trials.head(3))


KILLED = """
import os, signal, sys
import permrank as pr
from permrank.interfaces.cli.app import main
left, evaluate = int(sys.argv.pop(1)), pr.evaluate
def die(*arguments, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return evaluate(*arguments, **options)
import permrank.evaluation.tune as tuning
tuning.evaluate = die
main()
"""


@pytest.mark.fixed_seed  # the process that is killed knows nothing of a shift
def test_a_command_killed_in_a_trial_resumes(ratings, tmp_path):
    data, study = tmp_path / "data.parquet", tmp_path / "study.db"
    ratings.write(data)
    command = ["tune", str(data), "-m", "Borda", "--trials", "6", "--study", str(study), "--splits", "2"]
    killed = subprocess.run([sys.executable, "-c", KILLED, "6", *command], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    result = CliRunner().invoke(app, [*command, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(result.stderr.splitlines()) == 4  # two of the six trials were done
    whole = pr.tune(pr.Borda(), pr.read(data), trials=6, splits=2)
    assert [row["parameters"] for row in found["trials"]] == whole.trials["parameters"].to_list()
    assert found["best"] == whole.best
    shown = CliRunner().invoke(app, command)
    assert "permrank fit" in shown.stdout


def test_ctrl_c_ends_the_search_and_keeps_its_trials(ratings, tmp_path):
    def press(trials):
        if trials.height == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pr.tune(MODEL, ratings, trials=5, study=tmp_path / "s.db", on_trial=press)
    assert pr.tune(MODEL, ratings, trials=5, study=tmp_path / "s.db").trials.height == 5


def test_a_study_of_other_work_and_a_file_that_is_none_are_refused(ratings, tmp_path):
    path = tmp_path / "s.db"
    pr.tune(MODEL, ratings, trials=1, study=path)
    with pytest.raises(InputError, match=r"trials of other work \(splits=3\); set it so, or give another file"):
        pr.tune(MODEL, ratings, trials=1, study=path, splits=2)
    with pytest.raises(InputError, match=r"other work \(model='MeanRating', parameters="):
        pr.tune(pr.Borda(), ratings, trials=1, study=path)
    (tmp_path / "note").write_text("not a database\n" * 100, encoding="utf-8")
    with pytest.raises(FormatError, match="is not a study"):
        pr.tune(MODEL, ratings, trials=1, study=tmp_path / "note")
    with pytest.raises(InputError, match="is a folder"):
        pr.tune(MODEL, ratings, trials=1, study=tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        pr.tune(MODEL, ratings, trials=1, study=tmp_path / "no" / "s.db")


def test_a_disk_that_fills_up_is_named_and_the_trials_before_are_kept(ratings, tmp_path):
    path = tmp_path / "s.db"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(trials):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))  # as good as full

    try:
        with pytest.raises(OSError, match=r"s\.db: .*the trials before are kept in it"):
            pr.tune(MODEL, ratings, trials=3, study=path, on_trial=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    told = []
    pr.tune(MODEL, ratings, trials=3, study=path, on_trial=told.append)
    assert [trials.height for trials in told] == [2, 3]


def test_a_metric_of_which_lower_is_better_is_lowered(ratings, tmp_path):
    mirror = Metric("pairs_wrong", lambda g, s: 1.0 - per_list(["pairs_right"], [0, g.size], g, s)["pairs_right"][0],
                    higher_is_better=False)  # fmt: skip
    raised = pr.tune(MODEL, ratings, trials=8, metric="pairs_right")
    lowered = pr.tune(MODEL, ratings, trials=8, metric=mirror, study=tmp_path / "s.db")
    assert lowered.best <= lowered.first
    assert lowered.best == lowered.trials["score"].min()
    assert lowered.first == pytest.approx(1.0 - raised.first)
    # The same proposals until rounding decides between two that are as good as equal.
    assert lowered.trials["parameters"].head(2).equals(raised.trials["parameters"].head(2))
    other = Metric("pairs_wrong", mirror.function)
    with pytest.raises(InputError, match="trials of other work"):
        pr.tune(MODEL, ratings, trials=8, metric=other, study=tmp_path / "s.db")


def test_trials_that_were_cut_off_say_so_and_count(ratings):
    slow = pr.PlackettLuce(prior="gaussian", method="mm", tol=1e-15)
    found = pr.tune(slow, ratings, trials=2, splits=2, max_seconds=0.0)
    assert found.trials["note"].to_list() == ["cut off after 0 s on 2 of 2 splits"] * 2
    assert found.trials["score"].is_not_null().all()
    whole = pr.tune(slow.clone().set_params(tol=1e-2), ratings, trials=1, splits=2, max_seconds=600.0)
    assert whole.trials["note"].to_list() == [""]


def test_a_study_of_other_options_is_refused(ratings, tmp_path):
    pr.tune(MODEL, ratings, trials=1, study=tmp_path / "s.db")
    with pytest.raises(InputError, match=r"other work \(options="):
        pr.tune(MODEL, ratings, trials=2, study=tmp_path / "s.db", k=3)


def test_bad_questions_are_refused(ratings):
    with pytest.raises(InputError, match="trials=0"):
        pr.tune(MODEL, ratings, trials=0)
    with pytest.raises(UnknownIdError, match="unknown metric 'ndgc'; the nearest known one is 'ndcg'"):
        pr.tune(MODEL, ratings, metric="ndgc")
    with pytest.raises(InputError, match="calibration_error is of all people"):
        pr.tune(MODEL, ratings, metric="calibration_error")
    with pytest.raises(NotSupportedError, match=r"Random\(\) has no parameters to choose"):
        pr.tune(pr.Random(), ratings)
    with pytest.raises(InputError, match="expected a model, got str"):
        pr.tune("MeanRating", ratings)


def test_every_space_names_parameters_and_holds_values_that_are_allowed():
    models = [getattr(pr, name)() for name in MODELS]
    for model, key, declared in ((m, key, each) for m in models for key, each in m.parameters.items() if each.tuned):
        also = () if isinstance(declared, Categorical) else declared.tune_also
        for value in (*declared.tune, *also):
            changed = model.clone().set_params(**{key: value})
            if declared.when:
                assert declared.when[0] in model.get_params()
                changed.set_params(**{declared.when[0]: declared.when[1]})
            changed._validate()


def test_ranges_hold_the_parameters_given_and_only_what_matters():
    space = space_of(pr.FactoredPlackettLuce(100, factor_scale=9.0))
    assert space["n_factors"].tune == (2, 100)
    assert space["factor_scale"].tune == (0.3, 9.0)
    assert space["factor_scale"].tune_also == ("auto",)
    assert "user_penalty" not in space
    assert "user_penalty" in space_of(pr.FactoredPlackettLuce(method="point"))
    assert "factor_scale" not in space_of(pr.FactoredPlackettLuce(method="point"))


def test_a_value_that_is_not_a_number_is_one_of_the_choices(ratings):
    model = pr.FactoredPlackettLuce(2, max_iter=10, n_draws=4)
    found = pr.tune(model, ratings, trials=6, splits=1)
    assert found.trials["parameters"][0] == "n_factors=2, factor_scale=auto, intercepts=True"
    assert found.trials["parameters"].str.contains(r"factor_scale=\d").any()
    assert set(found.model.get_params()) == set(model.get_params())


def test_zero_and_no_prior_are_choices_beside_the_range(ratings):
    found = pr.tune(pr.PairwiseFactorisation(2, loss="hinge", smoothing=0, tol=1e-2), ratings, trials=4, splits=1)
    assert "smoothing=0" in found.trials["parameters"][0]
    assert found.trials["score"].drop_nulls().len() >= 2
    space = space_of(pr.LatentPlackettLuce(2, prior_strength=None))
    assert space["prior_strength"].also == ("auto", None)


def test_validation_leaves_most_of_a_list(ratings):
    assert default_validation(ratings) == pr.LeaveOut(k=2)
    longer = pr.datasets.load("simulated", n_users=20, n_items=60, list_length=50)
    assert default_validation(longer) == pr.LeaveOut(k=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not default_validation(pr.Rankings.from_lists([["a", "b"], ["b", "a"]])).measures_order
