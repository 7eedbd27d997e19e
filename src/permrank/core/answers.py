"""The frames that models answer with: the best items, and similar items and users."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from permrank.checks import require_bool, require_int
from permrank.core.estimates import Estimate
from permrank.core.users import NewUser, UserReference
from permrank.errors import CatalogueWarning, InputError
from permrank.kernels.top_k import best_items
from permrank.ragged import indptr_of, positions
from permrank.rankings.vocabulary import Vocabulary
from permrank.rankings.where import passing
from permrank.types import Array, BoolArray, Float64Array, Int32Array, Int64Array

if TYPE_CHECKING:
    from permrank.core.ranker import Ranker

# Probability with which an item's rank lies in its interval.
_INTERVAL, _ENDS = 0.9, ("rank_low", "rank_high")
# So many items count as the best, or half of them where there are fewer than twice as many.
_BEST = 10
# Rows of scores that are held at a time: so many numbers of at most 8 bytes.
_BLOCK = 1 << 23
# A catalogue, as against a list of candidates: so many items, and so many times as many as the user has listed.
_CATALOGUE, _TIMES = 100, 10
_said: weakref.WeakSet[Estimate] = weakref.WeakSet()


def rank(
    self: Ranker, user: object, items: Iterable[object], *, k: int | None = None, interval: bool = False
) -> pl.DataFrame:
    """Order the given items for a user, best first.

    Parameters
    ----------
    user : id or new user
    items : ids or titles
    k : int, optional
        How many count as the best; 10, or half of the items if there are fewer than 20.
    interval : bool
        Add ``rank_low`` and ``rank_high``: with a probability of at least 0.9 the item's rank among these lies between.
        `tie_groups` says what can be told apart.

    Returns
    -------
    polars.DataFrame
        Columns ``rank`` (from 1), ``item``, ``title`` if items have one, ``score``, and where the model says how likely
        every ranking is, ``top_probability``: of being among the best ``k`` of these items.
    """
    reference = self._reference(user)
    chosen = np.sort(self._item_indices(items))  # the answer does not depend on the caller's order
    k = max(1, min(_BEST, chosen.size // 2)) if k is None else k
    require_int("k", k, 1)
    scores = self._scores(reference, chosen)
    order = np.argsort(-scores, kind="stable")  # equal scores keep the order of the ids
    frame = _frame(self, chosen[order], scores[order])
    return _with_uncertainty(self, reference, chosen, order, frame, k, interval=interval)


def recommend(
    self: Ranker,
    users: object,
    k: int = 10,
    *,
    items: Iterable[object] | None = None,
    exclude: Iterable[object] = (),
    exclude_listed: bool = True,
    where: pl.Expr | str | None = None,
    include_new: bool = False,
    probability: bool = False,
    interval: bool = False,
) -> pl.DataFrame:
    """Return the best ``k`` items that a user has not listed, or each of several users; fewer if there are fewer.

    Parameters
    ----------
    users : id, new user, list of these, or None
        None is everybody, or nobody in particular where a model treats all alike.
    k : int
    items : ids or titles, optional
        Only these are recommended.
    exclude : ids or titles
        These are not.
    exclude_listed : bool
        Leave out what the user has listed.
    where : polars.Expr or str, optional
        A condition on the attributes of items (`Rankings.with_items`), such as ``pl.col("year") > 1990``, or
        ``"genres contains Comedy and year > 1990"``. Items of which it is not known are left out.
    include_new : bool
        Also items that nobody has ranked, and that the model knows by their features alone
        (`Rankings.with_features`); the column ``stands_on`` then says "rankings" or "features".
    probability : bool
        Add ``top_probability``, of being among the best ``k`` of all that could be recommended, where the model says
        how likely every order is and `recommend` goes by that.
    interval : bool
        Add ``rank_low`` and ``rank_high`` likewise: with a probability of at least 0.9 the item's rank among all that
        could be recommended lies between.

    Returns
    -------
    polars.DataFrame
        Columns ``rank`` (from 1), ``item``, ``title`` if items have titles, ``score``; before them ``user`` if several
        are asked about.

    Examples
    --------
    >>> import permrank as pr
    >>> lists = {"ann": ["a", "b"], "bob": ["b", "c", "d"], "cat": ["c", "a", "b"]}
    >>> model = pr.Popularity(count="listed").fit(pr.Rankings.from_lists(lists))
    >>> model.recommend("ann", k=2)["item"].to_list()
    ['c', 'd']
    >>> model.recommend(["ann", "cat"], k=1).rows()
    [('ann', 1, 'c', 2.0), ('cat', 1, 'd', 1.0)]
    >>> model.recommend("ann", exclude=["c"])["item"].to_list()
    ['d']
    """
    self._require_fitted()
    require_int("k", k, 1)
    if users is None and not self.knows_nobody:
        users = self.user_ids
    allowed = np.zeros(len(self.item_ids), bool)
    allowed[self._item_indices(items)] = True
    allowed[self._item_indices(list(exclude))] = False
    require_bool("exclude_listed", exclude_listed)
    if where is not None:
        allowed &= passing(self.item_ids, where)
    require_bool("include_new", include_new)
    new = self._warm_items()
    if items is None and not include_new:
        allowed[new] = False
    shown = {"probability": probability, "interval": interval}
    found = _recommended(self, users, allowed, int(k), exclude_listed=exclude_listed, shown=shown)
    if not include_new:
        return found
    warm = self.item_ids.take(new)
    return found.with_columns(
        stands_on=pl.when(pl.col("item").is_in(warm.implode())).then(pl.lit("features")).otherwise(pl.lit("rankings"))
    )


def prefers_pairs(
    self: Ranker, users: Iterable[object], items: Iterable[object], others: Iterable[object]
) -> Float64Array:
    """Probabilities that each user ranks the one item before the other: three sequences of ids, equally long.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists({"ann": ["a", "b", "c"], "bob": ["b", "a", "c"]})
    >>> model = pr.FactoredThurstone(n_factors=1, max_iter=30).fit(ballots)
    >>> model.prefers_pairs(["ann", "bob"], ["a", "a"], ["b", "b"]).round(2).tolist()
    [1.0, 0.0]
    """
    self._require_distribution("prefers_pairs")
    self._require_fitted()
    who, what, other = self.user_ids.indices(users), self.item_ids.find_all(items), self.item_ids.find_all(others)
    if not who.size == what.size == other.size:
        raise InputError(f"{who.size} users, {what.size} items and {other.size} others; give one of each for each pair")
    return self._prefers_pairs(who, what, other)


def each_pair(self: Ranker, who: Int64Array, first: Int64Array, second: Int64Array) -> Float64Array:
    """As `prefers_pairs` for indices of users and items, user by user."""
    found, places = np.full(who.size, 0.5), np.flatnonzero(first != second)
    places = places[np.argsort(who[places], kind="stable")]
    for mine in np.split(places, np.flatnonzero(np.diff(who[places])) + 1):
        if mine.size:
            found[mine] = self._prefers(int(who[mine[0]]), first[mine], second[mine])
    return found


def by_distribution(self: Ranker, user: UserReference, first: Int64Array, second: Int64Array) -> Float64Array:
    """Probabilities that a user ranks the one item before the other, for several pairs of different items."""
    pairs = np.column_stack((first, second))
    return np.array([self._distribution(user, items).prefers(0, 1) for items in pairs])


def _recommended(
    model: Ranker, users: object, allowed: BoolArray, k: int, *, exclude_listed: bool, shown: dict[str, bool]
) -> pl.DataFrame:
    """The best k items of the allowed ones that a user, or each of several, has not listed."""
    several = isinstance(users, Iterable) and not isinstance(users, str)
    asked = list(users) if several else [users]  # type: ignore[call-overload]
    references = [model._reference(user) for user in asked]
    _notice_catalogue(model, references)
    size, found = max(1, _BLOCK // max(len(model.item_ids), 1)), []
    for first in range(0, len(references), size):
        block = references[first : first + size]
        found.append(best_of_block(model, block, allowed, k, exclude_listed=exclude_listed))
    frame = _best_frame(model, asked, references, found)
    if any(shown.values()) and model._finds_by_order and model._knows_ranks:
        lengths, chosen, _ = _joined(found)
        bounds, parts = indptr_of(lengths), []
        for user, start, stop in zip(references, bounds[:-1], bounds[1:], strict=True):
            items = np.flatnonzero(allowed & unlisted(model, user) if exclude_listed else allowed)
            best = np.searchsorted(items, chosen[start:stop])
            parts.append(_with_uncertainty(model, user, items, best, frame[start:stop], k, **shown))
        frame = pl.concat(parts) if parts else _without_rows(frame, shown)
    return frame if several else frame.drop("user")


def best_of_block(
    model: Ranker, users: Sequence[UserReference], allowed: BoolArray, k: int, *, exclude_listed: bool
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """How many items each of some users gets, the items of all one after the other, best first, and their scores."""
    rows = np.array(model._score_rows(users), np.float64)  # a copy: what may not be recommended is struck out
    if not allowed.all():
        rows[:, ~allowed] = -np.inf
    for user, row in zip(users if exclude_listed else (), rows, strict=False):
        row[listed_items(model, user)] = -np.inf
    items = best_items(rows, min(k, rows.shape[1]))
    there = items >= 0
    who = np.repeat(np.arange(len(users)), there.sum(axis=1))
    return there.sum(axis=1), items[there], rows[who, items[there]]


def _joined(found: Sequence[tuple[Int64Array, Int64Array, Float64Array]]) -> tuple[Array, Array, Array]:
    """What `best_of_block` found of all blocks."""
    none = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    lengths, items, scores = (np.concatenate(parts) for parts in zip(none, *found, strict=True))
    return lengths, items, scores


def _without_rows(frame: pl.DataFrame, shown: dict[str, bool]) -> pl.DataFrame:
    """A frame of nobody with the columns of `_with_uncertainty`."""
    if shown["probability"]:
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias("top_probability"))
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _ENDS if shown["interval"])


def _best_frame(
    model: Ranker,
    asked: Sequence[object],
    references: Sequence[UserReference],
    found: Sequence[tuple[Int64Array, Int64Array, Float64Array]],
) -> pl.DataFrame:
    """What `best_of_block` found as a frame, with ``user`` first; somebody new has no id."""
    lengths, items, scores = _joined(found)
    by_title = model.user_ids.titles is not None
    ids = [
        model.user_ids[of] if by_title and isinstance(of, int) else None if isinstance(of, NewUser) else user
        for user, of in zip(asked, references, strict=True)
    ]
    user = pl.Series("user", ids, dtype=model.user_ids.ids.dtype).gather(np.repeat(np.arange(len(ids)), lengths))
    named = named_columns(model.item_ids, items)
    return pl.DataFrame({"user": user, "rank": 1 + positions(indptr_of(lengths)), **named, "score": scores})


def listed_items(model: Ranker, user: UserReference) -> Int32Array:
    """Items that a user has listed, by their index."""
    if isinstance(user, NewUser):
        return model._aligned_items(user.rankings)
    return np.zeros(0, np.int32) if user is None else model.rankings_.items_of(user)


def unlisted(model: Ranker, user: UserReference) -> BoolArray:
    """Which items a user has not listed."""
    free = np.ones(len(model.item_ids), bool)
    free[listed_items(model, user)] = False
    return free


def _frame(model: Ranker, items: Int64Array, scores: Float64Array) -> pl.DataFrame:
    named = named_columns(model.item_ids, items)
    return pl.DataFrame({"rank": np.arange(1, items.size + 1), **named, "score": scores})


def named_columns(ids: Vocabulary, indices: Int64Array, kind: str | None = None) -> dict[str, pl.Series]:
    """Ids of some items (or users), and their titles if there are any: columns of an answer."""
    columns = {kind or ids.kind: ids.take(indices)}
    return columns if ids.titles is None else columns | {"title": ids.titles.gather(indices)}


def _with_uncertainty(
    model: Ranker,
    user: UserReference,
    items: Int64Array,
    order: Int64Array,
    frame: pl.DataFrame,
    k: int,
    *,
    probability: bool = True,
    interval: bool = False,
) -> pl.DataFrame:
    """With the probability to be among the best k of some items, and with an interval that holds the rank shown."""
    if not model._knows_ranks:
        return frame
    distribution = model._distribution(user, items)
    if probability:
        frame = frame.with_columns(top_probability=pl.Series(distribution.top_of(order, k), dtype=pl.Float64))
    if interval:
        low, high = 1 + distribution.rank_interval(order, _INTERVAL).T
        shown = frame["rank"].to_numpy()
        frame = frame.with_columns(
            rank_low=pl.Series(np.minimum(low, shown)), rank_high=pl.Series(np.maximum(high, shown))
        )
    return frame


def _notice_catalogue(model: Ranker, users: Sequence[UserReference]) -> None:
    """Say once for each fitted model that only orders what is listed that a catalogue asks for more."""
    n_items = len(model.item_ids)
    if model.finds or n_items < _CATALOGUE or model.estimate_ in _said:
        return
    if any(n_items >= _TIMES * max(n_items - int(unlisted(model, user).sum()), 1) for user in users[:1]):
        _said.add(model.estimate_)
        warnings.warn(
            f"{type(model).__name__} has learnt how people order what they list, not what they would choose: of "
            f"{n_items} items it may recommend some that nobody takes up. permrank.Recommender() learns both",
            CatalogueWarning,
            stacklevel=5,
        )


def mean_cosine(rows: Array, target: Array) -> Float64Array:
    """Cosine of every row with the target, (n_draws, n, K) and (n_draws, K), averaged over the draws."""
    total = np.zeros(rows.shape[1])
    for each, wanted in zip(rows, target, strict=True):
        lengths = np.linalg.norm(each, axis=1) * np.linalg.norm(wanted)
        total += (each @ wanted) / np.where(lengths > 0, lengths, 1.0)
    return total / len(rows)


def nearest(similarity: Float64Array, own: int, k: int, ids: Vocabulary) -> pl.DataFrame:
    """The k most similar users or items but one's own, as a frame."""
    require_int("k", k, 1)
    order = np.lexsort((np.arange(similarity.size), -similarity))
    order = order[order != own][: int(k)]
    named = named_columns(ids, order)
    return pl.DataFrame({"rank": np.arange(1, order.size + 1), **named, "similarity": similarity[order]})
