"""Rankings made from other rankings: parts, parts for validation, merged ballots, completed lists, broken ties."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from permrank.errors import InputError, argument
from permrank.ragged import indptr_of, positions, ranges
from permrank.randomness import Seed, generator
from permrank.rankings.build import check_sums, renumbered
from permrank.rankings.vocabulary import Vocabulary, encode
from permrank.types import Array, BoolArray

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings

# 2^27 entries are 1 GiB of items and levels, and a few more while they are made.
_MOST_ENTRIES = 2**27


def select(self: Rankings, users: Iterable[object] | None = None, items: Iterable[object] | None = None) -> Rankings:
    """Only these users, only these items.

    Items that are not selected leave every ranking; what is left keeps its order. Rankings that
    lose all their items are dropped; their users stay.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["toro", "ebi", "uni"], "bob": ["ebi"]})
    >>> rankings.select(items=["toro", "uni"]).lists()
    [['toro', 'uni']]
    """
    return restrict(self, _mask(self.user_ids, users), _mask(self.item_ids, items), forget=True)


def drop(self: Rankings, users: Iterable[object] = (), items: Iterable[object] = ()) -> Rankings:
    """All but these users and items.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.Rankings.from_lists({"ann": ["toro", "ebi"], "bob": ["ebi"]}).drop(users=["bob"]).n_users
    1
    """
    return restrict(self, ~_mask(self.user_ids, users), ~_mask(self.item_ids, items), forget=True)


def _mask(vocabulary: Vocabulary, chosen: Iterable[object] | None) -> BoolArray:
    if chosen is None:
        return np.ones(len(vocabulary), bool)
    mask = np.zeros(len(vocabulary), bool)
    mask[vocabulary.indices(chosen)] = True
    return mask


def restrict(rankings: Rankings, keep_user: BoolArray, keep_item: BoolArray, *, forget: bool = False) -> Rankings:
    """Only the users and items that are marked; attributes of the others are kept, or forgotten."""
    user_of_ranking = rankings.ranking_users
    keep_entry = np.repeat(keep_user[user_of_ranking], rankings.lengths) & keep_item[rankings.items]
    left = np.bincount(rankings.entry_rankings()[keep_entry], minlength=rankings.n_rankings)
    keep_ranking = left > 0
    indptr = indptr_of(left[keep_ranking])
    new_user = np.cumsum(keep_user) - 1
    counts = np.bincount(new_user[user_of_ranking[keep_ranking]], minlength=int(keep_user.sum()))
    new_item = np.cumsum(keep_item) - 1
    return rankings._with(
        user_indptr=indptr_of(counts),
        indptr=indptr,
        items=new_item[rankings.items[keep_entry]],
        levels=renumbered(rankings.levels[keep_entry], indptr),
        weights=rankings.weights[keep_ranking],
        user_ids=_kept(rankings.user_ids, keep_user, forget=forget),
        item_ids=_kept(rankings.item_ids, keep_item, forget=forget),
        **rankings._attached(keep_entry),
    )


def _kept(vocabulary: Vocabulary, keep: BoolArray, *, forget: bool) -> Vocabulary:
    attributes = vocabulary.attributes
    if forget and attributes is not None and not keep.all():  # of ids without any ranking, what was known still is
        attributes = attributes.without(vocabulary.ids.filter(~keep))
    return Vocabulary(vocabulary.ids.filter(keep), vocabulary.kind, attributes)


class Parts(NamedTuple):
    """Two parts of the same rankings, over the same users and items."""

    train: Rankings
    test: Rankings


def hold_out(rankings: Rankings, share: float = 0.2, *, min_length: int = 3, seed: Seed = 0) -> Parts:
    """Hold out a share of the entries of every ranking, at random; at least one, and never all.

    Parameters
    ----------
    rankings : Rankings
    share : float
        Between 0 and 1.
    min_length : int
        Shorter rankings stay whole in the training part.
    seed : int, None or numpy.random.Generator

    Returns
    -------
    train, test : Rankings
        Over the same users and items.

    Examples
    --------
    >>> import permrank as pr
    >>> train, test = pr.hold_out(pr.Rankings.from_lists({"ann": list("abcde"), "bob": ["a"]}), 0.4)
    >>> train.n_entries, test.n_entries, test.n_users
    (4, 2, 2)
    """
    held = held_out_entries(rankings, share, min_length=min_length, seed=seed)
    return Parts(keep_entries(rankings, ~held), keep_entries(rankings, held))


def held_out_entries(rankings: Rankings, share: float, *, min_length: int = 3, seed: Seed = 0) -> BoolArray:
    """Mark the entries that `hold_out` puts into the test part."""
    if not 0 < share < 1:
        raise InputError(f"share={share!r}, expected a number between 0 and 1")
    lengths, owner = rankings.lengths, rankings.entry_rankings()
    order = np.lexsort((generator(seed).random(rankings.n_entries), owner))
    position = np.empty(rankings.n_entries, np.int64)
    position[order] = np.arange(rankings.n_entries) - rankings.indptr[owner]
    wanted = np.clip(np.round(share * lengths), 1, np.maximum(lengths - 1, 1)).astype(np.int64)
    wanted[lengths < max(min_length, 2)] = 0
    return np.asarray(position < wanted[owner])


def keep_entries(rankings: Rankings, keep: BoolArray) -> Rankings:
    """Only these entries, all users and all items; rankings that lose all their entries are dropped."""
    n_rankings = rankings.n_rankings
    left = np.add.reduceat(keep, rankings.indptr[:-1], dtype=np.int64) if n_rankings else np.zeros(0, np.int64)
    kept = left > 0
    indptr = indptr_of(left[kept])
    return rankings._with(
        user_indptr=indptr_of(kept)[rankings.user_indptr], indptr=indptr, items=rankings.items[keep],
        levels=renumbered(rankings.levels[keep], indptr), weights=rankings.weights[kept], **rankings._attached(keep),
    )  # fmt: skip


def merged(self: Rankings) -> Rankings:
    """Ballots without voters: equal rankings, with equal counts, once with their summed weights.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "b"]}).merged()
    >>> ballots.n_rankings, ballots.weights.tolist(), ballots.anonymous
    (1, [2.0], True)
    """
    groups: dict[bytes, int] = {}
    group = np.empty(self.n_rankings, np.int64)
    for ranking in range(self.n_rankings):
        part = slice(self.indptr[ranking], self.indptr[ranking + 1])
        content = self.items[part].tobytes() + self.levels[part].tobytes()
        if self.counts is not None:
            content += self.counts[part].tobytes()
        group[ranking] = groups.setdefault(content, len(groups))
    n = len(groups)
    weights = np.bincount(group, weights=self.weights, minlength=n).astype(np.float64)
    check_sums(weights)
    _, first = np.unique(group, return_index=True)
    keep = np.zeros(self.n_rankings, bool)
    keep[first] = True
    keep_entry = np.repeat(keep, self.lengths)
    return self._with(
        user_indptr=np.arange(n + 1),
        indptr=indptr_of(self.lengths[first]),
        weights=weights,
        user_ids=Vocabulary(pl.Series("user", np.arange(n), dtype=pl.Int64), "user"),
        items=self.items[keep_entry],
        levels=self.levels[keep_entry],
        ratings=None,
        counts=None if self.counts is None else self.counts[keep_entry],
        anonymous=True,
    )


def with_unlisted_last(self: Rankings) -> Rankings:
    """Put every item that a ranking does not list into a last tie block of that ranking.

    Ballots without a voter that are equal then are merged. Counts are left out: what nobody took up has none.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.Rankings.from_lists({"bob": ["b", "c"]}, items=["a"]).with_unlisted_last().lists()
    [['b', 'c', 'a']]
    """
    n, m = self.n_rankings, self.n_items
    if n * m > _MOST_ENTRIES:
        raise InputError(
            f"{n} rankings over {m} items would make {n * m} entries; "
            f"{argument('unlisted', 'last')} is for choice sets that a person could look through"
        )
    unlisted = np.ones(n * m, bool)
    unlisted[self.entry_rankings() * m + self.items] = False
    rest = np.flatnonzero(unlisted)
    # Each ranking's own entries come first, then the rest in the order of the items.
    is_rest = np.arange(m) >= self.lengths[:, None]
    items, levels = np.empty((n, m), np.int32), np.empty((n, m), np.int32)
    items[~is_rest], levels[~is_rest] = self.items, self.levels
    items[is_rest], levels[is_rest] = rest % m, np.repeat(self.last_levels + 1, m - self.lengths)
    indptr = np.arange(n + 1) * m
    completed = self._with(indptr=indptr, items=items.ravel(), levels=levels.ravel(), ratings=None, counts=None)
    # Ballots that differed only in whether they name the last item are now equal.
    return merged(completed) if self.anonymous else completed


def shuffled_ties(self: Rankings, seed: int | None = 0) -> Rankings:
    """Strict rankings: the order inside every tie block drawn at random.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.Rankings.from_lists({"ann": [{"a", "b"}, "c"]}).shuffled_ties(seed=1).has_ties
    False
    """
    shuffled = generator(seed).random(self.n_entries)
    order = np.lexsort((shuffled, self.levels, self.entry_rankings()))
    return self._with(items=self.items[order], levels=positions(self.indptr), **self._attached(order))


def to_frame(self: Rankings) -> pl.DataFrame:
    """One row per entry: user, item, rank (from 1; equal for ties), and what else there is.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.Rankings.from_lists({"ann": ["a", {"b", "c"}]}).to_frame()["rank"].to_list()
    [1, 2, 2]
    """
    columns: dict[str, object] = {"ballot" if self.anonymous else "user": self.user_ids.take(self.entry_users())}
    if np.diff(self.user_indptr).max(initial=0) > 1:
        columns["ranking"] = np.repeat(positions(self.user_indptr), self.lengths)
    columns["item"] = self.item_ids.take(self.items.astype(np.int64))
    columns["rank"] = self.levels + 1
    if self.ratings is not None:
        columns["rating"] = self.ratings
    if self.counts is not None:
        columns["count"] = self.counts
    if (self.weights != 1).any():
        columns["weight"] = self.entry_weights()
    return pl.DataFrame(columns)


def with_catalogue(rankings: Rankings, users: pl.Series | None, items: pl.Series | None) -> Rankings:
    """Add users without rankings and items that nobody ranked."""
    user_ids, user_indices = _enlarged(rankings.user_ids, users)
    item_ids, item_indices = _enlarged(rankings.item_ids, items)
    counts = np.zeros(len(user_ids), np.int64)
    counts[user_indices] = np.diff(rankings.user_indptr)
    taken = item_indices[rankings.items]
    return rankings._with(user_indptr=indptr_of(counts), items=taken, user_ids=user_ids, item_ids=item_ids)


def _enlarged(vocabulary: Vocabulary, extra: pl.Series | None) -> tuple[Vocabulary, np.ndarray]:
    if extra is None or len(extra) == 0:
        return vocabulary, np.arange(len(vocabulary))
    ids = vocabulary.ids
    codes, larger = encode(pl.concat([ids, extra.rename(ids.name)]), vocabulary.kind)
    return larger.with_attributes(vocabulary.attributes), codes[: len(ids)]


def repeated(rankings: Rankings) -> Rankings:
    """Every ranking as often as its weight says, each with weight 1; a ballot without a voter becomes several.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b"], ["b", "a"]], weights=[2, 1])
    >>> from permrank.rankings.selection import repeated
    >>> repeated(ballots).lists()
    [['a', 'b'], ['a', 'b'], ['b', 'a']]
    """
    weights = rankings.weights
    if (weights == 1).all():
        return rankings
    odd = np.flatnonzero(weights != np.round(weights))
    if odd.size:
        raise InputError(
            f"ranking {odd[0]} has the weight {weights[odd[0]]:g}; data are drawn again for whole numbers of rankings "
            "only"
        )
    times = weights.astype(np.int64)
    source = np.repeat(np.arange(rankings.n_rankings), times)
    entries = ranges(rankings.indptr[:-1][source], rankings.indptr[1:][source])
    counts = np.bincount(rankings.ranking_users[source], minlength=rankings.n_users)
    user_ids, user_indptr = rankings.user_ids, indptr_of(counts)
    if rankings.anonymous:
        user_ids, user_indptr = Vocabulary.of(range(source.size), "user"), np.arange(source.size + 1)
    return rankings._with(
        user_indptr=user_indptr, indptr=indptr_of(rankings.lengths[source]), items=rankings.items[entries],
        levels=rankings.levels[entries], weights=np.ones(source.size), user_ids=user_ids, ratings=None, counts=None,
    )  # fmt: skip


def reordered(rankings: Rankings, items: Array, levels: Array | None = None) -> Rankings:
    """The same lists with their items in another order; tied by position as before, unless levels are given."""
    from permrank.rankings.validate import order_in_ties

    made = rankings._with(items=items, levels=rankings.levels if levels is None else levels, ratings=None, counts=None)
    order = order_in_ties(made) if made.has_ties else None
    return made if order is None else made._with(items=made.items[order])
