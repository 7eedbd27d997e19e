"""`njit` for kernels: Numba's own, with a cache on disk that several processes may share.

Numba's cache (``cache=True``) numbers its files in an index that has no lock: two processes that compile two
signatures of one kernel at the same time can leave an entry that leads to the other's machine code. It also does not
notice an edit in another file. Here every compiled signature has a file of its own, named by a digest of all that the
machine code depends on, and written in one step (temporary file, rename):

- the sources of all kernels, the versions of Numba, llvmlite, NumPy and Python;
- the processor and its features, and the settings of Numba that change code;
- the kernel and its signature.

So there is nothing to lock, and an edit or another version never meets old code. What is loaded is checked against its
checksum and its signature; anything else counts as absent. Without a folder to write to kernels are compiled in every
process, which is said once.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import sys
import time
import uuid
import warnings
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba import prange
from numba.core import config
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

__all__ = ["cache_folder", "njit", "prange"]

_SOURCES = Path(__file__).parent
# Settings that change the code which Numba makes, by their names in numba.config.
_SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")
_PREFIX = "permrank-"
_UNUSED_DAYS = 30  # folders of older sources that nobody has used for so long are removed
_DIGEST_BYTES = hashlib.sha256().digest_size


def njit(function=None, **options):
    """`numba.njit` that releases the lock of the interpreter and keeps what it compiles; options are Numba's."""
    if function is None:
        return functools.partial(njit, **options)
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} has a closure, which the name of its cache file cannot know")
    made = numba.njit(nogil=True, **options)(function)
    if not config.DISABLE_JIT:
        made._cache = _KernelCache(function)
    return made


class _KernelCache(NullCache):
    """One file for every signature of a kernel; the interface is that of Numba's caches."""

    def __init__(self, function):
        self._name = f"{function.__module__.removeprefix('permrank.kernels.')}.{function.__qualname__}"

    def load_overload(self, sig, target_context):
        """The compiled signature from the disk, or None."""
        target_context.refresh()
        folder = cache_folder()
        if folder is None:
            return None
        try:
            content = self._path(folder, sig, target_context.codegen()).read_bytes()
        except OSError:
            return None
        payload = content[_DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() != content[:_DIGEST_BYTES]:
            return None
        name, signature, reduced = pickle.loads(payload)
        if name != self._name or signature != sig:
            return None
        return CompileResult._rebuild(target_context, *reduced)

    def save_overload(self, sig, cres):
        """Write a compiled signature; a disk that refuses is no error, the code is there."""
        folder = cache_folder()
        if folder is None or cres.library.has_dynamic_globals or any(not part.can_cache for part in cres.lifted):
            return
        payload = dumps((self._name, sig, cres._reduce()))
        path = self._path(folder, sig, cres.library.codegen)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
            temporary.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            _say_once(f"{folder} cannot be written to ({error.strerror})")

    def _path(self, folder, sig, codegen):
        settings = [(name, getattr(config, name, None)) for name in _SETTINGS]
        key = repr((self._name, str(sig), codegen.magic_tuple(), settings)).encode()
        return folder / f"{self._name}-{hashlib.sha256(key).hexdigest()[:32]}.nbc"


@functools.cache
def cache_folder():
    """The folder of compiled kernels of just these sources and versions, or None if none can be written to.

    The first that can be used of: the one that the variable NUMBA_CACHE_DIR names, ``__pycache__`` beside the kernels,
    the cache folder of the user.
    """
    name = _PREFIX + _digest_of_sources()
    tried = []
    for root in _roots():
        folder = root / name
        try:
            new = not folder.is_dir()
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            os.utime(folder)
            _require_private(folder)
            probe = folder / f"{uuid.uuid4().hex}.tmp"
            probe.touch()
            probe.unlink()
        except (OSError, RuntimeError) as error:
            tried.append(f"{root} ({getattr(error, 'strerror', None) or error})")
            continue
        if new:
            _remove_unused(root, name)
        return folder
    _say_once(f"no folder can be written to: {', '.join(tried)}")
    return None


def _roots():
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    yield _SOURCES / "__pycache__"
    import platformdirs

    yield Path(platformdirs.user_cache_dir("permrank", appauthor=False))


def _digest_of_sources():
    """Of all kernels, and of everything else that is the same in the whole process."""
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version, sys.implementation.cache_tag)
    digest = hashlib.sha256(repr(versions).encode())
    for path in sorted(_SOURCES.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_SOURCES).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:32]


def _require_private(folder):
    """Machine code is run as it is found: nobody else may have put it there."""
    if os.name != "posix":
        return
    status = folder.stat()
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o002:
        raise PermissionError(1, "somebody else can write to it")


def _remove_unused(root, name):
    oldest = time.time() - _UNUSED_DAYS * 86_400
    for folder in root.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.name != name and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)


_said: list[str] = []


def _say_once(reason):
    if not _said:
        _said.append(reason)
        warnings.warn(
            f"compiled kernels are not kept, every process compiles them anew: {reason}. Set NUMBA_CACHE_DIR to a "
            "folder that can be written to",
            RuntimeWarning,
            stacklevel=2,
        )
