"""Whether models differ: variances of means over people, splits and fits, intervals, and all pairs of models at once.

What person i has of model a on split s by fit r has an effect of the person, one of the split, one of the fit's seed,
which all people share, and noise. The variance of a difference of two means has a part for each (two-way random
effects: people are crossed with splits and fits). Splits are shared by all models; fits are not. Degrees of freedom are
Satterthwaite's. p-values are adjusted for all pairs: how often the least p-value of all of them would be as small if no
two models differed (Westfall and Young 1993, single step), by the parametric bootstrap.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from permrank.errors import InputError
from permrank.randomness import generator
from permrank.types import Float64Array, Int64Array

# Columns of which one has all the weight do not differ.
_ROUNDING = 1e-12
# Fewer people cannot be significant at .05 whatever they say: all signs agree with probability 2 / 2**n by chance.
LEAST_PEOPLE = 6
LEVEL = 0.05
_DRAWS = 4_000  # adjusted p-values of .05 are known to .0035
# Two splits have one degree of freedom; their variance counts as if one more had been that without an effect of splits.
# Equal models of two splits are then told apart in .04 to .08 of comparisons, the last if splits vary more than people.
_QUIET_SPLITS = 1
# Squares of rounding errors.
_NOTHING = 1e-28

Numbers: TypeAlias = Any
"""A number, or one for each draw."""


class Variance(NamedTuple):
    """A weighted mean and its variance components.

    Attributes
    ----------
    mean : float
    people, people_df : float
        Of the choice of people, and its degrees of freedom; one more is the effective number of people.
    columns, noise : float
        What the means of single columns vary by, and how much of it is to be expected if columns had no effect.
    """

    mean: float
    people: float
    people_df: float
    columns: float
    noise: float


def variance_of(values: Float64Array, weights: Float64Array) -> Variance:
    """Return the variance of the weighted mean over people of their means over columns; NaN is no value.

    Person i has the weight w_i, in all 1, and each of its c_i values w_i / c_i. Then the mean is Σ_s π_s D_s, with D_s
    the mean of column s and π_s its weight, and person i contributes G_is = (w_i / c_i) (d_is - D_s) to column s. With
    G_i = Σ_s G_is,

    - people: Σ_i G_i² / (1 - Σ w_i²), which is s²/n for equal weights;
    - columns: Σ_s π_s² (D_s - D)² / (1 - Σ π_s²), the same of columns;
    - noise: Σ_s Σ_i (G_is - π_s G_i)² / (1 - Σ w_i²) / (1 - Σ π_s²), the expectation of the one before if only people
      differ. Of people who are in all columns it is the interaction, of people in one column each all there is.

    Parameters
    ----------
    values : float (n_people, n_columns)
    weights : float (n_people,)
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    share = np.where(counts > 0, weights, 0.0)
    if not share.sum() > 0.0:
        return Variance(np.nan, np.nan, -1.0, 0.0, 0.0)
    share = share / share.sum()
    cells = np.where(known, (share / np.maximum(counts, 1))[:, None], 0.0)
    column_share = cells.sum(axis=0)
    filled = np.where(known, values, 0.0)
    means = np.einsum("is,is->s", cells, filled) / np.where(column_share > 0, column_share, 1.0)
    mean = float(column_share @ means)
    parts = cells * (filled - means)
    whole = parts.sum(axis=1)
    squares = float(share @ share)
    df = squares**2 / float(np.sum(share**4)) - 1.0
    rest = 1.0 - squares if df > _ROUNDING else np.nan  # one person has no variance
    people, spread = float(whole @ whole) / rest, 1.0 - float(column_share @ column_share)
    if spread <= _ROUNDING:
        return Variance(mean, people, df, 0.0, 0.0)
    columns = float(np.sum((column_share * (means - mean)) ** 2)) / spread
    noise = float(np.sum((parts - np.outer(whole, column_share)) ** 2)) / rest / spread
    return Variance(mean, people, df, columns, noise)


