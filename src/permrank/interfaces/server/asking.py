"""Which question to put to a person next, what is known of the person's order, and when it is enough."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr

import permrank as pr
from permrank.interfaces.server.limits import Buckets, Recent
from permrank.interfaces.server.results import Ballots, NormalScores, Person, rankings_of
from permrank.randomness import generator
from permrank.types import Array, Float64Array, Int64Array, Named

# One person beside an order that is common to all: x ~ N(m, τ² I) around a given mean m. In every comparison (of a
# ranking, those of every tier with the next) the better item is named with probability Φ((x_a - x_b) / λ), λ² = 8 / π,
# nearly the logistic of Plackett-Luce (their largest difference is .02). The posterior is the normal one of expectation
# propagation (Minka, 2001), exact for one comparison; the mode with its curvature would say too little: after one
# answer, with τ = 5, that it was right with probability .77, where .93 is true. Only items that the person has spoken
# of leave the prior, so that what is solved is as small as what was said.
_MOST_SWEEPS, _TOL, _DAMPING = 60, 1e-5, 0.7
_NOISE = math.sqrt(8.0 / math.pi)
"""λ: standard deviation of the normal noise of a comparison that is most like a logistic one (MacKay, 1992)."""


def strength_of(prior_scale: float, variance: float = 0.0) -> float:
    """By how much scores of people are larger than those of the group, of which people are draws.

    A group's scores predict a person's choices with all differences between people averaged over: σ(Δ) is the mean of
    Φ((k Δ + sqrt(2) τ z) / λ), z standard normal, if k² = 1 + 2 τ² / λ². Of scores that are known with an error of this
    variance less is left.

    Examples
    --------
    >>> round(strength_of(5.0), 2), strength_of(0.0)
    (4.54, 1.0)
    """
    return math.sqrt((1.0 + 2.0 * (prior_scale / _NOISE) ** 2) / (1.0 + 2.0 * variance / _NOISE**2))


def one_answer(prior_scale: float) -> float:
    """How likely one answer of a person names the better of two items, if nothing else is known: 1/2 + atan(√2 τ/λ)/π.

    Examples
    --------
    >>> round(one_answer(5.0), 3), one_answer(0.0)
    (0.929, 0.5)
    """
    return 0.5 + math.atan(math.sqrt(2.0) * prior_scale / _NOISE) / math.pi


def person_posterior(
    lists: Sequence[Sequence[Sequence[int]]], prior_mean: Float64Array, prior_scale: float
) -> NormalScores:
    """The posterior of one person's scores given rankings (tiers of item indices, best first).

    Examples
    --------
    >>> import numpy as np
    >>> found = person_posterior([[[0], [1]]], np.zeros(3), 1.0)
    >>> bool(found.mean[0] > 0 > found.mean[1]), float(found.mean[2]), float(found.covariance[2, 2])
    (True, 0.0, 1.0)
    """
    spoken = np.unique([item for tiers in lists for tier in tiers for item in tier]).astype(np.int64)
    mean, n = np.array(prior_mean, np.float64), spoken.size
    compared = [(a, b) for tiers in lists for above, below in itertools.pairwise(tiers) for a in above for b in below]
    whole = np.eye(mean.size) * prior_scale**2
    if not compared:
        return NormalScores(mean, whole)
    better, worse = np.searchsorted(spoken, np.array(compared, np.int64).T)
    gap = mean[spoken[better]] - mean[spoken[worse]]  # the deviations from the prior's mean are solved for
    precision, shift, moved = np.zeros(better.size), np.zeros(better.size), np.full(n, np.inf)
    for _ in range(_MOST_SWEEPS):
        covariance = _covariance(better, worse, precision, n, prior_scale)
        shifts = np.bincount(better, shift, minlength=n) - np.bincount(worse, shift, minlength=n)
        last, moved = moved, covariance @ shifts
        if np.abs(moved - last).max() < _TOL * prior_scale:
            break
        variance = covariance[better, better] + covariance[worse, worse] - 2.0 * covariance[better, worse]
        # Without the comparison itself (the cavity), and then with what it exactly says (the tilted moments).
        without = 1.0 / (1.0 / variance - precision)
        centre = without * ((moved[better] - moved[worse]) / variance - shift)
        total = np.sqrt(_NOISE**2 + without)
        z = (gap + centre) / total
        ratio = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - log_ndtr(z))
        tilted = centre + without * ratio / total
        spread = without - (without / total) ** 2 * ratio * (z + ratio)
        precision += _DAMPING * (1.0 / spread - 1.0 / without - precision)
        shift += _DAMPING * (tilted / spread - centre / without - shift)
    mean[spoken] += moved
    whole[np.ix_(spoken, spoken)] = covariance
    return NormalScores(mean, whole)


def _covariance(better: Int64Array, worse: Int64Array, precision: Float64Array, n: int, scale: float) -> Float64Array:
    """Inverse of the prior's precision and that of all comparisons."""
    total = np.zeros((n, n))
    np.add.at(total, (better, worse), -precision)
    total += total.T
    total[np.diag_indices(n)] = 1.0 / scale**2 - total.sum(axis=1)
    return np.asarray(np.linalg.inv(total), np.float64)


