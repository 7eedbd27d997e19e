"""Mutation testing: each known mistake is put into a copy of the source, and the tests named beside it must fail.

A mutant is an edit that no test noticed once. The named tests first run on the copy without an edit, where they must
pass, and then on each mutant, compiled anew. A text that is not found exactly once is an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"


class Mutant(NamedTuple):
    """An edit of a file of src/permrank, and the tests (under tests/) of which one or more must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self) -> str:
        """The text of the file with the edit."""
        text = (SOURCE / "permrank" / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise LookupError(f"mutant {self.name!r}: found {found} times in {self.file}, expected once: {self.old!r}")
        return text.replace(self.old, self.new)


LATENT = "kernels/latent/test_insertion.py"
GROUPS = "models/test_tie_groups.py"
PAIRS = "evaluation/test_simultaneous.py"

MUTANTS = (
    Mutant(
        "places in a tie: root of m + 1",
        "kernels/latent/insertion.py",
        "math.exp(log_passes / (end - i))",
        "math.exp(log_passes / (end - i + 1))",
        (f"{LATENT}::test_a_candidate_passes_a_tie_with_the_ratios_of_all_its_items",),
    ),
    Mutant(
        "places in a list: time n squared",
        "kernels/latent/insertion.py",
        "        passes *= inverse_p[i]\n",
        "        passes *= inverse_p[i]\n        for _ in range(i):\n            passes += 0.0\n",
        (f"{LATENT}::test_the_kernel_takes_time_that_is_linear_in_items_and_communities",),
    ),
    Mutant(
        "tie groups: variances without the covariance",
        "models/tie_groups.py",
        "variance[:, None] + variance[None, :] - 2.0 * covariance",
        "variance[:, None] + variance[None, :]",
        (f"{GROUPS}::test_a_difference_is_measured_by_its_own_standard_error",),
    ),
    Mutant(
        "tie groups: wrong at 25 % for 20 %",
        "models/tie_groups.py",
        "np.quantile(largest, level, ",
        "np.quantile(largest, 1.25 * level - 0.25, ",
        (f"{GROUPS}::test_what_is_settled_is_wrong_no_more_often_than_stated",),
    ),
    Mutant(
        "tie groups: wrong at 15 % for 20 %",
        "models/tie_groups.py",
        "np.quantile(largest, level, ",
        "np.quantile(largest, 0.75 * level + 0.25, ",
        (f"{GROUPS}::test_what_is_settled_is_wrong_no_more_often_than_stated",),
    ),
    Mutant(
        "compare: the luck of fits left out",
        "evaluation/simultaneous.py",
        "if not sample.random:",
        "if True:",
        (f"{PAIRS}::test_two_equal_models_are_told_apart_in_five_of_a_hundred",),
    ),
    Mutant(
        "compare: p-values of one pair alone",
        "evaluation/simultaneous.py",
        "least = np.minimum(least, _p_value(",
        "least = np.minimum(1.0, _p_value(",
        (f"{PAIRS}::test_of_many_equal_models_none_is_told_apart_in_nineteen_of_twenty",),
    ),
    Mutant(
        "compare: people without their weights",
        "evaluation/significance.py",
        "np.where(counts > 0, weights, 0.0)",
        "np.where(counts > 0, 1.0, 0.0)",
        (f"{PAIRS}::test_weights_are_those_of_the_means_and_of_their_variance",),
    ),
    Mutant(
        "compare: the same seed for every fit",
        "evaluation/compare.py",
        "stream_key(split.seed, digest, fit)",
        "stream_key(split.seed, digest)",
        ("evaluation/test_compare.py::test_every_fit_has_its_own_seed_and_is_the_same_again",),
    ),
)


def passed(source: Path, tests: Iterable[str]) -> bool:
    """Whether tests pass with the source in a folder, compiled into an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(f"tests/{t}" for t in tests)]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):  # neither passed nor failed: not found, or not run
        sys.exit(run.stdout + run.stderr)
    return run.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose names hold this")
    chosen = [mutant for mutant in MUTANTS if parser.parse_args().only in mutant.name]
    texts = [mutant.applied() for mutant in chosen]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if not passed(copy, dict.fromkeys(test for mutant in chosen for test in mutant.tests)):
            sys.exit("the tests fail without any mutant")
        for mutant, text in zip(chosen, texts, strict=True):
            path = copy / "permrank" / mutant.file
            original = path.read_bytes()
            path.write_text(text, encoding="utf-8")
            if passed(copy, mutant.tests):
                survived.append(mutant.name)
            path.write_bytes(original)
            print(f"{'survived' if mutant.name in survived else 'killed':10}{mutant.name}", flush=True)
    print(f"{len(chosen) - len(survived)} of {len(chosen)} killed")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
