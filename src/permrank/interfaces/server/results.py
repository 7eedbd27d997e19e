"""What counts of all that people have said, and what a group thinks: the order with its uncertainty, cycles, tastes."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import permrank as pr
from permrank.randomness import generator
from permrank.types import Array, BoolArray, Float64Array, Named

Tiers = list[list[str]]


class Person:
    """What counts of one person's answers: the last ranking, the last answer to every question."""

    def __init__(self) -> None:
        self.ranking: Tiers | None = None
        self.choices: dict[frozenset[str], Tiers] = {}
        self.skipped: set[frozenset[str]] = set()

    def add(self, kind: str, said: str) -> None:
        """Take one answer, in the order in which they were given."""
        value = json.loads(said)
        if kind in ("list", "tiers"):
            self.ranking = value
        elif kind == "skip":
            self.skipped.add(frozenset(value))
            self.choices.pop(frozenset(value), None)
        else:
            tiers = [[item] for item in value] if kind == "pair" else value
            asked = frozenset(item for tier in tiers for item in tier)
            self.choices[asked] = tiers
            self.skipped.discard(asked)

    @property
    def asked(self) -> set[frozenset[str]]:
        """Questions that were answered or passed over."""
        return {*self.choices, *self.skipped}

    def lists(self) -> list[Tiers]:
        """All that counts, as rankings with ties."""
        return [*([] if self.ranking is None else [self.ranking]), *self.choices.values()]


class Ballots(NamedTuple):
    """All that counts of a poll, by person, up to an answer; and the number of each person's last one."""

    people: dict[str, Person]
    last: dict[str, int]
    seq: int = 0
    n_answers: int = 0

    @classmethod
    def of(cls, rows: Iterable[sqlite3.Row]) -> Ballots:
        """What counts of answers in the order of their numbers."""
        return cls({}, {}).added(rows)

    def added(self, rows: Iterable[sqlite3.Row]) -> Ballots:
        """With more answers, which are added to these people."""
        seq, n_answers = self.seq, self.n_answers
        for row in rows:
            self.people.setdefault(row["person"], Person()).add(row["kind"], row["said"])
            seq, n_answers = int(row["seq"]), n_answers + 1
            self.last[row["person"]] = seq
        return self._replace(seq=seq, n_answers=n_answers)


def weight_of(lists: Sequence[Tiers], n_items: int) -> float:
    """Weight of each ranking of a person, so that nobody counts for more than one who orders all items.

    An order of n items is n - 1 choices, a pair is one; many answers of one person are weighed down to n - 1.

    Examples
    --------
    >>> weight_of([[["a"], ["b"]], [["b"], ["c"]]], 3), weight_of([[["a"], ["b"]]] * 4, 3)
    (1.0, 0.5)
    """
    stages = sum(sum(map(len, tiers[:-1])) for tiers in lists)
    return min(1.0, (n_items - 1) / stages) if stages else 1.0


def ranking_lines(ballots: Ballots, n_items: int, names: dict[str, str]) -> list[tuple[str, Tiers, float]]:
    """User, ranking and weight of all that counts; people in the order of their names, which are ids without one."""
    found = []
    for person in sorted(ballots.people, key=lambda person: (names.get(person) or person, person)):
        lists = ballots.people[person].lists()
        weight = weight_of(lists, n_items)
        found += [(names.get(person) or person, tiers, weight) for tiers in lists]
    return found


def rankings_of(ballots: Ballots, items: Sequence[str], names: dict[str, str] | None = None) -> pr.Rankings | None:
    """The rankings of a poll, or None while there are none."""
    lines = ranking_lines(ballots, len(items), names or {})
    if not lines:
        return None
    return pr.Rankings.from_lists(
        [tiers for _, tiers, _ in lines],
        users=[user for user, _, _ in lines], weights=[weight for *_, weight in lines],
        items=items, unlisted="ignore",
    )  # fmt: skip


LEVEL = 0.9
# All pairs are compared under every draw up to so many items, and majorities are counted; draws with more of them.
_MOST_COMPARED, _MOST_CLOSE, _DRAWS, _FEW_DRAWS = 150, 8, 2_000, 500
MODEL = "PlackettLuce(prior='gaussian')"


class NormalScores(NamedTuple):
    """Scores of items that are known but for normal errors: their mean (n,), and the covariance (n, n)."""

    mean: Float64Array
    covariance: Float64Array

    def before(self, first: Array, second: Array) -> Float64Array:
        """Probabilities that the score of each item is above that of another."""
        variance = np.diag(self.covariance)
        spread = variance[first] + variance[second] - 2.0 * self.covariance[first, second]
        gap = self.mean[first] - self.mean[second]
        return np.asarray(ndtr(gap / np.sqrt(np.maximum(spread, 1e-12))), np.float64)


