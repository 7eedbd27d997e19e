"""What is kept of the draws of Thurstone's model: items whole, mean scores at a low rank, few utilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from permrank.families.thurstone.estimate import ThurstoneEstimate
from permrank.families.thurstone.sampler import GibbsState, Sampler
from permrank.learning.learner import State as Kept
from permrank.learning.linear_algebra import MeanProduct
from permrank.posterior.effects import EFFECTS
from permrank.posterior.effects import stacked as stacked_effects
from permrank.ragged import indptr_of, ranges
from permrank.types import Array, Int64Array, Named

# Utilities are kept with every draw where all of them take at most so many bytes; else chains are run when asked for.
MOST_KEPT = 2**25
# Rank of the mean scores, in numbers of columns: every draw has its own basis (decision 22).
RANK = 2
# Fields of the estimate with a slice for every draw; loadings and means of items bear half precision.
_DRAWN = (
    "item_draws", "noise_variances", "shares", "threshold_draws", "flips", "user_slopes", "user_components",
    "utilities",
)  # fmt: skip
_HALF = frozenset({"item_draws"})


class Mean:
    """Mean over draws of users' utilities: of the items, and at a low rank what users differ by from it."""

    def __init__(self, n_users: int, n_items: int, n_factors: int, n_components: int) -> None:
        self._n_factors, self._several = n_factors, n_components > 1
        self._size = n_components * (n_factors + self._several)
        self._product = MeanProduct(n_users, n_items, min(RANK * self._size, n_items))
        self._items = np.zeros(n_items)

    def add(self, state: GibbsState, users: Int64Array) -> None:
        """Add a draw, with items as they are kept."""
        items, k = state.theta.astype(np.float16).astype(np.float64), self._n_factors
        own = np.einsum("z,zy->y", state.shares, items[..., -1])
        left, right = np.zeros((users.size, self._size)), np.zeros((own.size, self._size))
        for z, theta in enumerate(items):
            first = z * (k + self._several)
            rows = np.flatnonzero(state.components[users] == z)
            left[rows, first : first + k], right[:, first : first + k] = state.means[users[rows], :k], theta[:, :k]
            if self._several:
                left[rows, first + k], right[:, first + k] = 1.0, theta[:, -1] - own
        self._product.add(left, right, self._size)
        self._items += own

    def parts(self) -> Named:
        """Of the estimate."""
        users, items = self._product.factors()
        means = (self._items / max(self._product.n_draws, 1)).astype(np.float32)
        return {
            "user_scores": users.astype(np.float16), "item_scores": items.astype(np.float16), "item_means": means,
        }  # fmt: skip

    def state(self) -> Kept:
        """What a later run needs."""
        return {**self._product.state(), "mean_items": self._items}

    def restore(self, kept: Kept) -> None:
        """Take up what `state` gave."""
        self._product.restore(kept)
        self._items = kept["mean_items"]


class Collected:
    """Draws that are kept, and the mean of what they leave of the utilities."""

    def __init__(self, sampler: Sampler, users: Int64Array, sizes: tuple[int, int], n_draws: int, rules: Named) -> None:
        problem, statements = sampler.problem, sampler.observed.statements
        self._users, self._rules, self._problem = users, rules, problem
        first, last = statements.slot_indptr[users], statements.slot_indptr[users + 1]
        self._slots = None if users.size == problem.rankings.n_users else ranges(first, last)
        self._indptr, self._items = indptr_of(last - first), self._of_slots(statements.slot_items)
        self._sizes = users.size, problem.rankings.n_items, *sizes
        self._mean, self._few = Mean(*self._sizes), 4 * n_draws * self._items.size <= MOST_KEPT
        self.drawn: dict[str, list[Array]] = {name: [] for name in _DRAWN}
        self.effects: list[tuple[Array, ...]] = []
        self.total, self.count = np.zeros(self._items.size), 0

    def _of_slots(self, values: Array) -> Array:
        return np.asarray(values if self._slots is None else values[..., self._slots])

    def parts(self, sampler: Sampler, state: GibbsState) -> Named:
        """What is kept of a state of the sampler."""
        x, components = self._of_slots(state.x), state.components[self._users]
        kept = slice(None) if self._few and self._problem.thresholds.size == 0 else slice(0)
        return {
            "item_draws": state.theta, "noise_variances": state.variances, "shares": state.shares,
            "threshold_draws": state.thresholds, "flips": np.float64(state.flip), "user_slopes": sampler.users.slopes,
            "user_components": components[kept], "utilities": x[kept],
        }  # fmt: skip

    def keep(self, sampler: Sampler) -> None:
        """Keep a draw."""
        state = sampler.as_kept()
        for name, part in self.parts(sampler, state).items():
            self.drawn[name].append(_compact(name, part))
        self._mean.add(state, self._users)
        self.effects.append(sampler.effects())

    def average(self, sampler: Sampler) -> None:
        """Add to the mean of the residuals."""
        self.total, self.count = self.total + self._of_slots(sampler.state.residuals), self.count + 1

    def estimate(self, sampler: Sampler) -> ThurstoneEstimate:
        """Of the draws so far; before the first, of the present state."""
        parts: Named = dict(self.drawn)
        total, count, mean, effects = self.total, self.count, self._mean, self.effects
        if not self.drawn["item_draws"]:
            parts = {name: [_compact(name, part)] for name, part in self.parts(sampler, sampler.state).items()}
            total, count, mean = self._of_slots(sampler.state.residuals), 1, Mean(*self._sizes)
            mean.add(sampler.state, self._users)
            effects = [sampler.effects()]
        stacked: Named = {name: np.stack(draws) for name, draws in parts.items()}
        stacked |= dict(zip(EFFECTS, stacked_effects(effects), strict=True))
        if stacked["utilities"].shape[1] != self._items.size:
            stacked["utilities"] = np.zeros((0, self._items.size), np.float32)
            stacked["user_components"] = np.zeros((0, self._users.size), np.int16)
        return ThurstoneEstimate(
            **stacked, **mean.parts(), residuals=(total / count).astype(np.float32),
            slot_indptr=self._indptr, slot_items=self._items,
            thresholds=self._problem.thresholds, co_listing=self._problem.co_listing, **self._rules,
        )  # fmt: skip

    def state(self, sampler: Sampler) -> Kept:
        """What a later run needs."""
        like = self.parts(sampler, sampler.state)
        stacked = {
            f"kept_{name}": np.array(draws, _compact(name, like[name]).dtype).reshape(len(draws), *np.shape(like[name]))
            for name, draws in self.drawn.items()
        }
        effects = dict(zip(EFFECTS, stacked_effects(self.effects), strict=True))
        return {**stacked, **effects, **self._mean.state(), "total": self.total, "count": self.count}

    def resume(self, kept: Kept) -> None:
        """Take up what `state` gave."""
        self.drawn = {name: list(kept[f"kept_{name}"]) for name in _DRAWN}
        self.total, self.count = kept["total"], kept["count"]
        self._mean.restore(kept)
        self.effects = list(zip(*(kept[name] for name in EFFECTS), strict=True)) or [()] * len(self.drawn["flips"])


def _compact(name: str, part: Any) -> Array:
    values = np.asarray(part)
    return values.astype(np.int16 if values.dtype.kind == "i" else np.float16 if name in _HALF else np.float32)
