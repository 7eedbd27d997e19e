"""Which column of a table means what, and which rows are no entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from permrank.errors import FormatError, InputError, argument
from permrank.files.formats.contents import Kind
from permrank.files.formats.tabular import original_name
from permrank.rankings.column_names import WORDS, Tiers, listed, matching, plain_word
from permrank.rankings.frames import RESULTS, Table
from permrank.types import Named

ROLES = ("user", "item", "rating", "rank", "ranking", "weight", "winner", "loser", "draw")

# How often an item was taken up, where there is no order: plays, n_plays, play_count.
_TAKEN_UP = (
    "click", "purchase", "play", "listen", "stream", "view", "visit", "checkin", "download", "interaction", "event",
)  # fmt: skip
_COUNTS = (
    "weight", "weights", "count", "counts", "quantity", "qty", "frequency", "freq", "strength",
    *(form.format(word) for word in _TAKEN_UP for form in ("{}s", "n{}s", "num{}s", "{}count", "{}counts")),
)  # fmt: skip
# Columns that say nothing of an order.
_TIMES = ("time", "timestamp", "date", "datetime", "day")
TYPES = {"str": pl.String, "int": pl.Int64}
"""What a name such as ``item:str`` ends in, and the type that it fixes."""


class Roles(NamedTuple):
    """The column of each role, or None; and whether rows without an order are meant."""

    user: str | None = None
    item: str | None = None
    rating: str | None = None
    rank: str | None = None
    ranking: str | None = None
    weight: str | None = None
    winner: str | None = None
    loser: str | None = None
    draw: str | None = None
    entry_count: str | None = None
    anonymous: bool = False
    sets: bool = False

    @property
    def used(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys(name for name in self if isinstance(name, str)))


def bare(name: str) -> str:
    """Name of a column without the ``:str`` or ``:int`` that fixes its type."""
    head, colon, tail = name.rpartition(":")
    return head if colon and tail in TYPES else name


def find_roles(names: Sequence[str], given: Mapping[str, str], where: str, kind: Kind | None = None) -> Roles:
    """Give columns their roles: those the caller names, then those whose header is known."""
    found = {role: _named(role, name, names, where) for role, name in given.items()}
    words = [plain_word(bare(original_name(name))) for name in names]
    if kind == "interactions":
        return _interaction_roles(names, words, found, where)
    for role, known in WORDS.items():
        if role not in found and not _excluded(role, given):
            match = _matching(role, known, names, words, where)
            if match is not None:
                found[role] = match
    anonymous = "user" not in found and "ballot" in found
    user = found.get("user", found.get("ballot"))
    by_entry = user is not None and "item" in found and ("rank" in found or "rating" in found)
    by_pair = "winner" in found and "loser" in found
    if not (by_entry or by_pair):
        if "user" not in found or "item" not in found:
            raise _not_recognised(names, found, where)
        return _roles_without_order(names, words, given, found, where)
    if by_entry:
        found = {role: name for role, name in found.items() if role not in ("winner", "loser", "draw")}
    else:
        found = {role: name for role, name in found.items() if role in ("winner", "loser", "draw", "weight")}
        results = [name for result in RESULTS for name, word in zip(names, words, strict=True) if word == result]
        if results:
            found.setdefault("draw", results[0])
    columns: Named = {role: found.get(role) for role in (*ROLES[1:], "entry_count")}
    return Roles(user=user, anonymous=anonymous, **columns)


def _roles_without_order(
    names: Sequence[str], words: Sequence[str], given: Mapping[str, str], found: Mapping[str, str], where: str
) -> Roles:
    """Users and items, and no column that is known to order them: interactions, unless some other column might."""
    named = {role: found[role] for role in given}
    used = {found["user"], found["item"], named.get("weight")}
    other = [
        name
        for name, word in zip(names, words, strict=True)
        if name not in used and word not in _COUNTS and word not in _TIMES
    ]
    if other or "ranking" in given:
        raise _not_recognised(names, found, where)
    return _interaction_roles(names, words, named, where)


def _interaction_roles(names: Sequence[str], words: Sequence[str], named: Mapping[str, str], where: str) -> Roles:
    """Roles of a table that is read as interactions, whatever else is in it."""
    for role in named:
        if role not in ("user", "item", "weight"):
            raise InputError(
                f"{argument(role)} has no meaning for interactions, which have no order; leave it or "
                f"{argument('kind', 'interactions')} out"
            )
    known: dict[str, Tiers] = {"user": WORDS["user"], "item": WORDS["item"], "weight": (_COUNTS,)}
    roles: Named = {role: named.get(role) or _matching(role, known[role], names, words, where) for role in known}
    missing = [role for role in ("user", "item") if roles[role] is None]
    if missing:
        _refuse_wrong_separator(names, where)
        raise FormatError(
            f"{where}: no column for {' and '.join(missing)} is recognised among {listed(names)}; pass "
            f"{' and '.join(map(argument, missing))} with the names of the columns"
        )
    return Roles(**roles, sets=True)


def _named(role: str, name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    for other in names:
        if bare(other) == name:
            return other
    raise FormatError(f"{where} has no column {name!r} (passed as {argument(role)}); its columns are {listed(names)}")


def _excluded(role: str, given: Mapping[str, str]) -> bool:
    """Whether what the caller named rules out a column that merely looks right."""
    rivals = {
        "ballot": {"user"},
        "rank": {"rating", "winner", "loser", "draw"},
        "rating": {"rank", "winner", "loser", "draw"},
        "item": {"winner", "loser", "draw"},
        "winner": {"item", "rank", "rating"},
        "loser": {"item", "rank", "rating"},
    }
    return not rivals.get(role, set()).isdisjoint(given)


def _matching(role: str, known: Tiers, names: Sequence[str], words: Sequence[str], where: str) -> str | None:
    matches = matching(known, names, words)
    if len(matches) > 1:
        raise FormatError(
            f"{where} has several columns that could be the {role}: {listed(matches)}; pass {argument(role)} with "
            "the right one"
        )
    return matches[0] if matches else None


def _not_recognised(names: Sequence[str], found: Mapping[str, str], where: str) -> FormatError:
    missing = [role for role in ("user", "item") if role not in found and not (role == "user" and "ballot" in found)]
    if "rank" not in found and "rating" not in found:
        missing.append("rating or rank")
    _refuse_wrong_separator(names, where)
    _refuse_columns_of_ranks(names, where)
    user, item, rating, rank, winner, loser = map(argument, ("user", "item", "rating", "rank", "winner", "loser"))
    return FormatError(
        f"{where}: no column for {' and '.join(missing)} is recognised among {listed(names)}; pass {user}, "
        f"{item} and {rating} (or {rank}) with the names of the columns, or {winner} and {loser} for choices; pass "
        f"{argument('kind', 'interactions')} if nothing orders the items, as with clicks and purchases"
    )


def _refuse_wrong_separator(names: Sequence[str], where: str) -> None:
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if len(names) == 1 and separator in names[0]:
            raise FormatError(
                f"{where}: the only column is {names[0][:60]!r}, so it seems to be separated by {name}; "
                "separate a .csv by commas, a .tsv by tabs"
            )


# What columns of ranks begin with, before their number.
_HEADS_OF_RANKS = (
    "", "choice", "rank", "place", "position", "preference", "pref", "vote", "option", "item", "candidate",
)  # fmt: skip


def _refuse_columns_of_ranks(names: Sequence[str], where: str) -> None:
    """Say what to do with a ballot a row: first, second, third; choice1, choice2; 1st, 2nd."""
    words = {plain_word(bare(original_name(name))): name for name in reversed(names)}
    for first, second in (("first", "second"), ("1st", "2nd"), ("1", "2")):
        for head in _HEADS_OF_RANKS:
            name = words.get(head + first)
            if name is not None and head + second in words:
                raise FormatError(
                    f"{where} seems to have a ballot in each row and a rank in each column, from {name!r} on; write a "
                    "row for each rank instead, with columns user, item and rank; in Python: permrank.Rankings."
                    "from_lists([[item for item in row if item] for row in frame.select(COLUMNS).rows()])"
                    ".write('ballots.jsonl')"
                )


def without_catalogue(table: Table, roles: Roles) -> tuple[Table, pl.Series | None, pl.Series | None]:
    """Set rows aside that hold only a user or only an item: they say that it exists, nothing else."""
    assert roles.user is not None
    assert roles.item is not None
    frame = table.frame
    no_user, no_item = frame[roles.user].is_null(), frame[roles.item].is_null()
    if not (no_user.any() or no_item.any()):
        return table, None, None
    lone = no_user ^ no_item
    for name in roles.used:
        if name not in (roles.user, roles.item):
            lone &= frame[name].is_null()
    users, items = _rows_of(table, lone & no_item), _rows_of(table, lone & no_user)
    return _rows_of(table, ~lone), users.ids(roles.user, "user"), items.ids(roles.item, "item")


def _rows_of(table: Table, chosen: pl.Series) -> Table:
    rows = chosen.arg_true().to_numpy()
    return Table(table.frame.filter(chosen), lambda row: table.locate(int(rows[row])))
