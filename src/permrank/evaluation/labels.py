"""What items are called where people read of them; the one place in which ids become labels of a comparison."""

from __future__ import annotations

from collections.abc import Callable

from permrank.rankings.rankings import Rankings


def labels_of(rankings: Rankings) -> Callable[[object], str]:
    """From the id of an item to its label: its title, or the id itself where it has none.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.labels import labels_of
    >>> labels_of(pr.Rankings.from_lists([["toro", "ebi"]]))("toro")
    'toro'
    """
    ids = rankings.item_ids
    return lambda item: ids.called(ids.index(item)) if item in ids else str(item)
