"""A model for data that nobody has named one for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permrank.core.ranker import Ranker
from permrank.core.registry import find
from permrank.rankings.connectivity import strong_components
from permrank.rankings.rankings import Rankings

# Fewer people or items than this have no tastes that could be distinguished.
_FEWEST = 20
# Lists of a personal kind leave out more than they hold.
_SHARE = 0.5
# Answers to pairs that a person gives, at the least, for tastes to show; and the largest share of people who may
# contradict themselves where answers are taken for parts of one order.
_FEWEST_ANSWERS, _CONTRADICTING = 3, 0.1


class Choice(NamedTuple):
    """A model, not fitted, and why it was taken, in a line."""

    model: Ranker
    reason: str


def choose_model(rankings: Rankings) -> Choice:
    """The model that fits the data: personal where people list things of their own, one order for all elsewhere.

    Where people compare two items at a time, several times each, and hardly contradict themselves, it is
    `FactoredThurstone`: their answers share one order, and models that take every answer for a draw of its own predict
    others less well (docs/thurstone.md).

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.interfaces.choosing import choose_model
    >>> choose_model(pr.datasets.load("simulated", n_users=200, n_items=60)).model
    Recommender()
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])
    >>> choose_model(ballots)
    Choice(model=PlackettLuce(), reason='3 ballots over 3 items: one order for all')
    """
    users, items = f"{rankings.n_users:,}", f"{rankings.n_items:,} items"
    if not rankings.has_order:
        return Choice(_made("Recommender"), f"{users} sets without order over {items}: what each person would choose")
    if _are_answers(rankings):
        reason = f"{users} people's answers to pairs of {items}: what each person prefers, all answers from one order"
        return Choice(_made("FactoredThurstone"), reason)
    length = float(np.median(rankings.lengths))
    many = rankings.n_users >= _FEWEST and rankings.n_items >= _FEWEST
    if not rankings.anonymous and many and length <= _SHARE * rankings.n_items:
        kind = "lists" if rankings.ratings is None else "people's ratings"
        return Choice(
            _made("Recommender"), f"{users} {kind} over {items}: what each person would choose, and its order"
        )
    who = f"{users} lists"
    if rankings.anonymous:
        total = rankings.weights.sum()
        who = f"{total:,.12g} ballots" + (f" ({users} distinct)" if total != rankings.n_rankings else "")
    reason = f"{who} over {items}: one order for all"
    if strong_components(rankings).connected:
        return Choice(_made("PlackettLuce"), reason)
    return Choice(
        _made("PlackettLuce", prior="gaussian"), f"{reason}; a prior, for some items have no estimate without"
    )


def _are_answers(rankings: Rankings) -> bool:
    """Whether people compare two items at a time, several times each, and hardly anybody contradicts himself."""
    if rankings.anonymous or rankings.n_users < _FEWEST or rankings.ratings is not None:
        return False
    if (rankings.lengths != 2).any() or rankings.n_rankings < _FEWEST_ANSWERS * rankings.n_users:
        return False
    # A contradiction is a cycle of answers: items of a person that can be reached from each other.
    nodes, places = np.unique(rankings.entry_users() * rankings.n_items + rankings.items, return_inverse=True)
    winners, losers = places.reshape(-1, 2).T
    strict = rankings.levels.reshape(-1, 2)[:, 1] > 0
    graph = coo_array((np.ones(int(strict.sum())), (winners[strict], losers[strict])), (nodes.size, nodes.size))
    labels = connected_components(graph.tocsr(), connection="strong")[1]
    cyclic = np.unique(nodes[np.bincount(labels)[labels] > 1] // rankings.n_items)
    return bool(cyclic.size <= _CONTRADICTING * rankings.n_users)


def with_prior(model: Ranker) -> Ranker | None:
    """The same model with a prior, under which an estimate always exists; None if it has one, or cannot."""
    if "prior" not in model.parameters or model.get_params()["prior"] is not None:
        return None
    return model.clone().set_params(prior="gaussian")


def _made(name: str, **parameters: object) -> Ranker:
    return find(name)(**parameters)
