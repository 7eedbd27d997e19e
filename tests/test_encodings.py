"""Text is read and written as UTF-8, whatever the locale of the machine."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def unnamed(source):
    """The lines that read or write a text file without saying in which encoding."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = node.func.attr == "read_text" or (node.func.attr == "write_text" and node.args)
            if text and "encoding" not in {keyword.arg for keyword in node.keywords}:
                yield node.lineno


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "docs"])
def test_every_text_file_has_a_named_encoding(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    assert not [f"{path}:{line}" for path in files for line in unnamed(path.read_text(encoding="utf-8"))]


def test_a_file_in_the_encoding_of_the_locale_is_noticed():
    assert list(unnamed("a.read_text()\nb.write_text(x)\nc.read_text(encoding='utf-8')")) == [1, 2]
