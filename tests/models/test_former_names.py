"""Names of release 0.1 are understood, with a warning, by constructors, set_params, the command line and files."""

import inspect
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.errors import FormatError, InputError
from permrank.interfaces.cli.app import app
from permrank.models import MODELS
from permrank.testing.forging import header_of, resigned

RANKINGS = pr.Rankings.from_lists({"u": ["a", "b", "c"], "v": ["c", "a", "b"], "w": ["b", "c", "a"], "x": ["a", "c"]})
FORMER = [
    (pr.Borda, "shrinkage", "prior_strength", 2.0),
    (pr.BradleyTerry, "solver", "method", "mm"),
    (pr.PlackettLuce, "solver", "method", "mm"),
    (pr.FactoredPlackettLuce, "posterior", "method", "point"),
    (pr.FactoredPlackettLuce, "company", "co_listing", False),
    (pr.FactoredPlackettLuce, "anchors", "rating_thresholds", False),
    (pr.FactoredPlackettLuce, "alpha", "user_penalty", 0.5),
    (pr.FactoredPlackettLuce, "beta", "item_penalty", 0.5),
    (pr.PairwiseFactorisation, "alpha", "user_penalty", 0.5),
    (pr.PairwiseFactorisation, "beta", "item_penalty", 0.5),
    (pr.LatentPlackettLuce, "m_step", "method", "gradient"),
    (pr.LatentPlackettLuce, "position", "insertion", "mode"),
    (pr.PairwiseLogLinear, "learner", "method", "exact"),
    (pr.PositionwiseLogLinear, "learner", "method", "swaps"),
]


def former_of(name):
    """Former names of the parameters of a model, each with the present one."""
    return {one.formerly: key for key, one in getattr(pr, name).parameters.items() if one.formerly}


def test_the_list_above_is_whole():
    declared = {(name, old, new) for name in MODELS for old, new in former_of(name).items()}
    assert {(kind.__name__, old, new) for kind, old, new, _ in FORMER} == declared


@pytest.mark.parametrize(("kind", "old", "new", "value"), FORMER)
def test_a_former_name_sets_the_present_parameter_and_warns_where_it_is_used(kind, old, new, value):
    told = f"{kind.__name__}: {old} is now called {new}; the old name goes with the next release"
    with pytest.warns(FutureWarning, match=told) as caught:
        model = kind(**{old: value})
    assert caught[0].filename == __file__
    assert model.get_params() == kind(**{new: value}).get_params()
    assert old not in model.get_params()
    with pytest.warns(FutureWarning, match=told) as caught:
        assert kind().set_params(**{old: value}).get_params() == model.get_params()
    assert caught[0].filename == __file__
    with pytest.warns(FutureWarning, match=told) as caught:
        assert getattr(model, old) == value
    assert caught[0].filename == __file__
    changed = kind()
    with pytest.warns(FutureWarning, match=told):
        setattr(changed, old, value)
    assert changed.get_params() == model.get_params()
    assert old not in inspect.signature(kind).parameters
    with pytest.raises(InputError, match=f"{old} is the former name of {new}, and both are given; give {new} alone"):
        kind(**{old: value, new: value})


def test_a_former_value_is_understood():
    told = "damping='learnt' is now called damping='learned'"
    with pytest.warns(FutureWarning, match=told):
        model = pr.FactoredPlackettLuce(2, method="point", damping="learnt")
    with pytest.warns(FutureWarning, match=told):
        assert pr.FactoredPlackettLuce().set_params(damping="learnt").damping == model.damping == "learned"


def test_present_names_do_not_warn_and_unknown_ones_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in MODELS:
            model = getattr(pr, name)()
            assert model.clone().set_params(**model.get_params()).get_params() == model.get_params()
    with pytest.raises(TypeError, match="unexpected keyword argument 'compny'"):
        pr.FactoredPlackettLuce(compny=False)
    with pytest.raises(pr.errors.UnknownIdError, match="compny"):
        pr.FactoredPlackettLuce().set_params(compny=False)


def test_a_subclass_may_keep_the_former_name_for_itself():
    class Point(pr.FactoredPlackettLuce):
        def __init__(self, n_factors=2, *, posterior="point"):
            super().__init__(n_factors, method=posterior)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Point(posterior="draws").method == "draws"


def test_the_command_line_understands_former_names(tmp_path):
    RANKINGS.write(tmp_path / "data.csv")
    arguments = ["fit", tmp_path / "data.csv", "-o", tmp_path / "m", "-s", "prior=gaussian", "-s", "solver=mm"]
    with pytest.warns(FutureWarning, match="PlackettLuce: solver is now called method"):
        done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0
    assert pr.load(tmp_path / "m").method == "mm"


def as_written_by_0_1(path):
    """Give a file the names that release 0.1 would have written."""
    header = header_of(path)
    former = {new: old for old, new in former_of(header["class"]).items()}
    parameters = {former.get(key, key): value for key, value in json.loads(header["parameters"]).items()}
    if parameters.get("damping") == "learned":
        parameters["damping"] = "learnt"
    tensors = {}
    written = pr.load(path)
    for old, new in written.estimate_.former_names().items():
        tensors |= {new: None, old: np.array(getattr(written, new), order="C")}
    resigned(path, {"parameters": json.dumps(parameters)}, tensors)
    assert not set(former) & set(json.loads(header_of(path)["parameters"]))


