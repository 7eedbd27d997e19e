"""What all parts of the contract rely on: how a model is made, what it learns from, how it is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from permrank.core.model_files import load
from permrank.core.ranker import Ranker
from permrank.families import MODELS
from permrank.rankings.rankings import Rankings
from permrank.testing.questions import LISTS
from permrank.types import Named


class Contract:
    """Base of the parts; `ModelContract` says what a model's tests supply."""

    supports: ClassVar[frozenset[str]] = frozenset()
    other: ClassVar[Named] = {"seed": 7}
    strangers_are_alike: ClassVar[bool] = True

    def make(self, **parameters: Any) -> Ranker:
        """Return a new model; the tests of a model define this."""
        raise NotImplementedError(f"{type(self).__name__} defines no make(**parameters), which returns a new model")

    def burn_in(self, model: Ranker) -> int:
        """The most sweeps before the first estimate; a posterior by draws has some."""
        return 0

    def load(self, path: Path) -> Ranker:
        """Read a model back; a class from outside the package need not be registered for it."""
        kind = type(self.make())
        return load(path, models=[] if kind.__name__ in MODELS else [kind])

    @pytest.fixture
    def rankings(self) -> Rankings:
        """Seven people, five items; ties, an empty list, and one of a single item."""
        return Rankings.from_lists(LISTS)

    @pytest.fixture
    def fitted(self, rankings: Rankings) -> Ranker:
        """Return a model that has learnt from `rankings`."""
        return self.make().fit(rankings)
