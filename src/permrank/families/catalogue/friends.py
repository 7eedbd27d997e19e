"""What friends have taken up: one more part of the scores of what a person takes up next.

With a_uv the weights of links, divided by the square roots of both users' degrees, and x_v the graded entries of v,
what friends of u have beyond what anybody has is F_u = Σ_v a_uv (x_v - mean x). A row of scores gets strength times
F_u, in deviations of the row. Links that were drawn at random add nothing but noise. The strength is set by held-out
entries: the best of those that are better than 0 by two standard errors, if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from permrank.families.catalogue.blend import Judges, blocks, gains
from permrank.families.catalogue.entries import Entries
from permrank.learning.held_out import HeldOutChoice
from permrank.posterior.links import UserGraph
from permrank.types import Array, Float64Array, Int64Array

# Strengths that are tried, and standard errors by which one must be better than 0.
STRENGTHS = (0.0, 0.5, 1.0, 2.0, 4.0)
_CLEARLY = 2.0


class Had(NamedTuple):
    """What friends of some users have.

    Attributes
    ----------
    sums : scipy.sparse.csr_matrix (n, n_items)
        Σ_v a_uv x_v.
    degrees : float64 (n,)
        Σ_v a_uv.
    """

    sums: sp.csr_matrix
    degrees: Float64Array


class Friends(NamedTuple):
    """Links between all users, and what each has taken up.

    Attributes
    ----------
    links : scipy.sparse.csr_matrix (n_users, n_users)
    entries : scipy.sparse.csr_matrix (n_users, n_items)
    mean : float64 (n_items,)
        Of the entries of those who have any.
    """

    links: sp.csr_matrix
    entries: sp.csr_matrix
    mean: Float64Array

    @classmethod
    def of(cls, graph: UserGraph, entries: Entries, n_items: int) -> Friends:
        """From the graph of the links and the graded entries."""
        table = sp.csr_matrix((entries.grades, entries.items, entries.indptr), (entries.n_users, n_items))
        people = max(int(np.count_nonzero(np.diff(entries.indptr))), 1)
        return cls(graph.matrix(), table, np.asarray(table.sum(axis=0), np.float64).ravel() / people)

    def of_users(self, users: Int64Array) -> Had:
        """What friends of some users have."""
        return self._had(self.links[users])

    def of_new(self, linked: Float64Array) -> Had:
        """The same of somebody new; linked: users, and the weights of the links with them, (2, n)."""
        places = np.zeros(linked.shape[1], np.int64), linked[0].astype(np.int64)
        return self._had(sp.csr_matrix((linked[1], places), (1, self.links.shape[0])))

    def _had(self, links: sp.csr_matrix) -> Had:
        return Had(links @ self.entries, np.asarray(links.sum(axis=1), np.float64).ravel())

    def add(self, rows: Array, had: Had, strength: float) -> Array:
        """Rows of scores with what friends have, in deviations of each row; in place."""
        owner = np.repeat(np.arange(len(rows)), np.diff(had.sums.indptr))
        unit = strength * rows.std(axis=1, dtype=np.float64)
        rows -= np.multiply.outer(unit * had.degrees, self.mean).astype(rows.dtype)
        rows[owner, had.sums.indices] += (unit[owner] * had.sums.data).astype(rows.dtype)
        return rows


def choose_strength(friends: Friends, rows_of: Callable[[Entries], Array], judges: Judges) -> float:
    """The strength with which most of what is hidden is found, beside scores by what is known of the judges."""
    scores = np.zeros((len(STRENGTHS), judges.users.size))
    for block in blocks(judges.users.size, judges.n_items):
        rows, had = rows_of(judges.known.take(block)), friends.of_users(judges.users[block])
        for number, strength in enumerate(STRENGTHS):
            scores[number, block] = gains(friends.add(rows.copy(), had, strength), judges, int(block[0]))
    return HeldOutChoice(STRENGTHS, scores).gaining(_CLEARLY)


def stacked(parts: Sequence[Had]) -> Had:
    """What friends of several have, one after the other."""
    sums, degrees = zip(*parts, strict=True)
    return Had(sp.csr_matrix(sp.vstack(sums)), np.concatenate(degrees))
