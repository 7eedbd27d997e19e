"""`Rankings.write`: files that `permrank.read` reads back equal, or a refusal that says what is lost."""

from __future__ import annotations

from pathlib import Path

from permrank.errors import FormatError
from permrank.files.atomic import atomic_write
from permrank.files.formats import writable_endings
from permrank.files.formats.folder import ENDING, write_folder
from permrank.rankings.rankings import Rankings


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
        ``.toi``; or in ``.rankings``, a new folder that is mapped into memory when it is read.

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
    known, ending = writable_endings(), path.suffix.lower().removeprefix(".")
    if ending not in (*known, ENDING):
        listed = ", ".join(f".{each}" for each in (*known, ENDING))
        raise FormatError(f"{path}: cannot write this ending; known are {listed}")
    if rankings.n_rankings == 0:
        raise FormatError(f"{path}: there are no rankings to write")
    if ending == ENDING:
        write_folder(rankings, path)
        return
    put = known[ending](rankings, path.name)
    with atomic_write(path) as file:
        put(file)
