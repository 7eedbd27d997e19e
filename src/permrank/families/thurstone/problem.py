"""Data of Thurstone's model in the form that its sweeps want: slots, what is said about them, prior knowledge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from permrank.errors import InputError
from permrank.families.thurstone.kernels.orders import Statements, depths
from permrank.posterior.co_listing import co_listing_coordinates
from permrank.posterior.known import Known
from permrank.posterior.problem import Problem as Covariates
from permrank.ragged import frozen
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int32Array, Int64Array

# A ballot cast so often is so many people; more copies than this in all are a slip, or need another model.
_MOST_COPIES = 5_000_000


class Problem(NamedTuple):
    """Data in the form that the sweeps want.

    Attributes
    ----------
    said : Statements
    first_copies : int64 (n_users,)
        Row of every user of the data among those of the sweeps: a ballot with a weight is several people.
    thresholds : float64
        Values between ratings; none where order is all that counts.
    contradicted : bool
        Whether somebody's answers contradict each other.
    depth : int64 (n_slots,)
        Length of the longest chain above every slot.
    covariates : float64 (n_items, n_covariates)
        Popularity, co-listing, then features.
    co_listing : float64 (n_items, n_dimensions)
    coordinates : float64 (n_rows, n_dimensions + n_user_features)
    known : Known
        Features of items and of the users of the data.
    unsure : float64 (n_base, n_base)
        Covariance of what features leave open of the other covariates of an item that nobody lists.
    """

    said: Statements
    first_copies: Int64Array
    thresholds: Float64Array
    contradicted: bool
    depth: Int64Array
    covariates: Float64Array
    co_listing: Float64Array
    coordinates: Float64Array
    known: Known
    unsure: Float64Array

    @classmethod
    def of(
        cls,
        rankings: Rankings,
        *,
        one_draw: bool,
        thresholds: Float64Array,
        co_listing: Float64Array,
        popularity: bool,
        known: Known | None = None,
    ) -> Problem:
        """Prepare rankings; without features if none are given."""
        about = Known.nothing(rankings.n_users, rankings.n_items) if known is None else known
        copies = copies_of(rankings)
        said, first = statements_of(rankings, rankings.items, thresholds, one_draw=one_draw, copies=copies)
        depth = np.zeros(said.slot_items.size, np.int64)
        cyclic = depths(said, depth) if thresholds.size == 0 else np.zeros(1, bool)
        made = Covariates.of(
            rankings, 0, shuffle=False, intercepts=True, thresholds=thresholds, co_listing=co_listing,
            known=about,
        )  # fmt: skip
        rows = np.repeat(np.arange(rankings.n_users), np.diff(np.append(first, said.user_indptr.size - 1)))
        return cls(
            said, first, thresholds, bool(cyclic.any()), depth,
            made.covariates if popularity else made.covariates[:, made.n_base :], co_listing,
            made.user_coordinates[rows], about, made.unsure if popularity else made.unsure[:0, :0],
        )  # fmt: skip

    @property
    def n_users(self) -> int:
        """Rows of the sweeps: people, copies counted."""
        return int(self.said.user_indptr.size - 1)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.covariates)

    @property
    def n_base(self) -> int:
        """Covariates of the items that are no features."""
        return int(self.covariates.shape[1] - self.known.items.shape[1])


def copies_of(rankings: Rankings) -> Int64Array | None:
    """How many people stand for every ballot; None where users are known, who are one person each."""
    if not rankings.anonymous or (rankings.weights == 1.0).all():
        return None
    whole = np.round(rankings.weights)
    if (np.abs(rankings.weights - whole) > 1e-9).any() or whole.min(initial=1.0) < 1:
        place = int(np.flatnonzero((np.abs(rankings.weights - whole) > 1e-9) | (whole < 1))[0])
        raise InputError(
            f"ballot {place} has weight {rankings.weights[place]:g}; in Thurstone's model a ballot is given by so many "
            "people, so weights must be whole numbers"
        )
    if whole.sum() > _MOST_COPIES:
        raise InputError(f"the ballots stand for {whole.sum():.0f} people, more than {_MOST_COPIES:,}; take a sample")
    return whole.astype(np.int64)


def statements_of(
    rankings: Rankings,
    items: Int32Array,
    thresholds: Float64Array,
    *,
    one_draw: bool,
    copies: Int64Array | None = None,
) -> tuple[Statements, Int64Array]:
    """Slots of rankings, items in the numbering of the model, and the first row of every user."""
    user_indptr, indptr, levels = rankings.user_indptr, rankings.indptr, rankings.levels
    ratings = rankings.ratings
    first = np.arange(rankings.n_users, dtype=np.int64)
    if copies is not None:  # of ballots: one ranking each
        chosen = np.repeat(np.arange(rankings.n_rankings), copies)
        lengths = rankings.lengths[chosen]
        indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        entries = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - rankings.indptr[chosen], lengths)
        items, levels = items[entries], levels[entries]
        ratings = None if ratings is None else ratings[entries]
        user_indptr = np.arange(chosen.size + 1, dtype=np.int64)
        first = np.concatenate(([0], np.cumsum(copies)[:-1])).astype(np.int64)
    rated = thresholds.size > 0 and ratings is not None
    bounds = indptr[user_indptr]
    several = bool((np.diff(user_indptr) > 1).any())
    one_draw = one_draw and not rated
    if one_draw and several:
        owner = np.repeat(np.arange(user_indptr.size - 1), np.diff(bounds))
        slot_indptr, slot_items, entry_slots = _shared_slots(owner, items, bounds.size - 1)
    else:
        slot_indptr, slot_items = bounds, items
        entry_slots = np.arange(items.size) - np.repeat(bounds[:-1], np.diff(bounds))
    grades = np.searchsorted(thresholds, ratings) if rated else np.full(slot_items.size, -1)
    arrays = frozen(
        np.asarray(user_indptr, np.int64), np.asarray(indptr, np.int64), np.asarray(levels, np.int32),
        entry_slots.astype(np.int32), np.asarray(slot_indptr, np.int64), np.asarray(slot_items, np.int32),
        grades.astype(np.int32),
    )  # fmt: skip
    return Statements._make((*arrays, one_draw or not several)), first


def _shared_slots(owner: Int64Array, items: Int32Array, n_users: int) -> tuple[Array, Array, Array]:
    """One slot for every item of a user, in the order in which they are first mentioned."""
    keys = owner * (int(items.max(initial=0)) + 1) + items
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    slot_items, slot_owner = items[first[order]], owner[first[order]]
    slot_indptr = np.searchsorted(slot_owner, np.arange(n_users + 1))
    return slot_indptr, slot_items, place[inverse] - slot_indptr[owner]


def coordinates_of(rankings: Rankings, seed: int, *, wanted: bool) -> Float64Array:
    """Coordinates of the items by what is listed together; none if they are not wanted."""
    return co_listing_coordinates(rankings, seed) if wanted else np.zeros((rankings.n_items, 0))
