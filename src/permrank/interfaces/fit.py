"""`permrank.fit`: from data to a fitted model in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from permrank.data.formats.readers import read
from permrank.data.rankings import Rankings
from permrank.models.choosing import choose_model
from permrank.models.ranker import Ranker


def fit(data: object, model: Ranker | None = None, **reading: Any) -> Ranker:
    """Fit a model to rankings, a frame or a file; without a model, one that fits the data.

    Personal data, that is ratings, and lists that people chose from many items, get `Recommender`; ballots over a few
    items get `PlackettLuce`, with a prior where an estimate would not exist without.

    Parameters
    ----------
    data : Rankings, path, or frame of ratings
        A frame has columns ``user``, ``item`` and ``rating``; anything else is for the ``from_`` constructors of
        `Rankings`, or for `read`, whose options are taken for a path.
    model : Ranker, optional
        A model of your choice.

    Returns
    -------
    Ranker
        Fitted.

    Examples
    --------
    >>> import permrank as pr
    >>> pr.fit(pr.Rankings.from_lists([["a", "b"], ["b", "a"], ["a", "b"]]))
    PlackettLuce() fitted to 2 rankings, of total weight 3, of 2 items
    """
    if isinstance(data, Rankings):
        rankings = data
    elif isinstance(data, str | Path):
        rankings = read(data, **reading)
    else:
        rankings = Rankings.from_ratings(data, **reading)
    return (choose_model(rankings).model if model is None else model).fit(rankings)
