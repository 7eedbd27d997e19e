"""`permrank.fit`: from data to a fitted model in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from permrank.core.ranker import Ranker
from permrank.errors import EstimateError, InputError
from permrank.files.formats.about import with_about
from permrank.files.formats.readers import read
from permrank.files.formats.tables import rankings_from_frame
from permrank.interfaces.choosing import choose_model, with_prior
from permrank.learning.engines import EngineChoice
from permrank.rankings.rankings import Rankings


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
    if model is not None:
        return model.fit(rankings, engine=engine, verbose=verbose)
    chosen = choose_model(rankings).model
    try:
        return chosen.fit(rankings, engine=engine, verbose=verbose)
    except EstimateError:  # connected data can still lack one, as where all that one item loses are ties
        other = with_prior(chosen)
        if other is None:
            raise
        return other.fit(rankings, engine=engine, verbose=verbose)
