"""A pytest plugin: with PERMRANK_TEST_SEED=k every seed in tests, documents and library stands for other numbers.

The same seed still gives the same numbers within a run; between two k all numbers differ. What fails for some k was
luck. k = 0, the default, changes nothing. A test of particular numbers is marked `fixed_seed` and says why; so is a
document that shows them, by its name in `SHOWN`.
"""

import os

import hypothesis
import hypothesis.core
import numpy as np
import pytest

from permrank import randomness

SHIFT = int(os.environ.get("PERMRANK_TEST_SEED", "0"))
# Documents that print what was learnt from one particular draw of simulated data.
SHOWN = frozenset({"protocols.md", "have-ratings.md", "have-ballots.md", "compare-models.md"})
# Above every seed that a test uses, so that no seed is shifted twice on its way from a model to NumPy.
FAR = 1 << 96

default_rng, whole = np.random.default_rng, randomness._whole
active = SHIFT > 0


def shifted(seed):
    """The seed that stands for this one; anything but whole numbers from 0 up is passed on for others to judge."""
    if isinstance(seed, list | tuple):
        return [shifted(part) for part in seed]
    if not active or isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < FAR:
        return seed
    return SHIFT * FAR + int(seed)


def pytest_configure(config):
    # The same examples at every run: a test that fails fails again. Other ones for every k.
    hypothesis.settings.register_profile("permrank", derandomize=SHIFT == 0, database=None)
    hypothesis.settings.load_profile("permrank")
    if SHIFT:
        # Random lists over few items may look like ballots under other numbers; tests of that catch the warning.
        config.addinivalue_line("filterwarnings", "ignore::permrank.errors.ChoiceSetWarning")
        hypothesis.core.global_force_seed = SHIFT
        np.random.default_rng = lambda seed=None: default_rng(shifted(seed))
        randomness._whole = lambda value, name: shifted(whole(value, name)) if name == "seed" else whole(value, name)


def pytest_report_header():
    return f"PERMRANK_TEST_SEED={SHIFT}" if SHIFT else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    global active
    active = SHIFT > 0 and item.get_closest_marker("fixed_seed") is None and item.path.name not in SHOWN
    try:
        return (yield)
    finally:
        active = SHIFT > 0
