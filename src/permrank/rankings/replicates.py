"""Data sets of the same design as a given one: whose lists, of which items, tied how; another order."""

from __future__ import annotations

import numpy as np

from permrank.errors import InputError
from permrank.ragged import indptr_of, ranges
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Array


def repeated(rankings: Rankings) -> Rankings:
    """Every ranking as often as its weight says, each with weight 1; a ballot without a voter becomes several.

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = pr.Rankings.from_lists([["a", "b"], ["b", "a"]], weights=[2, 1])
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
    users = rankings.ranking_users[source]
    user_ids, user_indptr = rankings.user_ids, indptr_of(np.bincount(users, minlength=rankings.n_users))
    if rankings.anonymous:
        user_ids, user_indptr = Vocabulary.of(range(source.size), "user"), np.arange(source.size + 1)
    return Rankings(
        user_indptr, indptr_of(rankings.lengths[source]), rankings.items[entries], rankings.levels[entries],
        np.ones(source.size), user_ids, rankings.item_ids, anonymous=rankings.anonymous,
    )  # fmt: skip


def reordered(rankings: Rankings, items: Array, levels: Array | None = None) -> Rankings:
    """The same lists with their items in another order; tied by position as before, unless levels are given."""
    arrays = (
        rankings.user_indptr, rankings.indptr, items, rankings.levels if levels is None else levels, rankings.weights,
        rankings.user_ids, rankings.item_ids,
    )  # fmt: skip
    if rankings.has_ties or levels is not None:  # items of a tie are put in order
        return Rankings(*arrays, anonymous=rankings.anonymous)
    return Rankings._trusted(*arrays, anonymous=rankings.anonymous)
