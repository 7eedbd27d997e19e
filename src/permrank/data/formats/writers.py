"""`Rankings.write`: files that `permrank.read` reads back equal, or a refusal that says what is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from permrank.data.formats.jsonlines import format_jsonlines
from permrank.data.formats.preflib import KINDS, format_preflib
from permrank.data.rankings import Rankings
from permrank.errors import FormatError
from permrank.storage.atomic import atomic_write

ENDINGS = ("csv", "tsv", "parquet", "jsonl", "ndjson", *KINDS)


def write(rankings: Rankings, path: str | Path) -> None:
    """Write rankings to a file; the ending decides the format.

    The file appears whole or not at all. What a format cannot hold is refused with a `FormatError` that
    says what to do: PrefLib has no voters' ids and no ratings.

    Parameters
    ----------
    rankings : Rankings
        What to write.
    path : str or Path
        Ends in ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl``, ``.ndjson``, ``.soc``, ``.soi``, ``.toc`` or
        ``.toi``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import permrank as pr
    >>> rankings = pr.Rankings.from_lists({"ann": ["toro", {"ebi", "uni"}], "bob": []})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "lunch.csv"
    ...     rankings.write(file)
    ...     print(file.read_text())
    ...     pr.read(file) == rankings
    user,item,rank
    ann,toro,1
    ann,ebi,2
    ann,uni,2
    bob,,
    <BLANKLINE>
    True
    """
    path = Path(path).expanduser()
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ENDINGS:
        known = ", ".join(f".{ending}" for ending in ENDINGS)
        raise FormatError(f"{path}: cannot write this ending; known are {known}")
    if rankings.n_rankings == 0:
        raise FormatError(f"{path}: there are no rankings to write")
    if kind in KINDS:
        text = format_preflib(rankings, kind, path.name.replace("\n", " ").replace("\r", " "))
        with atomic_write(path) as file:
            file.write(text)
    elif kind in ("jsonl", "ndjson"):
        with atomic_write(path) as file:
            for line in format_jsonlines(rankings):
                file.write(line.encode())
    else:
        table = table_of(rankings)
        with atomic_write(path) as file:
            if kind == "parquet":
                try:
                    table.write_parquet(file)
                except pl.exceptions.ComputeError as error:  # Polars' word for a full disk
                    raise OSError(str(error)) from error
            else:
                _marked(table).write_csv(file, separator="," if kind == "csv" else "\t")


def table_of(rankings: Rankings) -> pl.DataFrame:
    """One row an entry; then a row for every user without a ranking and every item that nobody ranked."""
    table = rankings.to_frame()
    if rankings.ratings is not None and _ratings_tell_the_order(rankings):
        table = table.drop("rank")
    owner = table.columns[0]
    idle = np.diff(rankings.user_indptr) == 0
    unranked = np.bincount(rankings.items, minlength=rankings.n_items) == 0
    parts = [table]
    if idle.any():
        parts.append(pl.DataFrame([rankings.user_ids.ids.filter(idle).alias(owner)]))
    if unranked.any():
        parts.append(pl.DataFrame([rankings.item_ids.ids.filter(unranked).alias("item")]))
    return table if len(parts) == 1 else pl.concat(parts, how="diagonal")


def _ratings_tell_the_order(rankings: Rankings) -> bool:
    """Whether ratings fall exactly where a new tie block begins: not so after `Rankings.shuffled_ties`."""
    inside = ~rankings._starts[1:]
    step = np.diff(rankings.levels)[inside]
    fall = rankings.ratings[:-1][inside] > rankings.ratings[1:][inside]
    same = rankings.ratings[:-1][inside] == rankings.ratings[1:][inside]
    return bool((fall == (step > 0)).all() and (same == (step == 0)).all())


def _marked(table: pl.DataFrame) -> pl.DataFrame:
    """Text that reads back the same: ids that look like integers get a type, numbers all their digits."""
    names = {}
    for name in (table.columns[0], "item"):
        ids = table[name]
        if ids.dtype == pl.String:
            looks = ids.cast(pl.Int64, strict=False).cast(pl.String) == ids
            if (looks.fill_null(value=False) | ids.is_null()).all():
                names[name] = f"{name}:str"
    # A float32 would be written with the few digits that tell float32s apart.
    return table.with_columns(pl.col(pl.Float32).cast(pl.Float64)).rename(names)
