"""What data are asked by default: the protocol, the metrics and the candidates, and whether there are two questions."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from permrank.checks import require_choice
from permrank.core.ranker import Ranker
from permrank.evaluation.catalogue import Catalogue, positive_entries
from permrank.evaluation.metrics import of_kind
from permrank.evaluation.protocols import Folds, Given, LeaveOut, Protocol, StrongGeneralisation
from permrank.evaluation.split import Candidates, Question
from permrank.posterior.co_listing import were_chosen
from permrank.rankings.rankings import Rankings

# Pairs that a calibration is measured by if their number is not given: of probabilities that are right, frequencies of
# 5,000 pairs in ten bins are off by 0.015 on average.
DEFAULT_PAIRS = 5000
# The share of a list that is held out: enough to judge by, little enough to learn as from all of it.
_SHARE = 0.2


def default_protocol(rankings: Rankings, models: Collection[Ranker] = ()) -> Protocol:
    """The protocol that fits the data and the models, for those who do not name one.

    Of long lists (median of at least 20) a fifth is left out (`LeaveOut`), of shorter ones about seven tenths of the
    median are `Given`; those of two or three items, and people with several lists, get `Folds`. Data
    without order have only the other question, `Catalogue`. Folds are judged by probabilities of lists. If half of the
    models have none, it is order that is asked for: a part of each ballot is given; people are new, and one item of
    their short lists is given (`StrongGeneralisation`); or one of each person's lists is left out.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.defaults import default_protocol
    >>> default_protocol(pr.datasets.load("simulated", n_users=50, n_items=12, list_length=10))
    Given(n_given=7)
    >>> short = pr.datasets.load("simulated", n_users=50, n_items=12, list_length=3)
    >>> default_protocol(short), default_protocol(short, [pr.MeanRating(), pr.Random()])
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
    return LeaveOut(share=_SHARE) if middle >= 20 else Given(min(round(0.7 * middle), int(middle) - 2))


def default_validation(rankings: Rankings, models: Collection[Ranker] = ()) -> Protocol:
    """A protocol that leaves nearly everything to learn from: a fifth of a usual list is held out, at least two."""
    usual = default_protocol(rankings, models)
    length = float(np.median(rankings.lengths)) if usual.measures_order else 0.0
    return LeaveOut(max(2, round(_SHARE * length))) if length >= 4 and not without_order(rankings) else usual


def default_metrics(test: Rankings, *, ordered: bool, question: Question = "order") -> list[str]:
    """What to measure if nothing is said; the first decides.

    Ratings are judged by NDCG, orders by pairs put right, whole lists of new people by their probability; what was
    found in the whole catalogue by NDCG too, and by how much of the catalogue is shown.
    """
    if not ordered:
        return of_kind("likelihood")
    if question == "find":
        return ["ndcg", "recall", "map", "hit_rate", *of_kind("coverage", "shown")]
    first = ["ndcg", "pairs_right"] if test.ratings is not None else ["pairs_right", "ndcg"]
    return [*first, "tau_b"]


def default_candidates(candidates: Candidates | None, question: Question) -> Candidates:
    """What is ranked if nothing is said: what the split asks for."""
    if candidates is None:
        return "all" if question == "find" else "rated"
    require_choice("candidates", candidates, ("rated", "all"))
    return candidates


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
