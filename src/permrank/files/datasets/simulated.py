"""Rankings drawn from a model whose truth is known: for the demo, for tests and for benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_int, require_nonnegative
from permrank.errors import InputError
from permrank.ragged import indptr_of, owners, positions
from permrank.randomness import Seed, generator
from permrank.rankings.build import lay_out
from permrank.rankings.rankings import Rankings
from permrank.rankings.vocabulary import Vocabulary
from permrank.types import Float64Array, Int64Array

# People come across popular items more often; half the log-odds of being liked is a mild form of that.
_EXPOSURE = 0.5
# Numbers held at a time: 2^22 float64 are 32 MB, which fits beside the result and still fills a vector unit.
_BLOCK = 2**22
# Thresholds of star levels come from this many noisy scores; their quantiles are then good to 0.1 %.
_QUANTILE_SAMPLE = 2**20

DISHES = (
    "almond tart", "apple dumplings", "baked aubergine", "barley soup", "basil gnocchi", "bean chilli",
    "beetroot salad", "black rice", "braised fennel", "buckwheat noodles", "carrot cake",
    "cauliflower curry", "cheese fondue", "cherry clafoutis", "chestnut soup", "chickpea stew",
    "clam chowder", "coconut rice", "cod with capers", "corn fritters", "cucumber salad", "duck with plums",
    "fig bread", "fish tacos", "garlic prawns", "ginger chicken", "goulash", "green curry",
    "grilled mackerel", "hazelnut mousse", "herb omelette", "honey ribs", "kale pie", "kimchi pancakes",
    "lamb tagine", "leek quiche", "lemon risotto", "lentil dal", "mango pudding", "miso ramen",
    "mushroom stroganoff", "mussels in wine", "onion soup", "paella", "pea ravioli", "peach melba",
    "peanut noodles", "pepper steak", "pistachio ice", "poached pears", "potato rosti", "pumpkin lasagne",
    "rhubarb crumble", "roast chicken", "saffron pilaf", "sesame tofu", "spinach borek", "spring rolls",
    "tomato galette", "walnut pesto",
)  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What the rankings of `simulated` were drawn from; rows and columns follow the ids of the rankings.

    Attributes
    ----------
    popularity : float64 (n_items,)
        What all users share.
    community_scores : float64 (n_communities, n_items)
        What the users of a community share beyond that.
    memberships : int64 (n_users,)
        Community of each user.
    user_factors, item_factors : float64 (n_users, n_factors), (n_items, n_factors)
        What is a user's own.
    separation : float
        Weight of the community scores.
    noise : float
        Scale of the Gumbel noise: lists follow Plackett-Luce with ``scores / noise``.
    """

    popularity: Float64Array
    community_scores: Float64Array
    memberships: Int64Array
    user_factors: Float64Array
    item_factors: Float64Array
    separation: float
    noise: float

    def scores(self, user_indices: object) -> Float64Array:
        """Score every item for some users: (n_chosen, n_items), computed when asked for.

        Parameters
        ----------
        user_indices : int or sequence of int
            Indices into ``rankings.user_ids``; a single index gives one row, still two-dimensional.
        """
        users = np.atleast_1d(np.asarray(user_indices, dtype=np.int64))
        shared = self.popularity + self.separation * self.community_scores[self.memberships[users]]
        return np.asarray(shared + self.user_factors[users] @ self.item_factors.T, dtype=np.float64)

    def _scores_of(self, users: Int64Array, items: Int64Array) -> Float64Array:
        """Scores of pairs (user, item)."""
        own = np.einsum("ef,ef->e", self.user_factors[users], self.item_factors[items])
        shared = self.popularity[items] + self.separation * self.community_scores[self.memberships[users], items]
        return np.asarray(shared + own, dtype=np.float64)


class Simulated(NamedTuple):
    """Simulated rankings, and the truth behind them."""

    rankings: Rankings
    truth: Truth


