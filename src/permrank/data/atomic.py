"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from permrank.errors import InputError


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path``; it takes the place of ``path`` when the block ends well.

    Nobody ever sees half a file: the content is flushed to the disk before the rename, and if the block
    raises, the temporary file is removed and what was at ``path`` stays as it was.

    Parameters
    ----------
    path : str or Path
        Where the file shall be. Its folder must exist.

    Yields
    ------
    file
        Open for writing bytes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from permrank.data.atomic import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    path = Path(path).expanduser()
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {str(path)!r}: {error}") from error
    if is_folder:
        raise InputError(f"{path} is a folder; give the name of a file")
    # Not tempfile: its files are private to the user, and the rename would keep that.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        file = temporary.open("xb")
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL in it
        raise InputError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    # The rename itself is on the disk only when the folder is; some systems cannot open a folder.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
