"""The command line through its runner."""

import json
import re
import tempfile

import polars as pl
import pytest
from typer.main import get_command

import permrank as pr
from permrank.errors import FormatError
from permrank.interfaces.cli import demo, installation
from permrank.interfaces.cli.app import app
from shell import run


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


def test_ballots_that_many_people_cast_are_counted_as_often_as_they_were_cast(tmp_path):
    path, out = tmp_path / "b.toc", tmp_path / "m.permrank"
    rankings = pr.Rankings.from_lists([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]], weights=[12000, 11000, 236])
    rankings.write(path)
    assert repr(rankings) == "Rankings(23236 ballots, 3 distinct, 3 items, 9 entries)"
    fitted = run("fit", path, "-o", out)
    assert "since these are 23,236 ballots (3 distinct) over 3 items" in fitted.stderr
    for told in (fitted.output, run("info", path).output, run("info", out).output):
        words = {" ".join(line.split()) for line in told.replace("│", "").splitlines()}
        assert {"ballots 23,236", "distinct ballots 3"} <= words
        assert not any(line.startswith(("users", "rankings")) for line in words)
    assert "fitted to 23,236 rankings (3 distinct) of 3 items" in run("summary", out).output
    converted = json.loads(run("convert", path, tmp_path / "b.csv", "--json").output)[0]
    for found in (converted, json.loads(run("info", out, "--json").output)):
        assert (found["anonymous"], found["total_weight"], found["rankings"]) == (True, 23236.0, 3)


def test_how_far_apart_the_starts_of_a_point_estimate_end_is_told(tmp_path):
    path, out = tmp_path / "b.csv", tmp_path / "m.permrank"
    pr.datasets.load("simulated", n_users=20, n_items=20).write(path)
    run("fit", path, "-m", "FactoredPlackettLuce", "--set", "method=point", "--set", "n_factors=1", "-o", out)
    reached = pr.load(out).start_objectives_
    told = json.loads(run("info", out, "--json").output)
    assert (told["starts"], told["worst_start"], told["best_start"]) == (4, reached.min(), reached.max())
    assert told["objective"] == reached.max()


def test_help_teaches_every_command():
    words = run("--help").output
    for command in get_command(app).commands:
        assert command in words
        told = run(command, "--help").output
        assert "Usage" in told
        assert "Example" in told or command in ("demo", "doctor")


def test_fit_then_recommend_then_rank(model):
    rows = json.loads(run("recommend", model, "ann", "bob", "-k", 2, "--json").output)
    assert [(row["user"], row["item"]) for row in rows] == [("ann", "ika"), ("bob", "ika")]
    assert {"user", "rank", "item", "score"} == rows[0].keys()
    rows = json.loads(run("recommend", model, "ann", "--interval", "--json").output)
    assert {"rank_low", "rank_high"} <= rows[0].keys()
    ranked = json.loads(run("rank", model, "uni", "ebi", "--user", "ann", "--json").output)
    assert [row["rank"] for row in ranked] == [1, 2]
    everything = json.loads(run("rank", model, "--json").output)
    assert {row["item"] for row in everything} == {"toro", "ebi", "uni", "ika"}
    assert "ika" in run("recommend", model, "ann").output


