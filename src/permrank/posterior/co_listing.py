"""Co-listing: what people list together, whatever order they give it.

SomeUsers choose what they list, and the choice tells of their taste before any order does. Take the matrix of who lists
what, each entry divided by sqrt((n_u + 1)(n_y + 10)), n being the numbers of entries of its user and item. Its first
singular vectors are popularity; the next ones are what is listed together. As many of them count as exceed a
permutation null: the largest non-trivial singular value after the items of all entries have been shuffled. Who lists an
item several times counts once, and weights of rankings do not count. An item's coordinates are then the shrunk mean of
the people who list it, and a person's the shrunk mean of the items listed. Where lists were handed out at random no
vector counts, and all that stands on them is as if it were not there.
"""

from __future__ import annotations

import numpy as np

from permrank.kernels.cooccurrence import row_sums
from permrank.learning.linear_algebra import singular_values
from permrank.ragged import entries_by_item, frozen, owners
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array

# Pseudo-counts of an item and of a user: coordinates of those with few entries are shrunk. Between 3 and 20 for an item
# nothing changed (ML-100K with 10, 20 and 50 ratings a user, seeds 10 to 12).
_MORE_OF_ITEM, _MORE_OF_USER = 10.0, 1.0
# At least so many items for each vector: with fewer, a regression on them would only repeat the items.
_ITEMS_A_VECTOR = 8
# Fewer items, or fewer people, than this cannot show what goes together.
_FEWEST = 20
# Popularity that varies by more than this part of its mean does not come of handing out.
_UNEVEN = 0.5
# The most vectors, so many more for subspace iterations, and how many of these.
_MOST, _SPARE, _ROUNDS = 32, 8, 8
# The same for the largest singular value of chance, below which others follow closely: it takes more rounds.
_CHANCE, _CHANCE_ROUNDS = 8, 30


def were_chosen(rankings: Rankings, seed: int) -> bool:
    """Whether people chose what they list: what is listed tells of taste, and not only of chance.

    Either what is listed together does. Or people list as many items as they like and some items far more often than
    others: then the choice shows what is popular, and tastes are too weak, or people too few, to show more.
    """
    if rankings.n_items < _FEWEST or rankings.n_users < _FEWEST or rankings.n_entries == 0:
        return False
    if co_listing_coordinates(rankings, seed).shape[1] > 0:
        return True
    lengths, items = np.diff(rankings.user_bounds), _once(rankings)[1]
    counts = np.bincount(items, minlength=rankings.n_items)
    # Items that are handed out at random are listed with the variance of a count, which is at most their mean.
    uneven = (counts.var() - counts.mean()) / counts.mean() ** 2
    return bool(np.unique(lengths[lengths > 0]).size > 1 and uneven > _UNEVEN**2)


def co_listing_coordinates(rankings: Rankings, seed: int, n_dimensions: int | None = None) -> Float64Array:
    """Coordinates of the items in as few dimensions as exceed the permutation null: (n_items, n_dimensions).

    n_dimensions: how many these are, if it is known from nearly the same lists.

    Their mean over all entries is 0, and in every dimension those of the users (`user_coordinates`) have deviation 1.
    """
    rng = np.random.default_rng(seed)
    bounds, items = _once(rankings)
    counts = np.bincount(items, minlength=rankings.n_items)
    n_listed = int(np.count_nonzero(counts))
    most = min(_MOST, n_listed // _ITEMS_A_VECTOR)
    if most == 0:
        return np.zeros((counts.size, 0))
    size = min(most + _SPARE + 1, n_listed, rankings.n_users)
    values, vectors = _singular(bounds, items, counts, rng.normal(size=(counts.size, size)), _ROUNDS)
    if n_dimensions is None:
        start = rng.normal(size=(counts.size, min(size, _CHANCE)))
        chance, _ = _singular(bounds, rng.permutation(items), counts, start, _CHANCE_ROUNDS)
        above = np.flatnonzero(values[1 : most + 1] > (chance[1] if chance.size > 1 else np.inf)) + 1
    else:
        above = np.arange(1, min(n_dimensions, most, size - 1) + 1)
    table = np.ascontiguousarray(vectors[:, above]) / np.sqrt(counts + _MORE_OF_ITEM)[:, None]
    table -= np.einsum("y,yk->k", counts / counts.sum(), table)
    table[counts == 0] = 0.0
    spread = user_coordinates(table, rankings.user_bounds, rankings.items).std(axis=0)
    return np.asarray(table / np.where(spread > 0.0, spread, 1.0))


def _once(rankings: Rankings) -> tuple[Array, Array]:
    """Bounds of the users' items and the items, each once a user however many of the user's rankings have it."""
    if rankings.n_rankings == np.count_nonzero(np.diff(rankings.user_indptr)):
        return rankings.user_bounds, rankings.items
    user, item = np.divmod(np.unique(rankings.entry_users() * rankings.n_items + rankings.items), rankings.n_items)
    return np.searchsorted(user, np.arange(rankings.n_users + 1)), item.astype(np.int32)


def user_coordinates(table: Float64Array, bounds: Array, items: Array) -> Float64Array:
    """Coordinates of users who list these items: (n_users, n_dimensions); 0 for a user with nothing.

    bounds: entries of user u are ``items[bounds[u]:bounds[u + 1]]``, in the numbering of the table.
    """
    if table.shape[1] == 0:
        return np.zeros((len(bounds) - 1, 0))
    bounds, items = frozen(bounds, items)
    return _sums(bounds, items, table) / (np.diff(bounds) + _MORE_OF_USER)[:, None]


def _sums(bounds: Array, index: Array, rows: Float64Array) -> Float64Array:
    # Compiled for one layout of the rows only.
    return np.asarray(row_sums(bounds, index, np.ascontiguousarray(rows)))


def coordinate_parts(table: Float64Array, items: Array) -> Float64Array:
    """What each entry of one user adds to the user's coordinates: (n_entries, n_dimensions)."""
    return np.asarray(table[items] / (len(items) + _MORE_OF_USER))


def _singular(
    bounds: Array, items: Array, counts: Array, start: Float64Array, rounds: int
) -> tuple[Float64Array, Float64Array]:
    """Largest singular values and right vectors of the scaled matrix, from a random start."""
    view, lengths = entries_by_item(items, counts.size), np.diff(bounds)
    owner = owners(bounds, np.int32)[view.entries]
    of_users, of_items = (lengths + _MORE_OF_USER) ** -0.5, (counts + _MORE_OF_ITEM) ** -0.5
    (bounds, items), (starts, owner) = frozen(bounds, items), frozen(view.indptr, owner)

    def of_people(vectors: Float64Array) -> Float64Array:
        return _sums(bounds, items, vectors * of_items[:, None]) * of_users[:, None]

    def of_listed(people: Float64Array) -> Float64Array:
        return _sums(starts, owner, people * of_users[:, None]) * of_items[:, None]

    return singular_values(of_people, of_listed, start, rounds)
