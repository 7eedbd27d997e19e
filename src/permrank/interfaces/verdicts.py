"""A comparison in words: its question, how a model stands against the best, which metrics are better if lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

from permrank.evaluation.metrics import title_of
from permrank.types import Named

if TYPE_CHECKING:
    from permrank.evaluation.comparison import Comparison

# The two questions, and what is asked.
QUESTIONS: dict[str, tuple[str, str]] = {
    "order": ("Ordering what you see", "a person's hidden items are put in order"),
    "find": ("Finding what you would choose", "hidden items are looked for among all that a person has not listed"),
}


def against_best(row: Named) -> str:
    """In words: best, ≈ with its p-value, worse, untested, uninformative, or cut off."""
    if row["verdict"] == "cut off":
        return f"cut off after {row['cut_off']:g} s"
    if row["p"] is None:
        return str(row["verdict"])
    p = "p<.001" if row["p"] < 0.001 else f"p={row['p']:.3f}".replace("0.", ".")
    return f"≈ {p}" if row["verdict"] == "same" else f"worse {p}"


def lower_is_better(found: Comparison, k: int) -> str:
    """A sentence that names the measured metrics of which lower is better; nothing if there are none."""
    names = [title_of(found.metric_of(name), k) for name in sorted(found.measured)
             if not found.metric_of(name).higher_is_better]  # fmt: skip
    return f"Lower is better: {', '.join(names)}. " if names else ""


def reference_of(found: Comparison) -> str | None:
    """What the best model is set against: the best one that gives everybody the same order, else the next one.

    None where there is no best model, or no other that can be judged.
    """
    personal = {result.name: result.personal for result in reversed(found.results)}
    rows = found.table().to_dicts()
    best: list[str] = [row["model"] for row in rows if row["verdict"] == "best"]
    others: list[str] = [row["model"] for row in rows if row["verdict"] in ("same", "worse")]
    if not best or not others:
        return None
    alike = [name for name in others if personal.get(name) is False]
    return alike[0] if alike and personal.get(best[0]) else others[0]
