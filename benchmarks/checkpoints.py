"""kill -9 at random moments of ``permrank fit --checkpoint``: resumed runs must end with the bits of an unbroken one.

Each model learns Sushi once unbroken; then, for each kill, a new run is started and killed at a random moment of its
learning, what it has left is tried (a checkpoint loads whole or is not there), and the same command runs to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load as load_tensors

import permrank as pr
from permrank.files import container

COMMAND = [sys.executable, "-c", "from permrank.interfaces.cli.app import main; main()", "fit"]
# Model, its settings, and other options: short fits, so that a kill takes seconds.
RUNS = (
    ("FactoredPlackettLuce", "n_factors=8 max_iter=60", ""),
    (
        "FactoredPlackettLuce",
        "n_factors=8 method=point user_penalty=.01 item_penalty=.01",
        "--validate 0.2 --patience 8",
    ),
    ("LatentPlackettLuce", "n_communities=4 n_starts=2 tol=1e-7 prior_strength=5 concentration=2 max_iter=60", ""),
    ("PairwiseLogLinear", "n_factors=8 max_iter=40 pair_scale=0.05", ""),
)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def identical(model: pr.Ranker, other: pr.Ranker) -> bool:
    arrays = all(np.array_equal(getattr(model, name), getattr(other, name)) for name in model.estimate_.names())
    return arrays and model.history_ == other.history_ and np.array_equal(model.validation_, other.validation_)


def kill(command: list[str], state: Path, output: Path, wait: float) -> tuple[int, bool] | None:
    """Sweeps that a run killed after ``wait`` seconds has kept, and whether it was writing; None if it had ended."""
    output.unlink(missing_ok=True)
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(wait)
        return None
    running.send_signal(signal.SIGKILL)
    running.wait()
    if output.exists():
        return None
    torn = any(state.parent.glob(f".{state.name}.*.tmp"))
    if not state.exists():
        return 0, torn
    content = state.read_bytes()
    container.read_header(content, state, "checkpoint")  # raises if it is torn
    return load_tensors(content)["sweeps.history"].size, torn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="kills of each model")
    parser.add_argument("--models", nargs="+", default=sorted({run[0] for run in RUNS}))
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = parser.parse_args()
    rng, wrong = np.random.default_rng(arguments.seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "sushi.parquet"
        pr.datasets.load("sushi").write(data)
        for model, settings, options in (run for run in RUNS if run[0] in arguments.models):
            state, output = folder / "state", folder / "m.permrank"
            chosen = [part for setting in settings.split() for part in ("-s", setting)]
            plain = [*COMMAND, str(data), "-m", model, *chosen, *options.split(), "-o", str(output)]
            for _ in range(2):  # the first run compiles
                begin = time.perf_counter()
                run(plain)
                seconds = time.perf_counter() - begin
            whole = pr.load(output)
            learning = whole.fit_seconds_
            command = [*plain, "--checkpoint", str(state), "--checkpoint-every", "1"]
            title = f"{model} {settings} {options}".strip()
            print(f"{title}: {whole.n_iter_} sweeps, {whole.fit_seconds_:.1f} of {seconds:.1f} s", flush=True)
            for number in range(arguments.kills):
                found = None
                while found is None:
                    wait = seconds - learning * rng.random()
                    begin = time.perf_counter()
                    found = kill(command, state, output, wait)
                    if found is None:  # the machine has become quicker
                        seconds = min(seconds, time.perf_counter() - begin)
                kept, torn = found
                run(command)
                same = identical(pr.load(output), whole) and not state.exists() and not any(folder.glob(".*.tmp"))
                wrong += not same
                left = ", a half-written file beside it" if torn else ""
                verdict = "same bits" if same else "OTHER BITS"
                print(
                    f"  kill {number + 1} after {wait:.2f} s: {kept} sweeps kept{left}; resumed: {verdict}", flush=True
                )
    sys.exit(f"{wrong} runs went wrong" if wrong else 0)


if __name__ == "__main__":
    main()
