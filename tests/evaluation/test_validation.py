"""Validation while learning: it sees and does not touch, stops in time, and keeps the best."""

import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.core.ranker import ItemScores
from permrank.errors import (
    ConvergenceWarning,
    FormatError,
    InputError,
    NotSupportedError,
    StoppedWarning,
    UnknownIdError,
)
from permrank.interfaces.cli.app import app
from permrank.interfaces.cli.fit import ends_anywhere, sparkline
from permrank.learning.hooks import EarlyStopping
from permrank.learning.learner import Step, run, standing
from permrank.rankings.selection import hold_out


@pytest.fixture(scope="module")
def parts():
    # Tastes hardly differ: what eight factors learn after the first sweeps is noise.
    rankings = pr.datasets.load("simulated", n_users=200, n_items=30, list_length=(12, 16), separation=0.2)
    rest, test = hold_out(rankings, 0.4, seed=1)
    return *hold_out(rest, 0.3, seed=2), test


@pytest.fixture(scope="module")
def rated():
    rng = np.random.default_rng(1)
    rows = {"user": np.repeat(np.arange(40), 10), "item": np.tile(np.arange(10), 40), "rating": rng.integers(1, 6, 400)}
    return hold_out(pr.Rankings.from_ratings(pl.DataFrame(rows), user="user", item="item", rating="rating"), 0.3)


OVERFITTING = pr.FactoredPlackettLuce(8, method="point", user_penalty=1e-3, item_penalty=1e-3, max_iter=150, tol=1e-12)


def learned(model):
    return {name: np.asarray(getattr(model, name)) for name in model.estimate_.names()}


def require_same(model, other):
    assert model.history_ == other.history_
    np.testing.assert_array_equal(model.validation_, other.validation_)
    for name, value in learned(model).items():
        np.testing.assert_array_equal(value, learned(other)[name])


def quietly(model, rankings, **options):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.clone().fit(rankings, **options)


@pytest.mark.parametrize("model", [OVERFITTING, pr.ListNet(8, penalty=1e-4)], ids=["factors", "listnet"])
def test_a_learner_that_overfits_stops_early_and_ranks_what_nobody_has_looked_at_better(model):
    # Everybody agrees, so that whatever is learnt of a person is noise.
    options = {"n_items": 30, "list_length": (12, 16), "n_communities": 1, "n_factors": 0, "separation": 0.0}
    rest, test = hold_out(pr.datasets.load("simulated", n_users=200, noise=0.5, **options), 0.4, seed=1)
    train, held = hold_out(rest, 0.3, seed=2)
    full = quietly(model, train)
    early = model.clone().fit(train, validation=pr.Validation(held, "pairs_right", every=2, patience=3))
    assert early.best_iter_ < early.n_iter_ < full.n_iter_
    assert early.n_iter_ == early.best_iter_ + 3 * 2
    assert not early.converged_

    def score(model):
        return pr.evaluate(model, test, metrics=["pairs_right"]).means()["pairs_right"]

    if isinstance(model, pr.ListNet):  # the other learns by heart at once: sometimes the first sweeps are no better
        assert score(early) > score(full) + 0.01


MODELS = [
    (OVERFITTING, "orders"),
    (pr.FactoredPlackettLuce(2, max_iter=24, n_draws=6), "rated"),
    (pr.PlackettLuce(prior="gaussian", method="mm", max_iter=30), "orders"),
    (pr.PlackettLuce(prior="gaussian", ties="shuffle", max_iter=30), "rated"),
    (pr.LatentPlackettLuce(2, mixing="list", n_starts=2, prior_strength=1.0, tol=1e-7), "orders"),
    (pr.LatentPlackettLuce(2, n_starts=2, prior_strength=1.0, concentration=2.0, tol=1e-7), "orders"),
    (pr.PairwiseFactorisation(4, user_penalty=1e-3, item_penalty=1e-3, max_iter=40), "rated"),
    (pr.ListNet(0, max_iter=40), "rated"),
    (pr.Mallows(1, max_iter=8), "orders"),
    (pr.LatentPreference(2, n_starts=2, max_iter=20), "orders"),
    (pr.BradleyTerry(prior="gaussian", method="mm", max_iter=20), "orders"),
    (pr.PositionwiseLogLinear(2, max_iter=20, n_draws=6), "rated"),
    (pr.PositionwiseLogLinear(2, method="relocation", max_iter=20), "rated"),
    (pr.PositionwiseLogLinear(2, method="persistent", max_iter=10), "rated"),
    (pr.PairwiseLogLinear(2, min_cooccurrence=2, pair_scale=0.2, max_iter=8, n_draws=3), "rated"),
    (pr.PairwiseLogLinear(0, method="contrastive", min_cooccurrence=2, pair_scale=0.2, max_iter=10), "rated"),
]


