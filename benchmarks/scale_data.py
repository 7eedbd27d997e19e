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
    popularity = np.cumsum(1.0 / (np.arange(n_items) + 10.0))
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
        drawn = np.searchsorted(popularity, rng.random(bounds[last] - bounds[first]) * popularity[-1])
        users = np.repeat(np.arange(first, last), lengths[first:last])
        pairs = np.unique(users * n_items + numbers[np.minimum(drawn, n_items - 1)])
        wanted = round(n_entries * (bounds[last] - bounds[first]) / bounds[-1])
        pairs = pairs if pairs.size <= wanted else rng.choice(pairs, wanted, replace=False, shuffle=False)
        users, items = (pairs // n_items).astype(np.int32), (pairs % n_items).astype(np.int32)
        own = rng.normal(size=(last - first, _FACTORS)).astype(np.float32)
        match = np.einsum("ek,ek->e", own[users - first], tastes[items])
        scores = 3.5 + quality[items] + 0.4 * match + 0.8 * rng.standard_normal(pairs.size, np.float32)
        pieces.append((users, items, np.clip(np.rint(2.0 * scores), 1, 10).astype(np.uint8)))
        first = last
    users, items, stars = (np.concatenate(part) for part in zip(*pieces, strict=True))
    del pieces
    file = rng.integers(n_files, size=users.size, dtype=np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(n_files):
        rows = rng.permutation(np.flatnonzero(file == number).astype(np.int32))
        columns = {"user": users[rows].astype(np.int64), "item": items[rows].astype(np.int64)}
        frame = pl.DataFrame({**columns, "rating": stars[rows].astype(np.float32) / 2.0})
        frame.write_parquet(folder / f"part-{number:03d}.parquet")
    return int(users.size)
