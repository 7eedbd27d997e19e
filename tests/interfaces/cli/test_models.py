"""A model in a file of its own, outside the package, written as docs/adding-a-model.md teaches, on the command line."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import permrank as pr
from permrank.errors import InputError, UnknownIdError
from permrank.families import MODELS
from permrank.interfaces.cli.comparing import models_of
from permrank.interfaces.cli.models import GUIDE as USES
from permrank.interfaces.cli.models import class_named, make_model, name_and_settings
from shell import run

GUIDE = Path(__file__).parents[3] / "docs" / "adding-a-model.md"
LISTS = {"ann": ["toro", "ebi", "uni"], "bob": ["ebi", "toro"], "cat": ["toro", "ika"], "dan": ["ika", "ebi", "toro"]}
LISTS |= {f"u{n}": ["toro", "ebi", "ika", "uni"] for n in range(8)}


def guide_source():
    """The imports and the first class of the guide."""
    examples = doctest.DocTestParser().get_examples(GUIDE.read_text(encoding="utf-8"))
    (model,) = [one.source for one in examples if one.source.startswith("class FirstPlaces")]
    return "".join(one.source for one in examples[:5]) + "\n\n" + model


def with_constructor(parameter):
    """The same with a constructor of its own, and no declaration."""
    declared = re.search(r"^ +smoothing: float = .*$", guide_source(), re.MULTILINE)[0]
    return guide_source().replace(declared, f"    def __init__(self, {parameter}):\n        self.smoothing = smoothing")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the model and data, which is the current one."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "mymodels.py").write_text(guide_source(), encoding="utf-8")
    pr.Rankings.from_lists(LISTS).write(work / "data.csv")
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield work
    sys.modules.pop("mymodels", None)


def command(folder, *arguments, options=()):
    """Run the command in a process of its own; a script's folder, not the current one, is on its path."""
    script = folder.parent / "permrank"
    script.write_text("from permrank.interfaces.cli.app import main\nmain()\n", encoding="utf-8")
    line = [sys.executable, *options, str(script), *arguments]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, check=False)


