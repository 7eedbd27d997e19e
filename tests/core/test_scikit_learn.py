"""What scikit-learn asks of an estimator, without its base class."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn.base
import sklearn.exceptions
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

import permrank as pr
from permrank.errors import NotFittedError, PermrankError

RANKINGS = pr.Rankings.from_lists({"u": ["a", "b", "c"], "v": ["b", "a"], "w": ["c", "a", "b"]})


def test_fit_takes_a_target_and_does_not_look_at_it():
    plain, given = pr.Borda().fit(RANKINGS), pr.Borda().fit(RANKINGS, [1, 2, 3])
    np.testing.assert_array_equal(plain.score("u"), given.score("u"))
    assert pr.Borda().fit(RANKINGS, y=None).n_iter_ == plain.n_iter_


def test_a_model_that_is_not_fitted_raises_what_scikit_learn_would():
    for kind in (NotFittedError, PermrankError, ValueError, AttributeError):
        with pytest.raises(kind, match=r"this Borda is not fitted; call fit\(rankings\) first"):
            pr.Borda().recommend("u")
    bases = set(sklearn.exceptions.NotFittedError.__bases__)
    assert bases <= set(NotFittedError.__mro__)
    again = pickle.loads(pickle.dumps(NotFittedError("words")))
    assert str(again) == "words"


@pytest.mark.parametrize("model", [pr.Borda(), pr.PlackettLuce(prior="gamma")], ids=repr)
def test_check_is_fitted_knows_a_fitted_model_from_a_new_one(model):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    fitted = model.clone().fit(RANKINGS)
    check_is_fitted(fitted)
    check_is_fitted(fitted.set_params(**model.get_params()))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(fitted.clone())


def test_check_is_fitted_knows_a_loaded_model(tmp_path):
    pr.Borda().fit(RANKINGS).save(tmp_path / "m")
    check_is_fitted(pr.load(tmp_path / "m"))


def test_clone_of_scikit_learn_is_that_of_the_model():
    model = pr.PlackettLuce(prior="gaussian", prior_scale=2.0).fit(RANKINGS)
    twin = sklearn.base.clone(model)
    assert type(twin) is pr.PlackettLuce
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "rankings_")


def test_a_pipeline_passes_rankings_through_its_steps_to_a_model():
    seen = []

    def without_w(rankings):
        seen.append(rankings)
        return rankings.select(users=["u", "v"])

    pipeline = make_pipeline(FunctionTransformer(), FunctionTransformer(without_w), pr.Borda())
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(pipeline)
    assert pipeline.fit(RANKINGS) is pipeline
    assert seen == [RANKINGS]
    check_is_fitted(pipeline)
    assert list(pipeline[-1].user_ids) == ["u", "v"]


def test_parameters_of_a_step_are_read_set_and_cloned_through_the_pipeline():
    pipeline = Pipeline([("data", "passthrough"), ("model", pr.PlackettLuce())])
    pipeline.set_params(model__prior="gamma")
    assert pipeline.get_params()["model__prior"] == "gamma"
    twin = sklearn.base.clone(pipeline).fit(RANKINGS)
    assert twin["model"].prior == "gamma"
    assert not hasattr(pipeline["model"], "rankings_")
    assert "PlackettLuce" in repr(twin)


def test_learning_does_not_load_scikit_learn():
    code = (
        "import sys, permrank as pr\n"
        "pr.Borda().fit(pr.Rankings.from_lists([['a', 'b']])).rank(None, ['a'])\n"
        "print('sklearn' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
