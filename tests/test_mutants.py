"""The table of mutants: every text that one replaces is there, and the tests that must fail exist."""

import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MUTANTS = runpy.run_path(str(HERE.parent / "benchmarks" / "mutants.py"))["MUTANTS"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_applied_and_names_tests(mutant):
    compile(mutant.applied(), mutant.file, "exec")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (HERE / file).read_text(encoding="utf-8")


def test_names_are_unique_and_a_text_that_is_gone_is_an_error():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for old in ("no such text", "\n"):
        with pytest.raises(LookupError, match="times in"):
            MUTANTS[0]._replace(old=old).applied()
