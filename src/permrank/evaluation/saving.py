"""Comparisons in files: a folder with ``comparison.json`` and ``people.parquet``; nothing is unpickled.

Everything that a report needs is kept, but no model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from permrank.errors import FormatError, InputError
from permrank.evaluation.evaluate import Evaluation
from permrank.evaluation.metrics import METRICS, Metric
from permrank.files.atomic import atomic_folder, atomic_write
from permrank.files.formats.parquet import ParquetFiles
from permrank.types import Float64Array, Named

_FORMAT = 1
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


def save(folder: str | Path, results: list[Evaluation], known: pl.DataFrame, rest: Named) -> None:
    """Write results, the entries that were known of people, and what else there is; the folder appears whole."""
    folder = Path(folder).expanduser()
    if os.path.lexists(folder):
        raise InputError(f"{folder} exists; give the name of a new folder")
    if not folder.parent.is_dir():
        raise InputError(f"the folder {folder.parent} does not exist; make it first")
    frames = [result.per_user.with_columns(pl.lit(n).alias(_RESULT)) for n, result in enumerate(results)]
    people = pl.concat([frame for frame in frames if frame.height], how="diagonal") if any(map(len, frames)) else None
    header: Named = {"format": _FORMAT, **rest, "asked": [_described(each) for each in rest["asked"].values()]}
    header["results"] = [_described_result(result) for result in results]
    with atomic_folder(folder) as temporary:
        for name, frame in ((_PEOPLE, people), (_KNOWN, known)):
            if frame is not None:
                frame.write_parquet(temporary / name)
                header[name] = hashlib.sha256((temporary / name).read_bytes()).hexdigest()
        with atomic_write(temporary / _HEADER) as file:
            file.write(f"{json.dumps(header, indent=1, allow_nan=False)}\n".encode())


def load(folder: str | Path) -> Named:
    """Read what `save` wrote: values by name; files that have changed since are refused."""
    folder = Path(folder).expanduser()
    where = folder / _HEADER
    try:
        header: Named = json.loads(where.read_text(encoding="utf-8"))
        version = header.pop("format")
    except OSError as error:
        raise FormatError(f"{folder} is not a saved comparison: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{where} is damaged ({error}); save the comparison again") from error
    if version != _FORMAT:
        raise FormatError(f"{folder} has format {version!r}; this permrank reads format {_FORMAT}")
    frames = {name: _frame(folder / name, header.pop(name, None)) for name in (_PEOPLE, _KNOWN)}
    try:
        results = [_result(n, each, frames[_PEOPLE]) for n, each in enumerate(header.pop("results"))]
        asked = {each["name"]: _metric(each) for each in header.pop("asked")}
    except (ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        raise FormatError(f"{where} is damaged ({error}); save the comparison again") from error
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
