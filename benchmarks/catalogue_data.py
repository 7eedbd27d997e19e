"""Data and splits of the benchmark over the whole catalogue; as in `splits`, nothing depends on the system under test.

Rated data: of every user with five positive ratings or more a fifth of these is hidden, all else is learnt from, and
users with fewer are dropped. Gowalla and LastFM come with their own split. `catalogue_simulated` has more.
"""

from __future__ import annotations

import io
import os
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import catalogue_simulated as simulated
import permrank as pr
import splits
from splits import Split, Table

# The least rating that is positive: four fifths of the scale.
POSITIVE = {"ml-100k": 4.0, "ml-1m": 4.0, "filmtrust": 3.5}
FIXED = {"gowalla": "gowalla.zip", "lastfm": "lastfm-friends.zip"}
# The k of recall@k and NDCG@k.
REAL = {**dict.fromkeys(POSITIVE, 10), **dict.fromkeys(FIXED, 20)}
TOP = {**REAL, **simulated.TOP}
MIN_POSITIVE, SHARE = 5, 0.2


def split_of(dataset: str, seed: int) -> Split:
    """The split of a seed; data with a split of their own have one for all seeds."""
    if dataset in simulated.SHAPES:
        return simulated.simulated(dataset, seed)
    return fixed(dataset) if dataset in FIXED else positives_hidden(dataset, seed)


def positives_hidden(dataset: str, seed: int) -> Split:
    """A fifth of every user's positive ratings, rounded and at least one, to be found."""
    everything, least = rated(dataset), POSITIVE[dataset]
    liked = np.bincount(everything.users[everything.ratings >= least], minlength=everything.n_users)
    kept = liked >= MIN_POSITIVE
    table = everything.rows(kept[everything.users])
    table = table._replace(users=np.cumsum(kept)[table.users] - 1, n_users=int(kept.sum()))
    positive = table.ratings >= least
    keys = np.where(positive, np.random.default_rng([20, seed]).random(table.users.size), 2.0)
    order = np.lexsort((keys, table.users))
    place = np.empty(order.size, np.int64)
    place[order] = splits.places(table.users[order])
    wanted = np.maximum(1, np.round(SHARE * liked[kept])).astype(np.int64)
    hidden = positive & (place < wanted[table.users])
    return Split(table.rows(~hidden), table.rows(hidden), strict=False)


@cache
def rated(dataset: str) -> Table:
    """All ratings; of a pair that comes twice the last."""
    if dataset != "filmtrust":
        return splits.ratings(dataset)
    with zipfile.ZipFile(_archive("filmtrust.zip")) as archive:
        rows = np.loadtxt(io.BytesIO(archive.read("filmtrust/ratings.txt")))
    user_ids, users = np.unique(rows[:, 0], return_inverse=True)
    item_ids, items = np.unique(rows[:, 1], return_inverse=True)
    _, last = np.unique((users * item_ids.size + items)[::-1], return_index=True)
    kept = np.sort(users.size - 1 - last)
    return Table(users[kept], items[kept], rows[kept, 2], user_ids.size, item_ids.size)


@cache
def fixed(dataset: str) -> Split:
    """The split that the data come with: pairs without order, so that every rating is 1."""
    with zipfile.ZipFile(_archive(FIXED[dataset])) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        ending, reader = ("parquet", pl.read_parquet) if "train.parquet" in names else ("csv", pl.read_csv)
        train, test = (
            reader(io.BytesIO(archive.read(names[f"{part}.{ending}"]))).select("user", "item").to_numpy()
            for part in ("train", "test")
        )
    n_users, n_items = np.concatenate((train, test)).max(axis=0) + 1
    return Split(*(Table(*part.T, np.ones(len(part)), int(n_users), int(n_items)) for part in (train, test)), False)


def _archive(file: str) -> Path:
    given = os.environ.get("PERMRANK_DATA")
    folders = [Path(given).expanduser()] if given else []
    for folder in [*folders, pr.datasets.cache_folder()]:
        if (folder / file).is_file():
            return folder / file
    raise SystemExit(f"{file} is not there; set PERMRANK_DATA to the folder that holds it")
