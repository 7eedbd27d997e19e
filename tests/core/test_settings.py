"""Settings: one declaration for the constructor, validation, tuning and help."""

import inspect

import pytest

import permrank as pr
from permrank.core.settings import Categorical, Checked, Flag, Float, Integer, Number, Seed, number
from permrank.errors import InputError
from permrank.families import MODELS
from permrank.testing.questions import LISTS

RANKINGS = pr.Rankings.from_lists(LISTS)
every_model = pytest.mark.parametrize("name", sorted(MODELS))


def refused(name, key, value):
    """Whether the model that has this parameter raises an error that names it."""
    with pytest.raises(InputError, match=key):
        getattr(pr, name)().set_params(**{key: value}).fit(RANKINGS)


@every_model
def test_every_parameter_is_declared_once_with_help_and_its_default_is_allowed(name):
    kind = getattr(pr, name)
    arguments = inspect.signature(kind).parameters
    assert set(kind.parameters) == set(arguments)
    for key, declared in kind.parameters.items():
        declared.check(key, arguments[key].default)
        assert declared.help.endswith("."), key
        assert declared.allowed, key
        assert f"\n{key} : {declared.allowed}; default" in kind.__doc__, key
        assert declared.help.split()[-1] in kind.__doc__, key
        if declared.when is not None:
            other, value = declared.when
            kind.parameters[other].check(other, value)
    kind()._validate()


@every_model
def test_validation_enforces_what_is_declared(name):
    for key, declared in getattr(pr, name).parameters.items():
        allowed, outside = examples(key, declared)
        for value in allowed:
            declared.check(key, value)
        for value in outside:
            refused(name, key, value)


def examples(key, declared):
    """Values that a parameter may have, at its bounds, and values that it may not have, just beyond them."""
    if isinstance(declared, Number):
        return examples_of_number(declared)
    if isinstance(declared, Flag):
        return declared.values, ("yes", 1, None, 0.0)
    if isinstance(declared, Categorical):
        return declared.values, ("other", 1, ["other"], *(() if None in declared.values else (None,)))
    if isinstance(declared, Seed):
        return (0,), (-1, None, 1.5, "0", 2**128, True)
    return (), () if key == "features" else ("other", 1)


def examples_of_number(declared):
    whole = isinstance(declared, Integer)
    if whole or declared.maximum is not None or declared.above is None:
        allowed, outside = [declared.minimum], [declared.minimum - (1 if whole else 1e-9)]
    else:
        allowed, outside = [declared.above + 1e-9], [declared.above, declared.above - 1e-9]
    if declared.maximum is not None:
        allowed.append(declared.maximum)
        outside.append(declared.maximum + 1 if whole else declared.maximum * 1.01)
    outside += [float("nan"), float("inf"), "other", True, [1], *([1.5] if whole else [])]
    return [*allowed, *declared.also], outside if None in declared.also else [*outside, None]


def test_a_declaration_says_what_is_allowed():
    assert Integer(1).allowed == "whole number from 1"
    assert Integer(0, 5, also=("auto", None)).allowed == "whole number from 0 to 5, auto, None"
    assert Float(minimum=0.5, maximum=2.0).allowed == "number from 0.5 to 2"
    assert Flag().allowed == "True, False"
    assert Seed().allowed == "whole number from 0"
    assert Checked(print, "anything").allowed == "anything"
    assert not Seed().tuned
    assert Flag(tune=(True, False)).tuned


def test_a_subclass_adds_changes_and_settles_what_its_base_declares():
    class Longer(pr.Borda):
        """Borda's count with another default.

        Examples
        --------
        none
        """

        prior_strength: float = number(default=2.0, above=1.0, help="More.")
        bonus: float = number(default=0.5, kw_only=False, help="Added.")

    assert list(inspect.signature(Longer).parameters) == ["bonus", "prior_strength"]
    assert Longer(0.25).get_params() == {"bonus": 0.25, "prior_strength": 2.0}
    assert pr.Borda().prior_strength == 5.0
    parts = [Longer.__doc__.index(word) for word in ("Parameters", "bonus : number from 0", "none")]
    assert parts == sorted(parts)
    with pytest.raises(InputError, match=r"prior_strength=1\.0, expected a finite number above 1"):
        Longer(prior_strength=1.0).fit(RANKINGS)
    with pytest.raises(TypeError, match="unexpected keyword argument 'strength'"):
        Longer(strength=1.0)
    with pytest.raises(TypeError, match="too many positional"):
        Longer(1.0, 2.0)

    class Bare(pr.Popularity):
        def __init__(self, *, count="liked", extra=None):
            super().__init__(count=count)
            self.extra = extra

    class Settled(pr.Borda):
        def __init__(self):
            super().__init__(prior_strength=-1.0)

    assert Bare(extra=object()).fit(RANKINGS).recommend(RANKINGS.user_ids.ids[0], 1).height <= 1
    Settled()._validate()


def test_what_was_fitted_sees_no_setting_that_is_changed_later():
    model = pr.MeanRating(user_penalty=1.0).fit(RANKINGS)
    before = model.score(model.fold_in(["toro", "ebi"]))
    model.user_penalty = 100.0
    assert (model.score(model.fold_in(["toro", "ebi"])) == before).all()
    assert model.fitted_params_["user_penalty"] == 1.0
    assert (model.fit(RANKINGS).score(model.fold_in(["toro", "ebi"])) != before).any()
