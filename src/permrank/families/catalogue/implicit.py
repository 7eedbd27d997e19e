"""A blend of both views of what people take up: items by items, and factors. Settings come from held-out entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from permrank.families.catalogue.blend import (
    Judges,
    Scorer,
    hold_out_entries,
    judged,
    standardised_sum,
)
from permrank.families.catalogue.entries import Entries, Scale, user_weights
from permrank.families.catalogue.friends import Friends, choose_strength
from permrank.families.catalogue.item_weights import (
    MOST_DENSE,
    OTHER_EXPONENT,
    USUAL_EXPONENT,
    ItemScores,
    ItemWeights,
    Penalties,
    choose_penalties,
    filter_weights,
    regression_weights,
)
from permrank.families.catalogue.least_squares import Factors, FactorScores, Sweeps, Weighting, improvements
from permrank.families.catalogue.ranker import popularity_of
from permrank.learning.held_out import HeldOutChoice, Step, choose_by_held_out, clearly_better, descend
from permrank.posterior.links import UserGraph
from permrank.randomness import generator, stream_key
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array, Int64Array

# Where the search for a weighting begins: a row of missing entries weighs as much as so many that are there. Then the
# factors between two that are tried, how many, and how many sweeps each has: enough to tell them apart.
USUAL = Weighting(400.0, 0.01)
_FACTORS, _MOST_TRIED, _TRIED_SWEEPS = (4.0, 3.0), 8, 5
# How many are tried again for more factors.
_MOST_TRIED_AGAIN = 6
# Entries from which factors are learnt while the weighting is searched for.
_MOST_ENTRIES = 3_000_000
# A missing entry weighs at most so much of one that is there.
_MOST_MISSING = 0.5
# Shares of the factors in a blend that are tried.
SHARES = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)
# Factors of a catalogue that is regressed. Beyond it these numbers are tried one after the other, as long as more are
# better; factors of all items are at most so many numbers of 4 bytes.
_FACTORS_OF_FEW = 128
LADDER, _MOST_NUMBERS = (64, 256, 480), 1 << 26
_SWEEPS, _MORE_SWEEPS, _TOL = 12, 6, 1e-3


class Data(NamedTuple):
    """Graded entries of the training data, and how many people each user stands for."""

    entries: Entries
    n_items: int
    weights: Float64Array

    @classmethod
    def of(cls, rankings: Rankings, scale: Scale) -> Data:
        """Entries on a scale of grades."""
        return cls(Entries.of(rankings, scale), rankings.n_items, user_weights(rankings))

    def popularity(self) -> Float64Array:
        """Sum of the grades of every item, (n_items,)."""
        return popularity_of(self.entries, self.n_items, self.weights)

    def sample(self, most: int, users: Int64Array, seed: int) -> Data:
        """The entries of some users, drawn at random until there are so many; of these users in any case."""
        lengths = np.diff(self.entries.indptr)
        if lengths.sum() <= most:
            return self
        order = generator(stream_key(seed, 32)).permutation(self.entries.n_users)
        drawn = order[np.cumsum(lengths[order]) <= most]
        chosen = np.union1d(drawn, users)
        return Data(self.entries.take(chosen), self.n_items, self.weights[chosen])


class ImplicitModel(NamedTuple):
    """What was learnt: weights from item to item, factors, the share of these in the blend, and that of friends."""

    items: ItemWeights
    penalties: Penalties
    factors: Factors
    share: float
    friends: float = 0.0


class BlendedScores:
    """Rows of scores by the blend."""

    def __init__(self, learnt: ImplicitModel) -> None:
        self._parts: list[Scorer] = [ItemScores(learnt.items), FactorScores(learnt.factors)]
        self._shares = [1.0 - learnt.share, learnt.share]

    def rows(self, entries: Entries) -> Array:
        """Scores of all items for users with these entries: float32 (n_users, n_items)."""
        present = [(part, share) for part, share in zip(self._parts, self._shares, strict=True) if share > 0.0]
        return standardised_sum([part.rows(entries) for part, _ in present], [share for _, share in present])

    def contributions(self, entries: Entries, item: int, popularity: Float64Array) -> tuple[Float64Array, float]:
        """What each entry of one user adds to the standardised score of an item, (n_entries,), and a baseline.

        The baseline is what entries with the same grades would add on average if they were drawn from those that all
        people have of other items; an entry is credited with what it adds beyond that. Together they are the score.
        """
        total, baseline, grades = np.zeros(entries.items.size), 0.0, entries.grades.astype(np.float64)
        others = np.where(np.arange(popularity.size) == item, 0.0, popularity)
        shares = others / max(float(others.sum()), np.finfo(np.float64).tiny)
        for part, share in zip(self._parts, self._shares, strict=True):
            spread = float(part.rows(entries)[0].std(dtype=np.float64))
            if share > 0.0 and spread > 0.0:
                own, mean = part.contributions(entries, item)
                usual = share * part.usual(entries, shares, item) / spread
                total += share * (own - mean) / spread - usual * grades
                baseline += usual * float(grades.sum())
        return total, baseline


def weighting_of(weighting: Weighting, n_items: int) -> Weighting:
    """A weighting with the weight of one missing entry, from that of a row of them."""
    return Weighting(min(weighting.missing / max(n_items, 1), _MOST_MISSING), weighting.penalty)


def item_weights(data: Data, penalties: Penalties | None, exponent: float = USUAL_EXPONENT) -> ItemWeights:
    """Weights from item to item: the closed form with penalties, the filter without."""
    if penalties is None:
        return filter_weights(data.entries, data.n_items, data.weights, exponent=exponent)
    return regression_weights(data.entries.scaled(np.sqrt(data.weights)), data.n_items, penalties)


def choose_exponent(data: Data, penalties: Penalties | None, judges: Judges) -> tuple[float, Scorer, float]:
    """The exponent of the filter's items, the weights that come of it, and the NDCG of what these find alone."""
    exponents = (USUAL_EXPONENT, OTHER_EXPONENT) if penalties is None else (USUAL_EXPONENT,)
    parts = {exponent: ItemScores(item_weights(data, penalties, exponent)) for exponent in exponents}
    choice = choose_by_held_out(exponents, lambda exponent: judged([parts[exponent]], [[1.0]], judges)[0])
    return choice.best, parts[choice.best], float(choice.means.max())


