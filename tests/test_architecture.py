"""The page on the architecture names files and what is in them."""

import re
from pathlib import Path

import pytest

import permrank

SOURCE = Path(permrank.__file__).parent
PAGE = (Path(__file__).resolve().parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| [^|]*`([\w/]+\.py)` \| `(\w+)` \|$", PAGE, re.MULTILINE)


def test_there_are_twenty_questions():
    assert len({question for question, _, _ in ROWS}) == 20


@pytest.mark.parametrize(("question", "file", "name"), ROWS)
def test_a_question_leads_to_a_name_in_a_file(question, file, name):
    text = (SOURCE / file).read_text(encoding="utf-8")
    assert re.search(rf"^ *(class |def |async def )?{name}\b", text, re.MULTILINE), question


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?!tests/)(?:\w+/)+\w+\.py)`", PAGE))))
def test_every_file_that_is_named_exists(path):
    assert (SOURCE / path).is_file()
