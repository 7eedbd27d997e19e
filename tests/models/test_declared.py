"""Declared parameters: one declaration for validation, tuning, help and the names of earlier releases."""

import inspect

import pytest

import permrank as pr
from permrank.errors import InputError
from permrank.models import MODELS
from permrank.models.declared import Categorical, Checked, Declared, Flag, Float, Integer, Number, Seed
from permrank.testing.questions import LISTS

RANKINGS = pr.Rankings.from_lists(LISTS)
EVERY = [
    pytest.param(name, key, declared, id=f"{name}.{key}")
    for name in sorted(MODELS)
    for key, declared in getattr(pr, name).parameters.items()
]
NUMBERS = [case for case in EVERY if isinstance(case.values[2], Number)]


def refused(name, key, value):
    """Whether the model that has this parameter raises an error that names it."""
    with pytest.raises(InputError, match=key):
        getattr(pr, name)().set_params(**{key: value}).fit(RANKINGS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_parameter_is_declared_once_with_help_and_its_default_is_allowed(name):
    kind = getattr(pr, name)
    arguments = inspect.signature(kind).parameters
    assert set(kind.parameters) == set(arguments)
    for key, declared in kind.parameters.items():
        declared.check(key, arguments[key].default)
        assert declared.help.endswith("."), key
        assert declared.allowed, key
        assert f"{key} :" in kind.__doc__ or f"{key}," in kind.__doc__ or f" {key} :" in kind.__doc__, key
    kind()._validate()


@pytest.mark.parametrize(("name", "key", "declared"), EVERY)
def test_a_parameter_matters_only_under_values_that_another_may_have(name, key, declared):
    if declared.when is not None:
        other, value = declared.when
        getattr(pr, name).parameters[other].check(other, value)


@pytest.mark.parametrize(("name", "key", "declared"), NUMBERS)
def test_validation_enforces_the_declared_bounds_of_numbers(name, key, declared):
    whole = isinstance(declared, Integer)
    if whole or declared.maximum is not None or declared.above is None:
        allowed, outside = [declared.minimum], [declared.minimum - (1 if whole else 1e-9)]
    else:
        allowed, outside = [declared.above + 1e-9], [declared.above, declared.above - 1e-9]
    if declared.maximum is not None:
        allowed.append(declared.maximum)
        outside.append(declared.maximum + 1 if whole else declared.maximum * 1.01)
    for value in (*allowed, *declared.also):
        declared.check(key, value)
    for value in (*outside, float("nan"), float("inf"), "other", True, [1], *([1.5] if whole else [])):
        refused(name, key, value)
    if None not in declared.also:
        refused(name, key, None)


@pytest.mark.parametrize(("name", "key", "declared"), [case for case in EVERY if case not in NUMBERS])
def test_validation_enforces_the_declared_words_flags_and_seeds(name, key, declared):
    for value in declared.values if isinstance(declared, Categorical) else ():
        declared.check(key, value)
    if isinstance(declared, Flag):
        outside = ("yes", 1, None, 0.0)
    elif isinstance(declared, Categorical):
        outside = ("other", 1, ["other"], *(() if None in declared.values else (None,)))
    elif isinstance(declared, Seed):
        outside = (-1, None, 1.5, "0", 2**128, True)
    else:
        outside = ("other", 1)
    if key != "features":
        for value in outside:
            refused(name, key, value)


def test_a_declaration_says_what_is_allowed():
    assert Integer(1).allowed == "whole number from 1"
    assert Integer(0, 5, also=("auto", None)).allowed == "whole number from 0 to 5, auto, None"
    assert Float(minimum=0.5, maximum=2.0).allowed == "number from 0.5 to 2"
    assert Flag().allowed == "True, False"
    assert Seed().allowed == "whole number from 0"
    assert Checked(print, "anything").allowed == "anything"
    assert not Seed().tuned
    assert Flag(tune=(True, False)).tuned


def test_a_model_may_declare_nothing_or_what_a_subclass_has_settled():
    class Bare(pr.Popularity):
        parameters = Declared()

        def __init__(self, *, count="liked", extra=None):
            super().__init__(count=count)
            self.extra = extra

    class Settled(pr.Borda):
        def __init__(self):
            super().__init__(prior_strength=-1.0)

    assert Bare(extra=object()).fit(RANKINGS).recommend(RANKINGS.user_ids.ids[0], 1).height <= 1
    Settled()._validate()
