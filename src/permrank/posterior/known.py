"""What is known of items and users before anybody ranks: their features and links, as models want them."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from permrank.posterior.links import UserGraph
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Int64Array


class Known(NamedTuple):
    """Features of items and users, and links between users.

    Attributes
    ----------
    items, users : float64 (n, p)
    item_groups, user_groups : int64 (p,)
        Attribute of each column, from 0 on.
    graph : UserGraph or None
    """

    items: Float64Array
    item_groups: Int64Array
    users: Float64Array
    user_groups: Int64Array
    graph: UserGraph | None

    @classmethod
    def nothing(cls, n_users: int, n_items: int) -> Known:
        """Of nobody and nothing."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros((n_items, 0)), none, np.zeros((n_users, 0)), none, None)

    @classmethod
    def of(cls, rankings: Rankings) -> Known:
        """What `Rankings.with_features` and `Rankings.with_links` have said; made once."""
        return rankings._once(cls._made)

    @classmethod
    def _made(cls, rankings: Rankings) -> Known:
        known = cls.nothing(rankings.n_users, rankings.n_items)
        items, users = rankings.features("item"), rankings.features("user")
        if items is not None:
            known = known._replace(items=items.of(rankings.item_ids.ids), item_groups=items.groups)
        if users is not None:
            known = known._replace(users=users.of(rankings.user_ids.ids), user_groups=users.groups)
        about = rankings.user_ids.attributes
        if about is not None and about.links is not None and about.links.learnt:
            edges = about.links.among(rankings.user_ids.ids)
            known = known._replace(graph=UserGraph(edges, rankings.n_users) if edges.first.size else None)
        return known

    @property
    def is_nothing(self) -> bool:
        """Whether there is neither a feature nor a link."""
        return not (self.items.shape[1] or self.users.shape[1] or self.graph is not None)

    def digest(self) -> str:
        """What tells it from other knowledge about the same rankings."""
        if self.is_nothing:
            return "nothing"
        found = hashlib.sha256()
        for part in (self.items, self.item_groups, self.users, self.user_groups):
            found.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
        if self.graph is not None:
            found.update(self.graph.degrees.tobytes())
        return found.hexdigest()
