"""What a model of your own is tested with: the contract that all models keep, and oracles by enumeration.

It needs pytest. Inherit `ModelContract` in a test class, and define ``make``; see docs/adding-a-model.md.
"""

try:
    import pytest
except ImportError as error:
    raise ImportError("permrank.testing needs pytest; install permrank[testing]") from error

# So that an assertion that fails in here shows its values, as one in a file of tests does.
pytest.register_assert_rewrite(*(f"permrank.testing.{name}" for name in ("learning", "answers", "files", "questions")))

from permrank.testing import oracles  # noqa: E402
from permrank.testing.contract import ModelContract  # noqa: E402

__all__ = ["ModelContract", "oracles"]
