"""What `fit` asks of a validation (`permrank.Validation` is one), and how estimates are put before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from permrank.data.rankings import Rankings
from permrank.errors import InputError
from permrank.inference.validation import Estimate, Watch

if TYPE_CHECKING:
    from permrank.models.base import Ranker


class Validating(Protocol):
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

    def judge(self, training: Rankings) -> Callable[[Ranker], float]:
        """Score of a model fitted to these data, higher is better."""


def watch_over(model: Ranker, rankings: Rankings, validation: Validating) -> Watch:
    """A watch that puts every estimate into a copy of the model and has it judged."""
    if isinstance(validation, type) or not callable(getattr(validation, "judge", None)):
        raise InputError(f"validation={validation!r}, expected permrank.Validation(held-out rankings)")
    judge = validation.judge(rankings)

    def measure(estimate: Estimate) -> float:
        shadow = model.clone()
        shadow._take(rankings, estimate)
        return judge(shadow)

    return Watch(measure, validation.every, validation.patience)
