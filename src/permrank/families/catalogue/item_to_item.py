"""Items by items: what was taken up says what else will be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from permrank.core.estimates import Learnt
from permrank.core.settings import MOST_SWEEPS, choice, integer, number
from permrank.errors import InputError
from permrank.families.catalogue.entries import Scale
from permrank.families.catalogue.implicit import Data
from permrank.families.catalogue.item_weights import (
    MOST_DENSE,
    ItemScores,
    ItemWeights,
    Penalties,
    choose_penalties,
    filter_weights,
    regression_weights,
)
from permrank.families.catalogue.ranker import CatalogueEstimate, CatalogueRanker
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array


@dataclass(frozen=True, eq=False)
class ItemEstimate(CatalogueEstimate):
    """Weights from item to item; see the attributes of the model."""

    item_weights: Array
    neighbour_indptr: Array
    neighbours: Array
    neighbour_weights: Array
    penalties: Float64Array

    @property
    def weights(self) -> ItemWeights:
        """The four together."""
        return ItemWeights(self.item_weights, self.neighbour_indptr, self.neighbours, self.neighbour_weights)

    @cached_property
    def scorer(self) -> Any:
        """Rows of scores by the weights."""
        return ItemScores(self.weights)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is a matrix of the items, or neighbours that are items."""
        super().check(n_users, n_items)
        matrix, indptr, index, weight = map(np.asarray, self.weights)
        if matrix.shape == (n_items, n_items) and matrix.dtype == np.float16:
            return
        if matrix.size or [indptr.dtype, index.dtype, weight.dtype] != [np.int64, np.int32, np.float32]:
            raise InputError(f"item_weights_ has shape {matrix.shape}, which does not fit {n_items} items")
        shapes = (indptr.shape, index.shape, weight.shape)
        if shapes != ((n_items + 1,), index.shape[:1], index.shape[:1]) or indptr[0] != 0 or indptr[-1] != index.size:
            raise InputError(f"neighbours_ have shapes {shapes}, which do not fit {n_items} items")
        if np.any(np.diff(indptr) < 0) or (index.size and not 0 <= index.min() <= index.max() < n_items):
            raise InputError("neighbours_ hold an item that there is not")


class ItemToItem(CatalogueRanker):
    """What each item that a person took up says about every other: scores are sums over what was taken up.

    A small catalogue is regressed: every item on all the others, in closed form (EASE). A large one has a linear
    filter, whose largest weights are kept for every item. Entries count by their grades: ratings from the lowest to
    the highest, counts by how often, and all alike otherwise; the order of a list without ratings says nothing here.

    Attributes
    ----------
    item_weights_ : float16 (n_items, n_items)
        Row i: what item i says about all. Empty under the filter.
    neighbour_indptr_, neighbours_, neighbour_weights_ : int64, int32, float32
        The same of the filter: neighbours of item i are ``neighbours_[neighbour_indptr_[i]:neighbour_indptr_[i + 1]]``.
    penalties_ : float64 (2,)
        λ and γ.
    scale_ : float64 (4,)
        How grades are made: lowest and highest rating, the step between them, the median count.
    popularity_ : float64 (n_items,)
        Sums of the grades.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "b", "c"], "cat": ["c", "d"], "dan": ["a"]})
    >>> pr.ItemToItem().fit(rankings).recommend("dan", k=1)["item"].to_list()
    ['b']
    """

    assumes = "what was taken up together before will be again"
    takes = "sets, counts, ratings and rankings, by what they list; ties, weights"
    reference = "Steck (2019), embarrassingly shallow autoencoders; Park and others (2024), Turbo-CF"
    estimate_type = ItemEstimate
    item_weights_ = Learnt[Array]()
    neighbour_indptr_ = Learnt[Array]()
    neighbours_ = Learnt[Array]()
    neighbour_weights_ = Learnt[Array]()
    penalties_ = Learnt[Float64Array]()

    method: Literal["auto", "regression", "filter"] = choice(
        default="auto", values=("auto", "regression", "filter"), help='"auto": the regression up to 8,192 items.'
    )
    ridge: float | Literal["auto"] = number(
        default="auto",
        above=0.0,
        also=("auto",),
        help=(
            'λ, the penalty of the regression for every item. "auto": that with the least error when each user is left '
            "out in turn."
        ),
    )
    dropout: float | Literal["auto"] = number(
        default="auto",
        also=("auto",),
        help=(
            "γ, a further penalty as a share of the item's own sum of squares: dropping entries with probability "
            'γ / (1 + γ) does the same. "auto" as for ``ridge``.'
        ),
    )
    n_neighbours: int | Literal["auto"] = integer(
        default="auto",
        minimum=1,
        maximum=MOST_SWEEPS,
        also=("auto",),
        help='Weights that the filter keeps for each item; "auto": as many as fit in 512 MiB.',
    )

    def _learn(self, rankings: Rankings) -> ItemEstimate:
        scale = Scale.of(rankings)
        data = Data.of(rankings, scale)
        penalties = Penalties(0.0, 0.0)
        if self.method == "regression" or (self.method == "auto" and rankings.n_items <= MOST_DENSE):
            entries = data.entries.scaled(np.sqrt(data.weights))
            if "auto" in (self.ridge, self.dropout):
                penalties = choose_penalties(entries, data.n_items)[0]
            penalties = Penalties(
                penalties.ridge if self.ridge == "auto" else float(self.ridge),
                penalties.share if self.dropout == "auto" else float(self.dropout),
            )
            weights = regression_weights(entries, data.n_items, penalties)
        else:
            most = None if self.n_neighbours == "auto" else int(self.n_neighbours)
            weights = filter_weights(data.entries, data.n_items, data.weights, most)
        popularity = data.popularity()
        return ItemEstimate(scale.as_array(), popularity, *weights, np.array(penalties))
