"""What is kept of the draws of a factored model: mean scores at a low rank, and a few draws of the items whole."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from permrank.learning.learner import State
from permrank.learning.linear_algebra import MeanProduct, onto
from permrank.posterior.effects import EFFECTS, stacked
from permrank.posterior.weights import Weights
from permrank.types import Array, Float64Array

# Draws of the items that are kept whole, for probabilities and new users (decision 22).
WHOLE = 5
# Rank of the mean scores, in numbers of factors: every draw has its own basis, so the mean needs more than one draw.
_RANK = 2
_NAMES = ("items", "slopes_kept", "variances")


class Draw(NamedTuple):
    """What a sweep leaves to be kept.

    Attributes
    ----------
    items : float64 (n_rows, n_columns + 1)
    users : float64 (n_users, n_columns)
    slopes : float64 (n_dimensions, n_columns)
    variances : float64 (n_rows,)
    effects : tuple of arrays
        What features and links are worth (posterior/effects.py); empty without any.
    """

    items: Float64Array
    users: Float64Array
    slopes: Float64Array
    variances: Float64Array
    effects: tuple[Array, ...] = ()


T_co = TypeVar("T_co", covariant=True)


class Keeper(Protocol[T_co]):
    """What becomes of the draws."""

    @property
    def n_draws(self) -> int:
        """Draws so far, or the sweeps that they stand for; 0 before the first."""

    def n_bytes(self, n_rows: int, n_draws: int) -> int:
        """Memory that so many draws will take."""

    def add(self, found: Draw, sweeps: int) -> None:
        """Take a draw, which stands for so many sweeps."""

    def add_effects(self, found: Draw) -> None:
        """Take what features and links are worth from a draw of which nothing else is kept."""

    def forget_effects(self) -> None:
        """Those taken so far are of a chain that had not found its way."""

    def posterior(self, weights: Weights, error: float) -> T_co:
        """What is kept of the draws so far; at least one."""

    def state(self) -> State:
        """What a checkpoint has to hold."""

    def restore(self, state: State) -> None:
        """Go on from what `state` gave."""


class MeanScores(NamedTuple):
    """Mean over all draws of what the factors and the intercepts make of users and items.

    Attributes
    ----------
    users : float16 (n_users, rank)
    items : float16 (n_items, rank)
    intercepts : float32 (n_items,)
    bases : float32 (n_whole, n_factors, rank)
        Factors w of a user under a draw that was kept whole are w @ basis here.
    """

    users: Array
    items: Array
    intercepts: Array
    bases: Array


class Posterior(NamedTuple):
    """What is kept of the draws.

    Attributes
    ----------
    items : float16 (n_whole, n_rows, n_columns + 1)
    slopes : float16 (n_whole, n_dimensions, n_columns)
    variances : float16 (1, n_rows)
        What the items' own uncertainty adds to the variance of their scores, which means given the users leave out.
    mean : MeanScores
    weights : Weights
        What scores are made with, from held-out pairs; 1 if there are no ties.
    error : float
        Part of the variance of score differences that is the error of their means over the draws.
    effects : tuple of arrays
        Of all draws, see posterior/effects.py.
    """

    items: Array
    slopes: Array
    variances: Array
    mean: MeanScores
    weights: Weights
    error: float
    effects: tuple[Array, ...]


class Draws:
    """Draws as they come: all of them in the mean, some of them whole.

    Those kept whole are spread evenly over the sweeps however many there will be: up to twice as many are held, and
    when there would be more every second one goes and from then on only every second one comes.
    """

    def __init__(self, n_users: int, n_items: int, n_factors: int, n_draws: int = WHOLE) -> None:
        self._n_users, self._n_items, self._n_factors, self._most = n_users, n_items, n_factors, min(WHOLE, n_draws)
        self._mean = MeanProduct(n_users, n_items, _RANK * n_factors)
        self._intercepts = np.zeros(n_items)
        self._whole: tuple[list[Array], ...] = ([], [], [])
        self._effects: list[tuple[Array, ...]] = []
        self._stride = 1

    @property
    def n_draws(self) -> int:
        """Sweeps that the draws in the mean stand for."""
        return self._mean.n_draws

    def n_bytes(self, n_rows: int, n_draws: int) -> int:
        """Memory that so many draws will take."""
        whole = 2 * (self._n_factors + 3) * n_rows * min(n_draws, 3 * self._most)
        return whole + 4 * 3 * _RANK * self._n_factors * (self._n_users + self._n_items)

    def add(self, found: Draw, sweeps: int) -> None:
        """Take a draw, which stands for so many sweeps."""
        number = self.n_draws
        self._mean.add(found.users, found.items, self._n_factors, sweeps)
        self._intercepts += sweeps * found.items[: self._n_items, -1]
        self._effects.append(found.effects)
        if len(self._whole[0]) == 2 * self._most:
            self._stride *= 2
            for parts in self._whole:
                del parts[::2]
        # The last of every stride, so that what has moved furthest from the start is among them.
        if (number + sweeps) // self._stride > number // self._stride:
            for parts, part in zip(self._whole, (found.items, found.slopes, found.variances), strict=True):
                parts.append(part.astype(np.float16))

    def add_effects(self, found: Draw) -> None:
        """Take the effects of a draw that was made while a fold of entries was held out.

        Those of nearly all data are a little wider spread than those of all, and far more: a coefficient needs ten
        sweeps to forget where it was, and means of scores are steady after sixteen.
        """
        self._effects.append(found.effects)

    def forget_effects(self) -> None:
        """Begin anew with the effects."""
        self._effects.clear()

    def posterior(self, weights: Weights, error: float) -> Posterior:
        """What is kept of the draws so far; at least one."""
        held = len(self._whole[0])
        chosen = np.unique(np.linspace(held - 1, 0, min(held, self._most)).round().astype(int))
        items, slopes, variances = (np.stack([parts[i] for i in chosen]) for parts in self._whole)
        variances = variances.mean(axis=0, keepdims=True, dtype=np.float32).astype(np.float16)
        users, of_items = self._mean.factors()
        bases = np.array([onto(of_items, draw.astype(np.float64), self._n_factors) for draw in items], np.float32)
        intercepts = (self._intercepts / self.n_draws).astype(np.float32)
        mean = MeanScores(users.astype(np.float16), of_items.astype(np.float16), intercepts, bases)
        return Posterior(items, slopes, variances, mean, weights, error, stacked(self._effects))

    def state(self) -> State:
        """What a checkpoint has to hold."""
        whole = {name: np.array(parts) for name, parts in zip(_NAMES, self._whole, strict=True) if parts}
        effects = dict(zip(EFFECTS, stacked(self._effects), strict=True))
        return {**self._mean.state(), **whole, **effects, "mean_intercepts": self._intercepts, "stride": self._stride}

    def restore(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._mean.restore(state)
        self._intercepts, self._stride = state["mean_intercepts"].copy(), int(state["stride"])
        self._whole = tuple(list(state.get(name, ())) for name in _NAMES)
        self._effects = list(zip(*(state[name] for name in EFFECTS), strict=True))


class WholeDraws:
    """All draws, of users and items, as they are; every second goes when those that come stand for twice as many."""

    def __init__(self, n_users: int, n_factors: int) -> None:
        self._n_users, self._n_factors = n_users, n_factors
        self._items: list[Array] = []
        self._users: list[Array] = []
        self._sweeps = 0

    @property
    def n_draws(self) -> int:
        """Draws so far."""
        return len(self._items)

    def n_bytes(self, n_rows: int, n_draws: int) -> int:
        """Memory that so many draws will take."""
        # float32, once in parts and once together
        return 2 * 4 * n_draws * (n_rows * (self._n_factors + 1) + self._n_users * self._n_factors)

    def add(self, found: Draw, sweeps: int) -> None:
        """Take a draw, which stands for so many sweeps."""
        if 0 < self._sweeps < sweeps:
            del self._items[1::2], self._users[1::2]
        self._sweeps = sweeps
        self._items.append(found.items.astype(np.float32))
        self._users.append(found.users.astype(np.float32))

    def add_effects(self, found: Draw) -> None:
        """Nothing is kept of these."""

    def forget_effects(self) -> None:
        """Nothing was."""

    def posterior(self, weights: Weights, error: float) -> tuple[Array, Array, float]:
        """Items (n_draws, n_rows, K + 1), users (n_draws, n_users, K), and what the factors' part of a score counts."""
        return np.stack(self._items), np.stack(self._users), weights.personal

    def state(self) -> State:
        """What a checkpoint has to hold."""
        whole = {"items": np.stack(self._items), "users": np.stack(self._users)} if self._items else {}
        return {**whole, "sweeps_each": self._sweeps}

    def restore(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._items, self._users = list(state.get("items", ())), list(state.get("users", ()))
        self._sweeps = int(state["sweeps_each"])
