"""A new item in `Recommender` without retraining: as its features have it, and in the order also as lists do."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from permrank.errors import InputError, NotSupportedError
from permrank.families.factored.model import FactoredPlackettLuce
from permrank.rankings.rankings import Rankings
from permrank.types import Array

if TYPE_CHECKING:
    from permrank.families.catalogue.recommender import Recommender, RecommenderEstimate


def fold_in_item(
    self: Recommender,
    item: str | int,
    *,
    features: Mapping[str, Any] | None = None,
    rankings: Rankings | None = None,
) -> Recommender:
    """A model that knows one item more, without retraining; users and other items stay as they are.

    Parameters
    ----------
    item : id
        Not among the items of the model.
    features : dict, optional
        Attributes of the item, from which the model has learnt: they say who would take it up.
    rankings : Rankings, optional
        Lists, or ratings, of users of the model that mention the item, beside other items of the model: they say how
        it is ranked.

    Returns
    -------
    Recommender
        A copy. ``recommend`` includes the item if asked (``include_new=True``).

    Examples
    --------
    >>> import permrank as pr
    >>> data = pr.datasets.load("simulated", n_users=60, n_items=20)
    >>> kinds = {"item": data.item_ids.ids, "sweet": [float(i % 2) for i in range(20)]}
    >>> model = pr.Recommender(pr.FactoredPlackettLuce(2, max_iter=20)).fit(data.with_features(items=kinds))
    >>> more = model.fold_in_item("waffle", features={"sweet": 1.0})
    >>> "waffle" in more.recommend(None, k=21, include_new=True)["item"]
    True
    """
    order = self.order_
    if not isinstance(order, FactoredPlackettLuce):
        raise NotSupportedError(
            "fold_in_item() needs a FactoredPlackettLuce, the default, as the model of order; this Recommender has "
            + ("none" if order is None else type(order).__name__)
        )
    if self.rankings_.features("item") is None and not self._finds_by_order:
        raise InputError(
            "the model has learnt from no features of items, so that nothing tells who would take up a new one; fit it "
            "to rankings.with_features(items=), or ask the model of order: model.order_.fold_in_item(...)"
        )
    folded = order.fold_in_item(item, features=features, rankings=rankings)
    made = copy.copy(self)
    made.__dict__ = dict(self.__dict__)
    place = folded.rankings_.item_ids.index(item)
    made._take(folded.rankings_, _enlarged(self.estimate_, folded, place))
    return made


def _enlarged(before: RecommenderEstimate, order: FactoredPlackettLuce, place: int) -> RecommenderEstimate:
    """The estimate with one item more that nobody has taken up, and that says nothing of others."""

    def more(array: Array) -> Array:
        return np.insert(array, place, 0.0, axis=0)

    dense, indptr, neighbours = before.item_weights, before.neighbour_indptr, before.neighbours
    if len(dense):
        dense = np.insert(more(dense), place, 0.0, axis=1)
    else:
        indptr = np.insert(indptr, place, indptr[place])
        neighbours = neighbours + (neighbours >= place).astype(neighbours.dtype)
    return replace(
        before,
        popularity=more(before.popularity),
        item_weights=dense,
        neighbour_indptr=indptr,
        neighbours=neighbours,
        item_factors=more(before.item_factors),
        order=order,
    )