def interval(values: ArrayLike, weights: ArrayLike | None = None, *, level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval of a (weighted) mean over people; NaN for fewer than two.

    Degrees of freedom are (Σ w_i²)² / Σ w_i⁴ - 1: n - 1 for equal weights, fewer where some weigh more.

    Parameters
    ----------
    values : float (n,)
    weights : float (n,), optional
    level : float

    Examples
    --------
    >>> from permrank.evaluation.significance import interval
    >>> low, high = interval([0.1, 0.9, 0.4, 0.6, 0.5])
    >>> round(low, 3), round(high, 3)
    (0.138, 0.862)
    """
    if not 0 < level < 1:
        raise InputError(f"level={level!r}, expected a number between 0 and 1")
    found = np.asarray(values, np.float64)
    given = np.ones(found.size) if weights is None else np.asarray(weights, np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise InputError("values must be a list of finite numbers; leave out people who have none")
    part = variance_of(found[:, None], given)
    return around(part.mean, part.people, part.people_df, (1.0 - level) / 2.0)


def around(mean: float, variance: float, df: float, tail: float) -> tuple[float, float]:
    """Return the interval of a mean that leaves out so much of Student's distribution on either side."""
    if not (df > 0.0 and variance >= 0.0):
        return float("nan"), float("nan")
    reach = float(-stdtrit(df, tail)) * float(np.sqrt(variance)) if variance > 0.0 else 0.0
    return mean - reach, mean + reach


class Sample(NamedTuple):
    """Values of one model, (n_people, n_results), NaN for none; the split of each result; whether fits draw numbers."""

    values: Float64Array
    splits: Int64Array
    random: bool


class SeedVariance(NamedTuple):
    """Variance of a model's mean between fits with other seeds, the noise of people in it, and degrees of freedom."""

    observed: Numbers = 0.0
    noise: Numbers = 0.0
    df: float = 1.0
    known: bool = True

    @property
    def variance(self) -> Numbers:
        """Of the mean of all fits, by their seeds."""
        return np.maximum(self.observed - self.noise, 0.0)


class Pair(NamedTuple):
    """A difference of two means, its adjusted p-value and simultaneous interval; why there is no p-value, if so."""

    difference: float
    p: float | None
    low: float
    high: float
    undecided: str = ""


class _Parts(NamedTuple):
    """Variance components of a difference; those of seeds for either model."""

    people: Variance
    n_splits: int
    seeds: tuple[SeedVariance, SeedVariance]

    @property
    def undecided(self) -> str:
        """Why there can be no p-value; nothing if there can."""
        part = self.people
        if part.people_df + 1.0 < LEAST_PEOPLE - 1e-9:
            return "people"
        if not np.isfinite(part.mean + part.people):
            return "infinite"
        return "" if self.n_splits > 1 or all(each.known for each in self.seeds) else "fits"

    @property
    def splits(self) -> Numbers:
        """Variance by splits alone: what they differ by holds fits and noise of people too."""
        excess = self.people.columns - self.people.noise - sum(each.variance for each in self.seeds)
        return np.maximum(excess, 0.0) * (self.n_splits - 1) / (self.n_splits - 1 + _QUIET_SPLITS)

    def total(self) -> tuple[Numbers, Numbers]:
        """Variance and degrees of freedom."""
        part, own, splits = self.people, [each.variance for each in self.seeds], self.splits
        variance = part.people + sum(own) + splits
        terms = part.people**2 / max(part.people_df, _NOTHING) + splits**2 / (self.n_splits - 1 + _QUIET_SPLITS)
        for each, value in zip(self.seeds, own, strict=True):
            terms = terms + np.where(value > 0.0, each.observed, 0.0) ** 2 / each.df
        # (where nothing varies but by rounding, the terms are that small too)
        return variance, np.where(terms > 0.0, variance**2 / np.where(terms > 0.0, terms, 1.0), part.people_df)


def mean_interval(sample: Sample, weights: Float64Array) -> tuple[float, float, float]:
    """Return the mean of one model and its 95 % interval, by people, splits and fits."""
    by_split = _by_split(sample, np.unique(sample.splits))
    parts = _Parts(variance_of(by_split, weights), by_split.shape[1], (_seed_variance(sample, weights), SeedVariance()))
    variance, df = parts.total()
    return parts.people.mean, *around(parts.people.mean, float(variance), float(df), LEVEL / 2.0)


def all_pairs(samples: list[Sample], weights: Float64Array, *, seed: int = 0) -> dict[tuple[int, int], Pair]:
    """Compare every two of several models; people, the rows, are the same for all.

    Intervals are simultaneous: one does not hold 0 if the p-value is below .05.

    Parameters
    ----------
    samples : list of Sample
    weights : float (n_people,)
    seed : int
        Of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from permrank.evaluation.significance import Sample, all_pairs
    >>> rng = np.random.default_rng(0)
    >>> values = [rng.normal(size=(50, 3)) + luck for luck in ([0.5, -0.4, 0.2], [0.1, 0.3, 0.8])]
    >>> models = [Sample(each, np.zeros(3), True) for each in values]
    >>> all_pairs(models, np.ones(50))[0, 1].p > 0.05  # three fits of one vary as much as the two differ
    True
    """
    splits = np.unique(np.concatenate([sample.splits for sample in samples]))
    by_split = [_by_split(sample, splits) for sample in samples]
    seeds = [_seed_variance(sample, weights) for sample in samples]
    parts = {}
    for a, b in combinations(range(len(samples)), 2):
        apart = by_split[a] - by_split[b]
        n_splits = int(np.count_nonzero(~np.isnan(apart).all(axis=0)))
        parts[a, b] = _Parts(variance_of(apart, weights), n_splits, (seeds[a], seeds[b]))
    tested = {pair: part for pair, part in parts.items() if not part.undecided}
    least = _least_p_values(tested, by_split, seeds, weights, seed)
    tail = float(np.quantile(least, LEVEL, method="lower")) / 2.0
    found = {}
    for pair, part in parts.items():
        mean, (variance, df) = part.people.mean, part.total()
        if part.undecided:
            ends = around(mean, float(variance), float(df), LEVEL / 2.0)
            found[pair] = Pair(mean, None, *ends, part.undecided)
        else:
            p = (1 + int(np.count_nonzero(least <= _p_value(mean, variance, df)))) / (1 + least.size)
            found[pair] = Pair(mean, p, *around(mean, float(variance), float(df), tail))
    return found


def _by_split(sample: Sample, splits: Int64Array) -> Float64Array:
    """Means over the fits of every split (n_people, n_splits)."""
    return np.stack([_mean_of_known(sample.values[:, sample.splits == split]) for split in splits], axis=1)


def _mean_of_known(values: Float64Array) -> Float64Array:
    """Mean of every row; NaN if there is no value."""
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    return np.where(counts > 0, np.where(known, values, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)


def _seed_variance(sample: Sample, weights: Float64Array) -> SeedVariance:
    """The variance of the mean between fits of one split, over their number and that of splits."""
    if not sample.random:
        return SeedVariance()
    splits = np.unique(sample.splits)
    several = [part for s in splits if (part := sample.values[:, sample.splits == s]).shape[1] > 1]
    if not several:
        return SeedVariance(known=False)
    each = [variance_of(part, weights) for part in several]
    scale = 1.0 / (len(several) * splits.size)
    observed, noise = (scale * sum(getattr(part, name) for part in each) for name in ("columns", "noise"))
    return SeedVariance(observed, noise, float(sum(part.shape[1] - 1 for part in several)))


def _p_value(mean: Numbers, variance: Numbers, df: Numbers) -> Numbers:
    """Student's two-sided p-value; no difference is no evidence, even without variance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(np.abs(mean) > np.sqrt(_NOTHING), np.abs(mean) / np.sqrt(variance), 0.0)
    return 2.0 * stdtr(np.maximum(df, 1e-3), -t)


def _least_p_values(
    tested: dict[tuple[int, int], _Parts],
    by_split: list[Float64Array],
    seeds: list[SeedVariance],
    weights: Float64Array,
    seed: int,
) -> Float64Array:
    """Draw the least of all p-values as it is if no two models differ and the variances are as estimated."""
    rng, n_models, least = generator(seed), len(by_split), np.ones(_DRAWS)
    if not tested:
        return least
    covariance, people, estimates = _people(by_split, weights, rng)
    fits = [np.sqrt(own.variance) * rng.normal(size=_DRAWS) for own in seeds]
    again = [
        own._replace(observed=(own.variance + own.noise) / own.df * rng.chisquare(own.df, _DRAWS)) for own in seeds
    ]
    splits = rng.normal(size=(n_models, _DRAWS, by_split[0].shape[1]))
    for (a, b), part in tested.items():
        estimated, n_splits, own = part.people, part.n_splits, (again[a], again[b])
        whole = covariance[a, a] + covariance[b, b] - 2.0 * covariance[a, b]
        scale = estimated.people / whole if whole > _NOTHING else 0.0
        between = part.splits
        apart = (splits[a] - splits[b])[:, :n_splits]
        mean = np.sqrt(scale) * (people[:, a] - people[:, b]) + fits[a] - fits[b]
        mean += np.sqrt(between * n_splits / 2.0) * apart.mean(axis=1)
        columns = np.zeros(1)
        if n_splits > 1:
            columns = (
                (between + seeds[a].variance + seeds[b].variance + estimated.noise) * apart.var(axis=1, ddof=1) / 2
            )
        found = scale * np.sum((estimates[:, a] - estimates[:, b]) ** 2, axis=1)
        drawn: Any = estimated._replace(people=found, columns=columns)  # type: ignore[arg-type]  # one for each draw
        least = np.minimum(least, _p_value(mean, *_Parts(drawn, n_splits, own).total()))
    return least


def _people(
    by_split: list[Float64Array], weights: Float64Array, rng: np.random.Generator
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Covariance of the models' means by people; draws with it; and draws of its estimates' roots (Wishart).

    The squared distance of two rows of a root is the estimate for the difference of the two models.
    """
    means = np.stack([_mean_of_known(values) for values in by_split], axis=1)
    share = (weights / weights.sum())[:, None]
    centred = np.where(np.isnan(means), 0.0, means - np.nansum(share * means, axis=0))
    squares = float(np.sum(share**2))
    covariance = (share * centred).T @ (share * centred) / max(1.0 - squares, _NOTHING)
    sizes, directions = np.linalg.eigh(covariance)
    root = directions * np.sqrt(np.maximum(sizes, 0.0))
    n_models, df = len(by_split), squares**2 / float(np.sum(share**4)) - 1.0
    if df >= n_models:  # Bartlett's decomposition
        lower = np.tril(rng.normal(size=(_DRAWS, n_models, n_models)), -1)
        index = np.arange(n_models)
        lower[:, index, index] = np.sqrt(rng.chisquare(df - index, (_DRAWS, n_models)))
    else:
        df = max(round(df), 1)
        lower = rng.normal(size=(_DRAWS, n_models, df))
    return covariance, rng.normal(size=(_DRAWS, n_models)) @ root.T, root @ lower / np.sqrt(df)
