"""Test of fit by simulation: residuals of pairs and of positions against data drawn from the fitted model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from permrank.checks import require_int, require_seed
from permrank.core.comparisons import comparisons
from permrank.core.questions import told_of
from permrank.core.ranker import Ranker
from permrank.errors import ConvergenceWarning, EstimateError, InputError, NotSupportedError
from permrank.markup import Result, printable, shown_p
from permrank.randomness import stream_key
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import repeated
from permrank.types import Float64Array, Int64Array, Named

# Tables of items by items and of items by positions are kept for every simulation.
_MOST_ITEMS = 300
# Positions are put in at most so many classes, by their share of the list.
_MOST_BINS = 10
# Data sets that expected counts are the mean of. The same number serves the data and every simulation, so that what
# it adds to a statistic (one part in ten) is the same for all.
_EXPECTED_FROM = 10
# A cell with an expected count below this counts as if it had so much: single rare outcomes decide nothing.
_LEAST_EXPECTED = 1.0
# Simulations without an estimate are left out; more of them than this would bias what is left.
_MOST_FAILED = 0.1


class _Counts(NamedTuple):
    """Times that one item is above another (n, n), tied with it (n, n), and in a class of positions (n, bins)."""

    above: Float64Array
    tied: Float64Array
    positions: Float64Array


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit(Result):
    """What `goodness_of_fit` returns.

    Attributes
    ----------
    model : str
        The model, and what it was fitted to.
    frame : polars.DataFrame
        A row for ``pairs`` and one for ``positions`` (if there are lists of three items or more): ``statistic``, the
        mean ``expected`` of it over the simulations and the ``p`` value.
    pairs : polars.DataFrame
        ``item``, ``other``, how often the first was ``observed`` above the second, how often it is ``expected`` to be,
        and ``z``, the difference in standard deviations over simulations; largest first.
    positions : polars.DataFrame
        ``item``, ``low`` and ``high`` share of the list, ``observed``, ``expected`` and ``z``; largest first.
    n_simulations : int
        Data sets that were drawn, and that the model could be fitted to.
    """

    model: str
    frame: pl.DataFrame
    pairs: pl.DataFrame
    positions: pl.DataFrame
    n_simulations: int

    @property
    def p(self) -> float:
        """Of all statistics together (Bonferroni): the smaller p value, doubled where there are two."""
        return min(1.0, self.frame.height * float(self.frame["p"].min()))  # type: ignore[arg-type]

    def to_dict(self) -> Named:
        """All of it, for JSON."""
        return {
            "model": self.model,
            "n_simulations": self.n_simulations,
            "p": self.p,
            "tests": self.frame.to_dicts(),
            "pairs": self.pairs.to_dicts(),
            "positions": self.positions.to_dicts(),
        }

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [row["test"], f"{row['statistic']:.2f}", f"{row['expected']:.2f}", shown_p(row["p"])]
            for row in self.frame.iter_rows(named=True)
        ]
        return ["residuals of", "statistic", "if it fits", "p"], rows

    def _title(self) -> str:
        return f"Test of fit: {self.model}"

    def _notes(self) -> list[str]:
        together = "both together: " if self.frame.height > 1 else ""
        lines = [f"{together}p = {shown_p(self.p)}, from {self.n_simulations} simulations"]
        for row in self.pairs.head(1).iter_rows(named=True):
            lines.append(
                f"largest residual of a pair: {_name(row, 'item')} above {_name(row, 'other')}, "
                f"{row['observed']:g} times for {row['expected']:.1f} (z = {row['z']:.1f})"
            )
        return lines


def goodness_of_fit(model: Ranker, *, n_simulations: int = 99, refit: bool = True, seed: int = 0) -> GoodnessOfFit:
    """Test whether data could have come from a fitted model, by simulation.

    Two tables are set against what the model expects: how often each item is above each other one (and tied with it,
    where ties have a probability), and how often each item stands in each tenth of a list. The statistic is Pearson's,
    the sum of (observed - expected)² / expected. Its law is found by parametric bootstrap: data sets of the same
    design are drawn from the model, the model is fitted to each, and the statistic is computed in the same way. The p
    value is (1 + the number of simulations with a statistic at least as large) / (1 + the number of simulations).

    A small p value says that the model cannot be all there is to the data; ``pairs`` and ``positions`` say where. With
    many rankings every model is rejected: look at the size of the residuals too.

    Parameters
    ----------
    model : Ranker
        A fitted `PlackettLuce`, `BradleyTerry` (of comparisons of two) or `Mallows`.
    n_simulations : int
        Data sets to draw.
    refit : bool
        Fit the model to each of them. Without it the test takes a fraction of the time, but the data are nearer to
        their own fit than drawn data are to it: p values are too large (the test is conservative).
    seed : int

    Returns
    -------
    GoodnessOfFit

    Examples
    --------
    >>> import permrank as pr
    >>> ballots = [["a", "b", "c"], ["b", "a", "c"], ["a", "c", "b"], ["c", "a", "b"], ["c", "b", "a"], ["b", "c", "a"]]
    >>> polarised = pr.Rankings.from_lists(ballots, weights=[40, 2, 2, 2, 40, 2])
    >>> pr.goodness_of_fit(pr.PlackettLuce().fit(polarised), n_simulations=19).p
    0.1
    """
    if not isinstance(model, Ranker) or not hasattr(model, "simulate"):
        raise NotSupportedError(f"{type(model).__name__} does not draw data; PlackettLuce, BradleyTerry and Mallows do")
    asked = model.fitted_.as_model()
    simulate: Any = getattr(asked, "simulate")  # noqa: B009
    require_int("n_simulations", n_simulations, 1)
    require_seed(seed)
    if model.rankings_.n_items > _MOST_ITEMS:
        raise InputError(f"the test takes up to {_MOST_ITEMS} items, not {model.rankings_.n_items}; select some")
    data = repeated(model.rankings_)
    n_bins = min(_MOST_BINS, int(data.lengths.max(initial=1)))
    observed = _counts(data, n_bins)
    keys = iter(range(1, 2**31))

    def expected(fitted: Any) -> _Counts:
        return _mean([_counts(fitted.simulate(_seed(seed, next(keys))), n_bins) for _ in range(_EXPECTED_FROM)])

    around = expected(asked)
    own = _statistics(observed, around)
    drawn: list[_Counts] = []
    simulated: list[Float64Array] = []
    failed = 0
    for _ in range(n_simulations):
        again = simulate(_seed(seed, next(keys)))
        counts = _counts(again, n_bins)
        fitted = _fitted(asked, again) if refit else asked
        failed += fitted is None
        if failed > _MOST_FAILED * n_simulations:
            raise EstimateError(
                f"{failed} of {len(simulated) + failed} simulated data sets have no estimate, so their statistics are "
                "no sample; use a prior, leave out items that were ranked few times, or take refit=False, which is "
                "conservative"
            )
        if fitted is not None:
            drawn.append(counts)
            simulated.append(_statistics(counts, expected(fitted) if refit else around))
    table = np.array(simulated)
    p = (1.0 + np.sum(table >= own - 1e-9 * np.abs(own), axis=0)) / (1.0 + len(table))
    frame = pl.DataFrame({"test": ["pairs", "positions"], "statistic": own, "expected": table.mean(axis=0), "p": p})
    if n_bins < 3:  # the place in a list of two says what the pair says
        frame = frame.head(1)
    return GoodnessOfFit(
        told_of(model.fitted_), frame, _pair_residuals(data, observed, drawn),
        _position_residuals(data, observed, drawn), len(table),
    )  # fmt: skip


def _seed(seed: int, number: int) -> int:
    return int(stream_key(seed, number))


def _fitted(model: Ranker, rankings: Rankings) -> Ranker | None:
    """The same model learnt from other data; None where there is no estimate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return model.clone().set_params(**model.fitted_params_).fit(rankings, verbose=False)
        except EstimateError:
            return None