def test_recommendations_for_everybody_go_to_a_file(model, tmp_path):
    for ending in ("csv", "tsv", "parquet", "jsonl"):
        path = tmp_path / f"found.{ending}"
        run("recommend", model, "--all", "-k", 1, "-o", path)
        found = pr.load(model).recommend(list(pr.load(model).user_ids), k=1)
        read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}.get(ending)
        frame = pl.read_csv(path, separator="\t") if read is None else read(path)
        assert frame.select("user", "rank", "item").equals(found.select("user", "rank", "item"))
    left = json.loads(run("recommend", model, "ann", "--exclude", "ika", "--json").stdout)
    assert left == []
    assert "expected one of .csv" in run("recommend", model, "--all", "-o", tmp_path / "x.xlsx", code=1).output
    assert "--all is everybody" in run("recommend", model, "ann", "--all", code=1).output


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
        (["recommend", "MODEL", "--list", "toro > ebi > toro"], "'toro' comes twice"),
        (["recommend", "MODEL", "--list", "toro = toro"], "'toro' comes twice"),
        (["rank", "MODEL", "--user", "ann", "--list", "toro"], "give one of them"),
        (["info", "simulated", "--unlisted", "never"], "--unlisted never, expected"),
        (["info", "BALLOTS", "--duplicates", "no"], "--duplicates no, expected one of"),
        (
            ["info", "simulated", "--duplicates", "first"],
            "--duplicates is for files; the data set simulated has",
        ),
        (["fit", "simulated", "--user", "who"], "no option 'user'"),
        (["rank", "MODEL", "torro"], "unknown item 'torro'; the nearest known one is 'toro'"),
        (["fit", "BALLOTS", "--model", "Plucket"], "unknown model 'Plucket'"),
        (["fit", "BALLOTS", "-m", "PlackettLuce", "--set", "prior"], "expected key=value"),
        (
            ["fit", "BALLOTS", "-m", "PlackettLuce", "--set", "piror=1"],
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
    values = json.loads(
        run("fit", ballots, "-o", path, "-m", "plackett-luce", "-s", "prior=gaussian", "-s", "prior_scale=2.5", "-s",
            "max_iter=none", "--json").output
    )  # fmt: skip
    assert values["parameter"]["prior"] == "gaussian"
    assert values["parameter"]["prior_scale"] == 2.5
    assert values["parameter"]["max_iter"] is None
    assert values["users"] == 5
    assert values["converged"] is True
    assert isinstance(values["objective"], float)
    assert values["bytes"] == path.stat().st_size
    assert pr.load(path).get_params()["prior_scale"] == 2.5
    assert pr.load(path).get_params()["max_iter"] is None


def test_an_estimate_that_does_not_exist_is_explained(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text('["a", "b", "c"]\n["b", "a", "c"]\n', encoding="utf-8")
    result = run("fit", path, "-m", "PlackettLuce", "-o", tmp_path / "m.permrank", code=1)
    assert "never ranked above another item: 'c'" in result.stderr
    assert not (tmp_path / "m.permrank").exists()


def test_info_lists_the_parameters_of_a_model_in_any_spelling():
    rows = {row["parameter"]: row for row in json.loads(run("info", "factored-plackett-luce", "--json").output)}
    assert rows["n_factors"]["default"] == "16"
    assert rows["n_factors"]["allowed"] == "whole number from 1 to 500, auto"
    assert rows["user_penalty"]["help"].endswith("=point.")
    assert next(iter(rows)) == "n_factors"
    assert "kendall, spearman" in run("info", "Mallows").output
    assert json.loads(run("info", "Copeland", "--json").output) == []
    assert "permrank info MODEL" in " ".join(run("fit", "--help").output.replace("│", "").split())


def test_info_describes_data_models_and_lists(ballots, model):
    described = json.loads(run("info", ballots, "--json").output)
    assert described["n_users"] == 5
    assert described["total_weight"] == 5
    assert described["connected"] is True
    of_model = json.loads(run("info", model, "--json").output)
    assert of_model["class"] == "PlackettLuce"
    assert of_model["parameter"]["prior"] is None
    assert "PlackettLuce" in run("info", model).output
    assert "PlackettLuce" in run("info", "--models").output
    assert {"sushi", "ml-1m", "simulated"} <= {
        row["name"] for row in json.loads(run("info", "--datasets", "--json").output)
    }


def test_whole_numbers_are_shown_whole(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text(
        '{"ranking": ["a", "b"], "weight": 43942}\n{"ranking": ["b", "a"], "weight": 1}\n', encoding="utf-8"
    )
    assert "43,943" in run("info", path).output
    assert "43,943" in str(pr.read(path).describe())


def test_the_list_of_data_sets_can_be_read_on_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("info", "--datasets").output.splitlines()
    assert max(map(len, lines)) <= 80
    for name in pr.datasets.names():
        assert any(f" {name} " in line for line in lines)  # no name is broken over two lines
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("who,what,stars_given,n", ["--user", "who", "--item", "what", "--rating", "stars_given", "--weight", "n"]),
        ("who,what,place,n", ["--user", "who", "--item", "what", "--rank", "place", "--weight", "n"]),
    ],
)
def test_columns_are_named_alike_in_every_command(tmp_path, header, options):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n1,a,1,2\n1,b,2,2\n2,b,1,1\n2,a,2,1\n", encoding="utf-8")
    assert json.loads(run("info", path, *options, "--json").output)["total_weight"] == 3
    run("fit", path, *options, "-o", tmp_path / "m.permrank")
    assert pr.load(tmp_path / "m.permrank").rankings_.weights.tolist() == [2, 1]
    run("convert", path, tmp_path / "y.csv", *options)
    assert pr.read(tmp_path / "y.csv").weights.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("header", "options", "told"),
    [
        (
            "who,what,stars",
            [],
            "pass --user, --item and --rating (or --rank) with the names of the columns, or --winner",
        ),
        ("who,item,stars", ["--user", "whom"], "has no column 'whom' (passed as --user); its columns are 'who'"),
        ("user,voter,item,stars", [], "could be the user: 'user', 'voter'; pass --user with the right one"),
    ],
)
def test_errors_about_columns_name_the_options_of_the_shell(tmp_path, header, options, told):
    path = tmp_path / "x.csv"
    path.write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n", encoding="utf-8")
    assert told in run("info", path, *options, code=1).stderr


