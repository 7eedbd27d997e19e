"""The class methods ``Rankings.from_...``: their arguments and documentation; `constructors` does the work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from permrank.types import UserId

if TYPE_CHECKING:
    from permrank.rankings.build import Duplicates
    from permrank.rankings.rankings import Rankings

Unlisted: TypeAlias = Literal["ignore", "last"]


def from_lists(
    cls: type[Rankings],
    lists: Mapping[Any, Iterable[object]] | Iterable[Iterable[object]],
    *,
    users: Iterable[UserId] | None = None,
    weights: Iterable[float] | None = None,
    items: Iterable[str | int] | None = None,
    unlisted: Unlisted | None = None,
) -> Rankings:
    """Rankings from Python lists of items, best first; a set (or a list) inside is a tie.

    Parameters
    ----------
    lists : mapping of user to ranking, or sequence of rankings
        A sequence without ``users`` holds ballots without a voter; equal ones are merged.
    users : sequence, optional
        User of each ranking; a user who comes several times has several rankings.
    weights : sequence, optional
        How often each ranking was given (1).
    items : sequence, optional
        Items that exist beside those that are ranked: the choice set.
    unlisted : {"ignore", "last"}, optional
        What is known of items that a ranking does not list: nothing, or that they are all
        below the listed ones (a top-k list over a known choice set). Left out, nothing; a
        `permrank.errors.ChoiceSetWarning` then says if the lists look like such tops.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b"], ["b"], ["a", "b"]], unlisted="last")
    >>> ballots.lists(), ballots.weights.tolist()
    ([['a', 'b'], ['b', 'a']], [2.0, 1.0])
    """
    from permrank.rankings import constructors
    from permrank.rankings.tops import notice_tops

    rankings = constructors.from_lists(lists, users, weights, items, unlisted)
    if unlisted is None:
        notice_tops(rankings, stacklevel=2)
    return rankings


def from_ratings(
    cls: type[Rankings],
    frame: object,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    ranking: str | None = None,
    weight: str | None = None,
    duplicates: Duplicates = "error",
) -> Rankings:
    """Rankings from rows of (user, item, rating): higher is better and equal ratings tie.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
    user, item, rating : str, optional
        Names of the columns; left out, they are recognised as in files (``user``, ``userId`` ...; ``item``,
        ``movieId``, ``book_id`` ...).
    ranking : str, optional
        Column that tells several rankings of one user apart.
    weight : str, optional
        Column of weights, the same in all rows of a ranking.
    duplicates : {"error", "first", "last", "mean"}
        What to do when a user rates an item twice.

    Examples
    --------
    >>> import permrank as pr
    >>> frame = {"user": ["ann", "ann", "ann"], "item": ["ebi", "uni", "toro"], "rating": [3, 5, 5]}
    >>> pr.Rankings.from_ratings(frame).lists("ann") == [[{"toro", "uni"}, "ebi"]]
    True
    """
    from permrank.rankings import constructors
    from permrank.rankings.frames import as_frame, columns_of

    frame = as_frame(frame)
    user, item, rating = columns_of(frame, user=user, item=item, rating=rating)
    columns = constructors.Columns(user, item, rating, ranking, weight)
    return constructors.from_values(frame, columns, "rating", duplicates)


def from_ranks(
    cls: type[Rankings],
    frame: object,
    *,
    user: str | None = None,
    item: str | None = None,
    rank: str | None = None,
    ranking: str | None = None,
    weight: str | None = None,
    duplicates: Duplicates = "error",
    unlisted: Unlisted | None = None,
) -> Rankings:
    """Rankings from rows of (user, item, rank): lower is better and equal ranks tie.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
    user, item, rank : str, optional
        Names of the columns; left out, they are recognised as in files. Ranks may be any numbers; only their order
        counts.
    ranking, weight, duplicates
        As for `from_ratings`.
    unlisted : {"ignore", "last"}, optional
        As for `from_lists`.

    Examples
    --------
    >>> import permrank as pr
    >>> frame = {"user": [7, 7, 7], "item": ["ebi", "uni", "toro"], "rank": [2, 1, 3]}
    >>> pr.Rankings.from_ranks(frame).lists(7)
    [['uni', 'ebi', 'toro']]
    """
    from permrank.rankings import constructors
    from permrank.rankings.frames import as_frame, columns_of
    from permrank.rankings.tops import check_unlisted, notice_tops

    check_unlisted(unlisted)
    frame = as_frame(frame)
    user, item, rank = columns_of(frame, user=user, item=item, rank=rank)
    columns = constructors.Columns(user, item, rank, ranking, weight)
    rankings = constructors.from_values(frame, columns, "rank", duplicates)
    if unlisted is None:
        notice_tops(rankings, stacklevel=2)
    return rankings.with_unlisted_last() if unlisted == "last" else rankings


def from_pairs(
    cls: type[Rankings],
    frame: object,
    *,
    user: str | None = "user",
    winner: str = "winner",
    loser: str = "loser",
    draw: str | None = None,
    weight: str | None = None,
) -> Rankings:
    """Rankings of two from rows of (user, winner, loser); equal rows are merged with their weights.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
    user : str or None
        Column of users; None for choices without a known chooser.
    winner, loser : str
        Names of the columns.
    draw : str, optional
        Column that says of which rows neither won, so that the two are tied: true or false, 1 or 0 (blank is
        no), ``"draw"`` or ``"win"``, or a score such as ``"2-2"``.
    weight : str, optional
        Column of weights.

    Examples
    --------
    >>> import permrank as pr
    >>> frame = {"winner": ["a", "b", "a"], "loser": ["b", "a", "b"]}
    >>> pairs = pr.Rankings.from_pairs(frame, user=None)
    >>> pairs.lists(), pairs.weights.tolist()
    ([['a', 'b'], ['b', 'a']], [2.0, 1.0])
    >>> games = {"winner": ["a", "b"], "loser": ["b", "a"], "drawn": [False, True]}
    >>> pr.Rankings.from_pairs(games, user=None, draw="drawn").lists() == [["a", "b"], [{"a", "b"}]]
    True
    """
    from permrank.rankings import constructors

    return constructors.from_pairs(frame, user, winner, loser, draw, weight)


def from_interactions(
    cls: type[Rankings], frame: object, *, user: str | None = None, item: str | None = None, weight: str | None = None
) -> Rankings:
    """Sets without order from rows of (user, item): clicks, purchases, plays, check-ins.

    Every user has one ranking, a single tie block of all that they took up. Rows with the same user and item are
    added up, and `counts` has the sums.

    Parameters
    ----------
    frame : any Arrow-speaking frame, or a dict of columns
    user, item : str, optional
        Names of the columns; left out, they are recognised as in files.
    weight : str, optional
        Column of positive numbers: how often, or how strongly, the item was taken up. Left out, each row counts 1.

    Examples
    --------
    >>> import permrank as pr
    >>> clicks = {"user": ["ann", "ann", "ann", "bob"], "item": ["uni", "ebi", "uni", "ebi"]}
    >>> rankings = pr.Rankings.from_interactions(clicks)
    >>> rankings.lists("ann") == [[{"ebi", "uni"}]], rankings.counts.tolist()
    (True, [1.0, 2.0, 1.0])
    >>> plays = {"who": [7, 7], "song": ["a", "b"], "plays": [12, 3]}
    >>> pr.Rankings.from_interactions(plays, user="who", item="song", weight="plays").counts.tolist()
    [12.0, 3.0]
    """
    from permrank.rankings import interactions
    from permrank.rankings.frames import as_frame, columns_of

    frame = as_frame(frame)
    user, item = columns_of(frame, user=user, item=item)
    return interactions.from_interactions(frame, user, item, weight)
