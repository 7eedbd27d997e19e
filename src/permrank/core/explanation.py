"""Why an item is where it is for a person: a score as a sum over what the person has listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_bool, require_int
from permrank.core.answers import named_columns
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.core.person import Person

# Of five rows the baseline and the rest take two; what speaks for an item has two of the others, if there are so many.
ROWS = 5
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


def explain(person: Person, item: object, *, k: int = ROWS, full: bool = False) -> pl.DataFrame:
    """What a person has listed that speaks for an item, and against it: see `Ranker.explain`."""
    require_int("k", k, 3)
    require_bool("full", full)
    index = person.fitted.item_ids.find(item)
    reasons = person.fitted.settings._reasons(person.fitted, person, index)
    chosen = _order(reasons, index) if full else _chosen(reasons, index, int(k))
    return _frame(person, reasons, chosen)


def because(person: Person, item: object) -> str:
    """Why an item is recommended to a person, in a sentence: see `Ranker.because`."""
    ids = person.fitted.item_ids
    index = ids.find(item)
    reasons = person.fitted.settings._reasons(person.fitted, person, index)
    said = _said(person, reasons)
    chosen, others = _chosen(reasons, index, ROWS), reasons.parts[reasons.items != index]
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
    return f"{ids.called(index)}: {'; '.join(words)}"


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


def _frame(person: Person, reasons: Reasons, chosen: Int64Array) -> pl.DataFrame:
    parts, said = reasons.parts, _said(person, reasons)
    left = np.setdiff1d(np.arange(parts.size), chosen)
    rows = named_columns(person.fitted.item_ids, reasons.items[chosen])
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

    ids: Vocabulary
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
        name, value = self.ids.called(item), self.values.get(item)
        if value is None or not self.kind:
            return name
        return f"{name} {value:g}" if self.kind == "rating" else f"{name} {_ordinal(int(value))} of {self.n_listed}"


def _said(person: Person, reasons: Reasons) -> _Said:
    """Ratings of what a person has listed, or else places in the list."""
    ids = person.fitted.item_ids
    if person.is_nobody:
        return _Said(ids, {}, 0, "")
    rankings, bounds = person.rankings, slice(None)
    if rankings is None:
        rankings = person.fitted.rankings
        bounds = slice(*rankings.user_bounds[person.index : person.index + 2].tolist())  # type: ignore[operator]
    items = person.listed()
    if rankings.ratings is not None:
        return _Said(
            ids, dict(zip(items.tolist(), rankings.ratings[bounds].tolist(), strict=True)), items.size, "rating"
        )
    levels = rankings.levels[bounds]
    if not levels.any() or not reasons.by_order:
        return _Said(ids, {}, items.size, "")
    places = dict(zip(items[::-1].tolist(), (levels[::-1] + 1).tolist(), strict=True))
    return _Said(ids, places, int(levels.max()) + 1, "place")


def _joined(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