class GroupResult:
    """The order of a group and what belongs to it; made once for a state of the poll."""

    def __init__(self, items: Sequence[Named], ballots: Ballots) -> None:
        self.items, self.ids, self.at = list(items), [item["id"] for item in items], time.time()
        self.n_people, self.n_answers, self.seq = len(ballots.people), ballots.n_answers, ballots.seq
        rankings = rankings_of(ballots, self.ids)
        self.rankings = rankings if rankings is not None and rankings.has_order else None
        self.scores: Float64Array = np.zeros(len(self.ids))
        self.order = np.arange(len(self.ids))
        self.body = self._body()
        self.text = json.dumps(self.body, ensure_ascii=False, allow_nan=False)  # once for all who ask

    def _body(self) -> Named:
        known: Named = {"model": MODEL, "level": LEVEL, "items": [], "close": [], "cycles": []}
        if self.rankings is None:
            return known
        model = pr.PlackettLuce(prior="gaussian").fit(self.rankings, verbose=False)
        own = self.rankings.item_ids.indices(self.ids)
        scores, covariance = model.scores_[own], model.likelihood().covariance[np.ix_(own, own)]
        # What the estimates might have been; the covariance is positive under the prior.
        normal = generator(0).normal(size=(_DRAWS if own.size <= _MOST_COMPARED else _FEW_DRAWS, own.size))
        samples = normal @ np.linalg.cholesky(covariance).T
        self.scores, self.order = scores, np.lexsort((np.arange(scores.size), -scores))
        ranked = self.order
        samples, ordered = samples[:, ranked], scores[ranked]
        low, high, groups = self._intervals(model, ordered, samples)
        best = np.bincount((ordered + samples).argmax(axis=1), minlength=scores.size) / len(samples)
        share = np.exp(ordered - ordered.max())
        share /= share.sum()
        listed = np.bincount(self.rankings.items, minlength=scores.size)[own][ranked]
        for at, index in enumerate(ranked.tolist()):
            item = self.items[index]
            known["items"].append({
                "rank": at + 1, "item": item["id"], "title": item["title"], "score": float(ordered[at]),
                "rank_low": int(low[at]), "rank_high": int(high[at]), "group": int(groups[at]),
                "favourite": float(best[at]), "first_choice": float(share[at]), "listed": int(listed[at]),
            })  # fmt: skip
        known["close"] = self._close(ranked, covariance)
        if scores.size <= _MOST_COMPARED:
            found = cycles(majorities(self.rankings, self.ids))
            known["cycles"] = [[self.ids[index] for index in cycle] for cycle in found]
        return known

    def _close(self, ranked: Array, covariance: Float64Array) -> list[Named]:
        """Neighbours in the order that could as well be the other way round, closest first."""
        first, second = ranked[:-1], ranked[1:]
        sure = NormalScores(self.scores, covariance).before(first, second)
        found = [at for at in np.argsort(sure, kind="stable") if sure[at] < LEVEL][:_MOST_CLOSE]
        return [
            {"item": self.ids[first[at]], "other": self.ids[second[at]], "probability": float(sure[at])} for at in found
        ]

    def _intervals(self, model: pr.PlackettLuce, scores: Float64Array, samples: Float64Array) -> Any:
        """Ranks from, to, and tie groups, of items in their order: simultaneous, or one by one if there are many."""
        if scores.size <= _MOST_COMPARED:
            frame = model.tie_groups(level=LEVEL)
            rows = {row["item"]: row for row in frame.iter_rows(named=True)}
            each = [rows[self.ids[index]] for index in self.order]
            return tuple([row[name] for row in each] for name in ("rank_low", "rank_high", "group"))
        drawn = (scores + samples).argsort(axis=1)[:, ::-1].argsort(axis=1) + 1
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="inverted_cdf")
        place = np.arange(1, scores.size + 1)
        return np.minimum(low, place), np.maximum(high, place), np.zeros(scores.size)

    def differences(self, person: Person) -> Named | None:
        """Where a person's last ranking differs from the group's order: pairs that agree, and the items most apart."""
        if person.ranking is None or self.rankings is None:
            return None
        level = {item: at for at, tier in enumerate(person.ranking) for item in tier}
        ranked = [self.ids[index] for index in self.order if self.ids[index] in level]
        own = np.array([level[item] for item in ranked])
        above, below = np.triu_indices(own.size, 1)
        decided = own[above] != own[below]
        agree = float(np.mean(own[above] < own[below], where=decided)) if decided.any() else None
        place = np.array([np.mean(np.flatnonzero(np.sort(own) == value)) for value in own])
        apart = place - np.arange(own.size)  # positive: the group likes it more
        most = [at for at in np.argsort(-np.abs(apart), kind="stable")[:3] if abs(apart[at]) >= 1.0]
        items = [{"item": ranked[at], "yours": float(place[at] + 1), "group": int(at + 1)} for at in most]
        return {"agree": agree, "items": items}


def majorities(rankings: pr.Rankings, ids: Sequence[str]) -> Float64Array:
    """By how much weight each item is put before each other: (n, n), in the order of ids."""
    n = len(ids)
    place = np.empty(n, int)
    place[rankings.item_ids.indices(ids)] = np.arange(n)
    found = np.zeros((n, n))
    for start, stop, weight in zip(rankings.indptr[:-1], rankings.indptr[1:], rankings.weights, strict=True):
        items, levels = place[rankings.items[start:stop]], rankings.levels[start:stop]
        found[np.ix_(items, items)] += weight * (levels[:, None] < levels[None, :])
    return found


def cycles(before: Float64Array) -> list[list[int]]:
    """Groups of items, of three or more, in which every one is beaten by a majority, directly or by a chain.

    Examples
    --------
    >>> import numpy as np
    >>> rock_paper = np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0]])
    >>> cycles(rock_paper)
    [[0, 1, 2]]
    """
    from scipy.sparse.csgraph import connected_components

    beats: BoolArray = before > before.T
    _, label = connected_components(beats, directed=True, connection="strong")
    groups = [np.flatnonzero(label == one).tolist() for one in range(int(label.max(initial=-1)) + 1)]
    return sorted((group for group in groups if len(group) >= 3), key=lambda group: group[0])