def test_a_model_of_ones_own_is_fitted_saved_loaded_and_compared_on_the_command_line(folder):
    own = ["-m", "mymodels:FirstPlaces"]
    done = command(folder, "fit", "data.csv", *own, "-s", "smoothing=2", "-o", "m.permrank", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["class"] == "FirstPlaces"
    done = command(folder, "recommend", "m.permrank", "bob", *own, "--json")
    assert done.returncode == 0, done.stderr
    assert [row["item"] for row in json.loads(done.stdout)] == ["ika", "uni"]
    done = command(folder, "compare", "data.csv", *own, "-m", "mymodels:FirstPlaces:smoothing=3", "--models", "Random",
                   "--protocol", "given", "--n", "1", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {row["model"] for row in json.loads(done.stdout)["table"]} == {
        "FirstPlaces",
        "FirstPlaces(smoothing=3)",
        "Random",
    }


def test_a_file_does_not_say_where_its_class_is(folder):
    run("fit", "data.csv", "-m", "mymodels:FirstPlaces", "-o", "m.permrank")
    done = command(folder, "recommend", "m.permrank", "bob")
    assert done.returncode == 1
    assert "class 'FirstPlaces' is not known" in done.stderr
    assert "-m module:Class" in done.stderr
    safe = command(folder, "recommend", "m.permrank", "bob", "-m", "mymodels:FirstPlaces", options=["-P"])
    assert safe.returncode == 1
    assert "there is no module mymodels" in safe.stderr


def test_every_command_takes_it(folder):
    own = ["-m", "mymodels:FirstPlaces"]
    run("fit", "data.csv", *own, "-o", "m.permrank")
    assert "toro" in run("rank", "m.permrank", *own, "--user", "ann").output
    assert "FirstPlaces" in run("info", "m.permrank", *own).output
    run("evaluate", "data.csv", *own, "--protocol", "given", "--n", 1)


def test_two_classes_of_one_name_cannot_be_asked_for_at_once(folder):
    Path("twin.py").write_text(guide_source(), encoding="utf-8")
    done = run("compare", "data.csv", "-m", "mymodels:FirstPlaces", "-m", "twin:FirstPlaces", code=1)
    assert "the name 'FirstPlaces' is taken by the registered mymodels.FirstPlaces; rename twin.F" in done.output


def test_a_model_that_declares_its_parameters_is_tuned_checked_and_described(folder):
    done = run("tune", "data.csv", "-m", "mymodels:FirstPlaces", "--trials", 2, "--protocol", "given", "--n", 1)
    assert "permrank fit data.csv -m mymodels:FirstPlaces" in done.output
    done = run("fit", "data.csv", "-m", "mymodels:FirstPlaces", "-s", "smoothing=0", code=1)
    assert "smoothing=0, expected a finite number above 0" in done.output
    (row,) = json.loads(run("info", "mymodels:FirstPlaces", "--json").output)
    assert row == {
        "parameter": "smoothing",
        "default": "1.0",
        "allowed": "number above 0",
        "help": "Imaginary first places.",
    }


def test_a_model_that_declares_nothing_works_and_has_nothing_to_choose(folder):
    Path("bare.py").write_text(with_constructor("smoothing=1.0"), encoding="utf-8")
    run("fit", "data.csv", "-m", "bare:FirstPlaces", "-s", "smoothing=0.5")
    (row,) = json.loads(run("info", "bare:FirstPlaces", "--json").output)
    assert row == {"parameter": "smoothing", "default": "1.0", "allowed": "", "help": ""}
    done = run("tune", "data.csv", "-m", "bare:FirstPlaces", "--trials", 2, code=1)
    assert "has no parameters to choose" in done.output


def test_registered_models_are_among_all(folder):
    kind = class_named("mymodels:FirstPlaces")
    assert "FirstPlaces" in models_of("all", [])
    assert class_named("first-places") is kind
    rows = json.loads(run("info", "--models", "--json").output)
    assert [row["reference"] for row in rows if row["model"] == "FirstPlaces"] == ["plurality voting"]


def test_models_are_listed_by_kind_with_when_to_use_each(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    class_named("mymodels:FirstPlaces")
    rows = {row["model"]: row for row in json.loads(run("info", "--models", "--json").output)}
    assert set(rows) == {*MODELS, "FirstPlaces"}
    assert all(row["use_when"] and row["personal"] for row in rows.values())
    assert rows["FirstPlaces"]["kind"] == "others"
    assert rows["Recommender"]["personal"] == rows["FactoredPlackettLuce"]["personal"] == "yes"
    assert rows["PlackettLuce"]["personal"] == rows["Popularity"]["personal"] == "no"
    assert {name for uses in USES.values() for name in uses} <= set(MODELS)
    text = run("info", "--models").output
    kinds = ("find and order", "order, personal", "one order for all", "baselines", "others")
    order = [text.index(kind) for kind in kinds]
    assert order == sorted(order)
    assert text.index("use when") > 0


def test_names_and_settings_are_told_apart():
    assert name_and_settings("PlackettLuce") == ("PlackettLuce", [])
    assert name_and_settings("plackett-luce:prior=gamma,ties=efron") == ("plackett-luce", ["prior=gamma", "ties=efron"])
    assert name_and_settings("PlackettLuce:prior") == ("PlackettLuce", ["prior"])
    assert name_and_settings("my.models:Mine") == ("my.models:Mine", [])
    assert name_and_settings("my.models:Mine:a=1,b=x") == ("my.models:Mine", ["a=1", "b=x"])


@pytest.mark.parametrize(
    ("source", "name", "error", "message"),
    [
        ("", "nothing_here:Mine", InputError, "there is no module nothing_here, neither in the current folder"),
        ("", "nothing.here:Mine", InputError, "there is no module nothing.here"),
        ("import nothing_here", "wrong:Mine", InputError, "wrong cannot be imported: No module named 'nothing_here'"),
        ("1 / 0", "wrong:Mine", InputError, "wrong cannot be imported: ZeroDivisionError: division by zero"),
        ("def f(:", "wrong:Mine", InputError, "wrong cannot be imported: SyntaxError"),
        ("", "..wrong:Mine", InputError, "cannot be imported"),
        ("from mymodels import *", "wrong:FirstPlace", UnknownIdError, "the nearest known one is 'FirstPlaces'"),
        ("Mine = 3", "wrong:Mine", InputError, "expected a class that inherits permrank.Ranker, got 3"),
        ("", "PlackettLuce:prior", UnknownIdError, "unknown model 'PlackettLuce:prior'"),
        ("", "wrong:", UnknownIdError, "unknown model 'wrong:'"),
    ],
)
def test_what_cannot_be_had_says_why(folder, source, name, error, message):
    Path("wrong.py").write_text(source, encoding="utf-8")
    try:
        with pytest.raises(error, match=message):
            make_model(name, [])
    finally:
        sys.modules.pop("wrong", None)


def test_a_parameter_without_a_default_is_named(folder):
    Path("mymodels.py").write_text(with_constructor("smoothing"), encoding="utf-8")
    with pytest.raises(InputError, match="FirstPlaces cannot be made without smoothing"):
        make_model("mymodels:FirstPlaces", [])


def test_a_module_may_have_the_name_of_a_model(folder):
    (folder / "borda.py").write_text(guide_source(), encoding="utf-8")
    assert class_named("borda:FirstPlaces").__module__ == "borda"
    assert name_and_settings("borda:FirstPlaces:smoothing=2") == ("borda:FirstPlaces", ["smoothing=2"])
    assert name_and_settings("borda:prior_strength=2") == ("borda", ["prior_strength=2"])
