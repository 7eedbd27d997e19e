"""Inference on item scores: summaries, covariances, intervals, for models with a likelihood and one score an item."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
import polars as pl
from scipy.special import erfc, ndtri

from permrank.checks import require_choice
from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.person import Person
from permrank.core.questions import told_of
from permrank.core.ranker import Ranker
from permrank.core.tie_groups import normal_samples
from permrank.errors import InputError, NotSupportedError
from permrank.inference.profile import Evaluated, profile_interval
from permrank.inference.standard_errors import inverse_information, quasi_errors, require_few, roots
from permrank.inference.summary import Summary, require_level
from permrank.types import Float64Array, Int64Array

# Every limit takes some ten maximisations, each with matrices of items by items.
_MOST_PROFILED = 300


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood at the estimate: what Wald's statistics, criteria and tests are made of.

    Attributes
    ----------
    family : str
        Models of one family, fitted to the same data, have the same parameters and the same observations.
    point : float64 (p,)
        The scores, and after them the logarithm of the tie parameter if there is one.
    information : float64 (p, p)
        Minus the Hessian of the log-likelihood alone.
    penalty : float64 (n_items,)
        Minus the second derivatives of the log-prior.
    flat : bool
        No prior: scores are defined up to a constant.
    value : float
        The log-likelihood.
    null : float or None
        With equal scores; None under a prior.
    n, unit
        How much was observed, of what.
    notes : tuple of str
    """

    family: str
    point: Float64Array
    information: Float64Array
    penalty: Float64Array
    flat: bool
    value: float
    null: float | None
    n: float
    unit: str
    notes: tuple[str, ...] = ()

    @cached_property
    def covariance(self) -> Float64Array:
        """Of the parameters; of scores measured from their mean if there is no prior."""
        n = self.penalty.size
        total = self.information.copy()
        total[np.arange(n), np.arange(n)] += self.penalty
        return inverse_information(total, n if self.flat else 0)

    @property
    def df(self) -> float:
        """Free parameters; under a prior as many as the data have determined, tr((I + P)^-1 I)."""
        if self.flat:
            return float(self.point.size - 1)
        return float(np.sum(self.covariance * self.information))


class WorthRanker(Ranker):
    """A `Ranker` with one score an item, the same for everybody, and a likelihood: it has standard errors.

    A model supplies `_likelihood`, and for profile intervals `_evaluated`.
    """

    scores_ = Learnt[Float64Array]()

    @abstractmethod
    def _likelihood(self, fitted: Fitted) -> Likelihood:
        """The likelihood at the estimate."""

    def _table(self, fitted: Fitted) -> pl.DataFrame:
        """All items, best first: ``rank``, ``item`` and ``score``."""
        scores, n = fitted.estimate.scores, len(fitted.item_ids)
        order = np.lexsort((np.arange(n), -scores))
        return pl.DataFrame({"rank": np.arange(1, n + 1), "item": fitted.item_ids.take(order), "score": scores[order]})

    def standard_errors(self) -> pl.DataFrame:
        """All items, best first, with ``standard_error`` and ``quasi_standard_error`` of the scores.

        From the observed information. The first belongs to the score against the mean of all scores (under a prior,
        to the score itself). The second (Firth and de Menezes 2004) serves for comparisons: the variance of a
        difference is nearly the sum of two of its squares. Null where no such numbers fit, and where a variance is not
        positive (learning stopped short of a maximum).
        """
        fitted = self.fitted_
        n = len(fitted.item_ids)
        covariance = _few(fitted).covariance[:n, :n]
        errors = {"standard_error": roots(np.diag(covariance)), "quasi_standard_error": quasi_errors(covariance)}
        frame = pl.DataFrame({"item": fitted.item_ids.ids, **errors})
        return self._table(fitted).join(frame, on="item", how="left", maintain_order="left")

    def _score_draws(self, fitted: Fitted, person: Person, items: Int64Array) -> Float64Array:
        return normal_samples(_few(fitted).covariance[np.ix_(items, items)])

    def _evaluated(self, fitted: Fitted, point: Float64Array) -> Evaluated:
        """Value and gradient of the log-likelihood at other parameters, and what computes minus its Hessian."""
        raise NotSupportedError(f"{type(self).__name__} has no profile likelihood")

    def likelihood(self) -> Likelihood:
        """The log-likelihood at the estimate, with its information and the prior's: what all below is made of."""
        return _few(self.fitted_)

    def summary(self, *, reference: object = None, level: float = 0.95) -> Summary:
        """Estimates with standard errors, tests against the reference, log-likelihood, AIC and BIC.

        Standard errors are from the observed information. Under a prior they are those of the posterior mode's normal
        approximation, the log-likelihood is taken at the mode, and the degrees of freedom are effective ones.

        Parameters
        ----------
        reference : id, optional
            The item whose score is 0. By default scores are measured from their mean.
        level : float
            Of the intervals (Wald's).

        Returns
        -------
        Summary
            It prints as a table; ``frame`` is a Polars frame, best item first.

        Examples
        --------
        >>> import permrank as pr
        >>> games = {"winner": ["a", "b", "a", "b", "c", "a"], "loser": ["b", "a", "c", "c", "a", "b"]}
        >>> model = pr.BradleyTerry().fit(pr.Rankings.from_pairs(games, user=None))
        >>> model.summary(reference="c").frame.select("item", "estimate", "standard_error").row(-1)
        ('c', 0.0, None)
        """
        fitted = self.fitted_
        fit, n = _few(fitted), len(fitted.item_ids)
        quasi = quasi_errors(fit.covariance[:n, :n]).extend_constant(None, fit.point.size - n)
        frame = _estimates(fitted, fit, reference, _half_width(level)).with_columns(quasi_standard_error=quasi)
        frame = frame.with_columns(z=pl.col("estimate") / pl.col("standard_error"))
        p = erfc(np.abs(frame["z"].fill_null(0.0).to_numpy()) / np.sqrt(2.0))
        frame = frame.with_columns(p=pl.when(pl.col("z").is_not_null()).then(pl.Series(p)))
        names = ["item", "parameter", "estimate", "standard_error", "quasi_standard_error", "low", "high", "z", "p"]
        titles = fitted.item_ids.titles  # where the data say what items are
        if titles is not None:
            frame = frame.with_columns(title=titles.extend_constant(None, fit.point.size - n))
            names.insert(1, "title")
        return Summary(
            told_of(fitted), _best_first(fitted, frame.select(names)), fit.value, fit.df, fit.n, fit.unit, float(level),
            reference, fit.null, fit.notes,
        )  # fmt: skip

    def vcov(self, *, reference: object = None) -> Float64Array:
        """Covariance matrix of the scores in the order of `item_ids`, and last of the logarithm of a tie parameter.

        Parameters
        ----------
        reference : id, optional
            The item whose score is 0: its row and column are 0 too. By default scores are measured from their mean.
        """
        fitted = self.fitted_
        fit = _few(fitted)
        contrast = _contrast(fitted, reference, fit.point.size)
        return np.asarray(contrast @ fit.covariance @ contrast.T)

    def confint(
        self, *, level: float = 0.95, reference: object = None, method: Literal["wald", "profile"] = "wald"
    ) -> pl.DataFrame:
        """Confidence intervals: ``item``, ``parameter``, ``estimate``, ``low`` and ``high``, best item first.

        Parameters
        ----------
        level : float
        reference : id, optional
            As in `summary`.
        method : {"wald", "profile"}
            ``wald`` is symmetric, from the standard errors. ``profile`` has all values that a likelihood-ratio test
            does not reject; it is the better one where an item was ranked few times, takes some ten maximisations
            for each limit, and is there for maximum likelihood only. Null where no limit was found.
        """
        fitted = self.fitted_
        require_choice("method", method, ("wald", "profile"))
        fit, width = _few(fitted), _half_width(level)
        frame = _estimates(fitted, fit, reference, width).drop("standard_error")
        if method == "profile":
            frame = frame.with_columns(**_profiled(fitted, fit, reference, width))
        return _best_first(fitted, frame)


