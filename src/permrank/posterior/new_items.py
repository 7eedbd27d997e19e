"""A new item without retraining: its prior by its features, and what lists that mention it say beyond that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import polars as pl

from permrank.core.fitted import Fitted
from permrank.errors import InputError
from permrank.posterior.estimate import DrawsEstimate
from permrank.posterior.known import Known
from permrank.posterior.prior_means import ItemPrior
from permrank.posterior.problem import Problem
from permrank.rankings.attributes import Attributes
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue
from permrank.rankings.vocabulary import id_series
from permrank.rankings.with_attributes import attached
from permrank.types import Array, Float64Array

# Draws of coefficients and their scales under each draw of the items.
_SCALES = 5
D = TypeVar("D", bound=DrawsEstimate)
D_co = TypeVar("D_co", bound=DrawsEstimate, covariant=True)


class Beginning(NamedTuple):
    """Prior of a new item.

    Attributes
    ----------
    means : float64 (n_kept, n_columns)
        Under every draw of the other items.
    precisions : float64 (n_kept, n_columns)
    variance : float
        Of its score, around the mean.
    """

    means: Float64Array
    precisions: Float64Array
    variance: float


class ItemLikelihood(Protocol[D_co]):
    """What a family supplies for `with_item`: items as tables, their prior, and what follows for the new one."""

    @property
    def intercepts(self) -> bool:
        """Whether items have an intercept."""

    def tables(self) -> Float64Array:
        """The items under every draw as the prior has them, (n_kept, n_rows, n_columns)."""

    def prior(self, problem: Problem) -> ItemPrior:
        """The prior of all items."""

    def enlarged(self, index: int, begin: Beginning, mentions: Rankings | None) -> D_co:
        """The estimate with a new item at this index; mentions: of known users, items in the new numbering."""


def with_item(
    fitted: Fitted[D],
    item: str | int,
    features: Mapping[str, Any] | None,
    rankings: Rankings | None,
    likelihood: ItemLikelihood[D],
) -> Fitted[D]:
    """What a model has learnt with one item more: see `FactoredPlackettLuce.fold_in_item`."""
    if item in fitted.item_ids:
        raise InputError(f"the model knows item {item!r} already; partial_fit adds what is said of it")
    data = _enlarged_data(fitted.rankings, item, features)
    index = data.item_ids.index(item)
    begin = _from_features(fitted.estimate, data, index, likelihood)
    mentions = None
    if rankings is not None and rankings.n_entries:
        mentions = _mentions(fitted, rankings, data, index)
    return Fitted(fitted.settings, data, likelihood.enlarged(index, begin, mentions), fitted.trace)


def _enlarged_data(rankings: Rankings, item: str | int, features: Mapping[str, Any] | None) -> Rankings:
    """The training data over one item more, of which features may be known."""
    encoder = rankings.features("item")
    if features is not None and encoder is None:
        raise InputError("the model has learnt from no features of items; fit it to rankings.with_features(items=)")
    if encoder is not None:
        encoder.of_row(features or {})  # what does not fit raises here
    data = with_catalogue(rankings, None, id_series([item], "item"))
    if features:
        known = rankings.item_ids.attributes
        given = {"item": item, **{name: features.get(name) for name in features}}
        frame = pl.DataFrame([given], schema={name: known.frame.schema[name] for name in given}, strict=False)  # type: ignore[union-attr]
        data = attached(data, items=Attributes(frame, known.title))  # type: ignore[union-attr]
    return data


def _from_features(estimate: DrawsEstimate, data: Rankings, index: int, likelihood: ItemLikelihood[Any]) -> Beginning:
    """The coefficients under a draw of the other items are drawn given those, as in the sweeps."""
    rng = np.random.default_rng(estimate.seed)
    problem = Problem.of(
        data, 0, shuffle=False, intercepts=likelihood.intercepts, thresholds=estimate.thresholds,
        co_listing=np.insert(np.asarray(estimate.co_listing, np.float64), index, 0.0, axis=0), known=Known.of(data),
    )  # fmt: skip
    if not problem.known.items.shape[1]:
        # Nothing tells how popular it will be: about as others are. Nobody has met it yet, which is no sign of that.
        covariates, others = problem.covariates.copy(), np.delete(problem.covariates, index, axis=0)
        covariates[index] = others.mean(axis=0)
        problem = problem._replace(covariates=covariates, unsure=np.atleast_2d(np.cov(others.T, bias=True)))
    prior = likelihood.prior(problem)
    means, precisions, variances = [], [], []
    for theta in np.insert(likelihood.tables(), index, 0.0, axis=1):
        theta[index, prior.levels] = theta[index - 1 if index else 1, prior.levels]
        for _ in range(_SCALES):
            prior.update(theta, rng=rng)
        means.append(prior.centre[index].copy())
        precisions.append(prior.precision.copy())
        variances.append(float(np.sum(1.0 / prior.precision)) + prior.variance_of_new())
    return Beginning(np.array(means), np.array(precisions), float(np.mean(variances)))


def _mentions(fitted: Fitted[D], rankings: Rankings, data: Rankings, index: int) -> Rankings:
    fitted.user_ids.indices(rankings.user_ids.ids)  # an unknown user raises here
    items = data.item_ids.indices(rankings.item_ids.ids)[rankings.items].astype(np.int32)
    if index not in items:
        raise InputError(
            f"no ranking mentions item {data.item_ids[index]!r}; leave rankings out, or give those that do"
        )
    return Rankings(
        rankings.user_indptr, rankings.indptr, items, rankings.levels, rankings.weights, rankings.user_ids,
        data.item_ids, **rankings._attached(),
    )  # fmt: skip


def factors_in_mean(bases: Array, loads: Float64Array) -> Float64Array:
    """Factors of an item in the mean scores by its loads under every draw, (n_kept, n_factors), least squares.

    Scores under a draw are w_d · θ_d, and w_d @ basis_d are a user's factors in the mean scores.
    """
    bases = bases.astype(np.float64)
    return np.asarray(np.linalg.lstsq(bases.reshape(-1, bases.shape[2]), loads.ravel(), rcond=None)[0])
