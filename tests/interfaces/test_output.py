"""What is printed: nothing that a terminal would obey, and everything that was computed."""

import errno
import json
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import pytest

import permrank as pr
import shell
from permrank.interfaces.report import report

ITEMS = ["\x1b]0;pwned\x07", "\x9b31m", "[bold]x[/bold]", "a\u202eb", ":cat:", "two\nlines", "\x7f\x08\r", "寿司 é"]
USERS = [f"\x1b[31m{number}\u2066" for number in range(12)]
COMMAND = [sys.executable, "-c", "from permrank.interfaces.cli.app import main; main()"]


def run(*arguments, code=0):
    result = shell.run(*arguments, code=code)
    assert_harmless(result.stdout + result.stderr)
    return result


def assert_harmless(text):
    for character in text.replace("\n", ""):
        code = ord(character)
        assert code >= 32, repr(text)
        assert not 0x7F <= code <= 0x9F, repr(text)
        assert not 0x202A <= code <= 0x202E, repr(text)
        assert not 0x2066 <= code <= 0x2069, repr(text)


@pytest.fixture
def rankings():
    return pr.Rankings.from_lists({user: ITEMS[i % 8 :] + ITEMS[: i % 8] for i, user in enumerate(USERS)})


@pytest.fixture
def ballots(rankings, tmp_path):
    rankings.write(tmp_path / "ballots.jsonl")
    return tmp_path / "ballots.jsonl"


