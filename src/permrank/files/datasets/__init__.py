"""Data sets of the field by name, fetched from their owners.

A file is looked for in the folder that ``PERMRANK_DATA`` names, then in the cache (``PERMRANK_CACHE``, or
the usual place of the system), and only then fetched from its owner's address. Nothing is packaged with
this library, because most owners forbid to hand their data on.

Two checks guard what is loaded. A download with a known SHA-256 must have it. Archives whose owners give
no checksum, and files that you supply yourself, may be packed in any way and have their lines in any order:
their content is checked instead. Users, items, entries and ballots are compared with the published counts,
then a fingerprint of everything (ids, orders, ties, ratings, weights) with the one in the registry.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl

from permrank.errors import DataError, InputError, PermrankError, UnknownIdError
from permrank.files.datasets.registry import DATASETS, Entry
from permrank.files.datasets.simulated import Simulated, Truth, simulated
from permrank.files.formats import read
from permrank.processes import refuse_after_fork
from permrank.rankings.build import Duplicates
from permrank.rankings.rankings import Rankings
from permrank.types import Named

__all__ = ["Simulated", "Truth", "cache_folder", "describe", "load", "names", "simulated"]


def names() -> list[str]:
    """Return the names that `load` knows.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.datasets.names()
    ['apa', 'filmtrust', 'gowalla', 'lastfm-friends', 'ml-100k', 'ml-1m', 'nascar', 'simulated', 'sushi', 'sushi-10']
    """
    return sorted(DATASETS)


def describe(name: str | None = None) -> pl.DataFrame:
    """Return what is known about one data set or all: owner, address, terms, citation, counts.

    Parameters
    ----------
    name : str, optional
        One data set; all if left out.

    Returns
    -------
    polars.DataFrame
        One row per data set.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.datasets.describe("sushi")["owner"].item()
    'Toshihiro Kamishima'
    """
    chosen = names() if name is None else [name]
    rows = []
    for one in chosen:
        entry = _entry(one)
        counts = [*(entry.counts or {}).values()]
        users, items, entries, weight = counts[0] if counts else (None, None, None, None)
        rows.append(
            {
                "name": one, "title": entry.title, "owner": entry.owner, "page": entry.page,
                "address": entry.address, "terms": entry.terms, "citation": entry.citation,
                "file": entry.file, "users": users, "items": items, "entries": entries,
                "total_weight": None if weight is None else float(weight),
            }
        )  # fmt: skip
    return pl.DataFrame(rows)


def load(name: str, **options: Any) -> Rankings:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        ``ml-100k``, ``ml-1m`` (ratings; integer ids), ``sushi`` (10 of 100 items), ``sushi-10`` (10 of
        10; items by name in both), ``apa`` (ballots without voters, with counts as weights), ``nascar``
        (races rank drivers by name), ``filmtrust`` (of the three pairs that its file repeats, the last
        rating counts), ``gowalla`` and ``lastfm-friends`` (sets without order: who went where, who listened to whom),
        ``simulated``.
    **options
        ``complete`` for ``apa``: True (default) for the 5,738 complete ballots, False for all 15,449, of which the
        others name their first few only: call ``with_unlisted_last()`` before a model learns from them.
        ``part`` for ``gowalla`` and ``lastfm-friends``: ``"train"`` (default) or ``"test"``, as published, both over
        the same users and items; or ``"all"``, the two joined. For ``simulated`` the arguments of `simulated`.

    Returns
    -------
    Rankings
        As the owner hands them out.

    Raises
    ------
    DataError
        The file cannot be found, fetched or trusted; the message says where to get it and where to put it.

    Notes
    -----
    The owner's terms are printed to standard error when a data set is first used.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=100)
    >>> rankings.n_users, rankings.n_items
    (100, 60)
    """
    refuse_after_fork()
    entry = _entry(name)
    if name == "simulated":
        parameters = inspect.signature(simulated).parameters
        for option in options:
            if option not in parameters:
                raise InputError(f"data set 'simulated' has no option {option!r}; it takes {', '.join(parameters)}")
        return simulated(**options).rankings
    part = _part(name, entry, options)
    path, is_new = _locate(name, entry)
    try:
        duplicates: Duplicates = "last" if name == "filmtrust" else "error"
        rankings = read(path, part=part, duplicates=duplicates, unlisted="ignore")
        # A download with a known checksum is the owner's file to the last bit.
        _check_content(rankings, entry, part or "", trusted=is_new and bool(entry.sha256))
    except PermrankError as error:
        if is_new:
            path.unlink(missing_ok=True)  # what came was a page about an error, or something else altogether
        raise DataError(
            f"{path} is not the data set {name} ({error}); delete it if it is still there, "
            f"and get it from {entry.address or entry.page}"
        ) from error
    _show_terms(entry)
    return rankings