def test_the_library_names_its_own_arguments_after_the_shell_has_named_options(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("who,what,stars\n1,1,1\n", encoding="utf-8")
    run("info", path, code=1)
    with pytest.raises(FormatError, match=r"pass user=, item= and rating= \(or rank=\) with"):
        pr.read(path)


def test_choices_can_be_named_from_the_shell(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("better,worse\na,b\nb,a\na,b\n", encoding="utf-8")
    options = ["--winner", "better", "--loser", "worse"]
    assert json.loads(run("info", path, *options, "--json").output)["total_weight"] == 3


def test_items_without_an_estimate_can_be_left_out(tmp_path):
    path, model = tmp_path / "b.jsonl", tmp_path / "m.permrank"
    path.write_text('["a", "b", "c"]\n["b", "a", "c"]\n', encoding="utf-8")
    refused = run("fit", path, "-m", "PlackettLuce", "-o", model, code=1).stderr
    assert "--set prior=gaussian" in refused
    assert "--drop-inestimable" in refused
    result = run("fit", path, "-m", "PlackettLuce", "-o", model, "--drop-inestimable", "--json")
    assert "left out 1 items without an estimate: c" in result.stderr
    assert json.loads(result.stdout)["left_out"] == ["c"]
    assert list(pr.load(model).item_ids) == ["a", "b"]


def test_a_model_that_the_data_chose_gets_a_prior_where_it_has_no_estimate_without(tmp_path):
    path, model = tmp_path / "b.jsonl", tmp_path / "m.permrank"
    # Connected; but as sets that are chosen whole, blocks do not say how their items share.
    pr.Rankings.from_lists([[{"a", "b"}, "c"], ["c", {"a", "b"}]]).write(path)
    options = ["-s", "ties=partition", "-o", model]
    assert "no estimate without a prior: prior=gaussian" in run("fit", path, *options).stderr
    assert pr.load(model).get_params()["prior"] == "gaussian"
    assert "error: " in run("fit", path, "-m", "PlackettLuce", *options, code=1).stderr


def test_a_fit_that_stops_short_warns_in_one_line(ballots, tmp_path):
    result = run("fit", ballots, "-m", "PlackettLuce", "-o", tmp_path / "m", "-s", "method=mm", "-s", "max_iter=2")
    assert result.stderr.startswith("warning: PlackettLuce did not converge in 2 sweeps")
    assert result.stderr.count("\n") == 1


def test_nothing_left_to_recommend_is_said(model):
    result = run("recommend", model, "--list", "toro > ebi > uni > ika")
    assert "nothing is left to recommend to new" in result.stderr
    assert json.loads(run("recommend", model, "--list", "toro>ebi>uni>ika", "--json").stdout) == []


def test_an_id_may_hold_what_separates_a_list(tmp_path):
    path, model = tmp_path / "b.jsonl", tmp_path / "m.permrank"
    path.write_text('["a, b", "x = y", "c"]\n["c", "x = y", "a, b"]\n', encoding="utf-8")
    run("fit", path, "-o", model)
    for given in ("a, b", "a, b > x = y", "x = y"):
        rows = json.loads(run("recommend", model, "--list", given, "--json").stdout)
        assert "c" in [row["item"] for row in rows]


def test_a_full_disk_is_one_line(ballots, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    result = run("fit", ballots, "-m", "PlackettLuce", "-o", tmp_path / "m.permrank", code=1)
    assert result.stderr.startswith("error: ")
    assert "No space left" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_folder_is_looked_at_before_anything_is_learnt(ballots, tmp_path, monkeypatch):
    monkeypatch.setattr(pr.PlackettLuce, "fit", lambda *_: pytest.fail("learnt in vain"))
    assert "does not exist" in run("fit", ballots, "-o", tmp_path / "no" / "m.permrank", code=1).stderr
    assert "is a folder" in run("fit", ballots, "-o", tmp_path, code=1).stderr


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


def test_convert_makes_a_folder_from_several_files(ballots, tmp_path):
    for name in ("a", "b"):
        run("convert", ballots, tmp_path / f"{name}.parquet")
    target = tmp_path / "b.rankings"
    run("convert", tmp_path / "*.parquet", target, "--duplicates", "first")
    assert pr.read(target) == pr.read(ballots)
    assert "there already" in run("convert", ballots, target, code=1).stderr
    run("fit", target, "-o", tmp_path / "m.permrank", "-m", "Borda")


def test_engines_are_looked_at_before_anything_is_read(tmp_path):
    for options, words in (
        (("--engine", "spark"), "--engine spark, expected 'ray'"),
        (("--workers", 2), "--workers 2 is for --engine ray"),
        (("--engine", "local", "--address", "auto"), "--address auto is for --engine ray"),
    ):
        assert words in run("fit", "nothing.csv", "-o", tmp_path / "m", *options, code=1).stderr


def test_integer_ids_can_be_typed(tmp_path):
    data, model = tmp_path / "d.csv", tmp_path / "m.permrank"
    data.write_text("user,item,rating\n1,10,5\n1,20,3\n2,20,4\n2,10,2\n2,30,3\n1,30,4\n", encoding="utf-8")
    run("fit", data, "-o", model, "-s", "prior=gamma")
    assert "unknown user 'x'" in run("recommend", model, "x", code=1).stderr
    assert len(json.loads(run("rank", model, 10, 20, "-u", 1, "--json").output)) == 2


def test_the_demo_shows_two_people_what_is_found_and_a_comparison(tmp_path):
    words = run("demo", "--report", tmp_path / "demo.html").output
    for part in ("1. Data", "2. Model", "3. Two people", "would choose", "4. Finding", "5. Ordering", "s in all"):
        assert part in words
    ours, everybody = (int(re.search(rf"{name} +(\d+)%", words)[1]) for name in ("Recommender", "Popularity"))
    assert ours > everybody
    assert "One person" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert run("demo", "--seed", 5, "--report", tmp_path / "other.html").output != words


def test_demos_of_two_users_of_a_machine_do_not_meet(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "run", lambda seed, path: written.append(path))
    run("demo")
    run("demo")
    assert len({path.parent for path in written} - {tmp_path}) == 2
    assert all(path.parent.stat().st_mode & 0o077 == 0 for path in written)


def test_the_doctor_finds_this_installation_sound():
    rows = {row["check"]: row for row in json.loads(run("doctor", "--json").output)}
    assert rows["self-test"]["ok"] == "yes"
    assert {"numba", "polars", "threads", "data folder", "permrank --help"} <= rows.keys()


def test_the_doctor_reports_a_failed_self_test(monkeypatch):
    monkeypatch.setattr("permrank.interfaces.cli.installation.self_test", lambda: (False, "broken"))
    monkeypatch.setattr("permrank.interfaces.cli.installation.start_up", lambda: (0.1, 0.02))
    assert "broken" in run("doctor", code=1).output


def test_the_version_is_printed():
    assert run("--version").output.strip() == f"permrank {pr.__version__}"


def test_none_is_a_word_where_it_is_the_default_and_nothing_elsewhere():
    from permrank.interfaces.cli.models import make_model

    assert make_model("FactoredPlackettLuce", ["damping=none", "max_iter=none"]).get_params()["damping"] == "none"
    assert make_model("FactoredPlackettLuce", ["max_iter=none"]).get_params()["max_iter"] is None
    assert make_model("PlackettLuce", ["prior=None"]).get_params()["prior"] is None


def test_clicks_are_read_as_sets_without_order(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,item,clicks\nann,a,2\nann,b,1\nbob,a,1\n", encoding="utf-8")
    assert "sets without order" in run("info", path).output
    assert json.loads(run("info", path, "--json").output)["total_count"] == 4
    path.write_text("user,item,mood\nann,a,2\nann,b,1\nbob,a,1\n", encoding="utf-8")
    failed = run("info", path, code=1).output
    assert "pass --kind interactions" in " ".join(failed.split())
    assert "sets without order" in run("info", path, "--kind", "interactions").output
    assert "expected 'interactions'" in run("info", path, "--kind", "clicks", code=1).output
    assert "--kind is for files" in run("info", "simulated", "--kind", "interactions", code=1).output
    refused = run("fit", path, "--kind", "interactions", "-m", "PlackettLuce", "-o", tmp_path / "m", code=1).output
    assert "these data have no order" in " ".join(refused.split())


def test_compiling_ahead_fits_and_asks_every_kind_of_data(monkeypatch):
    asked = []
    monkeypatch.setattr(installation, "_ask", lambda model, rankings: asked.append(rankings.n_items))
    n_kernels, seconds = installation.compile_for("Borda")
    assert asked == [30, 8]
    assert n_kernels >= 0
    assert seconds > 0
    assert "NoSuchModel" in run("warm", "NoSuchModel", code=1).stderr


def test_what_is_asked_of_a_warm_model_is_answered_or_refused():
    rankings = pr.datasets.load("simulated", n_users=20, n_items=8, list_length=4)
    installation._ask(pr.Borda().fit(rankings), rankings)  # Borda explains nothing
