"""Which column of a table means what: the synonyms of each role, and the roles that the columns of a table have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import polars as pl

from permrank.errors import FormatError, InputError, argument, shown
from permrank.types import Named

Kind: TypeAlias = Literal["interactions"]
"""What a table is read as, whatever its columns are called: sets without order."""

_THINGS = (
    "movie", "film", "book", "song", "track", "artist", "album", "product", "article", "game", "recipe", "dish",
    "restaurant", "business", "place", "venue", "video", "show", "anime", "paper", "candidate", "alternative", "option",
)  # fmt: skip
_PEOPLE = (
    "customer", "member", "reviewer", "reader", "listener", "viewer", "visitor", "person", "respondent", "rater",
    "judge", "account",
)  # fmt: skip
_EVENTS = (
    "click", "purchase", "play", "listen", "stream", "view", "visit", "checkin", "download", "interaction", "event",
)  # fmt: skip
SYNONYMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "user": (
        ("user", "userid", "voter", "voterid"),
        tuple(f"{word}id" for word in _PEOPLE),
        (*_PEOPLE, "uid"),
    ),
    "ballot": (("ballot", "ballotid"),),
    "item": (
        ("item", "itemid", "movie", "movieid"),
        (*(f"{word}id" for word in _THINGS), "asin", "isbn", "sku", "iid"),
        _THINGS,
    ),
    "rating": (("rating", "stars"), ("ratings", "userrating", *(f"{word}rating" for word in _THINGS))),
    "rank": (("rank",),),
    "ranking": (("ranking", "rankingid"),),
    "weight": (("weight", "weights", "count", "counts", "votes"),),
    "winner": (("winner", "winnerid"),),
    "loser": (("loser", "loserid"),),
    "draw": (("draw", "drawn", "isdraw", "tie", "tied", "istie"),),
    "entry_count": (("entrycount",),),  # beside an order
    # Beside a winner and a loser: columns that may tell that there was neither.
    "result": (("result",), ("outcome",), ("score",)),
    # How often an item was taken up, where there is no order: plays, n_plays, play_count.
    "count": (
        ("weight", "weights", "count", "counts", "quantity", "qty", "frequency", "freq", "strength",
         *(form.format(word) for word in _EVENTS for form in ("{}s", "n{}s", "num{}s", "{}count", "{}counts"))),
    ),
    # Columns that say nothing of an order.
    "time": (("time", "timestamp", "date", "datetime", "day"),),
    "title": (("title",), ("name", "label"), (*(f"{word}title" for word in _THINGS), "itemname", "itemtitle")),
    # Of a table of links: who is linked, with whom, and how strongly.
    "linked user": tuple((word,) for word in (
        "user", "userid", "truster", "follower", "source", "from", "member", "person",
    )),
    "friend": tuple((word,) for word in (
        "friend", "friendid", "trustee", "followee", "followed", "target", "to", "other", "user2", "neighbour",
    )),
    "link weight": (("weight",), ("strength",), ("trust",), ("value",)),
}  # fmt: skip
"""Names of columns by role, without case, spaces, underscores and hyphens; those of an earlier tuple come first."""

ROLES = ("user", "item", "rating", "rank", "ranking", "weight", "winner", "loser", "draw")
"""What callers may name a column for."""
_RECOGNISED = ("ballot", *ROLES, "entry_count")
# What the caller names rules out columns that merely look right.
_RIVALS = {
    "ballot": {"user"},
    "rank": {"rating", "winner", "loser", "draw"},
    "rating": {"rank", "winner", "loser", "draw"},
    "item": {"winner", "loser", "draw"},
    "winner": {"item", "rank", "rating"},
    "loser": {"item", "rank", "rating"},
}
# What columns of ranks begin with, before their number.
_HEADS_OF_RANKS = (
    "", "choice", "rank", "place", "position", "preference", "pref", "vote", "option", "item", "candidate",
)  # fmt: skip
TYPES = {"str": pl.String, "int": pl.Int64}
"""What a name such as ``item:str`` in a file ends in, and the type that it fixes."""


class Roles(NamedTuple):
    """The column of each role, or None; and whether rows without an order are meant.

    With both a rank and a rating the rank makes the order, and the rating is kept beside it.
    """

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

    @property
    def entry(self) -> tuple[str, str]:
        """Columns of the user and the item of an entry."""
        assert self.user is not None
        assert self.item is not None
        return self.user, self.item

    @property
    def order(self) -> tuple[str, Literal["rating", "rank"]]:
        """The column that orders the entries, and what it holds."""
        if self.rank is not None:
            return self.rank, "rank"
        assert self.rating is not None
        return self.rating, "rating"


def plain_word(name: str) -> str:
    """Name of a column without case, spaces, underscores and hyphens."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def original_name(name: str) -> str:
    """Name of a column as its file has it, where it was made different from another of the same name."""
    return re.sub(r"( \(column [0-9]+\))+$", "", name) if name.endswith(")") else name