PERSON_SCALE = 5.0
"""Standard deviation of people's own log-worths around those of the group.

It says how consistent people are: of two items that the group likes alike, somebody asked twice names the same one with
a probability of .89. That is what people did who ranked sushi twice (decision 0026).
"""
ENOUGH = one_answer(PERSON_SCALE)
"""Share of all pairs that an order has right which is enough: that of somebody who has answered every pair once.

A person's own answers are no better, and to be asked further would be to know them better than they do: .93.
"""
# Items that a question is sought among, and draws of their scores.
_CANDIDATES, _DRAWS = 24, 1024
# Up to so many people the others' order is fitted without the person; certainty is over so many items at the most.
_FEW_PEOPLE, _MOST = 50, 300
# Fits that are kept.
_KEPT = 1_000


def next_question(ids: Sequence[str], person: Person, common: Float64Array, kind: str = "pair") -> Named:
    """The question that tells most about a person's order, the order so far, and how sure it is.

    common: what is expected of the person from what the others think (`Common`), in the order of ids.
    """
    place = {item: at for at, item in enumerate(ids)}
    lists = [[[place[item] for item in tier] for tier in tiers] for tiers in person.lists()]
    posterior, n = person_posterior(lists, common, PERSON_SCALE), len(ids)
    order = np.lexsort((np.arange(n), -posterior.mean))
    certainty = share_right(posterior, order if n <= _MOST else order[:_MOST])
    asked = question(posterior, ids, person, kind)
    answered = len(person.choices)
    gain = 0.0 if asked is None else asked[1]
    return {
        "items": [] if asked is None else asked[0],
        "gain": gain,
        "certainty": certainty,
        "enough": asked is None or (answered > 0 and certainty >= ENOUGH),
        "answered": answered,
        "order": _so_far(posterior, order, ids),
    }


