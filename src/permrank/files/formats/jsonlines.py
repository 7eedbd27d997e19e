"""JSON lines: one ranking per line, as a list of items or as an object that also names the user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from permrank.errors import FormatError
from permrank.files.formats.contents import Contents, Put, lines_of
from permrank.rankings.attributes import AttributeKind, Attributes
from permrank.rankings.build import MOST_RATING, rating_problem, weight_problem
from permrank.rankings.columns import Roles
from permrank.rankings.constructors import from_values
from permrank.rankings.frames import Table
from permrank.rankings.lists import tie_blocks
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue
from permrank.rankings.with_attributes import attached
from permrank.types import Named

_KEYS = ("user", "ballot", "ranking", "weight", "ratings", "counts", "items")
_ABOUT: dict[str, AttributeKind] = {"about_items": "item", "about_users": "user"}


class _Parser:
    """Gathers lines into columns with one element an entry."""

    def __init__(self, where: str) -> None:
        self.where, self.line = where, 0
        self.kinds: dict[str, type] = {}
        self.owner: str | None = None  # "user", "ballot" or "nobody": the same in all lines
        self.has_ratings: bool | None = None
        self.users: list[object] = []
        self.items: list[object] = []
        self.levels: list[int] = []
        self.ratings: list[float] = []
        self.counts: list[float] = []
        self.rankings: list[int] = []  # of each entry
        self.weights: list[float] = []  # of each ranking, like lines and owners
        self.lines: list[int] = []
        self.owners: list[object] = []
        self.catalogue: list[object] = []
        self.about: dict[AttributeKind, Attributes] = {}

    def add(self, number: int, text: str) -> None:
        self.line = number
        value = self.decoded(text)
        if isinstance(value, list):
            value = {"ranking": value}
        if not isinstance(value, dict):
            raise self.error(f"{_short(value)} is neither a list nor an object")
        if len(value) == 1 and (about := next(iter(value))) in _ABOUT:
            self.about[_ABOUT[about]] = self.attributes(value[about], _ABOUT[about])
            return
        unknown = [key for key in value if key not in _KEYS]
        if unknown:
            raise self.error(f"unknown key {_short(unknown[0])}; known are {', '.join(_KEYS)}")
        if "items" in value:
            if len(value) > 1 or not isinstance(value["items"], list):
                raise self.error("'items' goes alone in its line and is a list of items")
            self.catalogue += [self.id(name, "item") for name in value["items"]]
            return
        self.add_ranking(value)

    def attributes(self, value: object, kind: AttributeKind) -> Attributes:
        try:
            return Attributes.from_json(json.dumps(value), kind)
        except FormatError as error:
            raise self.error(str(error)) from error

    def decoded(self, text: str) -> Any:
        try:
            return json.loads(text, parse_constant=self.refuse_constant, object_pairs_hook=self.different_keys)
        except (ValueError, RecursionError) as error:
            if isinstance(error, FormatError):
                raise
            raise self.error(f"not JSON ({error})") from error

    def refuse_constant(self, name: str) -> float:
        raise self.error(f"{name} is not a number")

    def different_keys(self, pairs: list[tuple[str, object]]) -> Named:
        for key, n in Counter(key for key, _ in pairs).items():
            if n > 1:
                raise self.error(f"the key {_short(key)} comes twice in an object; keep one")
        return dict(pairs)

    def add_ranking(self, value: Named) -> None:
        user = self.owner_of(value)
        if user is not None and "ranking" not in value:
            if len(value) > 1:
                raise self.error("'weight', 'ratings' and 'counts' need a 'ranking'")
            self.users.append(user)
            return
        blocks = value.get("ranking")
        if not isinstance(blocks, list):
            raise self.error(f"'ranking' is {_short(blocks)}, expected a list of items, best first")
        before = len(self.items)
        level = 0
        for block in blocks:
            names = block if isinstance(block, list) else [block]
            self.items += [self.id(name, "item") for name in names]
            self.levels += [level] * len(names)
            level += bool(names)
        n = len(self.items) - before
        if n == 0:
            raise self.error("the ranking is empty; leave 'ranking' out if the user has none")
        if self.has_ratings not in (None, "ratings" in value):
            raise self.error("rankings with and without 'ratings' in one file; give all of them ratings, or none")
        self.has_ratings = "ratings" in value
        if self.has_ratings:
            self.ratings += self.numbers(value, "rating", n)
        self.counts += self.numbers(value, "count", n) if "counts" in value else [1.0] * n
        self.rankings += [len(self.weights)] * n
        self.weights.append(self.number(value.get("weight", 1), "weight"))
        self.lines.append(self.line)
        self.owners.append(len(self.owners) if user is None else user)

    def owner_of(self, value: Named) -> Any:
        owner = "user" if "user" in value else "ballot" if "ballot" in value else "nobody"
        if self.owner not in (None, owner) or ("user" in value and "ballot" in value):
            raise self.error("rankings with and without a 'user' (or 'ballot') in one file; give all one, or none")
        self.owner = owner
        return None if owner == "nobody" else self.id(value[owner], "user")

    def numbers(self, value: Named, role: str, n: int) -> list[float]:
        given = value[f"{role}s"]
        if not isinstance(given, list) or len(given) != n:
            raise self.error(f"'{role}s' is {_short(given)}, expected a list of {n} numbers, one for each item")
        return [self.number(number, role) for number in given]

    def id(self, name: object, kind: str) -> Any:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise self.error(f"{_short(name)} is no {kind}: ids are strings or integers")
        if type(name) is not self.kinds.setdefault(kind, type(name)):
            raise self.error(f"{kind} {_short(name)}: ids must be all strings or all integers")
        if isinstance(name, int):
            if not -(2**63) <= name < 2**63:
                raise self.error(f"{kind} {_short(name)} does not fit 64 bits; use strings for such ids")
        elif not name.strip():
            raise self.error(f"the {kind} id is empty")
        elif not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise self.error(f"{kind} {name!r} is not Unicode: half of a surrogate pair")
        return name

    def number(self, value: Any, role: str) -> float:
        try:
            number = float(value) if type(value) in (int, float) else float("nan")
        except OverflowError:
            number = float("inf")
        if not np.isfinite(number):
            raise self.error(f"{role} {_short(value)} is not a finite number")
        if role == "rating":
            problem = rating_problem(number) if abs(number) > MOST_RATING else None
        else:
            problem = weight_problem(number, role)
        if problem is not None:
            raise self.error(problem)
        return number

    def error(self, complaint: str) -> FormatError:
        return FormatError(f"{self.where}, line {self.line}: {complaint}")


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a very large integer"
    return text if len(text) <= 60 else text[:57] + "..."


def parse_jsonlines(contents: Contents) -> Rankings:
    """Rankings from JSON lines; several lines of one user are several rankings."""
    where = contents.where
    parser = _Parser(where)
    for number, line in enumerate(lines_of(contents.data, where), 1):
        if line.strip():
            parser.add(number, line)
    if not parser.weights:
        raise FormatError(f'{where} holds no rankings; expected lines like ["a", ["b", "c"]], best first')
    numbers = np.array(parser.rankings)
    frame = pl.DataFrame(
        {
            "user": pl.Series(parser.owners).gather(numbers),
            "ranking": numbers,
            "item": pl.Series(parser.items),
            "rank": parser.levels,
            "weight": np.array(parser.weights)[numbers],
        }
    )
    kept = {}
    if parser.ratings:
        kept["rating"] = pl.Series(parser.ratings, dtype=pl.Float64)
    if any(count != 1 for count in parser.counts):
        kept["entry_count"] = pl.Series(parser.counts, dtype=pl.Float64)
    frame = frame.with_columns(**kept)
    roles: Named = {name: name for name in frame.columns}
    rankings = from_values(
        Rankings,
        Table(frame, lambda row: f"{where}, line {parser.lines[numbers[row]]}"),
        Roles(**roles, anonymous=parser.owner != "user"),
        contents.duplicates,
    )
    users, items = (pl.Series(ids) if ids else None for ids in (parser.users, parser.catalogue))
    rankings = with_catalogue(rankings, users, items)
    rankings = attached(rankings, items=parser.about.get("item"), users=parser.about.get("user"))
    # Ballots without a number are the same ballot if they are equal; ratings could not be merged.
    return rankings.merged() if parser.owner == "nobody" and rankings.ratings is None else rankings


def write_jsonlines(rankings: Rankings) -> Put:
    """A file that `parse_jsonlines` reads back."""

    def put(file: BinaryIO) -> None:
        for line in format_jsonlines(rankings):
            file.write(line.encode())

    return put


def format_jsonlines(rankings: Rankings) -> Iterator[str]:
    """Lines of a file that `parse_jsonlines` reads back."""
    for key, about in (("items", rankings.item_ids.attributes), ("users", rankings.user_ids.attributes)):
        if about is not None:
            yield f'{{"about_{key}":{about.to_json()}}}\n'
    ranked = np.zeros(rankings.n_items, bool)
    ranked[rankings.items] = True
    if not ranked.all():
        yield (json.dumps({"items": rankings.item_ids.ids.filter(~ranked).to_list()}, ensure_ascii=False) + "\n")
    owner = "ballot" if rankings.anonymous else "user"
    names = rankings.item_ids.ids.to_list()
    for user, name in enumerate(rankings.user_ids):
        first, last = rankings.user_indptr[user : user + 2].tolist()
        if first == last:
            yield json.dumps({owner: name}, ensure_ascii=False) + "\n"
        for ranking in range(first, last):
            part = slice(int(rankings.indptr[ranking]), int(rankings.indptr[ranking + 1]))
            blocks = tie_blocks([names[item] for item in rankings.items[part].tolist()], rankings.levels[part].tolist())
            line: Named = {owner: name, "ranking": [block[0] if len(block) == 1 else block for block in blocks]}
            if rankings.weights[ranking] != 1:
                line["weight"] = _number(float(rankings.weights[ranking]))
            if rankings.ratings is not None:
                line["ratings"] = [_number(float(rating)) for rating in rankings.ratings[part]]
            if rankings.counts is not None:
                line["counts"] = [_number(float(count)) for count in rankings.counts[part]]
            yield json.dumps(line, ensure_ascii=False) + "\n"


def _number(value: float) -> float | int:
    # 2 reads better than 2.0; beyond 2^53 the two could differ.
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
