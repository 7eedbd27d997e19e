"""Which column of a file means what, and rankings from such columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import polars as pl

from permrank.errors import FormatError, InputError, argument, shown
from permrank.files.formats.attached import with_counts, with_ratings
from permrank.files.formats.tabular import Source, Table, original_name
from permrank.rankings import constructors, interactions
from permrank.rankings.build import Duplicates
from permrank.rankings.catalogue import with_catalogue
from permrank.rankings.constructors import Columns
from permrank.rankings.frames import RESULTS, Locate, as_frame, id_column, row_number
from permrank.rankings.rankings import Rankings
from permrank.rankings.words import WORDS, Tiers, matching, plain_word
from permrank.types import Named

ROLES = ("user", "item", "rating", "rank", "ranking", "weight", "winner", "loser", "draw")
Kind: TypeAlias = Literal["interactions"]
"""What a table is read as, whatever its columns are called: sets without order."""

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
_TYPES = {"str": pl.String, "int": pl.Int64}


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
    return head if colon and tail in _TYPES else name


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
            f"{where}: no column for {' and '.join(missing)} is recognised among {_listed(names)}; pass "
            f"{' and '.join(map(argument, missing))} with the names of the columns"
        )
    return Roles(**roles, sets=True)


def _named(role: str, name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    for other in names:
        if bare(other) == name:
            return other
    raise FormatError(f"{where} has no column {name!r} (passed as {argument(role)}); its columns are {_listed(names)}")


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
            f"{where} has several columns that could be the {role}: {_listed(matches)}; pass {argument(role)} with "
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
        f"{where}: no column for {' and '.join(missing)} is recognised among {_listed(names)}; pass {user}, "
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
    "",
    "choice",
    "rank",
    "place",
    "position",
    "preference",
    "pref",
    "vote",
    "option",
    "item",
    "candidate",
)


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


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(map(shown, names[:20]))
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"


def rankings_from_frame(
    data: object, *, duplicates: Duplicates = "error", kind: Kind | None = None, **columns: str
) -> Rankings:
    """Rankings of a frame, whose columns are recognised as those of a file are; ``columns`` names some of them."""
    for role in columns:
        if role not in ROLES:
            raise InputError(f"{role}= is no column of a frame; expected {', '.join(ROLES)}, kind or duplicates")
    frame, where = as_frame(data), "the frame"
    source = Source(frame.columns, lambda wanted: Table(frame.select(wanted), row_number), is_text=False)
    return rankings_of(source, find_roles(source.names, columns, where, kind), duplicates)


def rankings_of(source: Source, roles: Roles, duplicates: Duplicates) -> Rankings:
    """Read the columns and build the rankings."""
    frame, locate = source.load(roles.used)
    if roles.item is None:
        return _from_choices(source, roles, frame, locate)
    if source.is_text:
        frame = frame.with_columns(
            _typed(frame[name], locate) for name in (roles.user, roles.item, roles.ranking) if name is not None
        )
    (frame, locate), users, items = without_catalogue(frame, roles, locate)
    assert roles.user is not None
    if frame.height == 0:
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if users is not None else ''}")
    if roles.sets:
        if duplicates != "error":
            raise InputError("rows of interactions with the same user and item are added up; leave duplicates out")
        rankings = interactions.from_interactions(frame, roles.user, roles.item, roles.weight, locate)
    else:
        rankings = _from_entries(frame, roles, duplicates, locate)
    return rankings if users is None else with_catalogue(rankings, users, items)


def _from_entries(frame: pl.DataFrame, roles: Roles, duplicates: Duplicates, locate: Locate) -> Rankings:
    value, role = (roles.rating, "rating") if roles.rank is None else (roles.rank, "rank")
    assert roles.user is not None
    assert roles.item is not None
    assert value is not None
    columns = Columns(roles.user, roles.item, value, roles.ranking, roles.weight)
    rankings = constructors.from_values(
        frame,
        columns,
        "rank" if role == "rank" else "rating",
        duplicates,
        anonymous=roles.anonymous,
        locate=locate,
    )
    if roles.rank is not None and roles.rating is not None:
        rankings = with_ratings(rankings, frame, columns, roles.rating, duplicates, locate)
    if roles.entry_count is not None:
        rankings = with_counts(rankings, frame, columns, roles.entry_count, duplicates, locate)
    return rankings


def _from_choices(source: Source, roles: Roles, frame: pl.DataFrame, locate: Locate) -> Rankings:
    assert roles.winner is not None
    assert roles.loser is not None
    if source.is_text:
        items = _typed(pl.concat([frame[roles.winner], frame[roles.loser].rename(roles.winner)]), locate)
        frame = frame.with_columns(items[: frame.height].alias(roles.winner), items[frame.height :].alias(roles.loser))
        if roles.user is not None:
            frame = frame.with_columns(_typed(frame[roles.user], locate))
    user = None if roles.anonymous else roles.user
    return constructors.from_pairs(frame, user, roles.winner, roles.loser, roles.draw, roles.weight, locate)


def _typed(ids: pl.Series, locate: Locate) -> pl.Series:
    """Ids of a text file: integers if every one is written as an integer would be, otherwise text."""
    _, colon, kind = ids.name.rpartition(":")
    wanted = _TYPES.get(kind) if colon else None
    first = ids.first(ignore_nulls=True)
    if wanted == pl.String or (wanted is None and first is not None and not _is_integer(str(first))):
        return ids
    numbers = ids.cast(pl.Int64, strict=False)
    same = (numbers.cast(pl.String) == ids).fill_null(value=False) | ids.is_null()
    if same.all():
        return numbers
    if wanted is None:
        return ids
    row = int((~same).arg_max() or 0)
    raise FormatError(f"{locate(row)}: {shown(ids[row])} in column {shown(ids.name)} is not an integer of 64 bits")


def _is_integer(text: str) -> bool:
    # int() takes '007', '+7' and ' 7 ', which are other strings than '7'.
    return len(text) <= 20 and text.removeprefix("-").isdecimal() and str(int(text)) == text


def without_catalogue(
    frame: pl.DataFrame, roles: Roles, locate: Locate
) -> tuple[Table, pl.Series | None, pl.Series | None]:
    """Set rows aside that hold only a user or only an item: they say that it exists, nothing else."""
    assert roles.user is not None
    assert roles.item is not None
    no_user, no_item = frame[roles.user].is_null(), frame[roles.item].is_null()
    if not (no_user.any() or no_item.any()):
        return Table(frame, locate), None, None
    lone = no_user ^ no_item
    for name in roles.used:
        if name not in (roles.user, roles.item):
            lone &= frame[name].is_null()
    kept = (~lone).arg_true().to_numpy()
    table = Table(frame.filter(~lone), lambda row: locate(int(kept[row])))
    return (
        table,
        _lone_ids(frame, roles.user, "user", lone & no_item, locate),
        _lone_ids(frame, roles.item, "item", lone & no_user, locate),
    )


def _lone_ids(frame: pl.DataFrame, name: str, kind: str, lone: pl.Series, locate: Locate) -> pl.Series:
    rows = lone.arg_true().to_numpy()
    return id_column(frame.filter(lone), name, kind, lambda row: locate(int(rows[row])))