@pytest.fixture
def model(rankings, tmp_path):
    pr.Borda().fit(rankings).save(tmp_path / "m.permrank")
    return tmp_path / "m.permrank"


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_ids_are_shown_and_not_obeyed(model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    table = run("rank", model).stdout
    for shown in (r"\x1b]0;pwned\x07", r"\x9b31m", "[bold]x[/bold]", r"a\u202eb", ":cat:", r"two\nlines", "寿司 é"):
        assert f" {shown} " in table
    assert r"\x1b[31m3\u2066" in run("recommend", model, USERS[3]).stderr


def test_json_keeps_ids_exactly_and_is_harmless_too(model):
    found = json.loads(run("rank", model, "--json").stdout)
    assert {row["item"] for row in found} == set(ITEMS)


def test_errors_neutralise_ids_and_names_of_files(model, tmp_path):
    assert r"\x1b]0;pwned\x07" in run("rank", model, "\x1b]0;pwne\x07", code=1).stderr
    assert r"\x1b[2J" in run("info", tmp_path / "\x1b[2J.csv", code=1).stderr
    assert r"\x1b[2J" in run("convert", model.with_name("ballots.jsonl"), "\x1b[2J/x.csv", code=1).stderr


def test_names_in_titles_are_not_read_as_markup(ballots, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for name in ("[red]x.permrank", "[nothing].permrank", ":cat:.permrank"):
        monkeypatch.chdir(tmp_path)
        assert f"Borda written to {name}" in run("fit", ballots, "-m", "Borda", "-o", name).stdout.replace("\n", "")


def test_every_command_is_harmless(ballots, model, tmp_path):
    run("info", ballots)
    run("convert", ballots, tmp_path / "\x1b[31m.csv")
    sign = "\x9b" if sys.getfilesystemencoding() == "utf-8" else "\x1b"
    run("split", ballots, "--protocol", "leave-out", "--n", 2, "-o", tmp_path / f"s{sign}")
    run("evaluate", tmp_path / f"s{sign}", "-m", "Borda")
    run("compare", tmp_path / f"s{sign}", "-m", "Borda", "-m", "Random", "--report", tmp_path / f"{sign}out.html")
    assert_harmless((tmp_path / f"{sign}out.html").read_text(encoding="utf-8"))


def test_what_was_left_out_is_neutralised(tmp_path):
    path = tmp_path / "b.jsonl"
    path.write_text('["a", "b", "\\u001bc"]\n["b", "a", "\\u001bc"]\n', encoding="utf-8")
    told = run("fit", path, "-m", "PlackettLuce", "-o", tmp_path / "m", "--drop-inestimable").stderr
    assert r"left out 1 items without an estimate: \x1bc" in told


def test_a_comparison_is_printed_though_its_report_cannot_be_written(ballots, tmp_path, monkeypatch):
    arguments = ["compare", ballots, "--models", "Borda,Random", "--protocol", "leave-out", "--n", 2]
    arguments += ["--report", tmp_path / "out.html"]
    page = SimpleNamespace(render=lambda **_: SimpleNamespace(encode=no_space))
    monkeypatch.setattr(report, "template", lambda: page)
    result = run(*arguments, code=1)
    assert "Borda" in result.stdout
    assert "best" in result.stdout
    assert "out.html: No space left on device" in result.stderr
    result = run(*arguments, "--json", code=1)
    assert {row["model"] for row in json.loads(result.stdout)["table"]} == {"Borda", "Random"}
    assert not (tmp_path / "out.html").exists()


def test_a_report_is_written_though_nobody_reads_the_table(ballots, tmp_path):
    arguments = ["compare", ballots, "--models", "Borda,Random", "--protocol", "leave-out", "--n", "2"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        done = subprocess.run(
            [*COMMAND, *arguments, "--report", tmp_path / "out.html"], stdout=closed, stderr=subprocess.PIPE, text=True
        )
    assert "Traceback" not in done.stderr
    assert "is best" in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_pipe_that_is_closed_is_no_accident(options):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as closed:
        done = subprocess.run([*COMMAND, "info", "--models", *options], stdout=closed, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b""


def test_a_model_that_cannot_be_written_is_kept_elsewhere(ballots, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    saved = pr.Borda.save

    def full(model, path):
        no_space() if tmp_path == path.parent else saved(model, path)

    monkeypatch.setattr(pr.Borda, "save", full)
    lost = run("fit", ballots, "-m", "Borda", "-o", tmp_path / "m.permrank", code=1).stderr
    assert "and the model is lost" in lost
    (tmp_path / "elsewhere").mkdir()
    kept = run("fit", ballots, "-m", "Borda", "-o", tmp_path / "m.permrank", code=1).stderr
    (found,) = (tmp_path / "elsewhere").glob("*/*")
    assert f"but the model was written to {found}" in kept
    assert type(pr.load(found)) is pr.Borda


def test_nothing_is_learnt_for_a_place_where_nothing_can_be_written(ballots, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setattr(pr.Borda, "fit", no_space)
    for arguments, words in {
        ("fit", ballots, "-m", "Borda", "-o", tmp_path): "is a folder",
        ("fit", ballots, "-m", "Borda", "-o", tmp_path / "no" / "m"): "does not exist",
        ("fit", ballots, "-m", "Borda", "-o", tmp_path / "m", "--checkpoint", tmp_path / "fifo"): "not a regular file",
        ("compare", ballots, "--models", "Borda", "--report", tmp_path): "is a folder",
        ("tune", ballots, "-m", "Borda", "--study", tmp_path / "fifo"): "not a regular file",
        ("convert", tmp_path / "nothing.csv", tmp_path): "is a folder",
        ("demo", "--report", tmp_path): "is a folder",
    }.items():
        assert words in run(*arguments, code=1).stderr


def test_a_model_goes_to_standard_output_alone(ballots, tmp_path):
    # Not /dev/stdout: tests may run as root, and code that is wrong would replace it.
    done = subprocess.run([*COMMAND, "fit", ballots, "-m", "Borda", "-o", "/dev/fd/1"], capture_output=True)
    assert b"Borda written to /dev/fd/1" in done.stderr
    (tmp_path / "m.permrank").write_bytes(done.stdout)
    assert type(pr.load(tmp_path / "m.permrank")) is pr.Borda


def test_splits_that_went_well_are_told_before_the_one_that_failed(ballots, monkeypatch):
    fitted, seen = pr.Borda.fit, []

    def fails_on_the_second(model, rankings, **options):
        seen.append(rankings)
        if len(seen) == 3:  # a tiny first fit, the first split, the second split
            raise pr.errors.InputError("not this one")
        return fitted(model, rankings, **options)

    monkeypatch.setattr(pr.Borda, "fit", fails_on_the_second)
    arguments = ["evaluate", ballots, "-m", "Borda", "--protocol", "leave-out", "--n", 2, "--seeds", 2]
    result = run(*arguments, code=1)
    assert "Borda, seed 0" in result.stdout
    assert "failed on the split of seed 1: InputError: not this one" in result.stderr
    seen.clear()
    assert json.loads(run(*arguments, "--json", code=1).stdout)["metrics"]


def test_a_warning_is_one_harmless_line():
    program = (
        "import warnings; from permrank.interfaces.cli import app; "
        "app.app = lambda: warnings.warn('odd \\x1b[31m', RuntimeWarning); app.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "warning: odd \\x1b[31m\n"


def test_a_locale_without_a_sign_gets_another_for_it_and_programs_get_all(ballots, model):
    ballots = [*COMMAND, "compare", ballots, "--models", "Borda,Random", "--protocol", "leave-out", "--n", "2"]
    recommended = [*COMMAND, "rank", model, ITEMS[-1].encode(), "--json"]
    seen = []
    for encoding in ("ascii", "utf-8"):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}
        table = subprocess.run(ballots, capture_output=True, env=environment, check=True).stdout.decode(encoding)
        assert ("?" in table, "\u2013" in table) == (encoding == "ascii", encoding == "utf-8")
        told = subprocess.run(recommended, capture_output=True, env=environment, check=True).stdout.decode(encoding)
        seen.append(json.loads(told))
    assert seen[0] == seen[1]
    assert ITEMS[-1] in str(seen[0])
