"""Results as text and as HTML: nothing in an id that a terminal or a notebook would obey."""

from __future__ import annotations

import html
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # NumPy comes with it
    from permrank.types import Named

# Control characters (C0, DEL, C1), line and paragraph separators, marks that turn the direction of text (bidirectional
# embeddings, overrides and isolates), and halves of surrogate pairs, which no terminal can be sent.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Below this a p value is printed as a bound: no test here is good to more digits.
_LEAST_P = 2e-16


class Result(ABC):
    """Base of results that are a table with a title and notes: as text, as HTML and as JSON."""

    @abstractmethod
    def to_dict(self) -> Named:
        """All of it, for JSON."""

    @abstractmethod
    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the table."""

    def _title(self) -> str:
        """What stands above the table."""
        return ""

    def _notes(self) -> list[str]:
        """What stands below it."""
        return []

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        parts = [printable(self._title(), keep="\n"), text_table(*self._cells()), "\n".join(self._notes())]
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), title="; ".join(self._title().splitlines()), notes=self._notes())


def printable(value: object, keep: str = "") -> str:
    r"""Text with every character that a terminal would obey written as Python writes it; but for those to ``keep``.

    Examples
    --------
    >>> print(printable("\x1b[31mred\x07, \u202eback, é and 寿司 stay"))
    \x1b[31mred\x07, \u202eback, é and 寿司 stay
    """
    return UNSAFE.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], str(value))


def shown_number(value: object, digits: int = 4) -> str:
    """A number for a column of a table: so many digits after the point, nothing for what is not known."""
    if value is None:
        return ""
    return f"{value:.{digits}f}" if isinstance(value, float) else printable(value)


def shown_p(value: float | None) -> str:
    """A p value to three significant digits."""
    if value is None:
        return ""
    if value < _LEAST_P:
        return f"<{_LEAST_P:g}"
    return f"{value:.3f}" if value >= 0.1 else f"{value:.4f}" if value >= 0.001 else f"{value:.2e}"


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns under their names, the first to the left and the others to the right.

    Examples
    --------
    >>> print(text_table(["item", "estimate"], [["ebi", "0.5"], ["toro", "-1.25"]]))
    item  estimate
    ebi        0.5
    toro     -1.25
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", notes: Iterable[str] = ()
) -> str:
    """The same for a notebook; everything that is given is text, and escaped.

    Examples
    --------
    >>> "<b>" in html_table(["item"], [["<b>"]])
    False
    """
    cells = "".join(f'<th style="text-align:{_side(n)}">{_escaped(name)}</th>' for n, name in enumerate(header))
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:{_side(n)}">{_escaped(cell)}</td>' for n, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    head = f"<thead><tr>{cells}</tr></thead>" if any(header) else ""
    parts = [f"<div><strong>{_escaped(title)}</strong></div>" if title else ""]
    parts.append(f"<table>{head}<tbody>{body}</tbody></table>")
    parts += [f"<div>{_escaped(note)}</div>" for note in notes]
    return "<div>" + "".join(parts) + "</div>"


def _side(column: int) -> str:
    return "right" if column else "left"


def _escaped(value: object) -> str:
    return html.escape(printable(value))
