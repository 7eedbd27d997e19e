"""Run tests once for every seed and processor name, and say what failed where: `make test-seeds`.

A name of LLVM's such as `haswell` makes Numba compile for that processor, which the one at hand must be able to stand
in for; `native` is the one at hand, `prescott` that with OpenBLAS for an old one, and `baseline` the oldest of its
kind to Numba, NumPy, OpenBLAS and glibc alike. Every name starts from an empty Numba cache.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LEARNS = (
    "docs",
    "tests/families",
    "tests/core",
    "tests/posterior",
    "tests/inference",
    "tests/learning",
    "tests/evaluation",
)


def processor_variables(name: str) -> dict[str, str]:
    """The environment that stands for a processor."""
    if name == "native":
        return {}
    if name == "prescott":
        return {"OPENBLAS_CORETYPE": "Prescott"}
    # Without the second, Numba adds the features of the processor at hand to those of the name.
    variables = {"NUMBA_CPU_NAME": "generic" if name == "baseline" else name, "NUMBA_CPU_FEATURES": ""}
    if name == "baseline":
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(np.show_config("dicts")["SIMD Extensions"].get("found", []))
        variables["OPENBLAS_CORETYPE"] = "Prescott"
        variables["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4"
    return variables


def failures(processor: str, seed: int, cache: Path, log: Path, options: list[str]) -> list[str]:
    """Run pytest once, show what it says if anything failed, and return the names of what did."""
    variables = {"PERMRANK_TEST_SEED": str(seed), "NUMBA_CACHE_DIR": str(cache), **processor_variables(processor)}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-rfE", *options]
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(command, env={**os.environ, **variables}, stdout=output, stderr=output).returncode
    told = log.read_text(encoding="utf-8")
    if not code:
        return []
    print(told)
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", told, flags=re.MULTILINE) or ["pytest itself"]


def main() -> int:
    """Sweep, and return 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 11)), help="0 is the one of `make test`")
    parser.add_argument("--processors", nargs="+", default=["native"], help="native baseline generic haswell ...")
    parser.add_argument("--logs", type=Path, help="keep what pytest printed of every run here")
    parser.add_argument("--tests", nargs="+", default=LEARNS, help="files, folders or tests; default: what learns")
    parser.add_argument("pytest", nargs="*", help="after --, options for pytest")
    options = parser.parse_args()
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        logs = options.logs or folder
        logs.mkdir(parents=True, exist_ok=True)
        for processor in options.processors:
            for seed in options.seeds:
                log = logs / f"{processor}-{seed}.log"
                failed = failures(processor, seed, folder / processor, log, [*options.pytest, *options.tests])
                print(f"{processor}, seed {seed}: {len(failed) or 'none'} failed", flush=True)
                for test in failed:
                    found.setdefault(test, []).append(f"{processor}/{seed}")
    for test, where in sorted(found.items()):
        print(f"{test} fails at {' '.join(where)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