def _counts(rankings: Rankings, n_bins: int) -> _Counts:
    met = comparisons(rankings)
    above, tied = met.matrix(met.wins), np.triu(met.matrix(met.ties))
    lengths = rankings.lengths[rankings.entry_rankings()]
    # Tied items share the middle of their places; a share of the list does not depend on its length.
    place = _mean_places(rankings) / np.maximum(lengths, 1)
    bins = np.minimum((place * n_bins).astype(np.int64), n_bins - 1)
    kept = lengths > 1
    cells = rankings.items[kept].astype(np.int64) * n_bins + bins[kept]
    weights = rankings.weights[rankings.entry_rankings()][kept]
    positions = np.bincount(cells, weights, minlength=rankings.n_items * n_bins)
    return _Counts(above, tied, positions.reshape(rankings.n_items, n_bins).astype(np.float64))


def _mean_places(rankings: Rankings) -> Float64Array:
    """Place of each entry in its list, from 0.5; entries of one tie have their mean."""
    ranking = rankings.entry_rankings()
    place = np.arange(rankings.n_entries) - rankings.indptr[:-1][ranking] + 0.5
    block = np.cumsum(np.diff(ranking, prepend=-1).astype(bool) | np.diff(rankings.levels, prepend=-1).astype(bool)) - 1
    size = np.bincount(block)
    return np.asarray((np.bincount(block, place) / size)[block])


