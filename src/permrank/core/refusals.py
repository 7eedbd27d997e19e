"""What a model says that cannot answer a question: which models can."""

from __future__ import annotations

from typing import NoReturn

from permrank.errors import NotSupportedError

_PERSONAL = ("Recommender", "FactoredPlackettLuce")
_LIKENESS = (*_PERSONAL, "LatentPlackettLuce", "PairwiseFactorisation")
# Some of the models that answer a question, the usual ones first; other questions are about probabilities.
ABLE: dict[str, tuple[str, ...]] = {
    "explain": _PERSONAL,
    "similar_items": _LIKENESS,
    "similar_users": _LIKENESS,
    "tie_groups": ("PlackettLuce", "BradleyTerry", *_PERSONAL),
}
PROBABLE = ("PlackettLuce", *_PERSONAL, "LatentPlackettLuce")


def refuse(own: str, question: str) -> NoReturn:
    """Raise an error that names models which can answer, of the model with this name."""
    able = [name for name in ABLE.get(question, PROBABLE) if name != own]
    raise NotSupportedError(f"{own} cannot answer {question}(); {', '.join(able[:-1])} and {able[-1]} can")
