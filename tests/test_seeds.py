"""The shift of all seeds by PERMRANK_TEST_SEED."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import seeds
from permrank.randomness import generator, stream_key

# Made without the functions that are shifted.
PLAIN = np.random.Generator(np.random.PCG64(5)).random()


def drawn():
    """One number for every way in which a test can come to a generator."""
    return {
        "NumPy": np.random.default_rng(5).random(),
        "NumPy, by name": np.random.default_rng(seed=5).random(),
        "NumPy, several": np.random.default_rng([5]).random(),
        "NumPy's own whole numbers": np.random.default_rng(np.int64(5)).random(),
        "the library": generator(5).random(),
    }


def test_a_seed_stands_for_the_same_numbers_wherever_it_is_used_and_for_others_only_under_a_shift():
    numbers = set(drawn().values())
    assert len(numbers) == 1
    assert (numbers == {PLAIN}) == (seeds.SHIFT == 0)
    assert stream_key(5) == stream_key(5) != stream_key(6)


@pytest.mark.fixed_seed  # is about the mark
def test_a_marked_test_keeps_its_numbers():
    assert set(drawn().values()) == {PLAIN}


@pytest.mark.parametrize("shift", [1, 2])
def test_every_shift_gives_other_numbers_once_and_refuses_what_is_no_seed(shift, monkeypatch):
    monkeypatch.setattr(seeds, "SHIFT", shift)
    monkeypatch.setattr(seeds, "active", True)
    assert seeds.shifted(5) == seeds.shifted(seeds.shifted(5)) == shift * seeds.FAR + 5
    assert seeds.shifted([5, 1]) == [seeds.shifted(5), seeds.shifted(1)]
    for other in (None, -1, True, 1.5, "7", generator(1)):
        assert seeds.shifted(other) is other


LUCK = """
import numpy as np
import pytest
from permrank.randomness import generator

PLAIN = np.random.Generator(np.random.PCG64(5)).random()

def test_of_luck():
    assert np.random.default_rng(5).random() == PLAIN

@pytest.mark.fixed_seed
def test_marked():
    assert np.random.default_rng(5).random() == PLAIN
"""
DOCUMENT = """
```python
>>> import numpy as np
>>> from permrank.randomness import generator
>>> bool(generator(5).random() == np.random.Generator(np.random.PCG64(5)).random())
True

```
"""


def test_the_sweep_names_what_fails_and_where(tmp_path):
    (tmp_path / "test_luck.py").write_text(LUCK, encoding="utf-8")
    (tmp_path / "luck.md").write_text(DOCUMENT, encoding="utf-8")
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, root / "tests/sweep.py", "--seeds", "0", "3", "--processors", "generic"]
    options = ["--tests", tmp_path, "--", "-p", "no:cacheprovider", "-c", root / "pyproject.toml"]
    run = subprocess.run([*command, *options], cwd=root, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    document, test = run.stdout.splitlines()[-2:]
    assert document.endswith("luck.md::luck.md fails at generic/3")
    assert test.endswith("test_luck.py::test_of_luck fails at generic/3")
