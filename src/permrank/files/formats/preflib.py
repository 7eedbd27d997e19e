"""PrefLib files of rankings: strict or with ties (so, to), complete or incomplete (c, i)."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.errors import FormatError
from permrank.files.formats.contents import Contents, Put, lines_of
from permrank.rankings.build import Duplicates
from permrank.rankings.columns import Roles
from permrank.rankings.constructors import from_values
from permrank.rankings.frames import Table
from permrank.rankings.lists import tie_blocks
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue

KINDS = ("soc", "soi", "toc", "toi")

_COUNTS = ("NUMBER ALTERNATIVES", "NUMBER VOTERS", "NUMBER UNIQUE ORDERS")
_NAME = re.compile(r"ALTERNATIVE NAME ([0-9]{1,9})")
# Our own line: how the names after it are to be taken.
_IDS = "PERMRANK ITEM IDS"
_MERGE = "call rankings.merged() first (--merge on the command line)"
# 15 digits are exact in a float64. Possessive quantifiers keep the time linear, whatever the line.
_BODY = re.compile(r"\s*+([0-9]{1,15})\s*+:(.*)", re.DOTALL)
_NUMBER = r"\s*+[0-9]{1,9}+\s*+"
_BLOCK = rf"\s*+\{{{_NUMBER}(?:,{_NUMBER})*+\}}\s*+"
_ORDER = re.compile(rf"(?:{_NUMBER}|{_BLOCK})(?:,(?:{_NUMBER}|{_BLOCK}))*+")
_TOKEN = re.compile(r"[0-9]+|[{}]")


class _Header(NamedTuple):
    counts: dict[str, int]
    names: dict[int, str]
    ids: str | None


class _Orders(NamedTuple):
    """One element per entry; of ``weights`` and ``lines`` one per ballot, of ``unused`` one per line of count 0."""

    ballots: list[int]
    alternatives: list[int]
    levels: list[int]
    weights: list[int]
    lines: list[int]
    unused: list[int]


def parse_preflib(contents: Contents, kind: str) -> Rankings:
    """Anonymous ballots with their counts as weights.

    Alternatives become items under their names; where names repeat, the number of the alternative is
    added. The counts of the header are checked against the body.
    """
    where = contents.where
    lines = lines_of(contents.data, where)
    header = _read_header(lines, where)
    n = header.counts.get("NUMBER ALTERNATIVES")
    if n is None:
        raise FormatError(
            f"{where} has no line '# NUMBER ALTERNATIVES: ...'; expected the PrefLib layout with header "
            "lines that begin with '#', as it has been since 2022"
        )
    # Numbers are different, so that n of them from 1 to n are all: no need to list what a header may only claim.
    if len(header.names) != n or min(header.names, default=1) < 1 or max(header.names, default=n) > n:
        raise FormatError(
            f"{where}: NUMBER ALTERNATIVES is {n}, but there are {len(header.names)} lines "
            f"'# ALTERNATIVE NAME k: ...'; give every k from 1 to {n} one"
        )
    orders = _read_orders(lines, n, where)
    _check_counts(header.counts, orders, where)
    _check_kind(kind, orders, n, where)
    return _build(orders, _item_ids(header, where), contents.duplicates, where)


def _read_header(lines: list[str], where: str) -> _Header:
    header = _Header({}, {}, None)
    for number, line in enumerate(lines, 1):
        if not line.startswith("#"):
            continue
        key, _, text = line[1:].partition(":")
        key = key.strip()
        name = _NAME.fullmatch(key)
        if key == _IDS:
            header = header._replace(ids=text.strip())
        elif name:
            alternative = int(name[1])
            if alternative in header.names:
                raise FormatError(f"{where}, line {number}: alternative {alternative} has a second name; drop one")
            # A name that this library wrote may begin or end with a space.
            header.names[alternative] = text.removeprefix(" ") if header.ids else text.strip()
        elif key in _COUNTS:
            if not re.fullmatch(r"[0-9]{1,15}", text.strip()):
                raise FormatError(f"{where}, line {number}: {key} is {text.strip()!r}, not a whole number")
            if header.counts.setdefault(key, int(text)) != int(text):
                raise FormatError(
                    f"{where}, line {number}: {key} is {int(text)}, but {header.counts[key]} above; drop one"
                )
    return header


def _read_orders(lines: list[str], n: int, where: str) -> _Orders:
    orders = _Orders([], [], [], [], [], [])
    for number, line in enumerate(lines, 1):
        if line.startswith("#") or not line.strip():
            continue
        match = _BODY.fullmatch(line)
        order = _ORDER.fullmatch(match[2]) if match else None
        if match is None or order is None:
            raise FormatError(f"{where}, line {number}: {line[:60]!r} is not like '12: 3,{{1,4}},2'")
        if int(match[1]) == 0:  # nobody voted so; some public files list such orders
            orders.unused.append(number)
            continue
        level, in_tie = 0, False
        for token in _TOKEN.findall(match[2]):
            if token in "{}":
                in_tie = token == "{"
                level += not in_tie
                continue
            if not 1 <= int(token) <= n:
                raise FormatError(f"{where}, line {number}: alternative {token} is not one of 1 to {n}")
            orders.ballots.append(len(orders.weights))
            orders.alternatives.append(int(token) - 1)
            orders.levels.append(level)
            level += not in_tie
        orders.weights.append(int(match[1]))
        orders.lines.append(number)
    if not orders.weights:
        raise FormatError(f"{where} has a header but no orders with votes; expected lines like '12: 3,{{1,4}},2'")
    return orders


def _check_counts(counts: dict[str, int], orders: _Orders, where: str) -> None:
    n_orders, n_unused = len(orders.weights), len(orders.unused)
    # An order that nobody gave may be counted or not.
    counted = {"NUMBER VOTERS": {sum(orders.weights)}, "NUMBER UNIQUE ORDERS": {n_orders, n_orders + n_unused}}
    for key, values in counted.items():
        if key in counts and counts[key] not in values:
            raise FormatError(
                f"{where}: the header says {key}: {counts[key]}, but the lines below make {max(values)}; "
                "the file may be cut short: fetch it again, or correct the header"
            )


def _check_kind(kind: str, orders: _Orders, n: int, where: str) -> None:
    """Check what the ending promises: `so` has no ties, `c` lists every alternative."""
    ballots, levels = np.array(orders.ballots), np.array(orders.levels)
    if kind.startswith("so"):
        tied = (ballots[1:] == ballots[:-1]) & (levels[1:] == levels[:-1])
        if tied.any():
            line = orders.lines[int(ballots[int(np.argmax(tied))])]
            raise FormatError(f"{where}, line {line}: a tie in a .{kind} file; name it .to{kind[-1]}")
    if kind.endswith("c"):
        short = np.bincount(ballots, minlength=len(orders.weights)) < n
        if short.any():
            line = orders.lines[int(np.argmax(short))]
            raise FormatError(f"{where}, line {line}: fewer than the {n} alternatives; name it .{kind[:2]}i")


def _item_ids(header: _Header, where: str) -> pl.Series:
    """Ids of the alternatives in order."""
    names = [header.names[number] or f"alternative {number}" for number in range(1, len(header.names) + 1)]
    if header.ids == "integers":
        numbers = pl.Series(names, dtype=pl.String).cast(pl.Int64, strict=False)
        if numbers.null_count() or numbers.n_unique() < len(names):
            raise FormatError(f"{where}: not all alternatives are different integers; drop the line '# {_IDS}'")
        return numbers
    seen = set(names)
    if len(seen) < len(names):
        taken: set[str] = set()
        for index, name in enumerate(names):
            while name in taken or (name != names[index] and name in seen):
                name = f"{name} ({index + 1})"
            taken.add(name)
            names[index] = name
    return pl.Series(names, dtype=pl.String)


def _build(orders: _Orders, ids: pl.Series, duplicates: Duplicates, where: str) -> Rankings:
    ballots = np.array(orders.ballots)
    frame = pl.DataFrame(
        {
            "ballot": ballots,
            "item": ids.gather(orders.alternatives),
            "rank": orders.levels,
            "weight": np.array(orders.weights)[ballots],
        }
    )
    rankings = from_values(
        Rankings,
        Table(frame, lambda row: f"{where}, line {orders.lines[int(ballots[row])]}"),
        Roles("ballot", "item", rank="rank", weight="weight", anonymous=True),
        duplicates,
    )
    return with_catalogue(rankings, None, ids).merged()


def write_preflib(rankings: Rankings, kind: str, name: str) -> Put:
    """A PrefLib file of that name; what it cannot hold is refused."""
    _refuse_what_is_lost(rankings, kind)
    name = name.replace("\n", " ").replace("\r", " ")
    ids = [str(item) for item in rankings.item_ids]
    counts = rankings.weights.astype(np.int64)
    head = [
        f"# FILE NAME: {name}",
        "# TITLE: ",
        "# DESCRIPTION: ",
        f"# DATA TYPE: {kind}",
        f"# NUMBER ALTERNATIVES: {len(ids)}",
        f"# NUMBER VOTERS: {counts.sum()}",
        f"# NUMBER UNIQUE ORDERS: {rankings.n_rankings}",
        f"# {_IDS}: {'integers' if rankings.item_ids.is_integer else 'strings'}",
        *(f"# ALTERNATIVE NAME {number}: {item}" for number, item in enumerate(ids, 1)),
    ]
    body = [f"{count}: {order}" for count, order in zip(counts, _orders_of(rankings), strict=True)]
    text = ("\n".join([*head, *body]) + "\n").encode()
    return lambda file: file.write(text)


def _orders_of(rankings: Rankings) -> list[str]:
    numbers, levels = (rankings.items + 1).astype(str).tolist(), rankings.levels.tolist()
    orders = []
    for start, stop in itertools.pairwise(rankings.indptr.tolist()):
        blocks = tie_blocks(numbers[start:stop], levels[start:stop])
        orders.append(",".join(block[0] if len(block) == 1 else "{" + ",".join(block) + "}" for block in blocks))
    return orders


def _refuse_what_is_lost(rankings: Rankings, kind: str) -> None:
    lengths = rankings.lengths
    numbered = rankings.user_ids.is_integer and np.array_equal(
        rankings.user_ids.ids.to_numpy(), np.arange(rankings.n_rankings)
    )
    problem = None
    if not rankings.anonymous or not numbered:
        problem = f"has no voters' ids; {_MERGE}, or write .jsonl"
    elif rankings.ratings is not None:
        problem = f"cannot hold ratings; {_MERGE}, or write .parquet"
    elif rankings.counts is not None:
        problem = "cannot hold counts of entries; write .csv, .parquet or .jsonl"
    elif (rankings.weights != np.rint(rankings.weights)).any() or rankings.weights.max() >= 10**15:
        problem = "counts voters: weights must be whole numbers; write .jsonl or .csv instead"
    elif rankings.merged().n_rankings < rankings.n_rankings:
        problem = f"holds every order once; {_MERGE}"
    elif kind.startswith("so") and rankings.has_ties:
        problem = f"has no ties; name the file .to{kind[-1]}"
    elif kind.endswith("c") and (lengths < rankings.n_items).any():
        problem = f"lists every item in every order; name the file .{kind[:2]}i"
    elif not rankings.item_ids.is_integer and rankings.item_ids.ids.str.contains(r"[\r\n]").any():
        problem = "has one line for an item, but an id here holds a line break; write .jsonl or .csv"
    if problem is not None:
        raise FormatError(f"a PrefLib .{kind} file {problem}")
