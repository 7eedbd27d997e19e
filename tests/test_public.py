"""The public names."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import permrank
from permrank import errors
from permrank.families import MODELS


def test_public_names_are_sorted_complete_and_loadable():
    assert sorted(permrank.__all__) == permrank.__all__
    assert set(permrank.__all__) == set(permrank._HOME) | set(permrank._MODULES)
    for name in permrank.__all__:
        assert getattr(permrank, name) is not None
    assert set(permrank.__all__) <= set(dir(permrank))


def test_type_checkers_see_the_same_names_from_the_same_modules():
    tree = ast.parse(Path(permrank.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname: (node.module, alias.name) for node in block.body for alias in node.names}
    modules = {name: tuple(home.rsplit(".", 1)) for name, home in permrank._MODULES.items()}
    assert seen == {name: (home, name) for name, home in permrank._HOME.items()} | modules


def test_every_public_name_is_in_the_reference():
    reference = (Path(__file__).parent.parent / "docs" / "api.rst").read_text(encoding="utf-8")
    documented = set(re.findall(r"auto(?:class|function):: (\w+)$", reference, re.MULTILINE))
    assert documented == set(permrank._HOME)
    for home in permrank._MODULES.values():
        assert f"automodule:: {home}\n" in reference


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = permrank.nothing


def test_importing_and_help_load_neither_numba_nor_polars():
    code = (
        "import sys, contextlib, io\n"
        "from permrank.interfaces.cli.app import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    app(['--help'])\n"
        "print(sorted({'numba', 'polars', 'numpy', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_class_and_function_has_an_example():
    for name in set(permrank._HOME) - {"Ranker"}:
        assert ">>>" in getattr(permrank, name).__doc__, name


def test_every_model_says_what_it_assumes_what_it_takes_and_where_it_comes_from():
    assert list(MODELS) == sorted(MODELS)
    for name, module in MODELS.items():
        kind = getattr(importlib.import_module(module), name)
        for said in (kind.assumes, kind.takes, kind.reference):
            assert 5 < len(said) < 90, (name, said)
            assert not said.endswith("."), (name, said)


def test_an_unknown_id_names_the_nearest_one():
    error = errors.UnknownIdError("user", "anne", ["ann", "bob"])
    assert str(error) == "unknown user 'anne'; the nearest known one is 'ann'"
    assert "for example" in str(errors.UnknownIdError("user", "zzz", ["ann", "bob"]))
    assert str(errors.UnknownIdError("user", "zzz")) == "unknown user 'zzz'"
    assert isinstance(error, KeyError)
    assert isinstance(error, errors.PermrankError)
