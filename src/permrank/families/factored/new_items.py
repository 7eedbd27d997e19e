"""A new item without retraining: its factors from its features, and from lists that mention it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from permrank.core.fitted import Fitted
from permrank.errors import InputError, NotSupportedError
from permrank.families.factored.estimate import FactoredEstimate
from permrank.families.factored.side_information import modes_of_many
from permrank.posterior.kernels.arguments import NOTHING_KEPT, Items, Newton, Noise
from permrank.posterior.known import Known
from permrank.posterior.passes import Move, Passes
from permrank.posterior.prior_means import ItemPrior
from permrank.posterior.problem import Problem
from permrank.rankings.attributes import Attributes
from permrank.rankings.rankings import Rankings
from permrank.rankings.selection import with_catalogue
from permrank.rankings.vocabulary import id_series
from permrank.rankings.with_attributes import attached
from permrank.types import Array, Float64Array, Int64Array

if TYPE_CHECKING:
    from permrank.families.factored.model import FactoredPlackettLuce

# Newton steps of the new item given the users: quadratic convergence needs about five.
_STEPS = 8
# Draws of coefficients and their scales under each draw of the items.
_SCALES = 5


def with_item(
    fitted: Fitted[FactoredEstimate], item: str | int, features: Mapping[str, Any] | None, rankings: Rankings | None
) -> Fitted[FactoredEstimate]:
    """What a model has learnt with one item more: see `FactoredPlackettLuce.fold_in_item`."""
    before = fitted.estimate
    if before.is_point:
        raise NotSupportedError("fold_in_item() needs method='draws', whose items have a prior; this model has 'point'")
    if item in fitted.item_ids:
        raise InputError(f"the model knows item {item!r} already; partial_fit adds what is said of it")
    data = _enlarged_data(fitted.rankings, item, features)
    index = data.item_ids.index(item)
    start, precision, own = _from_features(fitted, data, index)
    draws = np.insert(before.item_draws.astype(np.float64), index, start, axis=1)
    variances = np.insert(before.item_variances.astype(np.float64), index, own, axis=1)
    if rankings is not None and rankings.n_entries:
        draws[:, index] = _from_lists(fitted, rankings, data, index, draws, precision)
    return Fitted(fitted.settings, data, _enlarged(before, draws, variances, index), fitted.trace)


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


def _from_features(
    fitted: Fitted[FactoredEstimate], data: Rankings, index: int
) -> tuple[Float64Array, Float64Array, float]:
    """Prior mean of the item under every draw, the precision around it, and the variance of its score.

    The coefficients under a draw of the other items are drawn given those, as in the sweeps.
    """
    estimate, rng = fitted.estimate, np.random.default_rng(fitted.estimate.seed)
    settings = cast("FactoredPlackettLuce", fitted.settings)
    problem = Problem.of(
        data, estimate.ties, shuffle=False, intercepts=settings.intercepts, thresholds=estimate.thresholds,
        co_listing=np.insert(np.asarray(estimate.co_listing, np.float64), index, 0.0, axis=0),
        known=Known.of(data),
    )  # fmt: skip
    prior = ItemPrior(problem, estimate.n_factors, float(estimate.factor_scale))
    means, spreads = [], []
    for theta in np.insert(estimate.item_draws.astype(np.float64), index, 0.0, axis=1):
        if estimate.odds:
            theta[index, -2] = theta[index - 1 if index else 1, -2]
        for _ in range(_SCALES):
            prior.update(theta, rng=rng)
        means.append(prior.centre[index].copy())
        spreads.append(float(np.sum(1.0 / prior.precision)) + prior.variance_of_new())
    return np.array(means), prior.precision, float(np.mean(spreads))


def _from_lists(
    fitted: Fitted[FactoredEstimate],
    said: Rankings,
    data: Rankings,
    index: int,
    draws: Float64Array,
    precision: Float64Array,
) -> Float64Array:
    """Mode of the item given users who mention it, under every draw, from its prior mean."""
    estimate = fitted.estimate
    users: Int64Array = fitted.user_ids.indices(said.user_ids.ids)
    items = data.item_ids.indices(said.item_ids.ids)[said.items].astype(np.int32)
    if index not in items:
        raise InputError(
            f"no ranking mentions item {data.item_ids[index]!r}; leave rankings out, or give those that do"
        )
    aligned = Rankings(
        said.user_indptr, said.indptr, items, said.levels, said.weights, said.user_ids, data.item_ids,
        **said._attached(),
    )  # fmt: skip
    thresholds = estimate.thresholds if said.ratings is not None else np.zeros(0)
    problem = Problem.of(aligned, estimate.ties, shuffle=False, intercepts=True, thresholds=thresholds)
    n_columns, found = estimate.n_columns, []
    passes, modes = Passes(problem, n_columns), modes_of_many(estimate, users)
    for d, stored in enumerate(draws):
        theta = np.ascontiguousarray(stored[: problem.n_rows])
        centre, pull = theta.copy(), np.zeros((users.size, 0))
        slopes, own = np.zeros((problem.user_coordinates.shape[1], n_columns)), np.ascontiguousarray(modes[d])
        for _ in range(_STEPS):
            move = Move(
                problem.pass_over_users(), theta, np.ones(n_columns), slopes, np.uint64(0), False, Newton(0, 1.0)
            )
            passes.users(move, own.copy(), own.copy(), pull)
            step = passes.items(Items(theta, centre, precision), own, Noise(np.uint64(0), False), NOTHING_KEPT)[index]
            if estimate.odds:
                step[-2] = 0.0
            theta[index] += np.clip(step, -1.0, 1.0)
        found.append(theta[index])
    return np.array(found)


def _enlarged(before: FactoredEstimate, draws: Float64Array, variances: Float64Array, index: int) -> FactoredEstimate:
    """The estimate with one item more: in its draws, and in the mean scores as these have it on average."""
    mine, n_factors = draws[:, index], before.n_factors
    # Scores of the item under a draw are w_d · θ_d, and w_d @ basis_d are a user's factors in the mean scores.
    bases = before.bases.astype(np.float64)
    factors = np.linalg.lstsq(bases.reshape(-1, bases.shape[2]), mine[:, :n_factors].ravel(), rcond=None)[0]

    def more(array: Array, value: Any) -> Array:
        return np.insert(array, index, value, axis=0)

    return replace(
        before,
        item_draws=draws.astype(before.item_draws.dtype),
        item_variances=variances.astype(before.item_variances.dtype),
        item_factors=more(before.item_factors, factors),
        item_intercepts=more(before.item_intercepts, float(np.mean(mine[:, -1]))),
        co_listing=more(before.co_listing, 0.0),
    )
