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
from permrank.errors import CatalogueWarning, InputError
from permrank.ragged import indptr_of, positions
from permrank.rankings.vocabulary import Vocabulary
from permrank.rankings.where import passing
from permrank.types import Array, BoolArray, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.core.fitted import Fitted
    from permrank.core.person import Person

# Probability with which an item's rank lies in its interval.
_INTERVAL, _ENDS = 0.9, ("rank_low", "rank_high")
# So many items count as the best, or half of them where there are fewer than twice as many.
_BEST = 10
# Rows of scores that are held at a time: so many numbers of at most 8 bytes.
_BLOCK = 1 << 23
# A catalogue, as against a list of candidates: so many items, and so many times as many as the user has listed.
_CATALOGUE, _TIMES = 100, 10
_noticed: weakref.WeakSet[Estimate] = weakref.WeakSet()


def rank(person: Person, items: Iterable[object], *, k: int | None = None, interval: bool = False) -> pl.DataFrame:
    """Order the given items for a person, best first: see `Ranker.rank`."""
    fitted = person.fitted
    chosen = np.sort(fitted.items(items))  # the answer does not depend on the caller's order
    k = max(1, min(_BEST, chosen.size // 2)) if k is None else k
    require_int("k", k, 1)
    scores = fitted.scores(person, chosen)
    order = np.argsort(-scores, kind="stable")  # equal scores keep the order of the ids
    named = named_columns(fitted.item_ids, chosen[order])
    frame = pl.DataFrame({"rank": np.arange(1, chosen.size + 1), **named, "score": scores[order]})
    return _with_uncertainty(person, chosen, order, frame, k, interval=interval)


def recommend(
    fitted: Fitted,
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
    """The best ``k`` items that a user has not listed, or each of several users: see `Ranker.recommend`."""
    require_int("k", k, 1)
    if users is None and not fitted.settings.knows_nobody:
        users = fitted.user_ids
    allowed = np.full(fitted.n_items, items is None)
    if items is not None:
        allowed[fitted.items(items)] = True
    if excluded := list(exclude):
        allowed[fitted.items(excluded)] = False
    require_bool("exclude_listed", exclude_listed)
    if where is not None:
        allowed &= passing(fitted.item_ids, where)
    require_bool("include_new", include_new)
    featured = fitted.featured_items
    if items is None and not include_new:
        allowed[featured] = False
    shown = {"probability": probability, "interval": interval}
    frame = _recommended(fitted, users, allowed, int(k), exclude_listed=exclude_listed, shown=shown)
    if not include_new:
        return frame
    cold = fitted.item_ids.take(featured)
    return frame.with_columns(
        stands_on=pl.when(pl.col("item").is_in(cold.implode())).then(pl.lit("features")).otherwise(pl.lit("rankings"))
    )


def prefers_pairs(
    fitted: Fitted, users: Iterable[object], items: Iterable[object], others: Iterable[object]
) -> Float64Array:
    """Probabilities that each user ranks the one item before the other: see `Ranker.prefers_pairs`."""
    fitted.require_pairs("prefers_pairs")
    who = fitted.user_ids.indices(users)
    first, second = fitted.item_ids.find_all(items), fitted.item_ids.find_all(others)
    if not who.size == first.size == second.size:
        raise InputError(
            f"{who.size} users, {first.size} items and {second.size} others; give one of each for each pair"
        )
    return fitted.prefers_pairs(who, first, second)


def each_pair(fitted: Fitted, who: Int64Array, first: Int64Array, second: Int64Array) -> Float64Array:
    """As `prefers_pairs` for indices of users and items, user by user."""
    probabilities, places = np.full(who.size, 0.5), np.flatnonzero(first != second)
    places = places[np.argsort(who[places], kind="stable")]
    for mine in np.split(places, np.flatnonzero(np.diff(who[places])) + 1):
        if mine.size:
            (person,) = fitted.known([who[mine[0]]])
            probabilities[mine] = fitted.prefers(person, first[mine], second[mine])
    return probabilities


def _recommended(
    fitted: Fitted, users: object, allowed: BoolArray, k: int, *, exclude_listed: bool, shown: dict[str, bool]
) -> pl.DataFrame:
    """The best k items of the allowed ones that a user, or each of several, has not listed."""
    several = isinstance(users, Iterable) and not isinstance(users, str)
    people = [fitted.person(user) for user in users] if several else [fitted.person(users)]  # type: ignore[attr-defined]
    _notice_catalogue(fitted, people)
    size, blocks = max(1, _BLOCK // max(fitted.n_items, 1)), []
    for first in range(0, len(people), size):
        block = people[first : first + size]
        blocks.append(fitted.best(block, k, allowed, exclude_listed=exclude_listed))
    frame = _best_frame(fitted, people, blocks)
    if any(shown.values()) and fitted.finds_by_order and fitted.knows_ranks:
        lengths, chosen, _ = _joined(blocks)
        bounds, parts = indptr_of(lengths), []
        for person, start, stop in zip(people, bounds[:-1], bounds[1:], strict=True):
            items = np.flatnonzero(allowed & _unlisted(person) if exclude_listed else allowed)
            best = np.searchsorted(items, chosen[start:stop])
            parts.append(_with_uncertainty(person, items, best, frame[start:stop], k, **shown))
        frame = pl.concat(parts) if parts else _without_rows(frame, shown)
    return frame if several else frame.drop("user")


def _joined(blocks: Sequence[tuple[Int64Array, Int64Array, Float64Array]]) -> tuple[Array, Array, Array]:
    """What `Fitted.best` found of all blocks."""
    if not blocks:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    lengths, items, scores = zip(*blocks, strict=True)
    return np.concatenate(lengths), np.concatenate(items), np.concatenate(scores)


def _without_rows(frame: pl.DataFrame, shown: dict[str, bool]) -> pl.DataFrame:
    """A frame of nobody with the columns of `_with_uncertainty`."""
    if shown["probability"]:
        frame = frame.with_columns(pl.lit(None, pl.Float64).alias("top_probability"))
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in _ENDS if shown["interval"])


def _best_frame(
    fitted: Fitted,
    people: Sequence[Person],
    blocks: Sequence[tuple[Int64Array, Int64Array, Float64Array]],
) -> pl.DataFrame:
    """What `Fitted.best` found as a frame, with ``user`` first; somebody new has no id."""
    (lengths, items, scores), every = _joined(blocks), fitted.user_ids.ids
    ids = every.rename("user").gather(pl.Series([person.index for person in people], dtype=pl.UInt32))
    user = ids.gather(np.repeat(np.arange(len(people)), lengths))
    named = named_columns(fitted.item_ids, items)
    return pl.DataFrame({"user": user, "rank": 1 + positions(indptr_of(lengths)), **named, "score": scores})


def _unlisted(person: Person) -> BoolArray:
    """Which items a person has not listed."""
    free = np.ones(person.fitted.n_items, bool)
    free[person.listed()] = False
    return free


def named_columns(ids: Vocabulary, indices: Int64Array, kind: str | None = None) -> dict[str, pl.Series]:
    """Ids of some items (or users), and their titles if there are any: columns of an answer."""
    columns = {kind or ids.kind: ids.take(indices)}
    return columns if ids.titles is None else columns | {"title": ids.titles.gather(indices)}


def _with_uncertainty(
    person: Person,
    items: Int64Array,
    order: Int64Array,
    frame: pl.DataFrame,
    k: int,
    *,
    probability: bool = True,
    interval: bool = False,
) -> pl.DataFrame:
    """With the probability to be among the best k of some items, and with an interval that holds the rank shown."""
    fitted = person.fitted
    if not fitted.knows_ranks:
        return frame
    distribution = fitted.law(person, items)
    if probability:
        frame = frame.with_columns(top_probability=pl.Series(distribution.top_of(order, k), dtype=pl.Float64))
    if interval:
        low, high = 1 + distribution.rank_interval(order, _INTERVAL).T
        shown = frame["rank"].to_numpy()
        frame = frame.with_columns(
            rank_low=pl.Series(np.minimum(low, shown)), rank_high=pl.Series(np.maximum(high, shown))
        )
    return frame


def _notice_catalogue(fitted: Fitted, people: Sequence[Person]) -> None:
    """Say once for each fitted model that only orders what is listed that a catalogue asks for more."""
    n_items = fitted.n_items
    if fitted.settings.finds or n_items < _CATALOGUE or fitted.estimate in _noticed:
        return
    if any(n_items >= _TIMES * max(n_items - int(_unlisted(person).sum()), 1) for person in people[:1]):
        _noticed.add(fitted.estimate)
        warnings.warn(
            f"{fitted.name} has learnt how people order what they list, not what they would choose: of "
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


def assignments_frame(users: Vocabulary, memberships: Float64Array) -> pl.DataFrame:
    """The likeliest community of every user, how likely it is, and how undecided the membership.

    Parameters
    ----------
    users : Vocabulary
    memberships : float64 (n_users, K)
        P(community | user).

    Returns
    -------
    polars.DataFrame
        ``user``, ``community`` (from 1), ``probability``, and ``entropy``: 0 where there is no doubt, 1 where all
        communities are equally likely.
    """
    k = memberships.shape[1]
    logs = np.log(np.where(memberships > 0, memberships, 1.0))
    entropy = -np.sum(memberships * logs, axis=1) / (np.log(k) if k > 1 else 1.0)
    return pl.DataFrame(
        {
            "user": users.ids,
            "community": memberships.argmax(axis=1) + 1,
            "probability": memberships.max(axis=1),
            "entropy": np.clip(np.abs(entropy), 0.0, 1.0),
        }
    )
