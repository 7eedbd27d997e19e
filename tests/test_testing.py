"""permrank.testing, as somebody outside the package uses it."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import permrank as pr
from permrank.testing import oracles

GUIDE = Path(__file__).parents[1] / "docs" / "adding-a-model.md"
TESTS = """
import pytest
from mymodels import FirstPlaces
from permrank.testing import ModelContract


class TestFirstPlaces(ModelContract):
    other = {"smoothing": 2.0}

    def make(self, **parameters):
        return FirstPlaces(**parameters)


class TestForgetful(TestFirstPlaces):
    def make(self, **parameters):
        return Forgetful(**parameters)


class Forgetful(FirstPlaces):
    def fit(self, rankings, y=None, **options):
        super().fit(rankings, **options)
"""


def outcome_of(folder, chosen):
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "-k", chosen]
    return subprocess.run([*line, "test_mymodels.py"], cwd=folder, capture_output=True, text=True, check=False)


def model_of_the_guide():
    """The first example, up to the end of the model's class."""
    examples = [one.source for one in doctest.DocTestParser().get_examples(GUIDE.read_text(encoding="utf-8"))]
    last = next(n for n, source in enumerate(examples) if source.startswith("class FirstPlaces"))
    return "".join(examples[: last + 1])


def test_the_model_of_the_guide_is_fitted_saved_loaded_compared_and_served(tmp_path):
    pytest.importorskip("fastapi")
    from interfaces_server import serving

    written = {}
    exec(model_of_the_guide(), written)
    kind = pr.register(written["FirstPlaces"])
    rankings = pr.datasets.load("simulated", n_users=100, n_items=20, separation=0.0)
    user, path = rankings.user_ids[0], tmp_path / "m.permrank"
    fitted = kind(smoothing=2.0).fit(rankings)
    fitted.save(path)
    expected = fitted.recommend(user, k=3)
    assert pr.load(path).recommend(user, k=3).equals(expected)
    assert pr.compare([kind(), pr.Random()], rankings).table()["verdict"].to_list() == ["best", "worse"]
    with serving(tmp_path / "a.sqlite", model=str(path)) as client:
        answer = client.post("/v1/model/recommend", json={"person": user, "k": 3})
        assert [one["item"] for one in answer.json()["items"]] == expected["item"].to_list()


def test_the_model_of_the_guide_keeps_the_contract_and_one_that_does_not_is_found(tmp_path):
    (tmp_path / "mymodels.py").write_text(model_of_the_guide(), encoding="utf-8")
    (tmp_path / "test_mymodels.py").write_text(TESTS, encoding="utf-8")
    done = outcome_of(tmp_path, "TestFirstPlaces")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    done = outcome_of(tmp_path, "TestForgetful and test_fit_returns")
    assert done.returncode == 1, done.stdout
    assert "assert None is Forgetful()" in done.stdout  # an assertion of the package shows its values


def test_without_pytest_it_says_what_to_install():
    code = "import sys\nsys.modules['pytest'] = None\nimport permrank.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: permrank.testing needs pytest; install permrank[testing]" in done.stderr


def test_the_library_itself_needs_no_pytest():
    code = "import sys\nsys.modules['pytest'] = None\nimport permrank as pr\n[getattr(pr, name) for name in pr.__all__]"
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_enumeration_agrees_with_the_answers_of_a_model():
    lists = {"u": ["a", "b", "c"], "v": ["b", "c", "d"], "w": ["d", "a"]}
    model = pr.PlackettLuce(prior="gamma").fit(pr.Rankings.from_lists(lists))
    items = ["a", "b", "c", "d"]
    orders = oracles.all_rankings(model, "u", items)
    assert len(orders) == 24
    assert sum(orders.values()) == pytest.approx(1, abs=1e-12)
    assert oracles.before(orders, "a", "d") == pytest.approx(model.prefers("u", "a", "d"), abs=1e-9)
    for item, top in zip(items, model.top_probability("u", items, 2), strict=True):
        assert oracles.among_first(orders, item, 2) == pytest.approx(top, abs=1e-6)
