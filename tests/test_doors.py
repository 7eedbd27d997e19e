"""What the three ways into the documentation say in the shell is run, and its output looked at."""

import re
import shlex
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import permrank as pr
from permrank.interfaces.cli.app import app

DOCS = Path(__file__).resolve().parents[1] / "docs"
# What a command has to say, by its first words.
SAYS = {
    "permrank info ratings.csv": "users",
    "permrank fit": "m.permrank",
    "permrank recommend m.permrank ann": "rank",
    "permrank recommend m.permrank --list": "rank",
    "permrank rank": "score",
    "permrank compare": "best",
    "permrank split": "entries",
}


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    rankings = pr.datasets.load("simulated", n_users=40, n_items=30, list_length=(6, 9), ties=5, choice=1.0)
    names = dict(zip(rankings.item_ids, ["toro", "ebi", "uni"], strict=False)) | {"user-0001": "ann"}
    frame = rankings.to_frame().select("user", "item", "rating")
    frame.with_columns(pl.col("user", "item").replace(names)).write_csv("ratings.csv")
    orders = [",".join(some) for n in (2, 4) for some in permutations("1234", n)]
    header = f"# NUMBER ALTERNATIVES: 4\n# NUMBER VOTERS: {2 * len(orders)}\n# NUMBER UNIQUE ORDERS: {len(orders)}\n"
    header += "".join(f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in enumerate("abcd", start=1))
    (tmp_path / "ballots.toi").write_text(header + "".join(f"2: {order}\n" for order in orders), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("page", ["have-ratings", "have-ballots", "compare-models"])
def test_the_commands_of_a_page_run_and_say_what_they_should(workplace, page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```console\n(.*?)```", text, re.S) for line in block.splitlines()]
    assert len(lines) >= 4
    for line in lines:
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.output, result.exception)
        for begin, said in SAYS.items():
            assert not line.startswith(begin) or said in result.output, (line, result.output)
    if page == "have-ratings":
        everybody = pl.read_parquet(workplace / "recommendations.parquet")
        assert everybody["user"].n_unique() == 40
    assert "is best" in (workplace / "out.html").read_text(encoding="utf-8")
