"""``permrank summary`` and ``permrank plot``."""

import json

import pytest

import permrank as pr
from published import BASEBALL_SUMMARY, baseball
from shell import run


@pytest.fixture(scope="module")
def teams(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "teams.permrank"
    pr.BradleyTerry().fit(baseball()).save(path)
    return path


def test_summary_prints_the_published_table(teams):
    text = run("summary", teams, "--reference", "Baltimore", "--level", "0.9").output
    for team, (estimate, error, *_) in BASEBALL_SUMMARY.items():
        (line,) = [line for line in text.splitlines() if line.startswith(team)]
        assert estimate in line
        assert error in line
    assert "90% intervals, measured from Baltimore" in text
    assert "on 6 df, AIC" in text


def test_summary_as_json_with_a_test_of_fit(teams):
    read = json.loads(run("summary", teams, "--json", "--fit-test", 4).output)
    assert read["model"].startswith("BradleyTerry() fitted to 273 rankings (42 distinct) of 7 items")
    assert sum(row["estimate"] for row in read["parameters"]) == pytest.approx(0.0, abs=1e-6)
    assert read["fit_test"]["n_simulations"] == 4
    text = run("summary", teams, "--fit-test", 4).output
    assert "residuals of" in text
    assert text.count("BradleyTerry() fitted") == 1


def test_summary_refuses_with_a_reason(teams, tmp_path):
    assert "nearest known one is 'Boston'" in run("summary", teams, "--reference", "Bostn", code=1).output
    assert "level" in run("summary", teams, "--level", "2", code=1).output
    pr.Borda().fit(baseball()).save(tmp_path / "b.permrank")
    assert "Borda has no summary" in run("summary", tmp_path / "b.permrank", code=1).output
    pr.Mallows().fit(pr.Rankings.from_lists([["a", "b", "c"], ["b", "a", "c"]])).save(tmp_path / "m.permrank")
    assert "dispersion 1" in run("summary", tmp_path / "m.permrank").output
    assert "--reference" in run("summary", tmp_path / "m.permrank", "--reference", "a", code=1).output


def test_plot_writes_a_picture_and_says_what_else_there_is(teams, tmp_path):
    pytest.importorskip("matplotlib")
    text = run("plot", teams, "-o", tmp_path / "worths.svg").output
    assert "worths written to" in text
    assert "learning" in text
    picture = (tmp_path / "worths.svg").read_text(encoding="utf-8")
    assert all(team in picture for team in BASEBALL_SUMMARY)
    read = json.loads(run("plot", teams, "--kind", "learning", "-o", tmp_path / "l.png", "--json").output)
    assert read["kind"] == "learning"
    assert (tmp_path / "l.png").read_bytes().startswith(b"\x89PNG")


def test_plot_refuses_with_a_reason(teams, tmp_path):
    pytest.importorskip("matplotlib")
    assert "expected one of .png" in run("plot", teams, "-o", tmp_path / "x.txt", code=1).output
    assert "there are: worths" in run("plot", teams, "--kind", "map", "-o", tmp_path / "x.svg", code=1).output
    assert not (tmp_path / "x.svg").exists()
