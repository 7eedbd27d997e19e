"""Which column of a file means what, and rankings from such columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.data import constructors
from permrank.data.build import Duplicates, settle_duplicates
from permrank.data.constructors import Columns
from permrank.data.formats.tabular import Source, Table, original_name
from permrank.data.frames import RESULTS, Locate, id_column, number_column, plain_word
from permrank.data.rankings import Rankings
from permrank.data.validate import inverted_entries
from permrank.data.vocabulary import Vocabulary, encode, encode_with
from permrank.errors import FormatError, InputError, shown
from permrank.ragged import indptr_of

# How messages write the argument that names a column; the command line has its own way.
ARGUMENT: ContextVar[str] = ContextVar("ARGUMENT", default="{}=")
ROLES = ("user", "item", "rating", "rank", "ranking", "weight", "winner", "loser", "draw")

# Header words, without case, spaces, underscores and hyphens.
_WORDS = {
    "user": ("user", "userid", "voter", "voterid"),
    "ballot": ("ballot", "ballotid"),
    "item": ("item", "itemid", "movie", "movieid"),
    "rating": ("rating", "stars"),
    "rank": ("rank",),
    "ranking": ("ranking", "rankingid"),
    "weight": ("weight", "weights", "count", "counts", "votes"),
    "winner": ("winner", "winnerid"),
    "loser": ("loser", "loserid"),
    "draw": ("draw", "drawn", "isdraw", "tie", "tied", "istie"),
}
_TYPES = {"str": pl.String, "int": pl.Int64}


class Roles(NamedTuple):
    """The column of each role, or None."""

    user: str | None
    item: str | None
    rating: str | None
    rank: str | None
    ranking: str | None
    weight: str | None
    winner: str | None
    loser: str | None
    draw: str | None
    anonymous: bool

    @property
    def used(self) -> list[str]:
        """The columns that are read."""
        return list(dict.fromkeys(name for name in self[:-1] if isinstance(name, str)))


def bare(name: str) -> str:
    """Name of a column without the ``:str`` or ``:int`` that fixes its type."""
    head, colon, tail = name.rpartition(":")
    return head if colon and tail in _TYPES else name


def find_roles(names: Sequence[str], given: Mapping[str, str], where: str) -> Roles:
    """Give columns their roles: those the caller names, then those whose header is known."""
    found = {role: _named(role, name, names, where) for role, name in given.items()}
    words = [plain_word(bare(original_name(name))) for name in names]
    for role in _WORDS:
        if role not in found and not _excluded(role, given):
            match = _matching(role, names, words, where)
            if match is not None:
                found[role] = match
    anonymous = "user" not in found and "ballot" in found
    user = found.get("user", found.get("ballot"))
    by_entry = user is not None and "item" in found and ("rank" in found or "rating" in found)
    by_pair = "winner" in found and "loser" in found
    if not (by_entry or by_pair):
        raise _not_recognised(names, found, where)
    if by_entry:
        found = {role: name for role, name in found.items() if role not in ("winner", "loser", "draw")}
    else:
        found = {role: name for role, name in found.items() if role in ("winner", "loser", "draw", "weight")}
        results = [name for result in RESULTS for name, word in zip(names, words, strict=True) if word == result]
        if results:
            found.setdefault("draw", results[0])
    return Roles(user=user, anonymous=anonymous, **{role: found.get(role) for role in ROLES[1:]})


def _named(role: str, name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    for other in names:
        if bare(other) == name:
            return other
    raise FormatError(f"{where} has no column {name!r} (passed as {_argument(role)}); its columns are {_listed(names)}")


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


def _matching(role: str, names: Sequence[str], words: Sequence[str], where: str) -> str | None:
    matches = [name for name, word in zip(names, words, strict=True) if word in _WORDS[role]]
    if len(matches) > 1:
        raise FormatError(
            f"{where} has several columns that could be the {role}: {_listed(matches)}; pass {_argument(role)} with "
            "the right one"
        )
    return matches[0] if matches else None


def _not_recognised(names: Sequence[str], found: Mapping[str, str], where: str) -> FormatError:
    missing = [role for role in ("user", "item") if role not in found and not (role == "user" and "ballot" in found)]
    if "rank" not in found and "rating" not in found:
        missing.append("rating or rank")
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if len(names) == 1 and separator in names[0]:
            return FormatError(
                f"{where}: the only column is {names[0][:60]!r}, so it seems to be separated by {name}; "
                "separate a .csv by commas, a .tsv by tabs"
            )
    user, item, rating, rank, winner, loser = map(_argument, ("user", "item", "rating", "rank", "winner", "loser"))
    return FormatError(
        f"{where}: no column for {' and '.join(missing)} is recognised among {_listed(names)}; pass {user}, "
        f"{item} and {rating} (or {rank}) with the names of the columns, or {winner} and {loser} for choices"
    )


def _argument(role: str) -> str:
    return ARGUMENT.get().format(role)


def _listed(names: Sequence[str]) -> str:
    first = ", ".join(map(shown, names[:20]))
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"


def rankings_of(source: Source, roles: Roles, duplicates: Duplicates) -> Rankings:
    """Read the columns and build the rankings."""
    frame, locate = source.load(roles.used)
    if roles.item is None:
        return _from_choices(source, roles, frame, locate)
    if source.is_text:
        frame = frame.with_columns(
            _typed(frame[name], locate) for name in (roles.user, roles.item, roles.ranking) if name is not None
        )
    (frame, locate), users, items = _without_catalogue(frame, roles, locate)
    value, role = (roles.rating, "rating") if roles.rank is None else (roles.rank, "rank")
    assert roles.user is not None
    assert value is not None
    columns = Columns(roles.user, roles.item, value, roles.ranking, roles.weight)
    if frame.height == 0:
        raise FormatError(f"there are no rankings, only a header{' and a list of ids' if users is not None else ''}")
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
    return rankings if users is None else with_catalogue(rankings, users, items)


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


def _without_catalogue(
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


def with_ratings(
    rankings: Rankings,
    frame: pl.DataFrame,
    columns: Columns,
    rating: str,
    duplicates: Duplicates,
    locate: Locate,
) -> Rankings:
    """Keep the ratings of a file whose order is given by ranks; the two must not contradict each other."""
    given = number_column(frame, rating, "rating", locate)
    owners = constructors._group(frame, columns, locate).rankings
    codes = encode_with(id_column(frame, columns.item, "item", locate), rankings.item_ids)
    owner, items, values = owners, codes, given
    if owner.size > rankings.n_entries:
        owner, items, values = settle_duplicates(owner, items, values, duplicates)
    entry_owner = rankings.entry_rankings()
    by_row = np.argsort(owner * rankings.n_items + items)
    by_entry = np.argsort(entry_owner * rankings.n_items + rankings.items)
    ratings = np.empty(rankings.n_entries)
    ratings[by_entry] = values[by_row]
    inverted = inverted_entries(rankings.indptr, rankings.levels, ratings)
    if inverted is not None:
        above, below = inverted
        row = int(np.argmax((owners == entry_owner[below]) & (codes == rankings.items[below])))
        first, second = (rankings.item_ids[rankings.items[entry]] for entry in inverted)
        raise InputError(
            f"{locate(row)}: {shown(second)} is ranked below {shown(first)} but rated higher, {ratings[below]:g} "
            f"against {ratings[above]:g}; correct one, or keep only the ranks or only the ratings"
        )
    return Rankings._trusted(
        rankings.user_indptr, rankings.indptr, rankings.items, rankings.levels, rankings.weights,
        rankings.user_ids, rankings.item_ids, ratings=ratings, anonymous=rankings.anonymous,
    )  # fmt: skip


def with_catalogue(rankings: Rankings, users: pl.Series | None, items: pl.Series | None) -> Rankings:
    """Add users without rankings and items that nobody ranked."""
    user_ids, user_indices = _enlarged(rankings.user_ids, users)
    item_ids, item_indices = _enlarged(rankings.item_ids, items)
    counts = np.zeros(len(user_ids), np.int64)
    counts[user_indices] = np.diff(rankings.user_indptr)
    return Rankings._trusted(
        indptr_of(counts), rankings.indptr, item_indices[rankings.items],
        rankings.levels, rankings.weights, user_ids, item_ids,
        ratings=rankings.ratings, anonymous=rankings.anonymous,
    )  # fmt: skip


def _enlarged(vocabulary: Vocabulary, extra: pl.Series | None) -> tuple[Vocabulary, np.ndarray]:
    if extra is None or len(extra) == 0:
        return vocabulary, np.arange(len(vocabulary))
    known = vocabulary.ids
    _, larger = encode(pl.concat([known, extra.rename(known.name)]), vocabulary.kind)
    return larger, encode_with(known, larger)
