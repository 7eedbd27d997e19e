"""Models from outside the package: registered, given to load, or offered by an installed package."""

import json
import sys
import warnings

import numpy as np
import pytest

import permrank as pr
from permrank.core import registry
from permrank.errors import FormatError, InputError, ModelWarning, UnknownIdError
from permrank.families import MODELS
from permrank.testing.forging import resigned

RANKINGS = pr.Rankings.from_lists({"u": ["a", "b", "c"], "v": ["b", "a"]})
SOURCE = """
import permrank as pr
from permrank.core.settings import number

class Offered(pr.Ranker):
    sign: float = number(default=1.0, above=-9.0)

    def _learn(self, rankings):
        return pr.Estimate()

    def _scores(self, fitted, person, items):
        return self.sign * items.astype(float)
"""


def a_model(name="Mine", module=__name__):
    def scores(self, fitted, person, items):
        return -items.astype(float)

    return type(
        name, (pr.Ranker,), {"_learn": lambda self, data: pr.Estimate(), "_scores": scores, "__module__": module}
    )


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package with an entry point where installed packages are."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    made = []

    def put(module, value, name="Offered", source=SOURCE):
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        info = folder / f"{module}-2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 2.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[permrank.models]\n{name} = {value}\n", encoding="utf-8")
        made.append(module)

    yield put
    for module in made:
        sys.modules.pop(module, None)


def test_a_registered_model_is_saved_loaded_and_cloned(tmp_path):
    kind = pr.register(a_model())
    model = kind().fit(RANKINGS)
    model.save(tmp_path / "m")
    loaded = pr.load(tmp_path / "m")
    assert type(loaded) is kind
    assert type(loaded.clone()) is kind
    np.testing.assert_array_equal(loaded.score("u"), model.score("u"))
    assert "Mine" in registry.names()
    assert kind in registry.every()


def test_an_unknown_class_in_a_file_says_how_to_make_it_known(tmp_path):
    kind = a_model()
    kind().fit(RANKINGS).save(tmp_path / "m")
    with pytest.raises(FormatError, match=r"class 'Mine' is not known.*register\(Class\).*models=\[Class\].*-m module"):
        pr.load(tmp_path / "m")
    assert type(pr.load(tmp_path / "m", models=[pr.Borda, kind])) is kind
    assert "Mine" not in registry.names()


def test_a_name_is_taken_once():
    first = pr.register(a_model())
    assert pr.register(first) is first
    again = pr.register(a_model())  # the same cell of a notebook, run again
    assert registry.find("Mine") is again
    with pytest.raises(InputError, match=r"the name 'Mine' is taken by the registered .*Mine; rename elsewhere\.Mine"):
        pr.register(a_model(module="elsewhere"))
    assert registry.find("Mine") is again
    with pytest.raises(InputError, match="the name 'Borda' is taken by a built-in model"):
        pr.register(a_model("Borda"))
    assert pr.register(pr.Borda) is pr.Borda


def test_a_class_with_a_built_in_name_is_neither_saved_nor_given_to_load(tmp_path):
    with pytest.raises(InputError, match="'Borda' is a built-in one; rename this class"):
        a_model("Borda")().fit(RANKINGS).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    pr.Borda().fit(RANKINGS).save(tmp_path / "m")
    with pytest.raises(InputError, match="is taken by a built-in model"):
        pr.load(tmp_path / "m", models=[a_model("Borda")])
    with pytest.raises(InputError, match="two classes are named 'Mine'"):
        pr.load(tmp_path / "m", models=[a_model(), a_model()])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict, "expected a class that inherits permrank.Ranker, got <class 'dict'>"),
        ("Borda", "expected a class that inherits permrank.Ranker, got 'Borda'"),
        (pr.Borda(), r"expected a class, got the model Borda\(\); give Borda itself"),
        (pr.Ranker, "Ranker is not a whole model: it does not define _learn, _scores"),
    ],
)
def test_what_is_no_model_is_refused(wrong, message, tmp_path):
    with pytest.raises(InputError, match=message):
        pr.register(wrong)
    pr.Borda().fit(RANKINGS).save(tmp_path / "m")
    with pytest.raises(InputError, match=message):
        pr.load(tmp_path / "m", models=[wrong])


