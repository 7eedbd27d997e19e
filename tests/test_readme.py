"""What the README shows is run."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from permrank.interfaces.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8") if (ROOT / "README.md").exists() else ""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the README speaks of."""
    monkeypatch.chdir(tmp_path)
    rows = ["user,item,rating"]
    for user, ratings in {"ann": "534", "bob": "355", "cat": "445", "dan": "452"}.items():
        rows += [f"{user},{item},{rating}" for item, rating in zip(("toro", "ebi", "uni"), ratings, strict=True)]
    (tmp_path / "ratings.csv").write_text("\n".join([*rows, "dan,ika,3", "cat,ika,5"]) + "\n", encoding="utf-8")
    header = "# NUMBER ALTERNATIVES: 3\n# NUMBER VOTERS: 3\n# NUMBER UNIQUE ORDERS: 2\n"
    names = "".join(f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in enumerate("abc", start=1))
    (tmp_path / "ballots.toi").write_text(header + names + "2: 1,{2,3}\n1: 3,1\n", encoding="utf-8")
    return tmp_path


def test_the_python_of_the_readme_prints_what_it_shows():
    (code,) = blocks("python")
    example = doctest.DocTestParser().get_doctest(code, {}, "README.md", "README.md", 0)
    told = []
    assert doctest.DocTestRunner().run(example, out=told.append) == (0, 8), "".join(told)


def test_the_commands_of_the_readme_run(workplace):
    commands = [line for block in blocks("console") for line in block.splitlines() if line.startswith("permrank ")]
    assert len(commands) >= 6
    for line in commands:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.output, result.exception)


def test_the_test_command_of_the_readme_is_what_ci_runs_as_a_stranger():
    assert "make test" in "".join(blocks("console"))
    assert "\nstranger make test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