def _part(name: str, entry: Entry, options: Named) -> str | None:
    """The part of the archive that the name and its options mean."""
    parts = list(entry.counts or {})
    part: str | None = {"sushi": "b", "sushi-10": "a"}.get(name)
    if name == "apa":
        part = "complete" if options.pop("complete", True) else "all"
    elif "train" in parts:
        part = options.pop("part", "train")
        if part not in parts:
            raise InputError(f"part={part!r}, expected one of {', '.join(map(repr, parts))}")
    if options:
        raise InputError(f"data set {name!r} has no option {next(iter(options))!r}")
    return part


def cache_folder() -> Path:
    """Return the folder where fetched files are kept: ``PERMRANK_CACHE``, or the usual one of the system.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.datasets.cache_folder().is_absolute()
    True
    """
    given = os.environ.get("PERMRANK_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    import pooch

    return Path(pooch.os_cache("permrank")).absolute()


def _entry(name: str) -> Entry:
    if not isinstance(name, str) or name not in DATASETS:
        raise UnknownIdError("data set", name, names())
    return DATASETS[name]


def _locate(name: str, entry: Entry) -> tuple[Path, bool]:
    """Find or fetch the file; the second value tells whether it has just been fetched."""
    given = os.environ.get("PERMRANK_DATA")
    folders = [Path(given).expanduser()] if given else []
    for folder in [*folders, cache_folder()]:
        if (folder / entry.file).is_file():
            return folder / entry.file, False
    return _fetch(name, entry, folders), True


def _fetch(name: str, entry: Entry, folders: list[Path]) -> Path:
    cache = cache_folder()
    put = f"put it into {cache} (or into a folder of yours that the variable PERMRANK_DATA names)"
    searched = f" (looked in {', '.join(map(str, [*folders, cache]))})"
    if not entry.address:
        raise DataError(
            f"there is no {entry.file} for the data set {name}{searched}, and nobody hands out such a file: "
            f"make it from {entry.page} in the layout that permrank.files.formats.archives reads and {put}"
        )
    import pooch

    try:
        file = pooch.retrieve(
            entry.address,
            known_hash=f"sha256:{entry.sha256}" if entry.sha256 else None,
            fname=entry.file,
            path=cache,
        )
    except Exception as error:  # pooch passes on whatever the transport raises
        # Not "from error": the transport's own story is a hundred lines long and helps nobody.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"cannot fetch {entry.file} for the data set {name} ({reason[:100]}): "
            f"download it from {entry.address} yourself and {put}"
        ) from None
    return Path(file)


def _check_content(rankings: Rankings, entry: Entry, part: str, *, trusted: bool) -> None:
    """Compare counts, whose message says most, and then everything: ids, orders, ties, ratings and weights."""
    expected = (entry.counts or {})[part]
    counts = (rankings.n_users, rankings.n_items, rankings.n_entries, float(rankings.weights.sum()))
    for what, value, right in zip(("users", "items", "entries", "total weight"), counts, expected, strict=True):
        if value != right:
            raise DataError(f"{what}: {value:.12g}, expected {right:.12g}")
    wanted = (entry.fingerprints or {}).get(part)
    if wanted is not None and not trusted and _sorted_ballots(rankings).fingerprint != wanted:
        raise DataError("the counts are right, but ids, orders or ratings differ from those of the owner")


def _sorted_ballots(rankings: Rankings) -> Rankings:
    """Ballots without a voter come in the order of their file, which says nothing: sort them."""
    if not rankings.anonymous:
        return rankings
    bounds = rankings.indptr
    content = [(rankings.items[a:b].tolist(), rankings.levels[a:b].tolist()) for a, b in itertools.pairwise(bounds)]
    order = sorted(range(len(content)), key=content.__getitem__)
    lists = rankings.lists()
    weights = rankings.weights[order]
    return Rankings.from_lists([lists[r] for r in order], weights=weights, items=rankings.item_ids, unlisted="ignore")


def _show_terms(entry: Entry) -> None:
    """Print the terms of the owner once; a marker in the cache remembers it."""
    marker = cache_folder() / f"{entry.file}.terms-shown"
    if marker.exists():
        return
    print(
        f"permrank: {entry.title}. Owner: {entry.owner}. Terms: {entry.terms}. Cite: {entry.citation}.",
        file=sys.stderr,
    )
    # Without a place to remember it, the terms are simply shown again.
    with contextlib.suppress(OSError):
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
