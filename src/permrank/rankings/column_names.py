"""Usual names of columns, the same for files and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from permrank.errors import FormatError, InputError, argument, shown

Tiers: TypeAlias = tuple[tuple[str, ...], ...]
"""Words that name a column, without case, spaces, underscores and hyphens; those of an earlier tier come first."""

_THINGS = (
    "movie", "film", "book", "song", "track", "artist", "album", "product", "article", "game", "recipe", "dish",
    "restaurant", "business", "place", "venue", "video", "show", "anime", "paper", "candidate", "alternative", "option",
)  # fmt: skip
_PEOPLE = (
    "customer", "member", "reviewer", "reader", "listener", "viewer", "visitor", "person", "respondent", "rater",
    "judge", "account",
)  # fmt: skip
WORDS: dict[str, Tiers] = {
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
}
TITLES: Tiers = (("title",), ("name", "label"), (*(f"{word}title" for word in _THINGS), "itemname", "itemtitle"))


def plain_word(name: str) -> str:
    """Name of a column without case, spaces, underscores and hyphens."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def matching(tiers: Tiers, names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Columns that are called by a word of the first tier that has any; ``words`` are the plain words of ``names``."""
    for tier in tiers:
        found = [name for name, word in zip(names, words, strict=True) if word in tier]
        if found:
            return found
    return []


def column_of(role: str, given: str | None, names: Sequence[str]) -> str:
    """The column of a frame for a role: the given one, or the one that has a usual name, or that of the role."""
    if given is not None or role in names:
        return given or role
    found = matching(WORDS[role], names, [plain_word(name) for name in names])
    if len(found) > 1:
        raise InputError(
            f"several columns could be the {role}: {listed(found)}; pass {argument(role)} with the right one"
        )
    return found[0] if found else role


def column_of_ids(kind: Literal["user", "item"], given: str | None, names: Sequence[str], where: str) -> str:
    """The column of ids in a frame about users or items."""
    words = [plain_word(name) for name in names]
    if given is not None:
        if given not in names:
            raise FormatError(f"{where} has no column {given!r}; its columns are {listed(names)}")
        return given
    found = matching((*WORDS[kind][:2], ("id", "key", "index"), *WORDS[kind][2:]), names, words)
    if len(found) != 1:
        problem = f"several columns could be the {kind}" if found else f"no column is recognised as the {kind}"
        raise FormatError(f"{where}: {problem}, among {listed(found or names)}; call it {kind!r}")
    return found[0]


def listed(names: Sequence[str]) -> str:
    """Names in a message."""
    first = ", ".join(map(shown, names[:20]))
    return first if len(names) <= 20 else f"{first} and {len(names) - 20} more"
