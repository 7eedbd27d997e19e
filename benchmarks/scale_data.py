"""Simulated ratings of any size: power laws of popularity and activity, tastes of a few factors, as Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

_FACTORS, _AT_A_TIME = 4, 2_000_000


def simulate(folder: Path, n_users: int, n_items: int, n_entries: int, *, n_files: int = 8, seed: int = 0) -> int:
    """Write files of (user, item, rating), rows in random order; returns how many rows there are.

    Item r in popularity is met with odds 1 / (r + 10), a person's number of items is log-normal, and a rating is one of
    ten half stars: a quality of the item, the match of two vectors of four factors, and noise.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(n_items).astype(np.int32)
    quality = rng.normal(scale=0.5, size=n_items).astype(np.float32)
    tastes = rng.normal(size=(n_items, _FACTORS)).astype(np.float32)
    activity = rng.lognormal(sigma=1.0, size=n_users)
    # Some are met twice: more are drawn than wanted, and what is too much is dropped.
    lengths = np.minimum(np.ceil(1.4 * n_entries * activity / activity.sum()), n_items // 3).astype(np.int64)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    pieces, first = [], 0
    while first < n_users:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _AT_A_TIME)))
        last = min(last, n_users)
        share = rng.random(bounds[last] - bounds[first], np.float32)
        drawn = (10.0 * np.exp(share * np.log1p(n_items / 10.0)) - 10.0).astype(np.int64)  # by inversion
        pairs = np.repeat(np.arange(first, last), lengths[first:last]) * n_items
        pairs += numbers[np.minimum(drawn, n_items - 1)]
        pairs.sort()
        kept = np.append(True, pairs[1:] != pairs[:-1])
        wanted = n_entries * (bounds[last] - bounds[first]) / bounds[-1]
        kept &= rng.random(kept.size, np.float32) < wanted / kept.sum()
        pairs = pairs[kept]
        users, items = (pairs // n_items).astype(np.int32), (pairs % n_items).astype(np.int32)
        own = rng.normal(size=(last - first, _FACTORS)).astype(np.float32)
        match = np.einsum("ek,ek->e", own[users - first], tastes[items])
        scores = 3.5 + quality[items] + 0.4 * match + 0.8 * rng.standard_normal(pairs.size, np.float32)
        pieces.append((users, items, np.clip(np.rint(2.0 * scores), 1, 10).astype(np.uint8)))
        first = last
    users, items, stars = (np.concatenate(part) for part in zip(*pieces, strict=True))
    del pieces
    folder.mkdir(parents=True, exist_ok=True)
    order = rng.permutation(users.size).astype(np.uint32)
    for number, rows in enumerate(np.array_split(order, n_files)):
        columns = {"user": users[rows].astype(np.int64), "item": items[rows].astype(np.int64)}
        frame = pl.DataFrame({**columns, "rating": stars[rows].astype(np.float32) / 2.0})
        frame.write_parquet(folder / f"part-{number:03d}.parquet")
    return int(users.size)
