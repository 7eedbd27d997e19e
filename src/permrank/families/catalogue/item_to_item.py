"""Items by items: what was taken up says what else will be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permrank.core.estimates import Learnt
from permrank.core.settings import MOST_SWEEPS, choice, integer, number
from permrank.errors import InputError
from permrank.families.catalogue.closed_form import can_regress, choose_penalties, regression, scores_by
from permrank.families.catalogue.entries import Data, Scale
from permrank.families.catalogue.item_weights import USUAL_EXPONENT, ItemWeights, Penalties, filter_weights
from permrank.families.catalogue.ranker import CatalogueEstimate, CatalogueRanker
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array


@dataclass(frozen=True, eq=False)
class ItemEstimate(CatalogueEstimate):
    """Weights from item to item; see the attributes of the model."""

    item_weights: Array
    user_kernel: Array
    diagonal: Array
    neighbour_indptr: Array
    neighbours: Array
    neighbour_weights: Array
    penalties: Float64Array

    @property
    def weights(self) -> ItemWeights:
        """The arrays as one value."""
        return ItemWeights(
            self.item_weights,
            self.user_kernel,
            self.diagonal,
            self.neighbour_indptr,
            self.neighbours,
            self.neighbour_weights,
        )

    def scorer(self, data: Data) -> Any:
        """Rows of scores by the weights."""
        return scores_by(self.weights, Penalties(*map(float, self.penalties)), data)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is one of the three forms, and it fits."""
        super().check(n_users, n_items)
        matrix, kernel, diagonal, indptr, index, weight = (np.asarray(value) for value in self.weights)
        if kernel.size:
            expected = ((n_users * (n_users + 1) // 2,), (n_items,))
            if (kernel.shape, diagonal.shape) != expected or {kernel.dtype, diagonal.dtype} != {np.dtype(np.float32)}:
                raise InputError(
                    f"user_kernel_ and diagonal_ are {kernel.shape}, {diagonal.shape}, expected {expected} of float32"
                )
            return
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

    Every item is regressed on all the others, in closed form (EASE), solved among the items or the users, whichever are
    fewer. Where both are more than 8,192 there is a linear filter, whose largest weights are kept for every item.
    Entries count by their grades: ratings from the lowest to the highest, counts by how often, and all alike otherwise;
    the order of a list without ratings says nothing here.

    Attributes
    ----------
    item_weights_ : float16 (n_items, n_items)
        Row i: what item i says about all. Empty in other forms, as the next are.
    user_kernel_, diagonal_ : float32
        The closed form on the users' side: the lower half of (I + Y Yᵀ)⁻¹, and the diagonal of (XᵀX + Λ)⁻¹.
    neighbour_indptr_, neighbours_, neighbour_weights_ : int64, int32, float32
        The same of the filter: neighbours of item i are ``neighbours_[neighbour_indptr_[i]:neighbour_indptr_[i + 1]]``.
    penalties_ : float64 (4,)
        λ and γ, and the exponents of users and items (`Recommender` alone chooses these).
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
    user_kernel_ = Learnt[Array]()
    diagonal_ = Learnt[Array]()
    neighbour_indptr_ = Learnt[Array]()
    neighbours_ = Learnt[Array]()
    neighbour_weights_ = Learnt[Array]()
    penalties_ = Learnt[Float64Array]()

    method: Literal["auto", "regression", "filter"] = choice(
        default="auto",
        values=("auto", "regression", "filter"),
        help='"auto": the regression up to 8,192 items or users.',
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
        data, penalties = Data.of(rankings, scale), Penalties(0.0, 0.0, 0.0, USUAL_EXPONENT)
        if self.method == "regression" or (self.method == "auto" and can_regress(data)):
            if "auto" in (self.ridge, self.dropout):
                penalties = choose_penalties(data)
            penalties = Penalties(
                penalties.ridge if self.ridge == "auto" else float(self.ridge),
                penalties.share if self.dropout == "auto" else float(self.dropout),
            )
            weights = regression(data, penalties)
        else:
            most = None if self.n_neighbours == "auto" else int(self.n_neighbours)
            weights = filter_weights(data.entries, data.n_items, data.weights, most)
        return ItemEstimate(scale.as_array(), data.popularity(), *weights, np.array(penalties))
