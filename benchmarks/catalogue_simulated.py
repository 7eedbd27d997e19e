"""Simulated catalogues for the benchmark over the whole catalogue: shapes of data that real sets here do not have.

Entries are drawn by user without replacement; a fifth of the entries of everybody who has two or more is hidden.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splits import Split, Table, places

SHARE = 0.2
Pairs = tuple[np.ndarray, np.ndarray]


def tastes(rng: np.random.Generator, n_users: int, n_items: int, mean: float, strength: float = 2.0) -> Pairs:
    """Eight factors beside a popularity that falls as a power law; everybody takes the items of largest utility."""
    users, items = rng.normal(size=(n_users, 8)), rng.normal(size=(n_items, 8))
    common = -0.7 * np.log(np.arange(1, n_items + 1))
    lengths = np.minimum(1 + rng.poisson(mean, n_users), n_items - 1)
    taken = []
    for user, length in zip(users, lengths, strict=True):
        utility = strength / np.sqrt(8) * (items @ user) + common + rng.gumbel(size=n_items)
        taken.append(np.argpartition(-utility, length - 1)[:length])
    return np.repeat(np.arange(n_users), lengths), np.concatenate(taken)


def blocks(rng: np.random.Generator, n_users: int, n_items: int, n_blocks: int, mean: float, astray: float) -> Pairs:
    """People take from their own block of items, and sometimes from anywhere."""
    lengths = 1 + rng.poisson(mean, n_users)
    users = np.repeat(np.arange(n_users), lengths)
    width = n_items // n_blocks
    own = users % n_blocks * width + rng.integers(width, size=users.size)
    items = np.where(rng.random(users.size) < astray, rng.integers(n_items, size=users.size), own)
    pairs = np.unique(users * n_items + items)
    return pairs // n_items, pairs % n_items


def dominant(rng: np.random.Generator, n_users: int, n_items: int, mean: float) -> Pairs:
    """Everybody has item 0, and tastes decide the rest."""
    users, items = tastes(rng, n_users, n_items - 1, mean)
    return np.concatenate((np.arange(n_users), users)), np.concatenate((np.zeros(n_users, np.int64), items + 1))


SHAPES: dict[str, Callable[[np.random.Generator], Pairs]] = {
    "few-users": lambda rng: tastes(rng, 12, 300, 40),
    "few-items": lambda rng: tastes(rng, 2000, 12, 3),
    "popularity-only": lambda rng: tastes(rng, 1500, 400, 12, 0.0),
    "dominant-item": lambda rng: dominant(rng, 1500, 300, 8),
    "short-lists": lambda rng: blocks(rng, 1500, 300, 6, 1, 0.1),
    "blocks": lambda rng: blocks(rng, 1200, 600, 12, 10, 0.05),
    "pure-blocks": lambda rng: blocks(rng, 600, 240, 12, 8, 0.0),
    "equal-counts": lambda rng: tastes(rng, 1200, 500, 15),
    "huge-counts": lambda rng: tastes(rng, 1200, 500, 15),
    "large-tastes": lambda rng: tastes(rng, 6000, 9000, 12, 3.0),
    "large-blocks": lambda rng: blocks(rng, 4000, 10_000, 50, 15, 0.1),
}
# The k of recall@k and NDCG@k, and sets whose ratings are counts.
TOP = {**dict.fromkeys(SHAPES, 10), "few-items": 3}
COUNTS = ("equal-counts", "huge-counts")


def simulated(shape: str, seed: int) -> Split:
    """A data set of this shape, and a fifth of everybody's entries to be found."""
    rng = np.random.default_rng([21, seed, *shape.encode()])
    users, items = SHAPES[shape](rng)
    ratings = {"equal-counts": np.full(users.size, 7.0), "huge-counts": np.exp(rng.normal(0, 6, users.size)) + 1}
    order = np.lexsort((rng.random(users.size), users))
    n_users, n_items = int(users.max()) + 1, int(items.max()) + 1
    values = ratings.get(shape, np.ones(users.size))[order]
    table = Table(users[order], items[order], values, n_users, n_items)
    lengths = np.bincount(users, minlength=n_users)
    wanted = np.where(lengths >= 2, np.maximum(1, np.round(SHARE * lengths)), 0)
    hidden = places(table.users) < wanted[table.users]
    return Split(table.rows(~hidden), table.rows(hidden), strict=False)