@pytest.mark.parametrize(("model", "data"), MODELS, ids=lambda value: repr(value)[:60])
def test_measuring_changes_no_bit_and_the_best_is_kept_exactly(model, data, parts, request, tmp_path):
    train, held = parts[:2] if data == "orders" else request.getfixturevalue(data)
    plain = quietly(model, train)
    watched = quietly(model, train, validation=pr.Validation(held, "pairs_right", every=2))
    assert plain.history_ == watched.history_
    for name, value in learned(plain).items():
        np.testing.assert_array_equal(value, learned(watched)[name])
    assert plain.validation_.shape == (0, 2)
    assert (plain.best_iter_, plain.validation_.dtype) == (plain.n_iter_, np.float64)
    sweeps, scores = watched.validation_.T
    # Every second sweep, and the last; of draws those from the first that is kept.
    drawn = getattr(model, "method", "") in ("draws", "posterior")
    drawn = drawn or (isinstance(model, pr.PairwiseLogLinear) and model.n_factors > 0)
    # Entries are held out in the first half; a few sweeps more are left out.
    begun = model.max_iter // 2
    burn_in = begun + min(4, (model.max_iter - begun) // 3) if drawn else 0
    expected = sorted({*range(2, watched.n_iter_ + 1, 2), watched.n_iter_})
    assert sweeps.tolist() == [sweep for sweep in expected if sweep > burn_in]
    assert watched.best_iter_ == sweeps[scores.argmax()]

    patient = quietly(model, train, validation=pr.Validation(held, "pairs_right", every=2, patience=1))
    assert patient.n_iter_ <= plain.n_iter_
    best = patient.best_iter_
    stopped = quietly(model, train, callback=lambda progress: progress.iteration == best)
    for name, value in learned(stopped).items():
        np.testing.assert_array_equal(value, learned(patient)[name])
    found = pr.evaluate(patient, held, metrics=["pairs_right"]).means()["pairs_right"]
    assert found == patient.validation_[:, 1].max()

    # The command advises to fit again with max_iter only where that comes to the same.
    sooner = max(1, plain.n_iter_ * 3 // 4)
    stopped = quietly(model, train, callback=lambda progress: progress.iteration == sooner)
    shorter = quietly(model.clone().set_params(max_iter=sooner), train)
    same = stopped.n_iter_ == shorter.n_iter_ and all(
        np.array_equal(value, learned(shorter)[name]) for name, value in learned(stopped).items()
    )
    assert same or not ends_anywhere(model, train)

    # Broken off and taken up again, twice, it comes to the same.
    options = {"validation": pr.Validation(held, "pairs_right", every=2, patience=2)}
    whole = quietly(model, train, **options)
    for sweep in sorted({min(3, whole.n_iter_), whole.n_iter_ - 1} - {0}):

        def die(progress, sweep=sweep):
            if progress.iteration == sweep:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            quietly(model, train, checkpoint=pr.Checkpoint(tmp_path / "c", every=1), callback=die, **options)
    for _ in range(2):
        require_same(quietly(model, train, checkpoint=pr.Checkpoint(tmp_path / "c", every=1), **options), whole)


def test_a_saved_model_keeps_the_curve(parts, tmp_path):
    train, held, _ = parts
    model = OVERFITTING.clone().fit(train, validation=pr.Validation(held, "ndcg@5", every=3, patience=2))
    model.save(tmp_path / "m")
    again = pr.load(tmp_path / "m")
    require_same(again, model)
    assert again.best_iter_ == model.best_iter_
    trace = replace(model.fitted_.trace, validation=np.array([[3.0, np.nan]]))
    model.fitted_ = replace(model.fitted_, trace=trace)
    model.save(tmp_path / "m")
    with pytest.raises(FormatError, match="validation_ is not a curve"):
        pr.load(tmp_path / "m")


def test_the_callback_sees_the_scores_and_ctrl_c_keeps_the_best(parts):
    train, held, _ = parts
    seen = {}

    def press(progress):
        if progress.score is not None:
            seen[progress.iteration] = progress.score
        if progress.iteration == 61:
            os.kill(os.getpid(), signal.SIGINT)

    model = OVERFITTING.clone()
    with pytest.warns(StoppedWarning, match="stopped after sweep 61"):
        model.fit(train, callback=press, validation=pr.Validation(held, "pairs_right", every=2, patience=100))
    assert model.n_iter_ == 61
    # The one after the last sweep is measured when learning has ended.
    assert model.validation_[:, 0].tolist() == [*seen, 61]
    assert model.validation_[:-1, 1].tolist() == list(seen.values())
    assert pr.evaluate(model, held, metrics=["pairs_right"]).means()["pairs_right"] == max(model.validation_[:, 1])


def test_the_curve_alone_decides():
    def steps(kept):
        point = np.zeros(1)

        def estimate():
            return ItemScores(point)

        yield standing(estimate)
        while True:
            point += 1.0  # in place, as some learners do
            yield Step(0.0, estimate)

    scores = iter([0.3, 0.5, 0.5, 0.4, 0.6, 0.6, 0.6, 0.6])
    watch = EarlyStopping(lambda estimate: next(scores), every=5, patience=3)
    fitted = run(steps, max_iter=1000, hooks=[watch])
    assert (len(fitted.history), watch.best_iter) == (40, 25)  # five sweeps each; the third without a rise is the end
    np.testing.assert_array_equal(watch.best_or_last(40, fitted.estimate).scores, [25.0])


def unlisted(rankings, user):
    """Three items that a user has not listed."""
    own = {item for ranking in rankings.lists(user) for item in ranking}
    return [item for item in rankings.item_ids if item not in own][:3]


def test_what_cannot_be_measured_is_refused_with_the_remedy(parts, tmp_path):
    train, held, _ = parts
    for wrong, error, words in (
        ({"metric": "ndgc@10"}, UnknownIdError, "unknown metric 'ndgc'; the nearest known one is 'ndcg'"),
        ({"metric": "ndcg@0"}, InputError, "expected a whole number from 1 after the @"),
        ({"metric": "ndcg@"}, InputError, "expected a whole number from 1 after the @"),
        ({"metric": "tau_b@5"}, InputError, "expected no @ for it"),
        ({"metric": 5}, InputError, "expected the name of a metric"),
        ({"metric": "calibration_error"}, InputError, "validate by log_likelihood or by an order"),
        ({"every": 0}, InputError, "every=0"),
        ({"patience": 0}, InputError, "patience=0"),
    ):
        with pytest.raises(error, match=words):
            pr.Validation(held, **wrong)
    with pytest.raises(InputError, match="nothing to validate by"):
        pr.Validation(pr.Rankings.from_lists({"ann": []}))
    with pytest.raises(InputError, match=r"validation=0.2, expected permrank.Validation"):
        OVERFITTING.clone().fit(train, validation=0.2)
    with pytest.raises(InputError, match=r"validation=<class .*, expected permrank.Validation\(held-out rankings\)"):
        OVERFITTING.clone().fit(train, validation=pr.Validation)
    others = pr.Rankings.from_lists({"ann": ["a", "b"]})
    with pytest.raises(InputError, match="none of the 2 validation entries is of users and items of the training data"):
        OVERFITTING.clone().fit(train, validation=pr.Validation(others))
    one_each = pr.Rankings.from_lists({train.user_ids[0]: unlisted(train, train.user_ids[0])[:1]})
    with pytest.raises(InputError, match="nobody in the validation data has pairs_right"):
        quietly(OVERFITTING, train, validation=pr.Validation(one_each))
    for model in (pr.Borda(), pr.MeanRating(), pr.Random()):
        with pytest.raises(NotSupportedError, match="fit it without a validation"):
            model.fit(train, validation=pr.Validation(held))
    path = tmp_path / "c"
    quietly(OVERFITTING, train, checkpoint=path, callback=lambda progress: progress.iteration == 4)
    with pytest.raises(InputError, match=r"with another validation: none, and now pairs_right of .*, every=5"):
        OVERFITTING.clone().fit(train, checkpoint=path, validation=pr.Validation(held))


def test_a_likelihood_of_nought_is_told_as_such(parts, monkeypatch):
    train, held, _ = parts
    impossible = np.zeros(held.n_rankings)
    impossible[3] = -np.inf
    monkeypatch.setattr(pr.PlackettLuce, "log_likelihood", lambda model, rankings: impossible)
    model = pr.PlackettLuce(prior="gaussian", method="mm")
    with pytest.raises(InputError, match=r"the mean log_likelihood of the validation data is -inf: .*; use a prior"):
        model.fit(train, validation=pr.Validation(held, "log_likelihood", every=1))


def test_ballots_are_known_by_their_numbers_only_where_they_are_the_same(parts):
    ballots = pr.Rankings.from_lists(parts[0].lists()).merged()
    assert ballots.anonymous
    train, held = hold_out(ballots, 0.3)
    model = quietly(OVERFITTING, train, validation=pr.Validation(held, "pairs_right", patience=1))
    assert model.validation_.size
    others = pr.Rankings.from_lists(parts[0].lists()[::-1])
    with pytest.raises(
        InputError, match=r"ballot \d+ has item .* in the training data and in the validation data.*; hold"
    ):
        OVERFITTING.clone().fit(train, validation=pr.Validation(others, "pairs_right"))
    for learnt_from, judged_by, words in ((parts[0], others, "validation"), (train, parts[1], "training")):
        with pytest.raises(InputError, match=f"the {words} data are ballots without voters.*; hold out a part"):
            OVERFITTING.clone().fit(learnt_from, validation=pr.Validation(judged_by, "pairs_right"))
    # A likelihood asks for nobody in particular.
    by_likelihood = pr.Validation(others, "log_likelihood")
    assert quietly(pr.PlackettLuce(prior="gaussian", method="mm"), train, validation=by_likelihood).validation_.size


def test_a_validation_can_be_a_key(parts):
    one, other = pr.Validation(parts[1]), pr.Validation(parts[2])
    assert {one: 1, other: 2}[one] == 1


def test_what_is_not_in_the_training_data_is_left_out_and_said(parts):
    train, _, _ = parts
    users = list(train.user_ids)[:2]
    first, second = (unlisted(train, user) for user in users)
    known = {users[0]: first, users[1]: second[::-1]}
    more = {users[0]: ["unheard of", *first], users[1]: second[::-1], "nobody": first}
    curves = []
    for lists in (known, more):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            validation = pr.Validation(pr.Rankings.from_lists(lists), "pairs_right", patience=1)
            curves.append(OVERFITTING.clone().fit(train, validation=validation).validation_)
        told = [str(warning.message) for warning in caught]
        assert told == (["4 of 10 validation entries are of users or items that are not in the training data, and are "
                         "left out"] if lists is more else [])  # fmt: skip
    np.testing.assert_array_equal(*curves)


def test_the_likelihood_of_new_people_can_decide_too(parts):
    train, held, _ = parts
    model = pr.PlackettLuce(prior="gaussian", method="mm")
    model.fit(train, validation=pr.Validation(held, "log_likelihood_per_stage", patience=2))
    assert (model.validation_[:, 1] < 0).all()


def test_the_command_holds_out_a_share_and_tells_what_it_found(parts, tmp_path):
    data, output = tmp_path / "data.jsonl", tmp_path / "m.permrank"
    parts[0].write(data)
    chosen = "user_penalty", "item_penalty", "tol"
    given = [f"{name}={value}" for name, value in OVERFITTING.get_params().items() if name in chosen]
    settings = ["method=point", "n_factors=8", "max_iter=60", *given]
    command = ["fit", data, "-m", "FactoredPlackettLuce", "-o", output]
    command += [part for setting in settings for part in ("-s", setting)]

    def run(*more):
        return CliRunner().invoke(app, [str(part) for part in (*command, *more)])

    told = run("--validate", 0.3, "--patience", 2, "--validate-every", 2, "--metric", "pairs_right")
    assert told.exit_code == 0, told.output
    model = pr.load(output)
    assert model.n_iter_ == model.best_iter_ + 4
    assert f"at sweep {model.best_iter_}; stopped after sweep {model.n_iter_}" in told.output
    assert f"--set max_iter={model.best_iter_}" in told.output
    train, held = hold_out(pr.read(data), 0.3)
    assert model.rankings_ == train
    options = pr.Validation(held, "pairs_right", 2, 2)
    again = pr.FactoredPlackettLuce(8, method="point", user_penalty=1e-3, item_penalty=1e-3, max_iter=60, tol=1e-12)
    require_same(model, again.fit(train, validation=options))
    assert "the last (" in run("--validate", 0.3).output
    for option, value in (("--patience", 2), ("--validate-every", 5), ("--metric", "ndcg@5")):
        refused = run(option, value)
        assert refused.exit_code != 0
        assert f"{option} {value} is for --validate SHARE" in refused.stderr
    for share in (2, 0):
        assert f"--validate {share}, expected a share between 0 and 1" in run("--validate", share).stderr
    # The sweeps of a posterior are not ended by max_iter alone.
    drawn = run("--validate", 0.3, "-s", "method=draws")
    assert drawn.exit_code == 0, drawn.output
    assert "fit again without --validate" in drawn.output
    assert "--set max_iter" not in drawn.output


def test_a_sparkline_has_a_bar_for_every_value_up_to_forty():
    assert sparkline(np.array([0.0, 1.0, 0.5])) == "▁█▅"
    assert sparkline(np.ones(2)) == "██"
    assert len(sparkline(np.arange(1000.0))) == 40


def test_draws_are_not_measured_before_one_is_kept(parts):
    train, held, _ = parts
    model = pr.FactoredPlackettLuce(2, max_iter=30).fit(train, validation=pr.Validation(held, every=1, patience=2))
    assert model.validation_[0, 0] == 20  # fifteen sweeps hold entries out, and four more are left out
    assert model.best_iter_ > 19


def test_a_metric_of_which_lower_is_better_stops_where_its_mirror_does(parts):
    train, held, _ = parts
    mirror = pr.metrics.Metric(
        "pairs_wrong",
        lambda g, s: 1.0 - pr.metrics.per_list(["pairs_right"], [0, g.size], g, s)["pairs_right"][0],
        higher_is_better=False,
    )
    model = pr.ListNet(4, penalty=1e-4, max_iter=20)
    fitted = [quietly(model, train, validation=pr.Validation(held, metric=metric, every=2, patience=3))
              for metric in (mirror, "pairs_right")]  # fmt: skip
    assert fitted[0].best_iter_ == fitted[1].best_iter_
    np.testing.assert_allclose(fitted[0].validation_[:, 1], fitted[1].validation_[:, 1] - 1.0, rtol=0, atol=1e-12)
    assert pr.Validation(held, metric=mirror).name == "pairs_wrong"


def test_ctrl_c_during_the_last_measurement_costs_nothing(parts):
    train, held, _ = parts

    class Pressing(pr.Validation):
        def judge(self, training):
            score = super().judge(training)

            def pressed(model):
                os.kill(os.getpid(), signal.SIGINT)
                return score(model)

            return pressed

    model = pr.PlackettLuce(prior="gaussian", method="mm", max_iter=7)
    quiet = warnings.catch_warnings(action="ignore")
    with quiet:
        model.fit(train, validation=Pressing(held, "pairs_right", every=100))
    assert model.n_iter_ == 7
    assert model.validation_[:, 0].tolist() == [7]


def test_warnings_of_fit_name_the_line_of_the_caller(parts):
    train, held, _ = parts
    some = train.select(items=list(train.item_ids)[:20])
    with pytest.warns(UserWarning, match="are left out") as caught:
        pr.PlackettLuce(prior="gaussian").fit(some, validation=pr.Validation(held, "pairs_right"))
    assert {warning.filename for warning in caught} == {__file__}


def test_metrics_of_the_same_name_and_other_functions_are_other_validations(parts):
    held = parts[1]
    best = pr.metrics.Metric("mine", lambda grades, scores: float(scores.argmax() == grades.argmax()))
    worst = pr.metrics.Metric("mine", lambda grades, scores: float(scores.argmin() == grades.argmin()))
    works = {pr.Validation(held, metric).work for metric in (best, worst, "ndcg")}
    assert len(works) == 3
    assert pr.Validation(held, best).work == pr.Validation(held, best).work


def test_what_is_learnt_from_does_not_judge():
    lists = {"ann": ["a", "b", "c", "d"], "bob": ["d", "c", "b", "a"], "eve": ["b", "a", "d", "c"]}
    train, held = pr.Rankings.from_lists(lists), pr.Rankings.from_lists({"bob": ["e", "c", "b"]})
    for metric in ("pairs_right", "log_likelihood"):
        with pytest.raises(InputError, match="user 'bob' has item 'c' in the training data and in the validation data"):
            pr.PlackettLuce(prior="gaussian").fit(train, validation=pr.Validation(held, metric))
    several = pr.Rankings.from_lists([["a", "b"], ["b", "c"]], users=["ann", "ann"])  # an item may be in both lists
    rest = pr.Rankings.from_lists([["a", "c"]], users=["ann"])
    model = pr.PlackettLuce(prior="gaussian", method="mm").fit(several, validation=pr.Validation(rest, "pairs_right"))
    assert model.validation_.size