@pytest.mark.parametrize(
    "model",
    [
        pr.FactoredPlackettLuce(2, max_iter=6, n_draws=2, co_listing=False),
        pr.FactoredPlackettLuce(2, method="point", damping="learned", tol=0.1),
        pr.Borda(prior_strength=2.0),
        pr.PairwiseFactorisation(2, user_penalty=0.5, tol=0.1),
        pr.CofiRank(2, tol=0.1),
        pr.ListNet(2, tol=0.1),
        pr.LatentPlackettLuce(2, insertion="mode", method="gradient", tol=0.1),
        pr.PlackettLuce(method="mm"),
        pr.BradleyTerry(method="mm"),
        pr.PairwiseLogLinear(0, method="exact", tol=1e-2),
        pr.PositionwiseLogLinear(0, method="exact", tol=1e-2),
    ],
    ids=repr,
)
def test_model_files_of_release_0_1_are_read_without_a_warning(model, tmp_path):
    path = tmp_path / "m"
    model.fit(RANKINGS).save(path)
    as_written_by_0_1(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = pr.load(path)
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.score("u"), model.score("u"))
    loaded.save(path)
    assert pr.load(path).get_params() == model.get_params()


def test_what_was_learnt_has_its_former_name_too():
    model = pr.FactoredPlackettLuce(2, max_iter=6, n_draws=2).fit(RANKINGS)
    with pytest.warns(FutureWarning, match="FactoredPlackettLuce: company_ is now called co_listing_") as caught:
        np.testing.assert_array_equal(model.company_, model.co_listing_)
    assert caught[0].filename == __file__
    model = pr.PairwiseFactorisation(2, user_penalty=0.5, tol=0.1).fit(RANKINGS)
    with pytest.warns(FutureWarning, match="PairwiseFactorisation: alpha_ is now called user_penalty_"):
        assert model.alpha_ == model.user_penalty_ == 0.5


def test_a_file_that_lacks_an_array_under_either_name_is_refused(tmp_path):
    path = tmp_path / "m"
    pr.FactoredPlackettLuce(2, max_iter=6, n_draws=2).fit(RANKINGS).save(path)
    resigned(path, None, {"co_listing_": None})
    with pytest.raises(FormatError, match="co_listing_"):
        pr.load(path)


def test_in_a_file_without_a_personal_weight_it_is_one(tmp_path):
    path = tmp_path / "m"
    model = pr.FactoredPlackettLuce(2, max_iter=6, n_draws=2).fit(RANKINGS)
    model.estimate_ = replace(model.estimate_, personal_weight=0.5)
    model.save(path)
    resigned(path, None, {"personal_weight_": None})
    loaded = pr.load(path)
    assert (model.personal_weight_, loaded.personal_weight_) == (0.5, 1.0)
    model.estimate_ = replace(model.estimate_, personal_weight=1.0)
    np.testing.assert_allclose(loaded.score("u"), model.score("u"), rtol=1e-6)


@pytest.mark.parametrize("rated", [False, True])
def test_files_with_the_modes_of_users_under_every_draw_are_read(rated, tmp_path):
    path, rng = tmp_path / "m", np.random.default_rng(5)
    listed = [rng.permutation(8)[:5].tolist() for _ in range(20)]
    data = pr.Rankings.from_lists(listed)
    if rated:
        rows = {"user": np.repeat(np.arange(20), 5), "item": np.ravel(listed), "rating": rng.integers(1, 4, 100)}
        data = pr.Rankings.from_ratings(rows)
    model = pr.FactoredPlackettLuce(2, max_iter=12, n_draws=5, co_listing=False).fit(data)
    model.save(path)
    modes = model.user_modes_ + rng.normal(size=(len(model.item_draws_), data.n_users, 1)).astype(np.float32)
    absent = dict.fromkeys(("user_factors_", "item_factors_", "item_intercepts_", "bases_"))
    whole = {"user_modes_": np.ascontiguousarray(modes), "item_draws_": model.item_draws_.astype(np.float32)}
    resigned(path, None, absent | whole)
    loaded, k, n = pr.load(path), model.estimate_.n_factors, data.n_items
    personal = np.einsum("dik,duk->ui", model.item_draws_[:, :n, :k].astype(float), modes[:, :, :k])
    scores = personal * model.personal_weight_ + model.item_draws_[:, :n, -1].astype(float).sum(axis=0)
    scores *= model.temperature_ / len(modes)
    found = np.array([loaded.score(user) for user in loaded.user_ids])
    assert np.corrcoef(found.ravel(), scores.ravel())[0, 1] > 0.98
    assert loaded.fold_in(listed[0]).state["modes"].shape == (len(modes), k + rated)
    loaded.save(path)
    np.testing.assert_array_equal(pr.load(path).score(loaded.user_ids[0]), found[0])
