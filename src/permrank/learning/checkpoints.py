"""Checkpoints: the state of learning in a file, so that a run that was killed goes on to the same bits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from permrank.checks import require_int
from permrank.errors import FormatError, InputError
from permrank.files.atomic import remove, remove_temporaries, require_file_or_nothing
from permrank.files.container import read_bytes, read_header, write
from permrank.learning.learner import Hook, Run, State
from permrank.types import Named


@dataclass(frozen=True)
class Checkpoint:
    """A file where `fit` keeps the state of learning every few sweeps; if it is there already, `fit` goes on from it.

    The file is written atomically and holds a checksum, the model's parameters and the fingerprint of the data: a
    damaged one is refused, and so is one of other data, other parameters or another version. Nothing in it is pickled.
    One run at a time may use it.

    Parameters
    ----------
    path : str or Path
    every : int
        Sweeps from one writing to the next.

    Examples
    --------
    >>> import pathlib, tempfile, permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=100, n_items=20)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "learning.checkpoint"
    >>> model = pr.FactoredPlackettLuce(n_factors=2, max_iter=20)
    >>> broken_off = model.fit(rankings, checkpoint=path, callback=lambda progress: progress.iteration == 7)
    >>> broken_off.n_iter_, model.fit(rankings, checkpoint=pr.Checkpoint(path, every=5)).n_iter_
    (7, 20)
    """

    path: str | Path
    every: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, Path)):
            raise InputError(f"path={self.path!r}, expected the name of a file")
        require_int("every", self.every, 1)

    def remove(self) -> None:
        """Remove the file, and what a run that was killed while writing has left beside it."""
        remove(self.path)


class CheckpointStore(Hook):
    """A checkpoint for one model and its data; it keeps the state every few sweeps, and at the end.

    ``identity`` has what the bits depend on: ``class``, ``parameters``, ``fingerprint`` of the data, ``validation``,
    and what learning has ``started_from``.
    """

    def __init__(self, file: Checkpoint | str | Path, identity: dict[str, str]) -> None:
        from permrank import __version__

        checkpoint = file if isinstance(file, Checkpoint) else Checkpoint(file)
        self._every, self._kept = checkpoint.every, 0
        self._path = Path(checkpoint.path).expanduser()
        self._header = {"library": __version__, **identity}
        remove_temporaries(require_file_or_nothing(self._path).path)

    def resume(self, run: Run, kept: State) -> None:
        """Count from the sweep that learning goes on from."""
        self._kept = run.n_sweeps

    def after_sweep(self, run: Run) -> None:
        """Keep the state, if it is time to, instead of the one before."""
        if run.step.state is not None and (run.ended or run.n_sweeps - self._kept >= self._every):
            write(self._path, "checkpoint", run.state(), self._header)
            self._kept = run.n_sweeps

    def read(self) -> State | None:
        """The state that the file holds; None if there is no file."""
        if not self._path.exists():
            return None
        content = read_bytes(self._path)
        header = read_header(content, self._path, "checkpoint")
        self._require_same(header)
        try:
            tensors = load_tensors(content)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{self._path} is not a whole checkpoint: {error}") from error
        # Copies: what is read cannot be written to, and lies in memory as it happens to.
        return {name: value.copy() if value.ndim else value.item() for name, value in tensors.items()}

    def _require_same(self, header: Named) -> None:
        remedy = "remove it to begin anew, or give another file"
        if header.get("class") != self._header["class"]:
            raise InputError(
                f"{self._path} is a checkpoint of {header.get('class')}, not of {self._header['class']}; {remedy}"
            )
        if header.get("library") != self._header["library"]:
            raise InputError(
                f"{self._path} was written by permrank {header.get('library')}, and this is "
                f"{self._header['library']}, which may not come to the same bits; {remedy}"
            )
        if header.get("parameters") != self._header["parameters"]:
            before, now = json.loads(header["parameters"]), json.loads(self._header["parameters"])
            others = [name for name in now if before.get(name) != now[name]]
            changes = ", ".join(f"{name}={before.get(name)!r} (now {now[name]!r})" for name in others)
            raise InputError(f"{self._path} is a checkpoint of other parameters, {changes}; set them so, or {remedy}")
        if header.get("fingerprint") != self._header["fingerprint"]:
            raise InputError(f"{self._path} is a checkpoint of other data; give the same rankings again, or {remedy}")
        if header.get("validation") != self._header["validation"]:
            raise InputError(
                f"{self._path} is a checkpoint with another validation: {header.get('validation')}, and now "
                f"{self._header['validation']}; give the same again, or {remedy}"
            )
        if header.get("started_from") != self._header["started_from"]:
            raise InputError(
                f"{self._path} is a checkpoint of learning that began from {header.get('started_from')}, not from "
                f"{self._header['started_from']}; give the model as it was, or {remedy}"
            )
