"""What a report shows of a comparison beside its numbers, as plain values: one person's list, and communities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.errors import NotSupportedError
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.labels import labels_of
from permrank.evaluation.scoring import people
from permrank.evaluation.split import Split
from permrank.rankings.rankings import Rankings
from permrank.types import Named

# A list that can be read at a glance.
_HANDY = (3, 15)
_MOST_TIED = 6
# A picture of memberships has about as many columns.
_MOST_PEOPLE = 200


def example_of(result: Evaluation, metric: str, split: Split) -> Named | None:
    """The person with the median result: what was given, and what was held out in the predicted order."""
    if result.model is None or metric not in result.metrics:
        return None
    row = _median_person(result, metric, split)
    if row is None:
        return None
    model, user, label = result.model, row["user"], labels_of(split.train)
    one = split.test.select(users=[user])
    try:
        person = next(who for _, who in people(model, one, None if split.given is None else _of(split.given, user)))
        frame = _predicted(model, one, user, person)
    except NotSupportedError:
        return None
    if frame is None:
        return None
    given = (split.given if split.given is not None else split.train).lists(user)[0]
    interval = "rank_low" in frame.columns
    return {
        "user": str(user),
        "model": result.name,
        "value": float(row[metric]),
        "given": [_named(block, label) for block in given[: _HANDY[1]]],
        "n_more": max(len(given) - _HANDY[1], 0),
        "predicted": [
            {
                "rank": line["rank"], "item": label(line["item"]), "true": line["true"],
                "interval": [line["rank_low"], line["rank_high"]] if interval else None,
            }
            for line in frame.head(_HANDY[1]).iter_rows(named=True)
        ],
    }  # fmt: skip


def communities_of(model: Ranker | None, split: Split | None) -> Named | None:
    """Sizes, items and memberships, of a model whose communities have items of their own (`LatentPlackettLuce`)."""
    tables, described = getattr(model, "memberships_", None), getattr(model, "communities", None)
    if split is None or tables is None or described is None or np.ndim(tables) != 3:
        return None
    frame = described()
    if not {"community", "size", "items"} <= set(frame.columns):
        return None
    label = labels_of(split.train)
    rows = [
        {"community": row["community"], "size": row["size"], "items": [label(item) for item in row["items"]]}
        for row in frame.iter_rows(named=True)
    ]
    memberships = np.asarray(tables)[0]
    order = np.lexsort((-memberships.max(axis=1), memberships.argmax(axis=1)))
    kept = order[np.linspace(0, order.size - 1, min(order.size, _MOST_PEOPLE)).astype(np.int64)]
    return {"rows": rows, "memberships": memberships[kept].astype(float).tolist()}


def _of(given: Rankings, user: object) -> Rankings:
    return given.select(users=[user])


def _median_person(result: Evaluation, metric: str, split: Split) -> Named | None:
    """The row of the person with the median value, among those with a list of a handy length if there are any."""
    lengths = np.diff(split.test.user_bounds)
    rows = result.per_user.filter(pl.col(metric).is_not_null()).sort(metric, "user").to_dicts()
    handy = [row for row in rows if _HANDY[0] <= lengths[split.test.user_index(row["user"])] <= _HANDY[1]]
    rows = handy or rows
    return rows[len(rows) // 2] if rows else None


def _predicted(model: Ranker, test: Rankings, user: object, person: object) -> pl.DataFrame | None:
    """Held-out items as the model ranks them, with their true ranks (equal for ties)."""
    hidden = test.lists(user)[0]
    ranks = {name: i + 1 for i, block in enumerate(hidden) for name in (block if isinstance(block, set) else [block])}
    known = [name for name in ranks if name in model.item_ids]
    if person is None or not known:
        return None
    frame = model.rank(user if isinstance(person, int) else person, known)
    return frame.with_columns(true=pl.Series([ranks[name] for name in frame["item"]]))


def _named(block: object, label: Callable[[object], str]) -> str:
    if isinstance(block, set):
        named = sorted(map(label, block))
        return " = ".join(named[:_MOST_TIED]) + (f" = … ({len(named)} tied)" if len(named) > _MOST_TIED else "")
    return label(block)