class Common:
    """What is expected of a person from what others think: fitted again when they have said something new.

    budget: processor seconds of each poll for these fits; with none left, earlier ones are taken.
    """

    def __init__(self, budget: Buckets) -> None:
        self._budget = budget
        self._kept: Recent[tuple[str, str], tuple[tuple[int, int], Float64Array]] = Recent(_KEPT)

    def scores(self, poll: str, ids: Sequence[str], ballots: Ballots, who: str | None) -> Float64Array:
        """Scores without a person, who would be counted twice among few; among many, of all.

        A poll that has used up its time has earlier scores: the person's own, or those of all.
        """
        name = (who or "") if len(ballots.people) <= _FEW_PEOPLE else ""
        seqs = [seq for person, seq in ballots.last.items() if person != name]
        state = max(seqs, default=0), len(seqs)
        kept = [self._kept[key] for key in ((poll, name), (poll, "")) if key in self._kept]
        current = [one for one in kept if one[0] == state]  # that of all, for somebody who has said nothing yet
        if not current and self._budget.left(poll) <= 0.0:
            if not kept and name:
                return self.scores(poll, ids, ballots, None)
            current = kept
        if current:
            return self._keep(poll, name, current[0])
        began = time.thread_time()
        people = {person: said for person, said in ballots.people.items() if person != name}
        rankings = rankings_of(ballots._replace(people=people), ids)
        found = fitted(rankings, ids) if rankings is not None and rankings.has_order else np.zeros(len(ids))
        self._budget.pay(poll, time.thread_time() - began)
        if name not in ballots.people:
            self._keep(poll, "", (state, found))
        return self._keep(poll, name, (state, found))

    def _keep(self, poll: str, name: str, found: tuple[tuple[int, int], Float64Array]) -> Float64Array:
        self._kept[poll, name] = found
        return found[1]


def fitted(rankings: pr.Rankings, ids: Sequence[str]) -> Float64Array:
    """Scores that are expected of one more person, in the order of ids (`strength_of`)."""
    model = pr.PlackettLuce(prior="gaussian").fit(rankings, verbose=False)
    likelihood = model.likelihood()
    variance = float(np.mean(1.0 / (np.diag(likelihood.information) + likelihood.penalty)))
    scores = model.scores_[rankings.item_ids.indices(ids)]
    return np.asarray(strength_of(PERSON_SCALE, variance) * scores)


def question(posterior: NormalScores, ids: Sequence[str], person: Person, kind: str) -> tuple[list[str], float] | None:
    """Two items (or four) and the expected gain (see `information`); None where everything has been asked."""
    n = len(ids)
    items = np.arange(n)
    if n > _CANDIDATES:
        items = np.sort(np.lexsort((-posterior.mean, -np.round(np.diag(posterior.covariance), 6)))[:_CANDIDATES])
    pairs, done = np.column_stack(np.triu_indices(items.size, 1)), person.asked
    if kind == "pair" or items.size < 4:
        pairs = pairs[[frozenset((ids[items[a]], ids[items[b]])) not in done for a, b in pairs]]
    if not len(pairs):
        return None
    root = np.linalg.cholesky(posterior.covariance[np.ix_(items, items)] + 1e-9 * np.eye(items.size))
    draws = posterior.mean[items] + generator(n).normal(size=(_DRAWS, items.size)) @ root.T
    gains = pr.FactoredThurstone.information(draws, pairs)
    best = np.argsort(-gains, kind="stable")
    if kind == "pair" or items.size < 4:
        return [ids[items[at]] for at in pairs[best[0]]], float(gains[best[0]])
    for first in range(best.size):  # the four items of the best pairs that were not asked about together
        four: list[int] = []
        for pair in pairs[best[first:]].tolist():
            four += [at for at in pair if at not in four][: 4 - len(four)]
        chosen = [ids[items[at]] for at in four]
        if len(chosen) == 4 and frozenset(chosen) not in done:
            return chosen, float(gains[best[first]])
    return None


def share_right(posterior: NormalScores, items: Array) -> float:
    """Expected share of pairs of items that the order by the means has right."""
    if items.size < 2:
        return 1.0
    first, second = np.triu_indices(items.size, 1)
    right = posterior.before(items[first], items[second])
    return float(np.mean(np.maximum(right, 1.0 - right)))


def _so_far(posterior: NormalScores, order: Array, ids: Sequence[str]) -> list[Named]:
    """The best of the order with how sure each is to be before the next."""
    shown = order[:50]
    sure = np.append(posterior.before(shown[:-1], shown[1:]), 1.0)
    return [{"item": ids[index], "before_next": float(p)} for index, p in zip(shown.tolist(), sure, strict=True)]
