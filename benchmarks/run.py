"""Run every benchmark, one after the other: ``make bench``. ``--full`` goes to those that know it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("ingest.py", "metrics.py", "pooled.py", "latent.py", "loglinear.py")
HAVE_FULL = ("pooled.py",)


def main() -> None:
    failed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        script = Path(__file__).with_name(name)
        options = sys.argv[1:] if name in HAVE_FULL else []
        if subprocess.run([sys.executable, script, *options], check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
