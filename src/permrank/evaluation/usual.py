"""What to ask of data if nobody says: a protocol, and whether both questions have a meaning."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from permrank.core.ranker import Ranker
from permrank.evaluation.finding import Catalogue, positive_entries
from permrank.evaluation.protocols import Folds, Given, LeaveOut, Protocol, StrongGeneralisation
from permrank.posterior.co_listing import were_chosen
from permrank.rankings.rankings import Rankings

_USUAL_SHARE = 0.2


def usual_protocol(rankings: Rankings, models: Collection[Ranker] = ()) -> Protocol:
    """The protocol that fits the data and the models, for those who do not name one.

    Of long lists (median of at least 20) a fifth is left out (`LeaveOut`), of shorter ones about seven tenths of the
    median are `Given`; those of two or three items, and people with several lists, get `Folds`. Data
    without order have only the other question, `Catalogue`. Folds are judged by probabilities of lists. If half of the
    models have none, it is order that is asked for: a part of each ballot is given; people are new, and one item of
    their short lists is given (`StrongGeneralisation`); or one of each person's lists is left out.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.usual import usual_protocol
    >>> usual_protocol(pr.datasets.load("simulated", n_users=50, n_items=12, list_length=10))
    Given(n_given=7)
    >>> short = pr.datasets.load("simulated", n_users=50, n_items=12, list_length=3)
    >>> usual_protocol(short), usual_protocol(short, [pr.MeanRating(), pr.Random()])
    (Folds(n_folds=5), StrongGeneralisation(n_given=1, share=0.2, min_test=2))
    """
    if without_order(rankings):
        return Catalogue()
    lengths = rankings.lengths
    middle = float(np.median(lengths)) if lengths.size else 0.0
    several = bool(np.diff(rankings.user_indptr).max(initial=0) > 1)
    if rankings.anonymous or several or middle < 4:
        unable = sum(type(model).log_likelihood is Ranker.log_likelihood for model in models)
        if not models or 2 * unable < len(models):
            return Folds()
        if several:
            return LeaveOut(1, of="rankings")
        if middle < 4:  # of two items none can be given
            return StrongGeneralisation(1, min_test=2) if lengths.max(initial=0) > 2 else Folds()
        return Given(min(round(0.7 * middle), int(middle) - 2))
    return LeaveOut(share=_USUAL_SHARE) if middle >= 20 else Given(min(round(0.7 * middle), int(middle) - 2))


def without_order(rankings: Rankings) -> bool:
    """Whether every ranking of known people is a set: clicks, purchases, check-ins."""
    return not rankings.anonymous and rankings.n_entries > 0 and int(rankings.levels.max(initial=0)) == 0


def why_not_find(rankings: Rankings) -> str:
    """Why these rankings cannot ask what people would choose, as part of a sentence; nothing if they can.

    The question has a meaning where people list items of their own choice out of many.
    """
    if rankings.anonymous:
        return "ballots without voters are not choices of known people"
    if np.diff(rankings.user_indptr).max(initial=0) > 1:
        return "people have several rankings"
    if 2 * rankings.n_entries > rankings.n_users * rankings.n_items:
        return "people list most of the items, so that there is little left to find"
    protocol = Catalogue()
    chosen = positive_entries(rankings, protocol.positive)
    counts = np.bincount(rankings.entry_users()[chosen], minlength=rankings.n_users)
    if counts.max(initial=0) < protocol.min_positive:
        return f"nobody has {protocol.min_positive} items that count as chosen"
    if without_order(rankings):
        return ""  # it is all that they can be asked
    if rankings.ratings is None and np.unique(rankings.lengths).size == 1 and not were_chosen(rankings, 0):
        return "all lists are equally long, and what is listed together is no more than chance: they were handed out"
    return ""
