"""Finding in the whole catalogue what people would choose: the protocol, and metrics over all items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from permrank.core.ranker import Ranker
from permrank.errors import InputError
from permrank.evaluation.metrics import Metric, Relevance, grades_of, per_list
from permrank.evaluation.protocols import Protocol, one_list_each, random_positions
from permrank.evaluation.scoring import indices_in, people
from permrank.evaluation.split import Split
from permrank.kernels import metrics as kernels
from permrank.kernels import top_k
from permrank.ragged import indptr_of
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import BoolArray, Float64Array, Int64Array, Named

# What counts as chosen by default: 4 and 5 of 5 stars.
_POSITIVE_SHARE = 0.8
# Rounding of ratings such as 0.1 + 0.2.
_ROUNDING = 1e-9
# Scores held at a time: 32 MB.
_CELLS = 1 << 22


@dataclass(frozen=True)
class Catalogue(Protocol):
    """Of everybody's positive entries a share is hidden, to be found among all items that are not given.

    People with fewer than ``min_positive`` positive entries are not asked about; all that they say is learnt from.

    Parameters
    ----------
    share : float
        Share of a person's positive entries that is hidden, rounded; at least one and never all.
    positive : "auto" or float
        The least rating that is positive. By default those at or above four fifths of the scale, which runs from one
        step below the lowest rating to the highest: 4 and 5 of five stars. Without ratings every entry is positive.
    min_positive : int
        At least 2.
    new_people : float
        Share of the people asked about who are new: a model learns from the others, and folds these in from all their
        entries that are not hidden (strong generalisation). With 0 everybody is known and asked about.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=50, n_items=40, list_length=20, ties=5)
    >>> split = pr.Catalogue().split(rankings, seed=0)
    >>> split.question, float(split.test.ratings.min())
    ('find', 4.0)
    >>> pr.evaluate(pr.Popularity(), split).metrics[:4]
    ['ndcg', 'recall', 'map', 'hit_rate']
    """

    share: float = 0.2
    positive: float | Literal["auto"] = "auto"
    min_positive: int = 5
    new_people: float = 0.0

    def _split(self, rankings: Rankings, seed: int) -> Split:
        owner = one_list_each(rankings, self)
        positive = positive_entries(rankings, self.positive)
        counts = np.bincount(owner[positive], minlength=rankings.n_users)
        wanted = np.clip(np.round(self.share * counts), 1, np.maximum(counts - 1, 1)).astype(np.int64)
        asked = counts >= self.min_positive
        new = self._new(asked, seed)
        if new is not None:
            asked = new
        hidden = np.zeros(owner.size, bool)
        hidden[positive] = random_positions(owner[positive], 8, seed) < wanted[owner[positive]]
        hidden &= asked[owner]
        given = None if new is None else new[owner] & ~hidden
        train = ~hidden if new is None else ~new[owner]
        return self._made(rankings, seed, train, hidden, given, "find")

    def _new(self, asked: BoolArray, seed: int) -> BoolArray | None:
        """Mark the people who are new, of those who can be asked about; None if all are known."""
        if self.new_people == 0:
            return None
        drawn = generator(stream_key(seed, 28)).permutation(np.flatnonzero(asked))
        new = np.zeros(asked.size, bool)
        new[drawn[: max(1, round(self.new_people * drawn.size))]] = True
        return new


def positive_entries(rankings: Rankings, least: float | Literal["auto"]) -> BoolArray:
    """Mark the entries that were chosen: those with at least this rating; "auto" as `Catalogue` has it."""
    if least != "auto" and (isinstance(least, bool) or not isinstance(least, int | float)):
        raise InputError(f"positive={least!r}, expected 'auto' or the least rating that is positive")
    if rankings.ratings is None:
        if least != "auto":
            raise InputError(f"positive={least!r}, but there are no ratings; leave it out")
        return np.ones(rankings.n_entries, bool)
    return np.asarray(rankings.ratings >= (_least_positive(rankings) if least == "auto" else least))


def _least_positive(rankings: Rankings) -> float:
    """The least r with (r - lowest + step) / (highest - lowest + step) of at least four fifths."""
    values = np.unique(np.asarray(rankings.ratings, np.float64))
    if values.size < 2:
        return float(values.min(initial=0.0))
    step = float(np.diff(values).min())
    scale = (values - values[0] + step) / (values[-1] - values[0] + step)
    return float(values[scale >= _POSITIVE_SHARE - _ROUNDING][0])


class Block(NamedTuple):
    """Some users of a test part: scores of all items, what they have listed, and what is hidden, best first.

    A hidden item that the model has never seen is -1: it cannot be shown.
    """

    users: Int64Array
    rows: Float64Array
    listed_bounds: Int64Array
    listed: Int64Array
    hidden_bounds: Int64Array
    hidden: Int64Array
    grades: Float64Array


def blocks(
    model: Ranker, test: Rankings, given: Rankings | None, *, binary: bool, excluded: Int64Array | None = None
) -> Iterator[Block]:
    """Users whom the model knows, as many at a time as fit in a bounded memory; no item of ``excluded`` is asked."""
    n_items = len(model.item_ids)
    in_model = indices_in(test.item_ids, model.item_ids)
    grades, bounds = np.ones(test.n_entries) if binary else grades_of(test), test.user_bounds
    asked = ((index, person) for index, person in people(model, test, given) if person is not None)
    while some := list(islice(asked, max(1, _CELLS // max(n_items, 1)))):
        users, persons = (list(each) for each in zip(*some, strict=True))
        listed = [person.listed().astype(np.int64) if excluded is None else excluded for person in persons]
        entries = [np.arange(bounds[user], bounds[user + 1]) for user in users]
        every = np.concatenate(entries)
        yield Block(
            np.array(users),
            np.array(model.fitted_.rows(persons), np.float64),  # a copy: what is listed is struck out
            indptr_of([each.size for each in listed]),
            np.concatenate(listed),
            indptr_of([each.size for each in entries]),
            in_model[test.items[every]],
            grades[every],
        )


def measure_catalogue(
    model: Ranker,
    test: Rankings,
    given: Rankings | None,
    wanted: list[Metric],
    *,
    k: int,
    relevance: Relevance,
    binary: bool,
    excluded: Int64Array | None = None,
) -> tuple[dict[str, Float64Array], dict[str, float]]:
    """Metrics of every test ranking, and those that are one number for all people, by name.

    Everything that is not in a person's training list is a candidate; nothing is sampled. ``excluded``: indices of
    items that are no candidates, instead of those lists.
    """
    if np.diff(test.user_indptr).max(initial=0) > 1:
        raise InputError("candidates='all' ranks everything once for each user, but a user has several test rankings")
    columns = {metric.name: np.full(test.n_rankings, np.nan) for metric in wanted if metric.is_per_list}
    popularity = _popularity(model.rankings_)
    n_items, kinds = len(model.item_ids), {metric.kind for metric in wanted}
    missed, whole = np.ones(n_items), [metric for metric in wanted if metric.kind in ("order", "function")]
    discounts = 1.0 / np.log2(np.arange(2, min(k, n_items + int(test.lengths.max(initial=0))) + 2))
    for block in blocks(model, test, given, binary=binary, excluded=excluded):
        n_users = block.users.size
        thresholds, counts = np.empty(n_users), np.empty((n_users, 3), np.int64)
        top_k.select_best(block.rows, block.listed_bounds, block.listed, k, thresholds, counts)
        chosen = block.rows, thresholds, counts
        tables: dict[str, Float64Array] = {}
        if "graded" in kinds:
            tables["graded"] = np.full((n_users, kernels.N_GRADED), np.nan)
            top_k.catalogue_metrics(
                *chosen, block.hidden_bounds, block.hidden, block.grades, discounts, k, *relevance, tables["graded"]
            )
        if "shown" in kinds:
            tables["shown"] = np.full((n_users, popularity.shape[1]), np.nan)
            top_k.shown_metrics(*chosen, k, popularity, tables["shown"])
        if "coverage" in kinds:
            top_k.never_shown(*chosen, k, missed)
        places = test.user_indptr[block.users]
        for metric in wanted:
            if metric.kind in tables:
                columns[metric.name][places] = tables[metric.kind][:, metric.column]
        if whole:
            for name, values in _of_whole_lists(block, whole, k, relevance).items():
                columns[name][places] = values
    overall = {metric.name: float(np.mean(1.0 - missed)) for metric in wanted if metric.kind == "coverage"}
    return columns, overall


def _popularity(rankings: Rankings) -> Float64Array:
    """Of every item -log2 of the share of people who list it, and the share of the others that fewer people list.

    An item that nobody lists counts as listed by one; items that as many people list count one half.
    """
    pairs = rankings.entry_users() * rankings.n_items + rankings.items
    listed = np.unique(pairs) if np.diff(rankings.user_indptr).max(initial=0) > 1 else pairs
    counts = np.bincount(listed % max(rankings.n_items, 1), minlength=rankings.n_items)
    out = np.empty((rankings.n_items, 2))
    out[:, top_k.NOVELTY] = -np.log2(np.maximum(counts, 1) / max(rankings.n_users, 1))
    others = rankings.n_items - 1
    out[:, top_k.POPULARITY_BIAS] = (rankdata(counts) - 1.0) / others if others else 0.5
    return out


def _of_whole_lists(block: Block, wanted: list[Metric], k: int, relevance: Relevance) -> dict[str, Float64Array]:
    """Metrics that look at all candidates, not at the best k alone; an item that cannot be shown comes last."""
    scores, grades = [], []
    for row, first, last in zip(block.rows, block.hidden_bounds[:-1], block.hidden_bounds[1:], strict=True):
        hidden, own = block.hidden[first:last], block.grades[first:last]
        worth = np.zeros(row.size)
        worth[hidden[hidden >= 0]] = own[hidden >= 0]
        candidates = np.flatnonzero(row > -np.inf)
        unknown = own[hidden < 0]
        lowest = max(2.0 * row[candidates].min(initial=0.0) - 1.0, np.finfo(np.float64).min)
        scores.append(np.append(row[candidates], np.full(unknown.size, lowest)))
        grades.append(np.append(worth[candidates], unknown))
    options: Named = {"k": k, "relevant_from": relevance.from_grade, "top_grade": relevance.top_grade}
    indptr = indptr_of([each.size for each in scores])
    return per_list(wanted, indptr, np.concatenate(grades), np.concatenate(scores), **options)
