"""Why an item is where it is for a person: a score as a sum over what the person has listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_bool, require_int
from permrank.core.answers import named_columns
from permrank.core.users import NewUser, UserReference
from permrank.types import Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.core.ranker import Ranker

# Of five rows the baseline and the rest take two; what speaks for an item has two of the others, if there are so many.
_ROWS = 5
_FOR, _AGAINST, _OTHERS, _BASELINE = "for", "against", "others", "baseline"


class Reasons(NamedTuple):
    """A score as a sum: what each listed item adds, and what is left.

    Attributes
    ----------
    items : int64 (n,)
        Indices of what the person has listed, each once.
    parts : float64 (n,)
        What each adds.
    baseline : float
        What the item has whatever the person has listed.
    named : str
        What the baseline is, in words.
    by_order : bool
        Whether places in a list count; else only that an item is in it, or how it was rated.
    """

    items: Int64Array
    parts: Float64Array
    baseline: float
    named: str
    by_order: bool = True


def explain(self: Ranker, user: object, item: object, *, k: int = _ROWS, full: bool = False) -> pl.DataFrame:
    """Say which of the things that a person has listed speak for an item, and which against it.

    Parameters
    ----------
    user : id or new user
    item : id or title
    k : int
        Rows at the most: the listed items that count most, the others together, and the baseline, which is what the
        item has for everybody. An item that is on the list itself is no reason for itself: what it adds is among the
        others.
    full : bool
        A row for every other listed item instead.

    Returns
    -------
    polars.DataFrame
        Columns ``reason`` (``for``, ``against``, ``others``, ``baseline``), ``item`` and, where there are such,
        ``title`` and the person's ``rating`` of it, or ``place`` in the list; ``contribution``, which adds up to the
        score that `recommend` goes by; and ``share``, the part of all that is shown that speaks for (or, negative,
        against) the item: absolute values add up to 1. What speaks for the item comes first, largest first, then what
        speaks against it, then the others and the baseline.

    Examples
    --------
    >>> import permrank as pr
    >>> breakfasts = {"ann": "tea milk", "bob": "tea milk", "cat": "tea", "dan": "juice egg", "eve": "juice egg"}
    >>> lists = {name: [set(items.split())] for name, items in breakfasts.items()}
    >>> model = pr.Recommender(n_factors=2).fit(pr.Rankings.from_lists(lists))
    >>> model.explain("cat", "milk")["reason"].to_list()
    ['for', 'baseline']
    """
    require_int("k", k, 3)
    require_bool("full", full)
    reference, index, reasons = _asked(self, user, item)
    chosen = _order(reasons, index) if full else _chosen(reasons, index, int(k))
    return _frame(self, reference, reasons, chosen)


def because(self: Ranker, user: object, item: object) -> str:
    """Say in a sentence why an item is recommended to a person: `explain` in words.

    Examples
    --------
    >>> import permrank as pr
    >>> breakfasts = {"ann": "tea milk", "bob": "tea milk", "cat": "tea", "dan": "juice egg", "eve": "juice egg"}
    >>> lists = {name: [set(items.split())] for name, items in breakfasts.items()}
    >>> model = pr.Recommender(n_factors=2).fit(pr.Rankings.from_lists(lists))
    >>> model.because("cat", "milk")
    'milk: because you chose tea'
    """
    reference, index, reasons = _asked(self, user, item)
    said = _said(self, reference, reasons)
    chosen, others = _chosen(reasons, index, _ROWS), reasons.parts[reasons.items != index]
    name = self.item_ids.called(index)
    parts = reasons.parts[chosen]
    liked = [said.told(int(at)) for at in reasons.items[chosen[parts > 0.0]]]
    # Small things that speak against it are in the table; the sentence has those that weigh like a reason for it.
    heavy = parts <= -parts[parts > 0.0].min(initial=np.inf if liked else 0.0)
    disliked = [said.told(int(at)) for at in reasons.items[chosen[(parts < 0.0) & heavy]]]
    words = [f"because you {said.verb} {_joined(liked)}"] if liked else []
    if not liked or reasons.baseline > others.sum():
        words = [f"by {reasons.named}", *words]
    if disliked:
        words.append(f"in spite of {_joined(disliked)}")
    return f"{name}: {'; '.join(words)}"


def no_reasons(self: Ranker, user: UserReference, item: int) -> Reasons:
    """A score of an item (an index) as a sum over what the user has listed; a model that has such a sum gives it."""
    self._refuse("explain")


def _asked(model: Ranker, user: object, item: object) -> tuple[UserReference, int, Reasons]:
    reference = model._reference(user)
    index = model.item_ids.find(item)
    return reference, index, model._reasons(reference, index)


def _order(reasons: Reasons, index: int) -> Int64Array:
    """What speaks for an item, largest first, then what speaks against it, largest first; never the item itself."""
    parts, own = reasons.parts, reasons.items == index
    return np.lexsort((-np.abs(parts), parts <= 0.0, own))[: parts.size - int(own.sum())]


def _chosen(reasons: Reasons, index: int, k: int) -> Int64Array:
    """The listed items that are shown by themselves: the largest, but of those against at most a third."""
    order, size = _order(reasons, index), reasons.parts.size
    n = k - 1 if size <= k - 1 and order.size == size else k - 2  # the others need no row if there are none
    positive, against = (int((sign * reasons.parts[order] > 0.0).sum()) for sign in (1, -1))
    against = min(against, max(n // 3, n - positive))
    return np.concatenate((order[: min(positive, n - against)], order[positive : positive + against]))


def _frame(model: Ranker, user: UserReference, reasons: Reasons, chosen: Int64Array) -> pl.DataFrame:
    parts, said = reasons.parts, _said(model, user, reasons)
    left = np.setdiff1d(np.arange(parts.size), chosen)
    rows = named_columns(model.item_ids, reasons.items[chosen])
    words = np.where(parts[chosen] > 0.0, _FOR, _AGAINST).tolist()
    frame = pl.DataFrame({
        "reason": pl.Series(words, dtype=pl.String), **rows,
        **said.columns(reasons.items[chosen]), "contribution": parts[chosen],
    })  # fmt: skip
    more = {"reason": [_BASELINE], "contribution": [reasons.baseline]}
    if left.size:
        more = {"reason": [_OTHERS, _BASELINE], "contribution": [float(parts[left].sum()), reasons.baseline]}
    frame = pl.concat([frame, pl.DataFrame(more)], how="diagonal")
    total = float(frame["contribution"].abs().sum())
    return frame.with_columns(share=pl.col("contribution") / (total if total > 0.0 else 1.0))


class _Said(NamedTuple):
    """What a person has said of each listed item (by index), and how to put it."""

    model: Ranker
    values: dict[int, float]
    n_listed: int
    kind: str  # "rating", "place" or "": chosen, and nothing else

    @property
    def verb(self) -> str:
        return {"rating": "rated", "place": "put", "": "chose"}[self.kind]

    def columns(self, items: Int64Array) -> dict[str, pl.Series]:
        if not self.kind:
            return {}
        dtype = pl.Float64 if self.kind == "rating" else pl.Int64
        return {self.kind: pl.Series([self.values.get(int(item)) for item in items], dtype=dtype)}

    def told(self, item: int) -> str:
        """An item, and what was said of it."""
        name, value = self.model.item_ids.called(item), self.values.get(item)
        if value is None or not self.kind:
            return name
        return f"{name} {value:g}" if self.kind == "rating" else f"{name} {_ordinal(int(value))} of {self.n_listed}"


def _said(model: Ranker, user: UserReference, reasons: Reasons) -> _Said:
    """Ratings of what a person has listed, or else places in the list."""
    if user is None:
        return _Said(model, {}, 0, "")
    if isinstance(user, NewUser):
        rankings, bounds, items = user.rankings, slice(None), model._aligned_items(user.rankings)
    else:
        rankings = model.rankings_
        bounds = slice(int(rankings.user_bounds[user]), int(rankings.user_bounds[user + 1]))
        items = rankings.items[bounds]
    if rankings.ratings is not None:
        return _Said(
            model, dict(zip(items.tolist(), rankings.ratings[bounds].tolist(), strict=True)), items.size, "rating"
        )
    levels = rankings.levels[bounds]
    if not levels.any() or not reasons.by_order:
        return _Said(model, {}, items.size, "")
    places = dict(zip(items[::-1].tolist(), (levels[::-1] + 1).tolist(), strict=True))
    return _Said(model, places, int(levels.max()) + 1, "place")


def _joined(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