def _few(fitted: Fitted) -> Likelihood:
    require_few(len(fitted.item_ids))
    made: Likelihood = fitted.settings._likelihood(fitted)  # type: ignore[attr-defined]
    return made


def _contrast(fitted: Fitted, reference: object, size: int) -> Float64Array:
    """The matrix that measures scores from that of the reference, or from their mean.

    Their common level is not in the data: a prior gives it a value, and an error that says nothing.
    """
    contrast, n = np.eye(size), len(fitted.item_ids)
    if reference is not None:
        contrast[:n, fitted.item_ids.find(reference)] -= 1.0
    else:
        contrast[:n, :n] -= 1.0 / n
    return contrast


def _estimates(fitted: Fitted, fit: Likelihood, reference: object, width: float) -> pl.DataFrame:
    """Estimates, standard errors and Wald's limits; the reference has no error."""
    n, contrast = len(fitted.item_ids), _contrast(fitted, reference, fit.point.size)
    errors = roots(np.sum((contrast @ fit.covariance) * contrast, axis=1))
    others = fit.point.size - n
    frame = pl.DataFrame(
        {
            "item": fitted.item_ids.ids.extend_constant(None, others) if others else fitted.item_ids.ids,
            "parameter": ["score"] * n + ["log tie"] * others,
            "estimate": contrast @ fit.point,
            "standard_error": errors,
        }
    )
    margin = width * pl.col("standard_error")
    return frame.with_columns(low=pl.col("estimate") - margin, high=pl.col("estimate") + margin)


def _profiled(fitted: Fitted, fit: Likelihood, reference: object, width: float) -> dict[str, pl.Series]:
    if not fit.flat:
        raise InputError("profile intervals are for maximum likelihood, prior=None; method='wald' goes with a prior")
    n = len(fitted.item_ids)
    if n > _MOST_PROFILED:
        raise InputError(f"profile intervals of {n} items would take too long; select at most {_MOST_PROFILED}")
    gauge = np.append(np.ones(n), np.zeros(fit.point.size - n))
    rows = _contrast(fitted, reference, fit.point.size)
    evaluated = partial(fitted.settings._evaluated, fitted)  # type: ignore[attr-defined]
    limits = []
    for row in rows:
        # Scores are measured from their mean, or from the reference: either way a shift of all changes nothing.
        direction = row - gauge * (row @ gauge) / n
        known = np.abs(direction).max() > 0
        limits.append(profile_interval(evaluated, fit, direction, gauge, width) if known else (None, None))
    low, high = zip(*limits, strict=True)
    return {"low": pl.Series(low, dtype=pl.Float64), "high": pl.Series(high, dtype=pl.Float64)}


def _best_first(fitted: Fitted, frame: pl.DataFrame) -> pl.DataFrame:
    n = len(fitted.item_ids)
    order = np.lexsort((np.arange(n), -fitted.estimate.scores))
    return frame[np.append(order, np.arange(n, frame.height))]


def _half_width(level: float) -> float:
    """Quantile of the normal distribution that belongs to a two-sided interval."""
    require_level(level)
    return float(ndtri(0.5 + float(level) / 2.0))
