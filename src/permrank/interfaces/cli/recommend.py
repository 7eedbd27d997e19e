"""``permrank recommend``: for one person, several, or everybody, to the terminal or to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
from rich.console import Console
from rich.progress import track

from permrank.core.person import Person
from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.files.atomic import atomic_write, writable_target
from permrank.interfaces.cli.sources import parse_id, parse_list

# People asked about at a time: enough for a block of scores, few enough for progress to be seen.
_AT_A_TIME = 500
_WRITERS: dict[str, Callable[[pl.DataFrame, BinaryIO], object]] = {
    ".csv": lambda frame, file: frame.write_csv(file),
    ".tsv": lambda frame, file: frame.write_csv(file, separator="\t"),
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
}


def require_output(path: Path | None) -> None:
    """Raise, before anything is computed, if nothing can be written there."""
    if path is None:
        return
    if path.suffix.lower() not in _WRITERS:
        raise InputError(f"--output {path} ends in {path.suffix!r}, expected one of {', '.join(_WRITERS)}")
    writable_target(path)


def asked_about(model: Ranker, users: Sequence[str], given: str | None, everybody: bool) -> list[tuple[str, Any]]:
    """Names and references of the people that were named, one who is new, or all."""
    if everybody and (users or given is not None):
        raise InputError("--all is everybody; give no users and no --list with it")
    if everybody:
        return [(str(user), user) for user in model.user_ids]
    people: list[tuple[str, Any]] = [(name, parse_id(name, model.user_ids)) for name in users]
    if given is not None:
        people.append(("new", model.fold_in(parse_list(given, model.item_ids))))
    if not people:
        raise InputError("name at least one user, give a new person's list with --list 'a > b > c', or say --all")
    return people


def filters_of(model: Ranker, only: Sequence[str], exclude: Sequence[str], where: str | None) -> dict[str, Any]:
    """Arguments of `recommend` that say which items it may be, from words of the command line."""
    found: dict[str, Any] = {"exclude": [parse_id(item, model.item_ids) for item in exclude]}
    if only:
        found["items"] = [parse_id(item, model.item_ids) for item in only]
    return found | ({} if where is None else {"where": where})


def recommend_for(model: Ranker, people: Sequence[tuple[str, Any]], k: int, **options: Any) -> list[pl.DataFrame]:
    """Frames of some people each, the name first; with progress on a terminal where there are many."""
    somebody_new = any(isinstance(reference, Person) for _, reference in people)
    frames = []
    firsts = range(0, len(people), _AT_A_TIME)
    console, silent = Console(stderr=True), len(firsts) < 2 or not sys.stderr.isatty()
    for first in track(firsts, "recommend", console=console, transient=True, disable=silent):
        names, references = zip(*people[first : first + _AT_A_TIME], strict=True)
        frame = model.recommend(list(references), k, **options)
        if somebody_new:  # who has no id, so that ids have to be text
            frame = frame.with_columns(pl.col("user").cast(pl.String).fill_null(names[-1]))
        frames.append(frame)
    return frames


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write by the ending; the file appears whole or not at all."""
    with atomic_write(path) as file:
        _WRITERS[path.suffix.lower()](frame, file)