def penalties_of(data: Data) -> Penalties | None:
    """Penalties of the closed form by leaving out one user at a time; None where the catalogue is too large for it."""
    if data.n_items > MOST_DENSE:
        return None
    return choose_penalties(data.entries.scaled(np.sqrt(data.weights)), data.n_items)[0]


def factors_of(
    data: Data, n_factors: int, weighting: Weighting, n_sweeps: int, seed: int, start: Array | None = None
) -> Factors:
    """Factors after some sweeps at the most."""
    sweeps = Sweeps(data.entries, data.n_items, data.weights, n_factors, weighting, seed, start)
    for _ in improvements(sweeps, n_sweeps, _TOL):
        pass
    return sweeps.factors


def choose_weighting(data: Data, beside: Sequence[Scorer], judges: Judges, n_factors: int, seed: int) -> Weighting:
    """The weighting with which the factors, alike with the parts beside them, find most of what is hidden."""
    sample = data.sample(_MOST_ENTRIES, judges.users, seed)

    def learnt(weighting: Weighting) -> Factors:
        return factors_of(sample, n_factors, weighting, _TRIED_SWEEPS, seed)

    return _best_factors(learnt, weighting_of(USUAL, data.n_items), beside, judges, _MOST_TRIED)[0].weighting


def _best_factors(
    learnt: Callable[[Weighting], Factors], start: Weighting, beside: Sequence[Scorer], judges: Judges, most: int
) -> tuple[Factors, float]:
    """The factors that find most alike with the parts beside them, by steps from a weighting, and their NDCG."""
    share = 1.0 / (len(beside) + 1)
    kept: dict[Step, tuple[Factors, tuple[int, Float64Array]]] = {}

    def at(step: Step) -> Factors:
        missing = min(start.missing * _FACTORS[0] ** step[0], _MOST_MISSING)
        return learnt(Weighting(missing, start.penalty * _FACTORS[1] ** step[1]))

    def found(step: Step) -> tuple[int, Float64Array]:
        factors = at(step)
        together = [*beside, FactorScores(factors)]
        scores = np.asarray(judged(together, [[share] * len(together)], judges)[0])
        # Only the best so far are held: factors of a large catalogue are large.
        if all(_better_weighting((step[1], scores), other) for _, other in kept.values()):
            kept.clear()
            kept[step] = factors, (step[1], scores)
        return step[1], scores

    best, values = descend(found, most, _better_weighting)
    return kept[best][0] if best in kept else at(best), float(values[best][1].mean())


