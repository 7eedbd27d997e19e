"""kill -9 at random moments of ``permrank fit --checkpoint``: resumed runs must end with the bits of an unbroken one.

Each model learns Sushi once unbroken; then, for each kill, a new run is started and killed at a random moment of its
learning, what it has left is tried (a checkpoint loads whole or is not there), and the same command runs to its end.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load as load_tensors

import permrank as pr
from permrank.models import container

COMMAND = [sys.executable, "-c", "from permrank.interfaces.cli import main; main()", "fit"]
RUNS = {
    "FactoredPlackettLuce": ["-s", "max_iter=120", "-s", "n_draws=40"],
    "LatentPlackettLuce": [
        "-s",
        "n_communities=6",
        "-s",
        "tol=1e-9",
        "-s",
        "prior_strength=5",
        "-s",
        "concentration=2",
    ],
}


def identical(model: pr.Ranker, other: pr.Ranker) -> bool:
    arrays = all(np.array_equal(getattr(model, name), getattr(other, name)) for name in model.learned)
    return arrays and model.history_ == other.history_


def kill_and_resume(command: list[str], state: Path, output: Path, wait: float) -> tuple[int, bool, int]:
    """Sweeps that were kept, whether a half-written file was left, and sweeps after the resumed run."""
    output.unlink(missing_ok=True)
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(wait)
    running.send_signal(signal.SIGKILL)
    running.wait()
    torn = any(state.parent.glob(f".{state.name}.*.tmp"))
    kept = 0
    if state.exists():
        content = state.read_bytes()
        container.read_header(content, state, "checkpoint")  # raises if it is torn
        kept = load_tensors(content)["sweeps.history"].size
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return kept, torn, pr.load(output).n_iter_


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="kills of each model")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    rng, wrong = np.random.default_rng(arguments.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "sushi.parquet"
        pr.datasets.load("sushi").write(data)
        for model, settings in RUNS.items():
            state, output = folder / "state", folder / "m.permrank"
            plain = [*COMMAND, str(data), "-m", model, *settings, "-o", str(output)]
            whole, whole_seconds = None, 0.0
            for _ in range(2):  # the first run compiles
                begin = time.perf_counter()
                subprocess.run(plain, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                whole, whole_seconds = pr.load(output), time.perf_counter() - begin
            learning = min(whole.fit_seconds_, whole_seconds)
            command = [*plain, "--checkpoint", str(state), "--checkpoint-every", "1"]
            print(f"{model}: {whole.n_iter_} sweeps, {learning:.1f} of {whole_seconds:.1f} s", flush=True)
            for kill in range(arguments.kills):
                wait = whole_seconds - learning * rng.random()
                kept, torn, sweeps = kill_and_resume(command, state, output, wait)
                same = identical(pr.load(output), whole)
                wrong += not same
                left = ", a half-written file beside it" if torn else ""
                verdict = "same bits" if same else "OTHER BITS"
                print(f"  kill {kill + 1} after {wait:.2f} s, {kept} sweeps kept{left}; resumed to {sweeps}: {verdict}")
                if state.exists() or any(folder.glob(".*.tmp")):
                    wrong += 1
                    print("  something was left behind")
    sys.exit(f"{wrong} runs went wrong" if wrong else 0)


if __name__ == "__main__":
    main()