def _bare(name: str) -> str:
    """Name of a column of a file without the ``:str`` or ``:int`` that fixes its type."""
    head, colon, tail = name.rpartition(":")
    return head if colon and tail in TYPES else name


def plain_words(names: Iterable[str]) -> dict[str, str]:
    """The plain word of each column of a frame."""
    return {name: plain_word(name) for name in names}


def matching(role: str, words: Mapping[str, str]) -> list[str]:
    """Columns that are called by a synonym, of the first tuple of `SYNONYMS` that any column is called by.

    ``words``: the plain word of each column.
    """
    for synonyms in SYNONYMS[role]:
        matches = [name for name, word in words.items() if word in synonyms]
        if matches:
            return matches
    return []


def listed(names: Sequence[str]) -> str:
    """Names in a message."""
    first = ", ".join(map(shown, names[:20]))
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"


# Columns of frames


def column_of(role: str, given: str | None, names: Sequence[str]) -> str:
    """The column of a frame for a role: the given one, or the one called by the role or a synonym of it."""
    if given is not None or role in names:
        return given or role
    matches = matching(role, plain_words(names))
    if len(matches) > 1:
        raise InputError(
            f"several columns could be the {role}: {listed(matches)}; pass {argument(role)} with the right one"
        )
    return matches[0] if matches else role


def column_of_ids(kind: Literal["user", "item"], given: str | None, names: Sequence[str], where: str) -> str:
    """The column of ids in a frame about users or items."""
    if given is not None:
        if given not in names:
            raise FormatError(f"{where} has no column {given!r}; its columns are {listed(names)}")
        return given
    words = plain_words(names)
    tiers = (*SYNONYMS[kind][:2], ("id", "key", "index"), *SYNONYMS[kind][2:])
    matches: list[str] = []
    for synonyms in tiers:
        matches = matches or [name for name, word in words.items() if word in synonyms]
    if len(matches) == 1:
        return matches[0]
    problem = f"several columns could be the {kind}" if matches else f"no column is recognised as the {kind}"
    raise FormatError(f"{where}: {problem}, among {listed(matches or names)}; call it {kind!r}")


# Columns of files


def find_roles(names: Sequence[str], given: Mapping[str, str], where: str, kind: Kind | None = None) -> Roles:
    """Give columns their roles: those the caller names, then those whose header is a synonym."""
    columns: dict[str, str | None] = {role: _named(role, name, names, where) for role, name in given.items()}
    words = {name: plain_word(_bare(original_name(name))) for name in names}
    if kind == "interactions":
        return _interaction_roles(words, columns, where)
    for role in _RECOGNISED:
        if role not in given and _RIVALS.get(role, set()).isdisjoint(given):
            columns[role] = _only_match(role, role, words, where)
    columns = {role: name for role, name in columns.items() if name is not None}
    anonymous = "user" not in columns and "ballot" in columns
    user = columns.get("user", columns.get("ballot"))
    by_entry = user is not None and "item" in columns and ("rank" in columns or "rating" in columns)
    by_pair = "winner" in columns and "loser" in columns
    if not (by_entry or by_pair):
        if "user" not in columns or "item" not in columns:
            raise _not_recognised(words, columns, where)
        return _roles_without_order(words, given, columns, where)
    if by_entry:
        unread = {"winner", "loser", "draw"}
    else:
        unread = {"item", "rating", "rank", "ranking", "entry_count"}
        results = matching("result", words)
        if results:
            columns.setdefault("draw", results[0])
    read: Named = {role: columns.get(role) for role in (*ROLES[1:], "entry_count") if role not in unread}
    return Roles(user=user, anonymous=anonymous, **read)


