"""`permrank.fit`: from data to a fitted model in one call, also for data that nobody has named a model for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import permrank as pr
from permrank.core.ranker import Ranker
from permrank.errors import EstimateError, InputError
from permrank.files.formats import read
from permrank.files.formats.about import with_about
from permrank.files.formats.tables import rankings_from_frame
from permrank.learning.engines import EngineChoice
from permrank.rankings.describe import strong_components
from permrank.rankings.rankings import Rankings

# Fewer people or items than this have no tastes that could be distinguished.
_FEWEST = 20
# Lists of a personal kind leave out more than they hold.
_SHARE = 0.5
# Answers to pairs that a person gives, at the least, for tastes to show; and the largest share of people who may
# contradict themselves where answers are taken for parts of one order.
_FEWEST_ANSWERS, _CONTRADICTING = 3, 0.1


def fit(
    data: object,
    model: Ranker | None = None,
    *,
    items: object = None,
    users: object = None,
    engine: EngineChoice = None,
    verbose: bool | None = None,
    **reading: Any,
) -> Ranker:
    """Fit a model to rankings, a frame or a file; without a model, one that fits the data.

    Personal data, that is ratings, and lists that people chose from many items, get `Recommender`; ballots over a few
    items get `PlackettLuce`, with a prior where an estimate would not exist without.

    Parameters
    ----------
    data : Rankings, path, or frame
        Columns of a frame are recognised as those of a file are: users, items and ratings or ranks, or winners and
        losers, or users and items alone.
    model : Ranker, optional
        A model of your choice.
    items, users : path or frame, optional
        What is known of them: titles and attributes, as for `read`.
    engine : {"local", "ray"} or RayEngine, optional
        Where it is computed, as for `Ranker.fit`.
    verbose : bool, optional
        Whether progress is shown, as for `Ranker.fit`.
    **reading
        Options of `read`; for a frame, names of columns, ``kind`` and ``duplicates``.

    Returns
    -------
    Ranker
        Fitted.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "b"]]))
    PlackettLuce() fitted to 3 rankings (2 distinct) of 2 items
    """
    if isinstance(data, Rankings):
        if reading:
            raise InputError(f"{next(iter(reading))}= is for files and frames, and these are rankings; leave it out")
        rankings = data
    elif isinstance(data, str | Path):
        rankings = read(data, **reading)
    else:
        rankings = rankings_from_frame(data, **reading)
    rankings = with_about(rankings, items, users)
    fitted = choose_model(rankings)[0] if model is None else model
    learn(fitted, rankings, chosen=model is None, engine=engine, verbose=verbose)
    return fitted


def learn(
    model: Ranker, rankings: Rankings, *, chosen: bool = False, drop_inestimable: bool = False, **options: Any
) -> list[object]:
    """Fit a model; returns the items that were left out since no estimate exists for them.

    One that was chosen by the data, and not by name, gets a prior where it has no estimate without: connected data can
    still lack one, as where ties leave open how items share.
    """
    left_out: list[object] = []
    while True:
        try:
            model.fit(rankings, **options)
            return left_out
        except EstimateError as error:
            if drop_inestimable:
                if not error.items or len(error.items) >= rankings.n_items:
                    raise
                # What is left may be torn apart by what is missing: look again.
                left_out += error.items
                rankings = rankings.drop(items=error.items)
            elif chosen and "prior" in model.parameters and model.get_params()["prior"] is None:
                model.set_params(prior="gaussian")
            else:
                raise


def choose_model(rankings: Rankings) -> tuple[Ranker, str]:
    """A model that fits the data, not fitted, and why, in a line: personal where people list things of their own.

    Where people compare two items at a time, several times each, and hardly contradict themselves, it is
    `FactoredThurstone`: their answers share one order, and models that take every answer for a draw of its own predict
    others less well (docs/thurstone.md). Elsewhere it is one order for all.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.interfaces.fit import choose_model
    >>> choose_model(pr.datasets.load("simulated", n_users=200, n_items=60))[0]
    Recommender()
    >>> ballots = pr.Rankings.from_lists([["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])
    >>> choose_model(ballots)
    (PlackettLuce(), '3 ballots over 3 items: one order for all')
    """
    users, items = f"{rankings.n_users:,}", f"{rankings.n_items:,} items"
    if not rankings.has_order:
        return pr.Recommender(), f"{users} sets without order over {items}: what each person would choose"
    if _are_answers(rankings):
        reason = f"{users} people's answers to pairs of {items}: what each person prefers, all answers from one order"
        return pr.FactoredThurstone(), reason
    many = rankings.n_users >= _FEWEST and rankings.n_items >= _FEWEST
    if not rankings.anonymous and many and float(np.median(rankings.lengths)) <= _SHARE * rankings.n_items:
        kind = "lists" if rankings.ratings is None else "people's ratings"
        return pr.Recommender(), f"{users} {kind} over {items}: what each person would choose, and its order"
    who = f"{users} lists"
    if rankings.anonymous:
        total = rankings.weights.sum()
        who = f"{total:,.12g} ballots" + (f" ({users} distinct)" if total != rankings.n_rankings else "")
    reason = f"{who} over {items}: one order for all"
    if strong_components(rankings).connected:
        return pr.PlackettLuce(), reason
    return pr.PlackettLuce(prior="gaussian"), f"{reason}; a prior, for some items have no estimate without"


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
