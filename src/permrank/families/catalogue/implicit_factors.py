"""Least-squares factors of what is taken up, with a weight for everything that is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from permrank.core.estimates import Learnt
from permrank.core.fitted import Fitted
from permrank.core.settings import MOST_FACTORS, MOST_SWEEPS, integer, number, random_seed
from permrank.errors import InputError
from permrank.families.catalogue.blend import hold_out_entries
from permrank.families.catalogue.entries import Scale
from permrank.families.catalogue.implicit import USUAL, Data, choose_weighting, weighting_of
from permrank.families.catalogue.least_squares import Factors, FactorScores, Sweeps, Weighting, improvements
from permrank.families.catalogue.ranker import CatalogueEstimate, CatalogueRanker
from permrank.learning.learner import Learner, State, Step, standing
from permrank.rankings.rankings import Rankings
from permrank.types import Array, Float64Array


@dataclass(frozen=True, eq=False)
class ImplicitEstimate(CatalogueEstimate):
    """Factors of the items (n_items, K), and the weighting (2,): of what is missing, and the penalty."""

    item_factors: Array
    weighting: Float64Array

    @property
    def factors(self) -> Factors:
        """Both together."""
        return Factors(self.item_factors, Weighting(*map(float, self.weighting)))

    @cached_property
    def scorer(self) -> Any:
        """Rows of scores by the factors."""
        return FactorScores(self.factors)

    def check(self, n_users: int, n_items: int) -> None:
        """Raise unless there is a row of factors for every item, and a weighting."""
        super().check(n_users, n_items)
        factors, weighting = self.item_factors, self.weighting
        if np.ndim(factors) != 2 or len(factors) != n_items or np.asarray(factors).dtype != np.float32:
            raise InputError(f"item_factors_ has shape {np.shape(factors)}, which does not fit {n_items} items")
        if np.shape(weighting) != (2,) or not (np.asarray(weighting) > 0.0).all() or weighting[0] > 1.0:
            raise InputError(f"weighting_ is {weighting}, expected a weight up to 1 and a penalty above 0")


class ImplicitFactors(CatalogueRanker):
    """Factors that predict the grade of what was taken up, and 0 with a small weight for everything else.

    Alternating least squares for implicit feedback, with grades as targets. Users are not learnt but solved for, from
    what they have taken up: somebody new is as good as anybody known.

    Attributes
    ----------
    item_factors_ : float32 (n_items, K)
    weighting_ : float64 (2,)
        Weight of what is missing, and penalty.
    scale_, popularity_
        As of `ItemToItem`.

    Examples
    --------
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["a", "b"], "bob": ["a", "b", "c"], "cat": ["c", "d"], "dan": ["a"]})
    >>> model = pr.ImplicitFactors(n_factors=2, missing_weight=0.5, penalty=0.01).fit(rankings)
    >>> model.recommend("dan", k=1)["item"].to_list()
    ['b']
    """

    assumes = "who takes up what follows from a few factors"
    takes = "sets, counts, ratings and rankings, by what they list; ties, weights"
    reference = "Hu, Koren and Volinsky (2008); Rendle and others (2022)"
    estimate_type = ImplicitEstimate
    resumable = True
    item_factors_ = Learnt[Array]()
    weighting_ = Learnt[Float64Array]()

    n_factors: int = integer(default=128, minimum=1, maximum=MOST_FACTORS, tune=(16, 256), kw_only=False, help="K.")
    missing_weight: float | Literal["auto"] = number(
        default="auto",
        minimum=1e-09,
        maximum=1.0,
        also=("auto",),
        help=(
            'Weight of an entry that is missing, where one that is there has 1. "auto": that with which held-out '
            "entries are found best."
        ),
    )
    penalty: float | Literal["auto"] = number(
        default="auto",
        above=0.0,
        also=("auto",),
        help='Penalty of the factors, as a share of the weight of a row. "auto" as for ``missing_weight``.',
    )
    max_iter: int = integer(default=50, minimum=1, maximum=MOST_SWEEPS, help="The most sweeps.")
    tol: float = number(
        default=0.001, above=0.0, help="Learning ends when the loss falls by less than this part of itself in a sweep."
    )
    seed: int = random_seed(default=0, help="Of the start, and of the entries that are held out.")

    def _weighting(self, data: Data) -> Weighting:
        chosen = weighting_of(USUAL, data.n_items)
        if "auto" in (self.missing_weight, self.penalty):
            held = hold_out_entries(data.entries, data.n_items, self.seed)
            if held is not None:
                known = data._replace(entries=held[0])
                chosen = choose_weighting(known, [], held[1], self.n_factors, self.seed)
        return Weighting(
            chosen.missing if self.missing_weight == "auto" else float(self.missing_weight),
            chosen.penalty if self.penalty == "auto" else float(self.penalty),
        )

    def _learn(self, rankings: Rankings) -> Learner[ImplicitEstimate]:
        scale = Scale.of(rankings)
        data = Data.of(rankings, scale)
        popularity = data.popularity()
        weighting = self._weighting(data)

        def steps(kept: State | None) -> Iterator[Step[ImplicitEstimate]]:
            sweeps = Sweeps(data.entries, data.n_items, data.weights, self.n_factors, weighting, self.seed)
            last = np.inf
            if kept:
                sweeps.items, sweeps.users, last = kept["items"].copy(), kept["users"].copy(), float(kept["loss"])

            def estimate() -> ImplicitEstimate:
                return ImplicitEstimate(scale.as_array(), popularity, sweeps.items.copy(), np.array(weighting))

            def state() -> State:
                return {"items": sweeps.items, "users": sweeps.users, "loss": loss}

            loss = last
            yield standing(estimate, state)
            for value, settled in improvements(sweeps, self.max_iter, self.tol, last):
                loss = -value
                yield Step(value, estimate, state, converged=settled)

        return steps

    def _check(self, fitted: Fitted) -> None:
        super()._check(fitted)
        found = fitted.estimate.item_factors.shape[1]
        if found != self.n_factors:
            raise InputError(f"item_factors_ has {found} factors, n_factors is {self.n_factors}")
