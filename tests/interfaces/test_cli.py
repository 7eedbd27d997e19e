"""The command line through its runner."""

import json

import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.interfaces.cli import app

runner = CliRunner()


def run(*arguments, code=0):
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def ballots(tmp_path):
    path = tmp_path / "ballots.jsonl"
    lists = {"ann": ["toro", "ebi", "uni"], "bob": ["ebi", {"toro", "uni"}], "cat": ["uni", "ika", "toro"]}
    lists |= {"dan": ["ika", "ebi"], "eve": ["ebi", "ika"]}
    pr.Rankings.from_lists(lists).write(path)
    return path


@pytest.fixture
def model(ballots, tmp_path):
    path = tmp_path / "m.permrank"
    run("fit", ballots, "-o", path)
    return path


def test_help_teaches_every_command():
    words = run("--help").output
    for command in ("demo", "fit", "recommend", "rank", "info", "convert", "doctor"):
        assert command in words
        assert "Usage" in run(command, "--help").output
    for command in ("fit", "recommend", "rank", "info", "convert"):
        assert "Example" in run(command, "--help").output


def test_fit_then_recommend_then_rank(model):
    rows = json.loads(run("recommend", model, "ann", "bob", "-k", 2, "--json").output)
    assert [(row["user"], row["item"]) for row in rows] == [("ann", "ika"), ("bob", "ika")]
    assert {"rank", "score", "rank_low", "rank_high"} <= rows[0].keys()
    ranked = json.loads(run("rank", model, "uni", "ebi", "--user", "ann", "--json").output)
    assert [row["rank"] for row in ranked] == [1, 2]
    everything = json.loads(run("rank", model, "--json").output)
    assert {row["item"] for row in everything} == {"toro", "ebi", "uni", "ika"}
    assert "ika" in run("recommend", model, "ann").output


def test_a_new_person_is_given_as_a_list(model):
    rows = json.loads(run("recommend", model, "--list", "toro > ebi = uni", "--json").output)
    assert [row["item"] for row in rows] == ["ika"]
    rows = json.loads(run("recommend", model, "--list", "toro, ebi", "--json").output)
    assert {row["item"] for row in rows} == {"uni", "ika"}
    rows = json.loads(run("rank", model, "uni", "ika", "--list", "toro,ebi", "--json").output)
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recommend", "MODEL", "anne"], "unknown user 'anne'; the nearest known one is 'ann'"),
        (["recommend", "MODEL"], "name at least one user"),
        (["recommend", "MODEL", "--list", "toro >"], "an empty place in the list"),
        (["recommend", "nothing.permrank", "ann"], "cannot be read"),
        (["rank", "MODEL", "torro"], "unknown item 'torro'; the nearest known one is 'toro'"),
        (["fit", "BALLOTS", "--model", "Plucket"], "unknown model 'Plucket'"),
        (["fit", "BALLOTS", "--set", "prior"], "expected key=value"),
        (
            ["fit", "BALLOTS", "--set", "piror=1"],
            "unknown parameter of PlackettLuce 'piror'; the nearest known one is 'prior'",
        ),
        (["fit", "suhsi"], "unknown file or data set 'suhsi'; the nearest known one is 'sushi'"),
        (["fit", "nothing.csv"], "nothing.csv"),
        (["info"], "say one thing to describe"),
        (["convert", "BALLOTS", "out.soc"], "error: "),
        (["convert", "BALLOTS", "out.xyz"], "error: "),
    ],
)
def test_mistakes_get_one_line_and_exit_code_1(arguments, message, model, ballots, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    words = [str({"MODEL": model, "BALLOTS": ballots}.get(word, word)) for word in arguments]
    result = run(*words, code=1)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before  # nothing half written


def test_settings_reach_the_model(ballots, tmp_path):
    path = tmp_path / "g.permrank"
    rows = json.loads(
        run("fit", ballots, "-o", path, "-m", "plackett-luce", "-s", "prior=gaussian", "-s", "prior_scale=2.5", "-s",
            "max_iter=none", "--json").output
    )  # fmt: skip
    values = {row["quantity"]: row["value"] for row in rows}
    assert values["parameter prior"] == "gaussian"
    assert pr.load(path).get_params()["prior_scale"] == 2.5
    assert pr.load(path).get_params()["max_iter"] is None


def test_an_estimate_that_does_not_exist_is_explained(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text('["a", "b", "c"]\n["b", "a", "c"]\n')
    result = run("fit", path, "-o", tmp_path / "m.permrank", code=1)
    assert "never ranked above another item: 'c'" in result.stderr
    assert not (tmp_path / "m.permrank").exists()


def test_info_describes_data_models_and_lists(ballots, model):
    described = {row["quantity"]: row["value"] for row in json.loads(run("info", ballots, "--json").output)}
    assert described["n_users"] == "5"
    of_model = {row["quantity"]: row["value"] for row in json.loads(run("info", model, "--json").output)}
    assert of_model["class"] == "PlackettLuce"
    assert "PlackettLuce" in run("info", "--models").output
    assert {"sushi", "ml-1m", "simulated"} <= {
        row["name"] for row in json.loads(run("info", "--datasets", "--json").output)
    }


def test_convert_loses_nothing(ballots, tmp_path):
    for ending in ("csv", "tsv", "parquet"):
        target = tmp_path / f"b.{ending}"
        run("convert", ballots, target)
        assert pr.read(target) == pr.read(ballots)
    target = tmp_path / "b.toi"
    counts = json.loads(run("convert", ballots, target, "--merge", "--json").output)
    assert counts[0]["rankings"] == 5
    assert pr.read(target) == pr.read(ballots).merged()
    run("convert", ballots, tmp_path / "all.toc", "--merge", "--unlisted", "last")


def test_integer_ids_can_be_typed(tmp_path):
    data, model = tmp_path / "d.csv", tmp_path / "m.permrank"
    data.write_text("user,item,rating\n1,10,5\n1,20,3\n2,20,4\n2,10,2\n2,30,3\n1,30,4\n")
    run("fit", data, "-o", model, "-s", "prior=gamma")
    assert "unknown user 'x'" in run("recommend", model, "x", code=1).stderr
    assert len(json.loads(run("rank", model, 10, 20, "-u", 1, "--json").output)) == 2


def test_the_demo_shows_a_list_a_ranking_and_the_time():
    words = run("demo").output
    for part in ("1. Data", "2. Model", "3. Ranking", "4. Check", "90 % interval", "s in all"):
        assert part in words
    assert run("demo", "--seed", 5).output != words


def test_the_doctor_finds_this_installation_sound():
    rows = {row["check"]: row for row in json.loads(run("doctor", "--json").output)}
    assert rows["self-test"]["ok"] == "yes"
    assert {"numba", "polars", "threads", "data folder", "permrank --help"} <= rows.keys()


def test_the_doctor_reports_a_failed_self_test(monkeypatch):
    monkeypatch.setattr("permrank.interfaces.doctor.self_test", lambda: (False, "broken"))
    monkeypatch.setattr("permrank.interfaces.doctor.help_seconds", lambda: 0.1)
    assert "broken" in run("doctor", code=1).output


def test_the_version_is_printed():
    assert run("--version").output.strip() == f"permrank {pr.__version__}"
