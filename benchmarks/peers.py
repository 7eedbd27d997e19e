"""Peers live in an environment of their own, so that permrank never depends on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What is installed under another name than it is imported by.
_PACKAGES = {"lightfm": "rectools-lightfm", "surprise": "scikit-surprise"}


def peer_python(*packages: str) -> str:
    """Python of ``.venv-peers``, with these packages installed."""
    folder = ROOT / ".venv-peers"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        print("setting up .venv-peers", file=sys.stderr)
        venv.create(folder, with_pip=True)
    missing = [_PACKAGES.get(name, name) for name in packages if not _installed(python, name)]
    if missing:
        print(f"installing {', '.join(missing)} into .venv-peers", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", *missing], check=True)
    return str(python)


def _installed(python: Path, name: str) -> bool:
    return subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def run_peer(python: str, script: str, *arguments: object) -> dict[str, float]:
    """Run a script beside this file and read the JSON on its last line."""
    command = [python, str(Path(__file__).with_name(script)), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def peak_megabytes() -> float:
    """Largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent held before this process was started from it
        line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes, on macOS
