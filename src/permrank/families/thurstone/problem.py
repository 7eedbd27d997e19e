"""Data of Thurstone's model in the form that its sweeps want: people, slots of their utilities, what is observed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.errors import InputError
from permrank.families.thurstone.kernels.orders import Statements, depths
from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.known import Known
from permrank.posterior.problem import Problem
from permrank.ragged import frozen, indptr_of, owners, ranges
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array, Float64Array, Int32Array, Int64Array

# A ballot cast so often is so many people; more copies than this in all are a slip, or need another model.
_MOST_COPIES = 5_000_000


class Observations(NamedTuple):
    """What a problem's users say about their utilities.

    Attributes
    ----------
    statements : Statements
    contradicted : bool
        Whether somebody's answers contradict each other.
    depth : int64 (n_slots,)
        Length of the longest chain above every slot.
    """

    statements: Statements
    contradicted: bool
    depth: Int64Array

    @classmethod
    def of(cls, problem: Problem, *, one_draw: bool) -> Observations:
        """Those of the rankings of a problem."""
        statements = statements_of(problem.rankings, problem.rankings.items, problem.thresholds, one_draw=one_draw)
        depth = np.zeros(statements.slot_items.size, np.int64)
        cyclic = not problem.odds and bool(depths(statements, depth).any())
        return cls(statements, cyclic, depth)


def problem_of(
    rankings: Rankings, thresholds: Float64Array, co_listing: Float64Array, known: Known | None = None
) -> tuple[Problem, Int64Array]:
    """The problem of all people, of whom a ballot with a weight is several, and the first person of every user."""
    people, first = rankings, np.arange(rankings.n_users, dtype=np.int64)
    copies = copies_of(rankings)
    if copies is not None:
        chosen = np.repeat(first, copies)
        people, first = _repeated(rankings, chosen), np.cumsum(copies) - copies
        known = None if known is None else known._replace(users=known.users[chosen], graph=None)
    problem = Problem.of(
        people, 0, shuffle=False, intercepts=True, thresholds=thresholds, co_listing=co_listing, known=known
    )
    return problem, first


def copies_of(rankings: Rankings) -> Int64Array | None:
    """How many people stand for every ballot; None where users are known, who are one person each."""
    if not rankings.anonymous or (rankings.weights == 1.0).all():
        return None
    whole = np.round(rankings.weights)
    if (np.abs(rankings.weights - whole) > 1e-9).any() or whole.min(initial=1.0) < 1:
        number = int(np.flatnonzero((np.abs(rankings.weights - whole) > 1e-9) | (whole < 1))[0])
        raise InputError(
            f"ballot {number} has weight {rankings.weights[number]:g}; in Thurstone's model a ballot is given by so "
            "many people, so weights must be whole numbers"
        )
    if whole.sum() > _MOST_COPIES:
        raise InputError(f"the ballots stand for {whole.sum():.0f} people, more than {_MOST_COPIES:,}; take a sample")
    return whole.astype(np.int64)


def _repeated(rankings: Rankings, chosen: Int64Array) -> Rankings:
    """These ballots, each of them one person's, some of them several times."""
    lengths = rankings.lengths[chosen]
    indptr = indptr_of(lengths)
    entries = ranges(rankings.indptr[chosen], rankings.indptr[chosen] + lengths)
    people = Vocabulary(pl.int_range(chosen.size, eager=True), "user")
    arrays = np.arange(chosen.size + 1), indptr, rankings.items[entries], rankings.levels[entries], np.ones(chosen.size)
    return Rankings._trusted(*arrays, people, rankings.item_ids, **rankings._attached(entries))


def statements_of(rankings: Rankings, items: Int32Array, thresholds: Float64Array, *, one_draw: bool) -> Statements:
    """Slots of rankings, items in the numbering of the model."""
    user_indptr, indptr, ratings = rankings.user_indptr, rankings.indptr, rankings.ratings
    rated = thresholds.size > 0 and ratings is not None
    bounds = indptr[user_indptr]
    several = bool((np.diff(user_indptr) > 1).any())
    one_draw = one_draw and not rated
    if one_draw and several:
        slot_indptr, slot_items, entry_slots = _shared_slots(owners(bounds), items, bounds.size - 1)
    else:
        slot_indptr, slot_items = bounds, items
        entry_slots = np.arange(items.size) - np.repeat(bounds[:-1], np.diff(bounds))
    grades = np.searchsorted(thresholds, ratings) if rated else np.full(slot_items.size, -1)
    arrays = frozen(
        np.asarray(user_indptr, np.int64), np.asarray(indptr, np.int64), np.asarray(rankings.levels, np.int32),
        entry_slots.astype(np.int32), np.asarray(slot_indptr, np.int64), np.asarray(slot_items, np.int32),
        grades.astype(np.int32),
    )  # fmt: skip
    return Statements._make((*arrays, one_draw or not several))


def _shared_slots(owner: Int64Array, items: Int32Array, n_users: int) -> tuple[Array, Array, Array]:
    """One slot for every item of a user, in the order in which they are first mentioned."""
    keys = owner * (int(items.max(initial=0)) + 1) + items
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    slot = np.empty_like(order)
    slot[order] = np.arange(order.size)
    slot_items, slot_owner = items[first[order]], owner[first[order]]
    slot_indptr = np.searchsorted(slot_owner, np.arange(n_users + 1))
    return slot_indptr, slot_items, slot[inverse] - slot_indptr[owner]


def coordinates_of(rankings: Rankings, seed: int, *, wanted: bool) -> Float64Array:
    """Coordinates of the items by what is listed together; none if they are not wanted."""
    return co_listing_coordinates(rankings, seed) if wanted else np.zeros((rankings.n_items, 0))