def simulated(
    n_users: int = 1000,
    n_items: int = 60,
    *,
    n_communities: int = 4,
    n_factors: int = 2,
    list_length: int | tuple[int, int] = (8, 16),
    noise: float = 1.0,
    ties: int | None = None,
    separation: float = 1.0,
    choice: float = 0.0,
    seed: Seed = 0,
) -> Simulated:
    """Draw users with known tastes, and from each a Plackett-Luce ranking of some items.

    User u in community z gives item y the score ``popularity[y] + separation * community_scores[z, y]
    + user_factors[u] @ item_factors[y]``, three parts of variance 1, ``separation**2`` and 1. Each user
    comes across a few items, popular ones a little more often, and orders them by score plus ``noise``
    times Gumbel noise, which is the Plackett-Luce distribution with the scores over ``noise``.

    Parameters
    ----------
    n_users, n_items : int
        Up to 60 items are dishes; more are called ``item-0001`` and so on.
    n_communities, n_factors : int
        At least 1 and 0.
    list_length : int or (low, high)
        Items in a list; a pair is drawn from evenly, both ends included.
    noise : float
        0 gives every user's true order.
    ties : int, optional
        Give stars 1 to ``ties`` instead of an order. Each number of stars comes about equally often.
    separation : float
        How far the communities are apart.
    choice : float
        How much people choose what they list: their own scores times this, community and factors, are added to the
        log-odds of coming across an item. With 0 lists are handed out, whatever the taste.
    seed : int, None or numpy.random.Generator
        The same seed gives the same result.

    Returns
    -------
    Simulated
        ``rankings`` and ``truth``.

    Examples
    --------
    >>> from permrank.files.datasets.simulated import simulated
    >>> rankings, truth = simulated(n_users=50, n_items=12, list_length=(3, 6), seed=1)
    >>> rankings.n_users, rankings.n_items, truth.scores([0, 1]).shape
    (50, 12, (2, 12))
    """
    counts = {"n_users": (n_users, 1), "n_items": (n_items, 1), "n_communities": (n_communities, 1)}
    counts |= {"n_factors": (n_factors, 0), "ties": (1 if ties is None else ties, 1)}
    for name, (count, least) in counts.items():
        require_int(name, count, least)
    for name, real in (("noise", noise), ("separation", separation), ("choice", choice)):
        require_nonnegative(name, real)
    low, high = _lengths(list_length, n_items)
    rng = generator(seed)
    truth = Truth(
        popularity=rng.normal(size=n_items),
        community_scores=rng.normal(size=(n_communities, n_items)),
        memberships=rng.integers(n_communities, size=n_users),
        user_factors=rng.normal(size=(n_users, n_factors)) / np.sqrt(max(n_factors, 1)),
        item_factors=rng.normal(size=(n_items, n_factors)),
        separation=float(separation),
        noise=float(noise),
    )
    lengths = rng.integers(low, high + 1, size=n_users)
    indptr = indptr_of(lengths)
    items = np.empty(int(indptr[-1]), np.int32)
    levels = np.empty(items.size, np.int32)
    ratings = None if ties is None else np.empty(items.size, np.float32)
    thresholds: Float64Array | None = None
    for first, last, seen in _seen_items(rng, lengths, truth, float(choice)):
        part = slice(int(indptr[first]), int(indptr[last]))
        bounds = indptr[first : last + 1] - indptr[first]
        owner = owners(bounds)
        values = truth._scores_of(owner + first, seen) + noise * rng.gumbel(size=seen.size)
        if ratings is None:
            order = np.lexsort((-values, owner))
            items[part] = seen[order]
            levels[part] = positions(bounds)
            continue
        if thresholds is None:
            thresholds = np.quantile(values[:_QUANTILE_SAMPLE], np.arange(1, ties or 1) / (ties or 1))
        below = (ties or 1) - 1 - np.searchsorted(thresholds, values)
        layout = lay_out(owner, below, seen.astype(np.int32), last - first, n_items)
        items[part], levels[part], ratings[part] = layout.items, layout.levels, (ties or 1) - layout.codes
    rankings = Rankings._trusted(
        np.arange(n_users + 1), indptr, items, levels, np.ones(n_users),
        Vocabulary(_numbered("user", n_users), "user"), Vocabulary(_item_names(n_items), "item"),
        ratings=ratings,
    )  # fmt: skip
    return Simulated(rankings, truth)


