"""A split: what is learnt from and what is asked about, as a value that can be saved and read again."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from permrank.errors import FormatError, InputError
from permrank.files.atomic import atomic_folder, atomic_write
from permrank.files.formats import read
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import keep_entries, restrict
from permrank.types import BoolArray, Named

Question: TypeAlias = Literal["order", "find"]
"""Ordering what people see, or finding what they would choose out of everything."""
_QUESTIONS = ("order", "find")
Candidates: TypeAlias = Literal["rated", "all"]
"""What is ranked: a person's own hidden items, or everything that is not in the training list."""
Cold: TypeAlias = Literal["items", "users"]
"""What may be new in a test part."""
FORMAT = 1
_PARTS = ("train", "test", "given")


@dataclass(frozen=True)
class Split:
    """Rankings to learn from and rankings to be asked about.

    Attributes
    ----------
    train : Rankings
        What a model learns from. Items without an entry here are unknown to it.
    test : Rankings
        What it is asked about: the hidden entries, best first.
    given : Rankings or None
        What people of the test part say about themselves if they are not in the training part; a model folds them in.
    protocol : str
        How it was made.
    seed : int
    question : {"order", "find"}
        What `evaluate` asks by default: to order what is hidden, or to find it among all items that are not
        in a person's training list (`Catalogue`).
    cold : {"items", "users"}, optional
        What is new in the test part, and measured apart (`ColdItems`, `ColdUsers`).

    Examples
    --------
    >>> import tempfile, pathlib, permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=12, list_length=10)
    >>> split = pr.Given(n_given=4).split(rankings, seed=1)
    >>> split
    Split(Given(n_given=4), seed=1: train 50 users, 200 entries; test 50 users, 300 entries)
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "split"
    >>> split.save(folder)
    >>> pr.Split.load(folder) == split
    True
    """

    train: Rankings
    test: Rankings
    given: Rankings | None
    protocol: str
    seed: int
    question: Question = "order"
    cold: Cold | None = None

    def __repr__(self) -> str:
        parts = [f"{name} {part.n_users} users, {part.n_entries} entries" for name, part in self._parts().items()]
        return f"Split({self.protocol}, seed={self.seed}: {'; '.join(parts)})"

    __hash__ = None  # type: ignore[assignment]

    def _parts(self) -> dict[str, Rankings]:
        found = {name: getattr(self, name) for name in _PARTS}
        return {name: part for name, part in found.items() if part is not None}

    def save(self, folder: str | Path, *, format: Literal["parquet", "csv", "tsv", "jsonl"] = "parquet") -> None:  # noqa: A002
        """Write one file a part and ``split.json``; the folder appears whole or not at all.

        Other programs can read the files as they are: one row per entry (docs/formats.md).

        Parameters
        ----------
        folder : str or Path
            Must not exist, but the folder that it lies in must.
        format : {"parquet", "csv", "tsv", "jsonl"}
        """
        if format not in ("parquet", "csv", "tsv", "jsonl"):
            raise InputError(f"format={format!r}, expected parquet, csv, tsv or jsonl")
        with atomic_folder(new_folder(folder)) as temporary:
            parts = {}
            for name, part in self._parts().items():
                part.write(temporary / f"{name}.{format}")
                parts[name] = {"file": f"{name}.{format}", "fingerprint": part.fingerprint}
            header = {"format": FORMAT, "protocol": self.protocol, "seed": self.seed}
            header |= {"question": self.question, "cold": self.cold, "parts": parts}
            with atomic_write(temporary / "split.json") as file:
                file.write(f"{json.dumps(header, indent=2)}\n".encode())

    @classmethod
    def load(cls, folder: str | Path) -> Split:
        """Read what `save` wrote; files that have changed since are refused."""
        folder = Path(folder).expanduser()
        header = read_header(folder, "split.json", "split")
        with damaged(folder / "split.json", "split"):
            files = {name: (str(about["file"]), str(about["fingerprint"])) for name, about in header["parts"].items()}
            protocol, seed = str(header["protocol"]), int(header["seed"])
            question, cold = header.get("question", "order"), header.get("cold")
        if question not in _QUESTIONS:
            raise FormatError(f"{folder / 'split.json'} asks {question!r}; expected {' or '.join(_QUESTIONS)}")
        if cold not in ("items", "users", None):
            raise FormatError(f"{folder / 'split.json'}: {cold!r} are cold; expected items or users")
        if not {"train", "test"} <= set(files) <= set(_PARTS):
            raise FormatError(f"{folder / 'split.json'} names the parts {', '.join(files)}; expected train and test")
        parts: Named = dict.fromkeys(_PARTS)
        for name, (file, fingerprint) in files.items():
            if Path(file).name != file:
                raise FormatError(f"{folder / 'split.json'} names the file {file!r} outside its folder")
            parts[name] = read(folder / file, unlisted="ignore")
            if parts[name].fingerprint != fingerprint:
                raise FormatError(f"{folder / file} has changed since the split was saved")
        return cls(**parts, protocol=protocol, seed=seed, question=question, cold=cold)


def new_folder(path: str | Path) -> Path:
    """The path of a folder that can be made: nothing is there, and the folder that it lies in is."""
    folder = Path(path).expanduser()
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists; give the name of a new folder")
    if not folder.parent.is_dir():
        raise InputError(f"the folder {folder.parent} does not exist; make it first")
    return folder


@contextlib.contextmanager
def damaged(path: Path, what: str) -> Iterator[None]:
    """What a file cannot mean is an error that names the file."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, pl.exceptions.PolarsError) as error:
        raise FormatError(f"{path} is damaged ({error}); save the {what} again") from error


def read_header(folder: Path, name: str, what: str) -> Named:
    """The JSON file in the folder of a saved split or comparison, if it has the format that is read here."""
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise FormatError(f"{folder} is not a saved {what}: {error.strerror or error}") from error
    with damaged(folder / name, what):
        header: Named = json.loads(text)
        version = header.pop("format")
    if version != FORMAT:
        raise FormatError(f"{folder} has format {version!r}; this permrank reads format {FORMAT}")
    return header


def knows_people(split: Split) -> bool:
    """Whether a model that learns from the training part knows people of the test part, or is given some entries."""
    return split.given is not None or bool(set(split.test.user_ids) & set(split.train.user_ids))


def part_of(rankings: Rankings, keep: BoolArray) -> Rankings:
    """Only these entries, with only the users and items that still have one."""
    left = keep_entries(rankings, keep)
    ranked = np.bincount(left.items, minlength=left.n_items) > 0
    return restrict(left, np.diff(left.user_indptr) > 0, ranked)
