"""Splits and metrics of the accuracy benchmark: who is shown what, and how an answer is marked.

Nothing here depends on the system under test. A split is the same for every system and every run: it is drawn from a
numpy Generator keyed by the protocol and the seed, over rows in the order of the owner's file. `permrank.Rankings`
sorts its rows, so the files are read here once more, from the archives that `permrank.datasets` has found and checked.
"""

from __future__ import annotations

import os
import zipfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import permrank as pr

# Least number of ratings of a user that must be left for the test part.
MIN_HELD_OUT = 10
N_FOLDS = 5
_RATING_FILES = {"ml-100k": ("u.data", "\t"), "ml-1m": ("ratings.dat", "::")}
_ORDER_FILES = {"sushi": "sushi3b.5000.10.order", "sushi-10": "sushi3a.5000.10.order"}


class Table(NamedTuple):
    """Rows of (user, item, rating), numbered from 0; ``n_users`` and ``n_items`` also count those without a row."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray
    n_users: int
    n_items: int

    def rows(self, chosen: np.ndarray) -> Table:
        """Some of the rows, of the same users and items."""
        return self._replace(users=self.users[chosen], items=self.items[chosen], ratings=self.ratings[chosen])


class Split(NamedTuple):
    """What a system learns from and what it is asked about.

    ``strict`` tells that the rows came from ordered lists: ratings are then places in the list, 5 the best and 1 the
    last, and rows of a user are best first.
    """

    train: Table
    test: Table
    strict: bool


# Data


def archive_member(dataset: str, member: str) -> str:
    """Text of one file in the archive of a data set."""
    pr.datasets.load(dataset)  # fetches what is not there and checks the content
    file = pr.datasets.describe(dataset)["file"].item()
    given = os.environ.get("PERMRANK_DATA")
    folders = [Path(given).expanduser()] if given else []
    path = next(folder / file for folder in [*folders, pr.datasets.cache_folder()] if (folder / file).is_file())
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if Path(name).name == member)
        return archive.read(name).decode("latin-1")


@cache
def ratings(dataset: str) -> Table:
    """All ratings in the order of the file; users and items numbered in the order of their ids."""
    member, separator = _RATING_FILES[dataset]
    lines = archive_member(dataset, member).splitlines()
    columns = np.array([line.split(separator)[:3] for line in lines], np.int64)
    user_ids, users = np.unique(columns[:, 0], return_inverse=True)
    item_ids, items = np.unique(columns[:, 1], return_inverse=True)
    return Table(users, items, columns[:, 2].astype(np.float64), user_ids.size, item_ids.size)


@cache
def orders(dataset: str) -> tuple[np.ndarray, int]:
    """One row a person, items best first (n_people, 10), and the number of items."""
    lines = archive_member(dataset, _ORDER_FILES[dataset]).splitlines()
    # A line is "0", the length, and the items; the first one holds the number of items.
    lists = np.array([line.split()[2:] for line in lines[1:] if line.strip()], np.int64)
    return lists, int(lines[0].split()[0])


# Splits


def weak_generalisation(dataset: str, n_train: int, seed: int) -> Split:
    """Of every user ``n_train`` ratings drawn at random to learn from, the others to be asked about.

    Users without ``MIN_HELD_OUT`` ratings left are dropped and the others numbered anew; all items stay.
    """
    return given_and_asked(ratings(dataset), n_train, seed)


def given_and_asked(everything: Table, n_train: int, seed: int) -> Split:
    """`weak_generalisation` of any ratings."""
    kept = np.bincount(everything.users, minlength=everything.n_users) >= n_train + MIN_HELD_OUT
    table = everything.rows(kept[everything.users])
    table = table._replace(users=np.cumsum(kept)[table.users] - 1, n_users=int(kept.sum()))
    keys = np.random.default_rng([20090101, n_train, seed]).random(table.users.size)
    order = np.lexsort((keys, table.users))
    place = np.empty(order.size, np.int64)
    place[order] = places(table.users[order])
    return Split(table.rows(place < n_train), table.rows(place >= n_train), strict=False)


def given_and_hidden(n_given: int, seed: int) -> Split:
    """Of every list of SUSHI's item set B ``n_given`` items in their order to learn from; the others are hidden."""
    lists, n_items = orders("sushi")
    drawn = np.argsort(np.random.default_rng([5000, n_given, seed]).random(lists.shape), axis=1)
    parts = (np.sort(part, axis=1) for part in (drawn[:, :n_given], drawn[:, n_given:]))
    train, test = (as_table(np.take_along_axis(lists, part, axis=1), n_items) for part in parts)
    return Split(train, test, strict=True)


def fold_of_people(seed: int) -> Split:
    """One fold of five over the people of SUSHI's item set A: seeds 0 to 4 are the folds of one partition.

    Test people are numbered after those of the training part, so that nobody takes them for the same.
    """
    lists, n_items = orders("sushi-10")
    partition, fold = divmod(seed, N_FOLDS)
    drawn = np.random.default_rng([5000, 10, partition]).permutation(len(lists))
    held_out = np.zeros(len(lists), bool)
    held_out[np.array_split(drawn, N_FOLDS)[fold]] = True
    train, test = as_table(lists[~held_out], n_items), as_table(lists[held_out], n_items)
    return Split(train, test._replace(users=test.users + train.n_users), strict=True)


