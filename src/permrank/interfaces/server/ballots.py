"""From answers to rankings: what counts of all that people have said, and how much."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import permrank as pr

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
        [[tier if len(tier) > 1 else tier[0] for tier in tiers] for _, tiers, _ in lines],
        users=[user for user, _, _ in lines], weights=[weight for *_, weight in lines],
        items=items, unlisted="ignore",
    )  # fmt: skip