def _roles_without_order(
    words: Mapping[str, str], given: Mapping[str, str], columns: Mapping[str, str | None], where: str
) -> Roles:
    """Users and items, and no column that is known to order them: interactions, unless some other column might."""
    named = {role: columns[role] for role in given}
    used = {columns["user"], columns["item"], named.get("weight")}
    harmless = (*SYNONYMS["count"][0], *SYNONYMS["time"][0])
    if "ranking" in given or any(name not in used and word not in harmless for name, word in words.items()):
        raise _not_recognised(words, columns, where)
    return _interaction_roles(words, named, where)


def _interaction_roles(words: Mapping[str, str], named: Mapping[str, str | None], where: str) -> Roles:
    """Roles of a table that is read as interactions, whatever else is in it."""
    for role in named:
        if role not in ("user", "item", "weight"):
            raise InputError(
                f"{argument(role)} has no meaning for interactions, which have no order; leave it or "
                f"{argument('kind', 'interactions')} out"
            )
    synonyms = {"user": "user", "item": "item", "weight": "count"}
    roles: Named = {role: named.get(role) or _only_match(role, of, words, where) for role, of in synonyms.items()}
    missing = [role for role in ("user", "item") if roles[role] is None]
    if missing:
        _refuse_wrong_separator([*words], where)
        raise FormatError(
            f"{where}: no column for {' and '.join(missing)} is recognised among {listed([*words])}; pass "
            f"{' and '.join(map(argument, missing))} with the names of the columns"
        )
    return Roles(**roles, sets=True)


def _named(role: str, name: str, names: Sequence[str], where: str) -> str:
    if name in names:
        return name
    for other in names:
        if _bare(other) == name:
            return other
    raise FormatError(f"{where} has no column {name!r} (passed as {argument(role)}); its columns are {listed(names)}")


def _only_match(role: str, of: str, words: Mapping[str, str], where: str) -> str | None:
    """The one column that is called by a synonym; None if there is none."""
    matches = matching(of, words)
    if len(matches) > 1:
        raise FormatError(
            f"{where} has several columns that could be the {role}: {listed(matches)}; pass {argument(role)} with "
            "the right one"
        )
    return matches[0] if matches else None


def _not_recognised(words: Mapping[str, str], columns: Mapping[str, str | None], where: str) -> FormatError:
    missing = [role for role in ("user", "item") if role not in columns]
    if "user" in missing and "ballot" in columns:
        missing.remove("user")
    if "rank" not in columns and "rating" not in columns:
        missing.append("rating or rank")
    _refuse_wrong_separator([*words], where)
    _refuse_columns_of_ranks(words, where)
    user, item, rating, rank, winner, loser = map(argument, ("user", "item", "rating", "rank", "winner", "loser"))
    return FormatError(
        f"{where}: no column for {' and '.join(missing)} is recognised among {listed([*words])}; pass {user}, "
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


def _refuse_columns_of_ranks(words: Mapping[str, str], where: str) -> None:
    """Say what to do with a ballot a row: first, second, third; choice1, choice2; 1st, 2nd."""
    names = {word: name for name, word in reversed([*words.items()])}
    for first, second in (("first", "second"), ("1st", "2nd"), ("1", "2")):
        for head in _HEADS_OF_RANKS:
            name = names.get(head + first)
            if name is not None and head + second in names:
                raise FormatError(
                    f"{where} seems to have a ballot in each row and a rank in each column, from {name!r} on; write a "
                    "row for each rank instead, with columns user, item and rank; in Python: permrank.Rankings."
                    "from_lists([[item for item in row if item] for row in frame.select(COLUMNS).rows()])"
                    ".write('ballots.jsonl')"
                )