def validation(split: Split, share: float = 0.3) -> Split:
    """A part of the training rows of every user to be asked about instead; nothing of the test part is looked at."""
    train = split.train
    keys = np.random.default_rng([777, 0]).random(train.users.size)
    order = np.lexsort((keys, train.users))
    place = np.empty(order.size, np.int64)
    place[order] = places(train.users[order])
    held = place < np.floor(share * np.bincount(train.users, minlength=train.n_users)).astype(np.int64)[train.users]
    return Split(train.rows(~held), train.rows(held), split.strict)


def as_table(lists: np.ndarray, n_items: int) -> Table:
    """Places in lists of equal length as ratings from 5 (the best) to 1 (the last), evenly spaced."""
    n_users, length = lists.shape
    stars = np.tile(np.linspace(5.0, 1.0, length), n_users)
    return Table(np.repeat(np.arange(n_users), length), lists.ravel(), stars, n_users, n_items)


def places(sorted_users: np.ndarray) -> np.ndarray:
    """Place of each row among the rows of its user, from 0, where rows are sorted by user."""
    first = np.flatnonzero(np.diff(sorted_users, prepend=-1))
    sizes = np.diff(first, append=sorted_users.size)
    return np.arange(sorted_users.size) - np.repeat(first, sizes)


# Metrics


def filled(test: Table, scores: np.ndarray) -> np.ndarray:
    """Scores with those that a system could not give (not finite) replaced by the mean of the user's others, or 0."""
    scores = np.asarray(scores, np.float64)
    known = np.isfinite(scores)
    if known.all():
        return scores
    n_users = int(test.users.max()) + 1
    count = np.bincount(test.users[known], minlength=n_users)
    mean = np.bincount(test.users[known], scores[known], minlength=n_users) / np.maximum(count, 1)
    return np.where(known, scores, mean[test.users])


def ndcg(test: Table, scores: np.ndarray, seed: int, k: int = 10) -> float:
    """NDCG@k over the user's own test items, mean over users."""
    return float(np.nanmean(ndcg_by_user(test, scores, seed, k)))


def ndcg_by_user(test: Table, scores: np.ndarray, seed: int, k: int = 10) -> np.ndarray:
    """NDCG@k over the user's own test items, gain 2^r - 1; NaN for a user of whom nothing is asked.

    Equal scores are put into one random order, the same for every system.
    """
    jitter = np.random.default_rng([99, seed]).random(test.users.size)
    gains = np.exp2(test.ratings) - 1.0

    def discounted(*keys: np.ndarray) -> np.ndarray:
        order = np.lexsort((*keys, test.users))
        users = test.users[order]
        place = places(users)
        worth = np.where(place < k, gains[order] / np.log2(place + 2.0), 0.0)
        return np.bincount(users, worth, minlength=test.n_users)

    found, ideal = discounted(jitter, -filled(test, scores)), discounted(-gains)
    return np.divide(found, ideal, out=np.full(test.n_users, np.nan), where=ideal > 0)


def pairs_right(test: Table, scores: np.ndarray) -> float:
    """Share of a user's pairs of different ratings that the scores put right, mean over users who have such pairs."""
    return float(np.nanmean(pairs_right_by_user(test, scores)))


def _numbered(test: Table) -> np.ndarray:
    """Which of the user's different ratings each row has, from 0 for the lowest: few numbers on a fine scale too."""
    order = np.lexsort((test.ratings, test.users))
    users, ratings = test.users[order], test.ratings[order]
    begins = np.diff(users, prepend=-1) != 0
    passed = np.cumsum(begins | (np.diff(ratings, prepend=np.nan) != 0))
    numbers = np.empty(users.size, np.int64)
    numbers[order] = passed - passed[begins][np.cumsum(begins) - 1]
    return numbers


def pairs_right_by_user(test: Table, scores: np.ndarray) -> np.ndarray:
    """Share of a user's pairs of different ratings that the scores put right; NaN for a user without such a pair.

    A pair with equal scores counts one half.
    """
    scores = filled(test, scores)
    order = np.lexsort((scores, test.users))
    users, scores, stars = test.users[order], scores[order], _numbered(test)[order]
    # Rows of one user with one score form a group; a row beats all that lie before its group, and half of its group.
    edges = np.flatnonzero((np.diff(users, prepend=-1) != 0) | (np.diff(scores, prepend=np.nan) != 0))
    sizes = np.diff(edges, append=users.size)
    begin = np.repeat(edges, sizes)
    end = begin + np.repeat(sizes, sizes)
    start_of_user = np.arange(users.size) - places(users)
    right, pairs = np.zeros(test.n_users), np.zeros(test.n_users)
    for star in np.unique(stars):
        so_far = np.concatenate(([0], np.cumsum(stars == star)))
        beaten = (so_far[begin] + so_far[end]) / 2.0 - so_far[start_of_user]
        better = stars > star
        right += np.bincount(users[better], beaten[better], minlength=test.n_users)
        in_user = np.bincount(users[stars == star], minlength=test.n_users)
        pairs += in_user * np.bincount(users[better], minlength=test.n_users)
    return np.divide(right, pairs, out=np.full(test.n_users, np.nan), where=pairs > 0)


def plackett_luce_nats(test: Table, log_worths: np.ndarray) -> np.ndarray:
    """-log P of each test list (all of one length, rows best first) under Plackett-Luce with these log-worths."""
    n_people = np.unique(test.users).size
    worths = np.asarray(log_worths, np.float64).reshape(n_people, -1)
    left = np.logaddexp.accumulate(worths[:, ::-1], axis=1)[:, ::-1]
    return (left - worths).sum(axis=1)
