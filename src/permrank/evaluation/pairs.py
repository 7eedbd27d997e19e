"""Protocols of comparisons of two items: some are learnt from, or asked one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.errors import InputError, NotSupportedError
from permrank.evaluation.protocols import Folds, Protocol, one_list_each
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

    def _split(self, rankings: Rankings, seed: int) -> Split:
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
        return Split(_of_two(rankings, train), _of_two(rankings, test), None, repr(self), seed)


def _of_two(rankings: Rankings, rows: Int64Array) -> Rankings:
    """Rankings of two from rows of user and two entries."""
    ids = rankings.item_ids
    winner, loser = (ids.take(rankings.items[rows[:, place]].astype(np.int64)) for place in (1, 2))
    return Rankings.from_pairs({"user": rankings.user_ids.take(rows[:, 0]), "winner": winner, "loser": loser})


@dataclass(frozen=True)
class Ask(Protocol):
    """People of one of ``n_folds`` parts are new: they answer up to ``budget`` questions about two items of their list.

    `split` holds the people out; `answers` asks them. Answers come from the person's own list; people who have tied
    items are not asked.

    Parameters
    ----------
    budget : int
        Questions to everybody, fewer where nothing is left to ask.
    questions : {"chosen", "random"}
        By ``model.ask``, or pairs in random order.
    k : int
        How many of the best items ``model.sure`` is asked about.
    n_folds : int
        See `Folds`.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.datasets.load("simulated", n_users=60, n_items=6, list_length=6)
    >>> asking = pr.Ask(budget=3)
    >>> split = asking.split(rankings, seed=0)
    >>> model = pr.FactoredThurstone(n_factors=1, max_iter=20).fit(split.train)
    >>> asking.answers(model, split, n_people=2).columns
    ['user', 'n_answers', 'pairs_right', 'sure', 'top_right']
    """

    budget: int = 16
    questions: Literal["chosen", "random"] = "chosen"
    k: int = 3
    n_folds: int = 5
    measures_order = False

    def _split(self, rankings: Rankings, seed: int) -> Split:
        one_list_each(rankings, self)
        parts = Folds(self.n_folds).split(rankings, seed)
        return Split(parts.train, parts.test, None, repr(self), seed)

    def answers(self, model: Ranker, split: Split, n_people: int | None = None) -> pl.DataFrame:
        """Ask the held-out people, the first ``n_people`` of them if given, one question after another.

        Returns
        -------
        polars.DataFrame
            A row for every person and number of answers from 0 on: ``pairs_right``, the share of the pairs of the
            person's list that the model puts right, those that were asked among them; ``sure``, the probability that
            its best k of the list are the right ones in the right order; ``top_right``, whether they are.
        """
        if not hasattr(model, "ask"):
            raise NotSupportedError(f"{type(model).__name__} chooses no questions (ask); take FactoredThurstone")
        rows: list[tuple[object, int, float, float, bool]] = []
        users = list(split.test.user_ids)[:n_people]
        for number, user in enumerate(users):
            truth = [item for item in split.test.lists(user)[0] if isinstance(item, set) or item in model.item_ids]
            if len(truth) > 1 and not any(isinstance(item, set) for item in truth):
                rng = generator(stream_key(split.seed, 11, number))
                rows += [(user, *row) for row in self._person(model, truth, rng)]
        names = ("user", "n_answers", "pairs_right", "sure", "top_right")
        return pl.DataFrame(rows, schema=list(names), orient="row")

    def _person(
        self, model: Any, truth: list[object], rng: np.random.Generator
    ) -> list[tuple[int, float, float, bool]]:
        first, second = np.triu_indices(len(truth), 1)
        place = {item: i for i, item in enumerate(truth)}
        left = [(truth[i], truth[j]) for i, j in rng.permutation(np.column_stack((first, second))).tolist()]
        said: list[list[object]] = []
        found = []
        for n in range(min(self.budget, first.size) + 1):
            new = model.fold_in(Rankings.from_lists(said, users=[0] * len(said)) if said else [])
            scores = np.asarray(model.score(new, truth))
            right = float(np.mean((scores[first] > scores[second]) + 0.5 * (scores[first] == scores[second])))
            top = [truth[i] for i in np.argsort(-scores, kind="stable")[: self.k]]
            found.append((n, right, model.sure(new, self.k, truth), top == truth[: self.k]))
            if n < min(self.budget, first.size):
                pair = model.ask(new, truth).select("item", "other").row(0) if self.questions == "chosen" else left[n]
                said.append(sorted(pair, key=place.__getitem__))
        return found
