"""Rankings as a notebook shows them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from permrank.markup import html_table

if TYPE_CHECKING:
    from permrank.rankings.rankings import Rankings

_SHOWN, _LONGEST = 5, 10


def html_of(rankings: Rankings) -> str:
    """What there is, and the first lists, best first; a tie has "=" between its items."""
    rows = []
    for ranking in range(min(_SHOWN, rankings.n_rankings)):
        user = rankings.user_ids[int(rankings.ranking_users[ranking])]
        rows.append([str(user), f"{rankings.weights[ranking]:g}", _list(rankings, ranking)])
    left = rankings.n_rankings - len(rows)
    notes = [f"and {left:,} more"] if left > 0 else []
    header = ["ballot" if rankings.anonymous else "user", "weight", "list"]
    return html_table(header, rows, title=repr(rankings), notes=notes)


def _list(rankings: Rankings, ranking: int) -> str:
    begin, end = int(rankings.indptr[ranking]), int(rankings.indptr[ranking + 1])
    parts: list[Any] = []
    for entry in islice(range(begin, end), _LONGEST):
        if entry > begin:
            parts.append("=" if rankings.levels[entry] == rankings.levels[entry - 1] else ">")
        parts.append(rankings.item_ids[int(rankings.items[entry])])
    return " ".join(map(str, parts)) + (" …" if end - begin > _LONGEST else "")