def test_a_file_cannot_have_a_module_imported(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "m"
    pr.Borda().fit(RANKINGS).save(path)
    for name in ("trap", "trap:Borda", "trap.Borda", "", "Borda ", "permrank.families.baselines.borda:Borda"):
        resigned(path, {"class": name, "module": "trap"})
        with pytest.raises(FormatError, match="is not known"):
            pr.load(path)
    assert "trap" not in sys.modules


def test_parameters_of_a_file_go_through_the_registered_class(tmp_path):
    pr.register(a_model()).__init__ = lambda self: None
    registry.find("Mine")().fit(RANKINGS).save(tmp_path / "m")
    resigned(tmp_path / "m", {"parameters": json.dumps({"nonsense": 1})})
    with pytest.raises(FormatError, match="nonsense"):
        pr.load(tmp_path / "m")


def test_models_of_installed_packages_are_known_and_imported_when_wanted(install, tmp_path):
    install("offering", "offering:Offered")
    assert "Offered" in registry.names()
    assert registry.find("Borda") is pr.Borda
    assert "offering" not in sys.modules
    kind = registry.find("Offered")
    assert kind.__module__ == "offering"
    assert kind in registry.every()
    kind(sign=-1.0).fit(RANKINGS).save(tmp_path / "m")
    assert pr.load(tmp_path / "m").rank("u", ["b", "a"])["item"].to_list() == ["a", "b"]
    assert pr.register(kind) is registry.find("Offered")
    assert registry.spelling(kind) == "Offered"


def test_a_package_that_cannot_be_imported_is_named_where_it_matters(install, tmp_path):
    install("broken", "broken:Offered", source="import nothing_of_the_kind")
    path = tmp_path / "m"
    pr.Borda().fit(RANKINGS).save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.load(path)
        assert "Offered" in registry.names()
        pr.register(a_model())
        registry.find("Mine")
    message = "model 'Offered' of the package broken 2.0 cannot be imported: ModuleNotFoundError: No module named"
    with pytest.warns(ModelWarning, match=message):
        assert [kind.__name__ for kind in registry.every()] == sorted([*MODELS, "Mine"])
    resigned(path, {"class": "Offered"})
    with pytest.raises(InputError, match=message):
        pr.load(path)


@pytest.mark.parametrize(
    ("value", "name", "message"),
    [
        ("odd:pr", "Offered", "'Offered' of the package odd 2.0: expected a class that inherits permrank.Ranker"),
        ("odd:Nothing", "Offered", "'Offered' of the package odd 2.0 cannot be imported: AttributeError"),
        ("odd:Offered", "offered", "is the class 'Offered'; an entry point has the name of its class"),
        ("odd:Offered", "Borda", "'Borda' of the package odd 2.0 has the name of a built-in one; left out"),
    ],
)
def test_an_entry_point_that_is_wrong_is_left_out_with_a_warning(install, value, name, message):
    install("odd", value, name)
    with pytest.warns(ModelWarning, match=message):
        assert [kind.__name__ for kind in registry.every()] == list(MODELS)


def test_a_name_that_two_packages_offer_is_nobodys(install):
    install("one", "one:Offered")
    install("two", "two:Offered")
    with pytest.raises(InputError, match=r"'Offered' is taken twice: by the package (one|two) 2.0 and by the package"):
        registry.find("Offered")
    with pytest.warns(ModelWarning, match="taken twice"):
        registry.every()


def test_an_unknown_model_names_the_nearest_of_all():
    pr.register(a_model("Favourites"))
    with pytest.raises(UnknownIdError, match="unknown model 'Favorites'; the nearest known one is 'Favourites'"):
        registry.find("Favorites")
    assert registry.spelling(pr.Borda) == "Borda"
    assert registry.spelling(a_model()).endswith("test_registry:Mine")


def test_a_class_that_does_not_learn_is_no_model():
    idle = type("Idle", (pr.Ranker,), {"_scores": lambda self, fitted, person, items: items * 1.0})
    with pytest.raises(InputError, match="Idle is not a whole model: it does not define _learn"):
        pr.register(idle)
