"""The validation curve: scores of estimates on held-out data, the best of them, and when to stop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from permrank.errors import InputError
from permrank.learning.learner import Hook, Run, State
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Named


class Estimate(Protocol):
    """What is learnt: a value that can be written by names."""

    def tensors(self) -> Named:
        """Arrays and numbers by name."""


E = TypeVar("E", bound=Estimate)

_CURVE, _BEST = "validation.curve", "validation.best."


class ValidationProtocol(Protocol):
    """Held-out data, and how an estimate is judged by them."""

    @property
    def every(self) -> int:
        """Sweeps from one measurement to the next."""

    @property
    def patience(self) -> int | None:
        """Measurements without a new best one after which learning stops."""

    @property
    def work(self) -> str:
        """Equal for validations that give equal scores."""

    def judge(self, training: Rankings) -> Callable[[Any], float]:
        """Score of a model fitted to these data, higher is better."""


class EarlyStopping(Hook, Generic[E]):
    """Measures estimates every few sweeps; with patience it keeps the best and says when to stop.

    Parameters
    ----------
    measure : callable
        An estimate to its score, higher is better. Must not change the estimate.
    every : int
        Sweeps from one measurement to the next.
    patience : int, optional
        Measurements in a row without a new best score after which it is over. Without it nothing is kept or stopped.
    rebuilt : callable, optional
        Makes an estimate of what its ``tensors`` gave, for a run that goes on from a checkpoint.

    Attributes
    ----------
    points : list of (int, float)
        Sweeps that were measured, and their scores.
    """

    def __init__(
        self,
        measure: Callable[[E], float],
        every: int,
        patience: int | None,
        rebuilt: Callable[[Named], E] | None = None,
    ) -> None:
        self.points: list[tuple[int, float]] = []
        self._score, self._every, self._patience, self._rebuilt = measure, every, patience, rebuilt
        self._best: E | None = None

    @property
    def curve(self) -> Float64Array:
        """Sweep and score of every measurement, (n, 2)."""
        return np.reshape(np.array(self.points, np.float64), (-1, 2))

    @property
    def best_iter(self) -> int:
        """The sweep with the best score, the first of equals."""
        return self.points[self._best_index][0]

    @property
    def _best_index(self) -> int:
        return int(np.argmax(self.curve[:, 1]))

    @property
    def exhausted(self) -> bool:
        """Whether the score has not risen for as long as patience lasts."""
        if self._patience is None or not self.points:
            return False
        return len(self.points) - 1 - self._best_index >= self._patience

    def after_sweep(self, run: Run[E]) -> None:
        """Measure the estimate, if it is time to."""
        if not run.step.burn_in and run.n_sweeps % self._every == 0:
            run.score = self.measure(run.n_sweeps, run.step.estimate())
            run.stopped = run.stopped or self.exhausted

    def measure(self, sweep: int, estimate: E) -> float:
        """Measure the estimate after a sweep."""
        self.points.append((sweep, float(self._score(estimate))))
        if self._patience is not None and self.best_iter == sweep:
            self._best = copy.deepcopy(estimate)  # learners go on in the same memory
        return self.points[-1][1]

    def best_or_last(self, sweep: int, estimate: E) -> E:
        """What to keep when learning ends after a sweep with this estimate, which is measured if it has not been."""
        if not self.points or self.points[-1][0] != sweep:
            self.measure(sweep, estimate)
        return estimate if self._best is None else self._best

    def state(self) -> State:
        """The curve, and the best estimate."""
        best = {} if self._best is None else self._best.tensors()
        return {_CURVE: self.curve} | {_BEST + name: value for name, value in best.items()}

    def resume(self, run: Run[E], kept: State) -> None:
        """Go on from what `state` gave."""
        self.points = [(int(sweep), float(score)) for sweep, score in kept[_CURVE]]
        best = {name.removeprefix(_BEST): value for name, value in kept.items() if name.startswith(_BEST)}
        if best and self._rebuilt is not None:
            self._best = self._rebuilt(best)
        run.stopped = run.stopped or self.exhausted


def early_stopping_by(
    fitted: Callable[[E], Any], rebuilt: Callable[[Named], E], rankings: Rankings, validation: ValidationProtocol
) -> EarlyStopping[E]:
    """A watch that has the model of every estimate judged; ``fitted`` puts an estimate into a model."""
    if isinstance(validation, type) or not callable(getattr(validation, "judge", None)):
        raise InputError(f"validation={validation!r}, expected permrank.Validation(held-out rankings)")
    judge = validation.judge(rankings)

    return EarlyStopping(lambda estimate: judge(fitted(estimate)), validation.every, validation.patience, rebuilt)
