"""The page of a comparison as a browser shows it."""

from pathlib import Path

import pytest

import permrank as pr
from browser import look_at

WIDTHS = [400, 1400]
DOCS = Path(__file__).parents[3] / "docs" / "_build" / "html"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rankings = pr.datasets.load("simulated", n_users=80, n_items=20, list_length=(8, 12), ties=5, choice=0.7)
    models = {
        f"PlackettLuce(prior='gaussian', {'a_very_long_name' * 5})": pr.PlackettLuce(prior="gaussian"),
        "LatentPlackettLuce": pr.LatentPlackettLuce(n_communities=2, n_starts=1, max_iter=10),
        "Random": pr.Random(),
        "broken": pr.PlackettLuce(tol=-1.0),
    }  # fmt: skip
    found = pr.compare(models, rankings, n_pairs=100)
    finding = pr.compare(models, rankings, protocol=pr.Catalogue())
    found.command = "permrank compare " + "x" * 300
    path = tmp_path_factory.mktemp("page") / "out.html"
    found.report(path, title="simulated people", finding=finding)
    return path


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_runs_over_the_edge_and_the_console_is_silent(page, dark):
    found, console = look_at([page], WIDTHS, dark=dark)
    assert set(found) == {(page.name, width) for width in WIDTHS}
    for (_, width), one in found.items():
        assert one["dark"] == dark
        assert one["beyond"] == []
        assert one["page"] <= width
    assert console == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_built_documentation_fits_has_formulas_and_a_silent_console(dark):
    names = ("index", "have-ratings", "have-ballots", "compare-models", "metrics", "log-linear", "benchmarks")
    pages = [DOCS / f"{name}.html" for name in names]
    if not all(page.exists() for page in pages):
        pytest.skip("the documentation is not built, or is an old one: make docs")
    found, console = look_at(pages, WIDTHS, dark=dark)
    assert len(found) == len(names) * len(WIDTHS)
    for (name, width), one in found.items():
        assert one["beyond"] == [], (name, width)
        assert one["page"] <= width, (name, width)
    assert found["metrics.html", 400]["maths"] > 20
    assert console == []


def test_the_probe_sees_what_runs_over_the_edge_and_what_the_console_says(tmp_path):
    path = tmp_path / "wide.html"
    loud = "<script>console.error('loud')</script>"
    path.write_text(f"<!doctype html><body><p style='width: 700px'>wide</p>{loud}</body>", encoding="utf-8")
    found, console = look_at([path], [400], dark=False)
    one = found["wide.html", 400]
    assert [name.startswith("P.") for name in one["beyond"]] == [True]
    assert one["page"] > 400
    assert any("loud" in line for line in console)
