"""Files that appear whole or not at all, and harm nothing else that may be at their path.

A file is written beside its place under the name ``.<name>.<12 hexadecimal digits>.tmp`` and renamed. The writer holds
an exclusive lock (``flock``) on it until then; the kernel drops the lock of a writer that dies, however it dies. So a
file of that name that can be locked is a dead writer's, and the next writer of the same file removes it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from permrank.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: an open file cannot be removed there, which is lock enough
    fcntl = None  # type: ignore[assignment]

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_MOST_LINKS = 40  # as Linux does
# Where the descriptors of a process have names: /dev/fd itself, or what it is a link to.
_DESCRIPTORS = Path("/dev/fd")


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path``; it takes the place of ``path`` when the block ends well.

    Nobody ever sees half a file: the content is flushed to the disk before the rename, and if the block
    raises, the temporary file is removed and what was at ``path`` stays as it was.

    - A symbolic link is followed, and stays: its target is replaced, in the target's own folder.
    - A file that is there keeps its permissions, its group and, where the system allows it, its owner. A new one has
      what the umask leaves. The temporary file is never more readable than that. Access control lists and other names
      (hard links) are not kept: those names keep the old content.
    - ``/dev/stdout``, ``/dev/fd/N``, a character device such as ``/dev/null`` and a FIFO that somebody reads are
      written to, when the block has ended well. A folder, a socket or a block device is refused.

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
    >>> from permrank.files.atomic import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "a.txt") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = writable_target(path)
    with _naming(path), _replacing(target) if target.is_file else _writing_through(target) as file:
        yield file


class Target(NamedTuple):
    """Where a file will be: links followed, an open descriptor if the path names one, and what is there now."""

    path: Path
    descriptor: int | None
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        """Whether a regular file is there, or nothing."""
        return self.descriptor is None and (self.status is None or stat.S_ISREG(self.status.st_mode))


def writable_target(path: str | Path) -> Target:
    """Follow links, and raise an `InputError` if nothing could be written there; nothing is touched."""
    path = Path(path).expanduser()
    try:
        target = _followed(path)
        if target.is_file:
            folder = target.path.parent
            if not folder.is_dir():
                raise InputError(f"cannot write {str(path)!r}: the folder {folder} does not exist; make it first")
            for needed in (folder, target.path) if target.status else (folder,):
                if not _may_write(needed):
                    raise InputError(f"cannot write {str(path)!r}: {needed} may not be written to")
    except (OSError, ValueError) as error:  # a ValueError for a name with a NUL in it
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot write {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    if not target.is_file and target.descriptor is None:
        _refuse_what_is_no_stream(path, target.status.st_mode if target.status else 0)
    return target


def require_file_or_nothing(path: str | Path) -> Target:
    """As `writable_target`, and raise unless it is a regular file or nothing yet: for what is read back from there."""
    target = writable_target(path)
    if not target.is_file:
        raise InputError(f"{path} is not a regular file; give the name of one, or of a new one")
    return target


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Make a temporary folder beside ``path``, where nothing is yet; it is renamed when the block ends well."""
    with _naming(path):
        remove_temporaries(path)
        temporary, lock = _temporary(path, folder=True)
        try:
            yield temporary
            _sync(temporary)
            temporary.rename(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        finally:
            os.close(lock)
        _sync(path.parent)


def remove(path: str | Path) -> None:
    """Remove a regular file, if it is there, and what killed writers of it have left; a link to it stays."""
    target = _followed(Path(path).expanduser())
    if not target.is_file:
        raise InputError(f"{path} is not a regular file and was not removed")
    target.path.unlink(missing_ok=True)
    remove_temporaries(target.path)


def remove_temporaries(path: Path) -> None:
    """Remove the temporary files, or folders, that killed writers of ``path`` have left beside it."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.tmp")
    with contextlib.suppress(OSError):
        for left in [Path(entry) for entry in os.scandir(path.parent) if ours.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                _remove_if_dead(left)


def _remove_if_dead(left: Path) -> None:
    kind = left.lstat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return
    if fcntl is None:  # Windows: what its writer has open cannot be removed, which raises
        left.unlink()
        return
    descriptor = os.open(left, (os.O_RDWR if stat.S_ISREG(kind) else os.O_RDONLY) | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if its writer lives
        # A writer that has renamed its file in the meantime has freed the name, and nobody else will take it.
        if stat.S_ISDIR(kind):
            shutil.rmtree(left)
        else:
            left.unlink()
    finally:
        os.close(descriptor)


def _temporary(path: Path, *, folder: bool = False, mode: int = 0o666) -> tuple[Path, int]:
    """A new file, or folder, with a name of its own beside ``path``, locked; and its descriptor."""
    while True:
        name = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        if folder:
            name.mkdir()
        try:
            descriptor = os.open(name, os.O_RDONLY if folder else _NEW_FILE, mode)
        except FileNotFoundError:
            if folder:
                continue  # taken for a dead writer's before it could be locked, as below
            raise
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks, where nobody sweeps up either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(name.lstat(), os.fstat(descriptor)):
                return name, descriptor
        os.close(descriptor)


@contextlib.contextmanager
def _replacing(target: Target) -> Iterator[BinaryIO]:
    remove_temporaries(target.path)
    temporary, descriptor = _temporary(target.path, mode=0o666 if target.status is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if target.status is not None:
                _keep_permissions(descriptor, target.status)
            yield file
            file.flush()
            os.fsync(descriptor)
            if fcntl is not None:
                temporary.replace(target.path)  # before the lock goes with the descriptor
        if fcntl is None:
            temporary.replace(target.path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(target.path.parent)


def _keep_permissions(descriptor: int, status: os.stat_result) -> None:
    """Give a file the owner, group and permissions of another, as far as the system allows it."""
    if not hasattr(os, "fchown"):
        return
    for owner in (status.st_uid, -1):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner, status.st_gid)
            break
    mode = stat.S_IMODE(status.st_mode) & 0o777
    # What the old group might, the new one may only if everybody might.
    if os.fstat(descriptor).st_gid != status.st_gid:
        mode &= 0o707 | (mode & 0o007) << 3
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, mode)


@contextlib.contextmanager
def _writing_through(target: Target) -> Iterator[BinaryIO]:
    """A buffer, written in one piece at the end: nothing is written if the block raises."""
    buffer = io.BytesIO()
    yield buffer
    if target.descriptor is not None:
        descriptor = os.dup(target.descriptor)
    else:
        try:  # without waiting for somebody to read a FIFO
            descriptor = os.open(target.path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            raise InputError(f"{target.path} is a FIFO that nobody reads; start the reader first") from error
        os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(buffer.getbuffer())


def _followed(path: Path) -> Target:
    """The file that a path leads to over any number of links, whether or not it is there."""
    descriptors = os.path.realpath(_DESCRIPTORS)
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        path = Path(folder, path.name)
        if folder == descriptors and path.name.isdecimal():
            os.fstat(int(path.name))  # raises if it is not open
            return Target(path, int(path.name), None)
        try:
            status = path.lstat()
        except FileNotFoundError:
            return Target(path, None, None)
        if not stat.S_ISLNK(status.st_mode):
            return Target(path, None, status)
        path = Path(folder, path.readlink())
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _refuse_what_is_no_stream(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; give the name of a file")
    if not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a block device" if stat.S_ISBLK(mode) else "not a file"
        raise InputError(f"{path} is {kind}; give the name of a file")


def _may_write(path: Path) -> bool:
    # The effective user is the one who will write, where the system can be asked about that one.
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Let an error of the system name the file that was to be written, not the temporary one or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # as those of Polars
            raise OSError(f"cannot write {str(path)!r}: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


def _sync(folder: Path) -> None:
    # A rename is on the disk only when the folder is; some systems cannot open a folder.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