def _lengths(list_length: int | tuple[int, int], n_items: int) -> tuple[int, int]:
    """The shortest and the longest list."""
    try:
        low, high = (list_length, list_length) if isinstance(list_length, int) else map(int, list_length)
    except (TypeError, ValueError) as error:
        raise InputError(f"list_length={list_length!r}, expected a number or a pair (low, high)") from error
    if not 1 <= low <= high <= n_items:
        raise InputError(f"list_length={list_length!r}, expected lengths from 1 to n_items={n_items}, low first")
    return low, high


def _seen_items(
    rng: np.random.Generator, lengths: Int64Array, truth: Truth, choice: float
) -> Iterator[tuple[int, int, Int64Array]]:
    """Blocks of users, each with the items they come across: drawn one by one without replacement."""
    popularity = truth.popularity
    longest, n_items = int(lengths.max()), popularity.size
    # Twice the length and a few, drawn with replacement, nearly always hold enough different items, unless
    # the lists are long; then all items get a key and the best keys win, which is the same distribution.
    n_draws = 2 * longest + 8
    by_keys = choice > 0.0 or 4 * longest > n_items or n_draws >= n_items
    size = max(1, _BLOCK // (n_items if by_keys else n_draws))
    for first in range(0, lengths.size, size):
        wanted = lengths[first : first + size]
        if choice > 0.0:
            own = truth.scores(np.arange(first, first + wanted.size)) - popularity
            yield first, first + wanted.size, _seen_by_keys(rng, wanted, popularity + choice / _EXPOSURE * own)
        elif by_keys:
            yield first, first + wanted.size, _seen_by_keys(rng, wanted, popularity)
        else:
            yield first, first + wanted.size, _seen_by_draws(rng, wanted, popularity, n_draws)


def _seen_by_keys(rng: np.random.Generator, wanted: Int64Array, popularity: Float64Array) -> Int64Array:
    """The items with the best keys; ``popularity`` of all users, (n_items,), or of each, (n_users, n_items)."""
    n_items = popularity.shape[-1]
    keys = _EXPOSURE * popularity + rng.gumbel(size=(wanted.size, n_items))
    best: Int64Array = np.argsort(-keys, axis=1)
    return best[np.arange(n_items) < wanted[:, None]]


def _seen_by_draws(rng: np.random.Generator, wanted: Int64Array, popularity: Float64Array, n_draws: int) -> Int64Array:
    share = np.cumsum(np.exp(_EXPOSURE * popularity))
    draws: Int64Array = np.searchsorted(share, rng.random((wanted.size, n_draws)) * share[-1], side="right")
    # Drop what has come before in the same row: sort by (item, position) and look at the neighbour.
    packed = np.sort(draws * n_draws + np.arange(n_draws), axis=1)
    again = np.zeros(draws.shape, bool)
    repeats = packed[:, 1:] // n_draws == packed[:, :-1] // n_draws
    rows, columns = np.nonzero(repeats)
    again[rows, packed[rows, columns + 1] % n_draws] = True
    nth = np.cumsum(~again, axis=1)
    keep = ~again & (nth <= wanted[:, None])
    short = np.flatnonzero(nth[:, -1] < wanted)
    if short.size == 0:
        return draws[keep]
    # The few rows with too many repeats are drawn anew, all items at once, a bounded number at a time.
    keep[short] = np.arange(n_draws) < wanted[short][:, None]
    size = max(1, _BLOCK // popularity.size)
    for start in range(0, short.size, size):
        some = short[start : start + size]
        anew = np.zeros((some.size, n_draws), draws.dtype)
        anew[keep[some]] = _seen_by_keys(rng, wanted[some], popularity)
        draws[some] = anew
    return draws[keep]


def _item_names(n_items: int) -> pl.Series:
    if n_items <= len(DISHES):
        return pl.Series("item", DISHES[:n_items]).sort()
    return _numbered("item", n_items)


def _numbered(kind: str, n: int) -> pl.Series:
    # Leading zeros: ids are kept sorted, and sorted as text they then stay in order.
    width = max(4, len(str(n)))
    names = pl.select(pl.lit(f"{kind}-") + pl.int_range(1, n + 1, dtype=pl.Int64).cast(pl.String).str.zfill(width))
    return names.to_series().rename(kind)
