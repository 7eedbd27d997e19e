"""A new item in `Recommender` without retraining: as its features have it, and in the order also as lists do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from permrank.core.fitted import Fitted
from permrank.errors import InputError, NotSupportedError
from permrank.families.factored.model import FactoredPlackettLuce
from permrank.rankings.rankings import Rankings
from permrank.types import Array

if TYPE_CHECKING:
    from permrank.families.catalogue.recommender import RecommenderEstimate


def with_item(
    fitted: Fitted[RecommenderEstimate],
    item: str | int,
    features: Mapping[str, object] | None,
    rankings: Rankings | None,
) -> Fitted[RecommenderEstimate]:
    """What `Recommender.fold_in_item` gives."""
    order = fitted.estimate.order
    if not isinstance(order, FactoredPlackettLuce):
        raise NotSupportedError(
            "fold_in_item() needs a FactoredPlackettLuce, the default, as the model of order; this Recommender has "
            + ("none" if order is None else type(order).__name__)
        )
    if fitted.rankings.features("item") is None and not fitted.finds_by_order:
        raise InputError(
            "the model has learnt from no features of items, so that nothing tells who would take up a new one; fit it "
            "to rankings.with_features(items=), or ask the model of order: model.order_.fold_in_item(...)"
        )
    order = order.fold_in_item(item, features=features, rankings=rankings)
    known = order.fitted_.rankings
    estimate = _enlarged(fitted.estimate, order, known.item_ids.index(item))
    return Fitted(fitted.settings, known, estimate, fitted.trace)


def _enlarged(before: RecommenderEstimate, order: FactoredPlackettLuce, index: int) -> RecommenderEstimate:
    """The estimate with one item more that nobody has taken up, and that says nothing of others."""

    def more(array: Array) -> Array:
        return np.insert(array, index, 0.0, axis=0)

    dense, indptr, neighbours = before.item_weights, before.neighbour_indptr, before.neighbours
    if len(dense):
        dense = np.insert(more(dense), index, 0.0, axis=1)
    else:
        indptr = np.insert(indptr, index, indptr[index])
        neighbours = neighbours + (neighbours >= index).astype(neighbours.dtype)
    return replace(
        before,
        popularity=more(before.popularity),
        item_weights=dense,
        neighbour_indptr=indptr,
        neighbours=neighbours,
        item_factors=more(before.item_factors),
        order=order,
    )
