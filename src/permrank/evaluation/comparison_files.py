"""Comparisons in files: a folder with ``comparison.json`` and ``people.parquet``; nothing is unpickled.

Everything that a report needs is kept, but no model: so one person's list and the communities are kept as plain values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from permrank.core.ranker import Ranker
from permrank.errors import FormatError, InputError, NotSupportedError
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import METRICS, Metric
from permrank.evaluation.scoring import people
from permrank.evaluation.split import FORMAT, Split, damaged, new_folder, read_header
from permrank.files.atomic import atomic_folder, atomic_write
from permrank.files.formats.parquet import ParquetFiles
from permrank.rankings.rankings import Rankings
from permrank.types import Float64Array, Named


def labels_of(rankings: Rankings) -> Callable[[object], str]:
    """From the id of an item to its label: its title, or the id itself where it has none.

    Examples
    --------
    >>> import permrank as pr
    >>> from permrank.evaluation.comparison_files import labels_of
    >>> labels_of(pr.Rankings.from_lists([["toro", "ebi"]]))("toro")
    'toro'
    """
    ids = rankings.item_ids
    return lambda item: ids.called(ids.index(item)) if item in ids else str(item)


# A list that can be read at a glance.
_READABLE = (3, 15)
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
        given = None if split.given is None else split.given.select(users=[user])
        person = next(who for _, who in people(model, one, given))
        frame = _predicted(model, one, user, person)
    except NotSupportedError:
        return None
    if frame is None:
        return None
    listed = (split.given if split.given is not None else split.train).lists(user)[0]
    interval = "rank_low" in frame.columns
    return {
        "user": str(user),
        "model": result.name,
        "value": float(row[metric]),
        "given": [_named(block, label) for block in listed[: _READABLE[1]]],
        "n_more": max(len(listed) - _READABLE[1], 0),
        "predicted": [
            {
                "rank": line["rank"], "item": label(line["item"]), "true": line["true"],
                "interval": [line["rank_low"], line["rank_high"]] if interval else None,
            }
            for line in frame.head(_READABLE[1]).iter_rows(named=True)
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


def _median_person(result: Evaluation, metric: str, split: Split) -> Named | None:
    """The row of the person with the median value, among those with a list of readable length if there are any."""
    lengths = np.diff(split.test.user_bounds)
    rows = result.per_user.filter(pl.col(metric).is_not_null()).sort(metric, "user").to_dicts()
    readable = [row for row in rows if _READABLE[0] <= lengths[split.test.user_index(row["user"])] <= _READABLE[1]]
    rows = readable or rows
    return rows[len(rows) // 2] if rows else None


def _predicted(model: Ranker, test: Rankings, user: object, person: object) -> pl.DataFrame | None:
    """Held-out items as the model ranks them, with their true ranks (equal for ties)."""
    hidden = test.lists(user)[0]
    ranks = {name: i + 1 for i, block in enumerate(hidden) for name in (block if isinstance(block, set) else [block])}
    known = [name for name in ranks if name in model.item_ids]
    if person is None or not known:
        return None
    frame = model.rank(person, known)
    return frame.with_columns(true=pl.Series([ranks[name] for name in frame["item"]]))


def _named(block: Any, label: Callable[[object], str]) -> str:
    if isinstance(block, set):
        named = sorted(map(label, block))
        return " = ".join(named[:_MOST_TIED]) + (f" = … ({len(named)} tied)" if len(named) > _MOST_TIED else "")
    return label(block)


_HEADER, _PEOPLE, _KNOWN = "comparison.json", "people.parquet", "known.parquet"
_RESULT = "result"
# Fields of an `Evaluation` that JSON holds as they are.
_PLAIN = tuple(
    field.name for field in fields(Evaluation) if field.name not in ("per_user", "model", "reliability", "overall")
)
_BINS = {"predicted": pl.Float64, "observed": pl.Float64, "error": pl.Float64, "n": pl.Int64}


def is_saved(folder: str | Path) -> bool:
    """Whether a folder holds a comparison."""
    return (Path(folder).expanduser() / _HEADER).is_file()


def write_comparison(folder: str | Path, results: list[Evaluation], known: pl.DataFrame, rest: Named) -> None:
    """Write results, the entries that were known of people, and what else there is; the folder appears whole."""
    folder = new_folder(folder)
    frames = [result.per_user.with_columns(pl.lit(n).alias(_RESULT)) for n, result in enumerate(results)]
    people = pl.concat([frame for frame in frames if frame.height], how="diagonal") if any(map(len, frames)) else None
    header: Named = {"format": FORMAT, **rest, "asked": [_described(each) for each in rest["asked"].values()]}
    header["results"] = [_described_result(result) for result in results]
    with atomic_folder(folder) as temporary:
        for name, frame in ((_PEOPLE, people), (_KNOWN, known)):
            if frame is not None:
                frame.write_parquet(temporary / name)
                header[name] = hashlib.sha256((temporary / name).read_bytes()).hexdigest()
        with atomic_write(temporary / _HEADER) as file:
            file.write(f"{json.dumps(header, indent=1, allow_nan=False)}\n".encode())


def read_comparison(folder: str | Path) -> Named:
    """Read what `write_comparison` wrote: values by name; files that have changed since are refused."""
    folder = Path(folder).expanduser()
    header = read_header(folder, _HEADER, "comparison")
    frames = {name: _frame(folder / name, header.pop(name, None)) for name in (_PEOPLE, _KNOWN)}
    with damaged(folder / _HEADER, "comparison"):
        results = [_result(n, each, frames[_PEOPLE]) for n, each in enumerate(header.pop("results"))]
        asked = {each["name"]: _metric(each) for each in header.pop("asked")}
    return header | {"results": results, "asked": asked, "known": frames[_KNOWN]}


def _frame(path: Path, digest: str | None) -> pl.DataFrame:
    if digest is None:
        return pl.DataFrame()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise FormatError(f"{path} has changed since the comparison was saved")
    return ParquetFiles([content], str(path)).frame()


def _described_result(result: Evaluation) -> Named:
    bins = None if result.reliability is None else result.reliability.to_dict(as_series=False)
    plain = {name: getattr(result, name) for name in _PLAIN}
    overall = {name: None if math.isnan(value) else value for name, value in result.overall.items()}
    return plain | {"overall": overall, "reliability": bins, "columns": result.per_user.columns}


def _result(number: int, kept: Named, people: pl.DataFrame) -> Evaluation:
    result = Evaluation(**{name: kept[name] for name in _PLAIN})
    result.overall = {name: math.nan if value is None else value for name, value in kept["overall"].items()}
    if kept["reliability"] is not None:
        result.reliability = pl.DataFrame(kept["reliability"], schema=_BINS)
    if kept["columns"]:
        result.per_user = people.filter(pl.col(_RESULT) == number).select(kept["columns"])
    return result


def _described(metric: Metric) -> Named:
    names = ("name", "title", "higher_is_better", "top_k", "kind", "column")
    return {name: getattr(metric, name) for name in names}


def _metric(kept: Named) -> Metric:
    if kept["kind"] != "function":
        return METRICS[kept["name"]]
    name = str(kept["name"])

    def gone(grades: Float64Array, scores: Float64Array) -> Any:
        raise InputError(
            f"the function of the metric {name!r} is not part of a saved comparison; measure with your own"
        )

    return Metric(name, gone, title=str(kept["title"]), higher_is_better=bool(kept["higher_is_better"]))
