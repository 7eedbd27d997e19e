"""What `fit` asks of a validation (`permrank.Validation` is one), and how estimates are put before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.learning.early_stopping import E, EarlyStopping
from permrank.types import Named


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


def early_stopping_by(
    fitted: Callable[[E], Any], rebuilt: Callable[[Named], E], rankings: Rankings, validation: ValidationProtocol
) -> EarlyStopping[E]:
    """A watch that has the model of every estimate judged; ``fitted`` puts an estimate into a model."""
    if isinstance(validation, type) or not callable(getattr(validation, "judge", None)):
        raise InputError(f"validation={validation!r}, expected permrank.Validation(held-out rankings)")
    judge = validation.judge(rankings)

    return EarlyStopping(lambda estimate: judge(fitted(estimate)), validation.every, validation.patience, rebuilt)
