"""The class methods ``Rankings.from_...`` that take a frame with a row for each entry, choice or interaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.errors import InputError, shown
from permrank.ragged import indptr_of
from permrank.rankings.build import (
    DUPLICATES,
    Duplicates,
    added_up,
    check_sums,
    inverted_entries,
    keys_of,
    lay_out,
    repeated_entry,
    repeated_rows,
    settle_duplicates,
)
from permrank.rankings.choice_sets import Unlisted, check_unlisted, warn_of_choice_set
from permrank.rankings.columns import Roles
from permrank.rankings.frames import Table
from permrank.rankings.vocabulary import Vocabulary, encode
from permrank.types import Float64Array, Int32Array, Int64Array

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings


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
    table = Table.of(frame)
    user, item, rating = table.columns_of(user=user, item=item, rating=rating)
    return from_values(cls, table, Roles(user, item, rating, ranking=ranking, weight=weight), duplicates)


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
    check_unlisted(unlisted)
    table = Table.of(frame)
    user, item, rank = table.columns_of(user=user, item=item, rank=rank)
    roles = Roles(user, item, rank=rank, ranking=ranking, weight=weight)
    rankings = from_values(cls, table, roles, duplicates)
    if unlisted is None:
        warn_of_choice_set(rankings, stacklevel=2)
    return rankings.with_unlisted_last() if unlisted == "last" else rankings


def from_values(cls: type[Rankings], table: Table, roles: Roles, duplicates: Duplicates = "error") -> Rankings:
    """Rankings from rows of (user, item, rating or rank)."""
    if duplicates not in DUPLICATES:
        raise InputError(f"duplicates={duplicates!r}, expected one of {', '.join(DUPLICATES)}")
    (user, item), (value, role) = roles.entry, roles.order
    table.require_rows("user", "item", role)
    values = table.numbers(value, role)
    of_rows, user_indptr, user_ids = _group(table, user, roles.ranking)
    codes, item_ids = encode(table.ids(item, "item"), "item")
    n_rankings = int(user_indptr[-1])
    weights = _weights(table, roles.weight, of_rows, n_rankings)
    rankings, items = of_rows, codes
    repeat = repeated_rows(rankings, items, len(item_ids))
    if repeat is not None:
        if duplicates == "error":
            first, again = map(table.locate, repeat)
            raise repeated_entry(again, table.frame[user][repeat[1]], item_ids[items[repeat[1]]], first)
        rankings, items, values = settle_duplicates(rankings, items, values, duplicates)
    keys = keys_of(values, descending=role == "rating")
    layout = lay_out(rankings, keys.codes, items, n_rankings, len(item_ids))
    made = cls._trusted(
        user_indptr, *layout[:3], weights, user_ids, item_ids,
        ratings=keys.decode(layout.codes) if role == "rating" else None, anonymous=roles.anonymous,
    )  # fmt: skip
    return _with_kept_columns(made, table, roles, of_rows, codes, duplicates)


def _with_kept_columns(
    rankings: Rankings, table: Table, roles: Roles, owners: Int64Array, items: Int32Array, duplicates: Duplicates
) -> Rankings:
    """Keep the ratings and counts of rows whose order is given by ranks; these must not contradict the ratings."""
    attached = {}
    if roles.rank is not None and roles.rating is not None:
        values = table.numbers(roles.rating, "rating")
        ratings = attached["ratings"] = _of_entries(rankings, owners, items, values, duplicates)
        inverted = inverted_entries(rankings.indptr, rankings.levels, ratings)
        if inverted is not None:
            above, below = inverted
            row = int(np.argmax((owners == rankings.entry_rankings()[below]) & (items == rankings.items[below])))
            first, second = (shown(rankings.item_ids[rankings.items[entry]]) for entry in inverted)
            raise table.error(
                row,
                f"{second} is ranked below {first} but rated higher, {ratings[below]:g} against {ratings[above]:g}; "
                "correct one, or keep only the ranks or only the ratings",
            )
    if roles.entry_count is not None:
        counts = table.weights(roles.entry_count, "count")
        attached["counts"] = _of_entries(rankings, owners, items, counts, duplicates)
    return rankings._with(**attached) if attached else rankings


def _of_entries(
    rankings: Rankings, owners: Int64Array, items: Int32Array, values: Float64Array, duplicates: Duplicates
) -> Float64Array:
    """Values of rows in the order of the entries."""
    if owners.size > rankings.n_entries:
        owners, items, values = settle_duplicates(owners, items, values, duplicates)
    by_row = np.argsort(owners * rankings.n_items + items)
    by_entry = np.argsort(rankings.entry_rankings() * rankings.n_items + rankings.items)
    ordered = np.empty(rankings.n_entries)
    ordered[by_entry] = values[by_row]
    return ordered


def _group(table: Table, user: str, ranking: str | None) -> tuple[Int64Array, Int64Array, Vocabulary]:
    """The ranking of each row, the rankings of each user, and the users."""
    users, user_ids = encode(table.ids(user, "user"), "user")
    if ranking is None:
        return users.astype(np.int64), np.arange(len(user_ids) + 1), user_ids
    numbers, names = encode(table.ids(ranking, "ranking"), "ranking")
    packed = users.astype(np.int64) * len(names) + numbers
    distinct, rankings = np.unique(packed, return_inverse=True)
    counts = np.bincount(distinct // len(names), minlength=len(user_ids))
    return rankings.astype(np.int64), indptr_of(counts), user_ids


def _weights(table: Table, name: str | None, rankings: Int64Array, n_rankings: int) -> Float64Array:
    weights = np.ones(n_rankings)
    if name is None:
        return weights
    of_rows = table.weights(name)
    weights[rankings[::-1]] = of_rows[::-1]  # the first row of a ranking wins
    differs = of_rows != weights[rankings]
    if differs.any():
        row = int(np.argmax(differs))
        raise table.error(
            row,
            f"weight {of_rows[row]:g} differs from {weights[rankings[row]]:g} in an earlier row of the same ranking; "
            "a weight belongs to the whole ranking",
        )
    return weights


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
    table = Table.of(frame)
    table.require_rows("winner", "loser")
    wins, losses = table.ids(winner, "item"), table.ids(loser, "item")
    if wins.dtype != losses.dtype:
        raise InputError(f"columns {winner!r} ({wins.dtype}) and {loser!r} ({losses.dtype}) must have one type")
    both, item_ids = encode(pl.concat([wins, losses.rename(wins.name)]), "item")
    n = len(wins)
    best, worst = both[:n].astype(np.int64), both[n:].astype(np.int64)
    if (best == worst).any():
        row = int(np.argmax(best == worst))
        raise table.error(row, f"item {shown(wins[row])} is both winner and loser; drop the row")
    drawn = table.draws(draw)
    # A draw of the two is the same in either order.
    best, worst = np.where(drawn & (best > worst), (worst, best), (best, worst))
    users, user_ids = (np.zeros(n, np.int32), None) if user is None else encode(table.ids(user, "user"), "user")
    kept = (
        pl.DataFrame({"user": users, "best": best, "worst": worst, "drawn": drawn, "weight": table.weights(weight)})
        .group_by("user", "best", "worst", "drawn")
        .agg(pl.col("weight").sum())
        .sort("user", "best", "worst", "drawn")
    )
    n = kept.height
    check_sums(kept["weight"].to_numpy())
    items = np.column_stack([kept["best"].to_numpy(), kept["worst"].to_numpy()]).ravel()
    if user_ids is None:
        user_ids = Vocabulary(pl.Series("user", np.arange(n), dtype=pl.Int64), "user")
        user_indptr = np.arange(n + 1)
    else:
        user_indptr = indptr_of(np.bincount(kept["user"].to_numpy(), minlength=len(user_ids)))
    levels = np.column_stack([np.zeros(n, np.int32), ~kept["drawn"].to_numpy()]).ravel()
    return cls._trusted(
        user_indptr, np.arange(0, 2 * n + 1, 2), items, levels, kept["weight"].to_numpy(), user_ids, item_ids,
        anonymous=user is None,
    )  # fmt: skip


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
    table = Table.of(frame)
    user, item = table.columns_of(user=user, item=item)
    table.require_rows("user", "item")
    users, user_ids = encode(table.ids(user, "user"), "user")
    items, item_ids = encode(table.ids(item, "item"), "item")
    return sets_of(cls, users, items, table.weights(weight), user_ids, item_ids)


def sets_of(
    cls: type[Rankings],
    users: Int32Array | Int64Array,
    items: Int32Array | Int64Array,
    counts: Float64Array,
    user_ids: Vocabulary,
    item_ids: Vocabulary,
) -> Rankings:
    """One tie block for each user who has a row; the counts of rows of the same user and item are added up."""
    n_items = max(len(item_ids), 1)
    pairs, counts = added_up(users.astype(np.int64) * n_items + items, counts)
    lengths = np.bincount(pairs // n_items, minlength=len(user_ids))
    listed = lengths > 0
    return cls._trusted(
        indptr_of(listed), indptr_of(lengths[listed]), pairs % n_items, np.zeros(pairs.size, np.int32),
        np.ones(int(listed.sum())), user_ids, item_ids, counts=counts,
    )  # fmt: skip


def are_sets(rankings: Rankings) -> bool:
    """Whether these could come from `from_interactions`: at most one set for each user, without order or ratings."""
    return not (
        rankings.has_order
        or rankings.anonymous
        or rankings.ratings is not None
        or (np.diff(rankings.user_indptr) > 1).any()
        or (rankings.weights != 1).any()
    )