def _mean(tables: list[_Counts]) -> _Counts:
    return _Counts(*(np.mean(parts, axis=0) for parts in zip(*tables, strict=True)))


def _statistics(counts: _Counts, expected: _Counts) -> Float64Array:
    """Pearson's, over pairs and over positions."""
    cells = [
        float(np.sum((seen - wanted) ** 2 / np.maximum(wanted, _LEAST_EXPECTED)))
        for seen, wanted in zip(counts, expected, strict=True)
    ]
    return np.array([cells[0] + cells[1], cells[2]])


def _pair_residuals(data: Rankings, observed: _Counts, drawn: list[_Counts]) -> pl.DataFrame:
    mean, z = _standardised(observed.above, [counts.above for counts in drawn])
    met = observed.above + observed.above.T + mean + mean.T > 0
    # Of the two sides of a pair the one that was more often above than expected.
    side = observed.above - mean
    first, second = np.nonzero(met & ((side > side.T) | (np.triu(side == side.T, 1))))
    return _largest(
        {
            **_named(data, "item", first), **_named(data, "other", second),
            "observed": observed.above[first, second], "expected": mean[first, second], "z": z[first, second],
        }
    )  # fmt: skip


def _position_residuals(data: Rankings, observed: _Counts, drawn: list[_Counts]) -> pl.DataFrame:
    mean, z = _standardised(observed.positions, [counts.positions for counts in drawn])
    n_bins = mean.shape[1]
    item, cell = np.nonzero((observed.positions + mean) > 0)
    return _largest(
        {
            **_named(data, "item", item), "low": cell / n_bins, "high": (cell + 1) / n_bins,
            "observed": observed.positions[item, cell], "expected": mean[item, cell], "z": z[item, cell],
        }
    )  # fmt: skip


def _standardised(observed: Float64Array, drawn: list[Float64Array]) -> tuple[Float64Array, Float64Array]:
    """Mean over simulations, and how many standard deviations the data are from it; 0 where nothing varies."""
    mean, deviation = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    z = np.divide(observed - mean, deviation, out=np.zeros_like(mean), where=deviation > 0)
    return mean, z


def _named(data: Rankings, column: str, indices: Int64Array) -> Named:
    """Ids of items, and their titles where there are such."""
    titles = data.item_ids.titles
    ids = {column: data.item_ids.take(indices)}
    return ids if titles is None else ids | {_title(column): titles.gather(indices)}


def _title(column: str) -> str:
    return "title" if column == "item" else f"{column}_title"


def _name(row: Named, column: str) -> str:
    return printable(row.get(_title(column)) or row[column])


def _largest(columns: Named) -> pl.DataFrame:
    frame = pl.DataFrame(columns)
    return frame.sort(pl.col("z").abs(), descending=True, maintain_order=True)