def _better_weighting(one: tuple[int, Float64Array], other: tuple[int, Float64Array]) -> bool:
    """Whether one finds more; with a smaller penalty it must do so by more than a standard error."""
    if one[0] < other[0]:
        return clearly_better(one[1], other[1])
    return bool(one[1].mean() > other[1].mean())


def numbers_of_factors(n_factors: int | None, n_items: int) -> list[int]:
    """The numbers of factors that are tried: the one that is given, or those of the ladder that fit."""
    if n_factors is not None:
        return [min(n_factors, n_items)]
    if n_items <= MOST_DENSE:
        return [min(_FACTORS_OF_FEW, n_items)]
    return [number for number in LADDER if number * n_items <= _MOST_NUMBERS] or [LADDER[0]]


def more_factors(part: Data, few: Factors, items: Scorer, judges: Judges, numbers: Sequence[int], seed: int) -> Factors:
    """More factors as long as these find more beside the items' weights; they begin with the fewer.

    More factors can do with a smaller penalty and a larger weight of what is missing, so that a weighting is searched
    for again; numbers beyond the next are tried with what was found.
    """
    best = few
    last = float(judged([items, FactorScores(few)], [[0.5, 0.5]], judges)[0].mean()) if numbers else 0.0
    for number, most in zip(numbers, chain([_MOST_TRIED_AGAIN], repeat(1)), strict=False):
        learnt = partial(_more_factors, part, number, best.items, seed)
        more, now = _best_factors(learnt, best.weighting, [items], judges, most)
        if now <= last:
            break
        best, last = more, now
    return best


def _more_factors(part: Data, number: int, start: Array, seed: int, weighting: Weighting) -> Factors:
    return factors_of(part, number, weighting, _MORE_SWEEPS, seed, start)


def learn_implicit(
    data: Data, n_factors: int | None, seed: int, graph: UserGraph | None = None
) -> Iterator[tuple[float, ImplicitModel]]:
    """Learn items by items, then factors beside them; gives the NDCG of what is hidden and what was learnt so far.

    Without a number of factors it is chosen too. graph: links between the users, whose strength is chosen last.
    """
    penalties = penalties_of(data)
    shown = penalties or Penalties(0.0, 0.0)
    held = hold_out_entries(data.entries, data.n_items, seed)
    numbers = numbers_of_factors(n_factors, data.n_items)
    usual = weighting_of(USUAL, data.n_items)
    if held is None:
        factors = factors_of(data, numbers[0], usual, _SWEEPS, seed)
        yield 0.0, ImplicitModel(item_weights(data, penalties), shown, factors, 0.5)
        return
    part, judges = Data(held[0], data.n_items, data.weights), held[1]
    exponent, items, alone = choose_exponent(part, penalties, judges)
    weights = item_weights(data, penalties, exponent)
    nothing = Factors(np.zeros((data.n_items, numbers[0]), np.float32), usual)
    yield alone, ImplicitModel(weights, shown, nothing, 0.0)
    weighting = choose_weighting(part, [items], judges, numbers[0], seed)
    few = factors_of(part, numbers[0], weighting, _SWEEPS, seed)
    trial = more_factors(part, few, items, judges, numbers[1:], seed)
    scores = judged([items, FactorScores(trial)], [[1.0 - share, share] for share in SHARES], judges)
    share = HeldOutChoice(SHARES, scores).unless_usual(0.5)
    strength = 0.0
    if graph is not None:
        rows = [items, FactorScores(trial)]
        shares = [1.0 - share, share]
        strength = choose_strength(
            Friends.of(graph, part.entries, data.n_items),
            lambda entries: standardised_sum([each.rows(entries) for each in rows], shares),
            judges,
        )
    factors = factors_of(data, trial.items.shape[1], trial.weighting, _MORE_SWEEPS, seed, trial.items)
    yield float(scores[SHARES.index(share)].mean()), ImplicitModel(weights, shown, factors, share, strength)
