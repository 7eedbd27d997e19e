"""The protocol of pairs: people answer some questions about two items, and are asked others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permrank.checks import require_int
from permrank.errors import InputError
from permrank.evaluation.protocols import Protocol, one_list_each
from permrank.evaluation.split import Split
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Int64Array


@dataclass(frozen=True)
class Pairs(Protocol):
    """Of every list ``n_train`` random pairs of items to learn from, each a ranking of two, and ``n_test`` others.

    All pairs of a person come from one list, so that they never contradict each other. Tied items make no pair; people
    with fewer than ``n_train + n_test`` pairs are dropped.

    Parameters
    ----------
    n_train, n_test : int

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b", "c", "d"], "bob": ["d", {"a", "b"}]})
    >>> split = pr.Pairs(n_train=2, n_test=1).split(rankings, seed=0)
    >>> split.train.n_rankings, split.test.n_rankings, split.test.n_users
    (2, 1, 1)
    """

    n_train: int = 10
    n_test: int = 10

    def split(self, rankings: Rankings, seed: int = 0) -> Split:
        """Split rankings; the same seed gives the same split."""
        require_int("n_train", self.n_train, 1)
        require_int("n_test", self.n_test, 1)
        one_list_each(rankings, self)
        rng = generator(stream_key(seed, 9))
        bounds, chosen = rankings.user_bounds, []
        for user in range(rankings.n_users):
            levels = rankings.levels[bounds[user] : bounds[user + 1]]
            first, second = np.triu_indices(levels.size, 1)
            told = np.flatnonzero(levels[first] < levels[second])
            if told.size >= self.n_train + self.n_test:
                drawn = rng.permutation(told)[: self.n_train + self.n_test]
                rows = np.column_stack(
                    (np.full(drawn.size, user), bounds[user] + first[drawn], bounds[user] + second[drawn])
                )
                chosen.append(rows)
        if not chosen:
            raise InputError(
                f"{self!r} leaves nobody: no list has {self.n_train + self.n_test} pairs of items that are not tied"
            )
        answers = np.array(chosen)
        train, test = answers[:, : self.n_train].reshape(-1, 3), answers[:, self.n_train :].reshape(-1, 3)
        return Split(_of_two(rankings, train), _of_two(rankings, test), None, repr(self), int(seed))


def _of_two(rankings: Rankings, rows: Int64Array) -> Rankings:
    """Rankings of two from rows of user and two entries."""
    ids = rankings.item_ids
    winner, loser = (ids.take(rankings.items[rows[:, place]].astype(np.int64)) for place in (1, 2))
    return Rankings.from_pairs({"user": rankings.user_ids.take(rows[:, 0]), "winner": winner, "loser": loser})
