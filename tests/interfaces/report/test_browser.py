"""The page of a comparison as a browser shows it."""

import pytest

import permrank as pr
from browser import CHROMIUM, look_at

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium, or Chrome on the path"),
]


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
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_runs_over_the_edge_and_the_console_is_silent(page, width, dark):
    found, console = look_at(page, width, dark=dark)
    assert found["width"] == width
    assert found["dark"] == dark
    assert found["beyond"] == []
    assert found["page"] <= width
    assert console == []


def test_the_probe_sees_what_runs_over_the_edge_and_what_the_console_says(tmp_path):
    path = tmp_path / "wide.html"
    path.write_text(
        "<!doctype html><body><p style='width: 700px'>wide</p><script>console.error('loud')</script></body>"
    )
    found, console = look_at(path, 400, dark=False)
    assert [name.startswith("P.") for name in found["beyond"]] == [True]
    assert found["page"] > 400
    assert any("loud" in line for line in console)
