"""`njit` for kernels: Numba's own, with a cache on disk that several processes may share.

Numba's cache (``cache=True``) numbers its files in an index that has no lock: two processes that compile two
signatures of one kernel at the same time can leave an entry that leads to the other's machine code. It also does not
notice an edit in another file. Here every compiled signature has a file of its own, named by a digest of all that the
machine code depends on, and written in one step (temporary file, rename):

- the source of the kernel's file, and of all kernel files that it imports, directly or not;
- the versions of Numba, llvmlite, NumPy and Python;
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
import re
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

from permrank.kernels.compiling import tell_of
from permrank.kernels.linking import compiles_a_part, is_part, optimise_once

__all__ = ["cache_folder", "njit", "prange"]

_PACKAGE = Path(__file__).parents[1]
# Settings that change the code which Numba makes, by their names in numba.config.
_SETTINGS = (
    "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE",
    "USING_SVML",
)  # fmt: skip
# Kernels are in files called kernels.py and in folders called kernels, of the package and of each family.
_IMPORT = re.compile(r"permrank\.((?:\w+\.)*kernels\b[\w.]*)")
_DAY = 86_400
_UNUSED = 30 * _DAY  # seconds after which code that nobody has loaded is removed
_DIGEST_BYTES = hashlib.sha256().digest_size


def njit(function=None, signature=None, **options):
    """`numba.njit` that releases the lock of the interpreter and keeps what it compiles; options are Numba's.

    With a signature, a text as Numba writes it, the kernel is compiled or loaded at once and for no other: arguments
    are converted to it.
    """
    if function is None:
        return functools.partial(njit, signature=signature, **options)
    if function.__closure__:
        raise TypeError(f"{function.__qualname__} has a closure, which the name of its cache file cannot know")
    # A wrapper for other compiled code that takes kernels as values, which none does, is left out.
    made = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if not config.DISABLE_JIT:
        optimise_once(made)
        # The whole name of the module: machine code knows it, and moving a file does not change its digest.
        path, module = Path(function.__code__.co_filename), function.__module__.removeprefix("permrank.")
        try:
            # Now, and not when it is called: the source may be edited in between, and this is what was imported.
            made._cache = _KernelCache(f"{module}.{function.__qualname__}", _digest_of_sources(path))
        except OSError as error:  # in an archive, or without its sources
            _say_once(f"their sources cannot be read ({error.strerror})", "Install permrank as a folder of files")
        if signature is not None:
            made.compile(signature)
            made.disable_compile()
    return made


class _KernelCache(NullCache):
    """One file for every signature of a kernel; the interface is that of Numba's caches."""

    def __init__(self, name, digest):
        self._name, self._digest = name, digest

    def load_overload(self, sig, target_context):
        """The compiled signature from the disk, or None; what is compiled for a kernel comes with that."""
        target_context.refresh()
        found = None if compiles_a_part() else self._loaded(sig, target_context, cache_folder())
        if found is None:
            tell_of(self._name)
        return found

    def _loaded(self, sig, target_context, folder):
        if folder is None:
            return None
        path = self._path(folder, sig, target_context.codegen())
        try:
            content = path.read_bytes()
            if path.stat().st_mtime < time.time() - _DAY:
                os.utime(path)  # it is in use: _remove_unused
        except OSError:
            return None
        payload = content[_DIGEST_BYTES:]
        if hashlib.sha256(payload).digest() != content[:_DIGEST_BYTES]:
            return None
        try:
            name, signature, reduced = pickle.loads(payload)
        except (ImportError, AttributeError):  # the class of an argument has moved since
            return None
        if name != self._name or signature != sig:
            return None
        return CompileResult._rebuild(target_context, *reduced)

    def save_overload(self, sig, cres):
        """Write a compiled signature; a disk that refuses is no error, the code is there."""
        folder = cache_folder()
        lasting = not cres.library.has_dynamic_globals and all(part.can_cache for part in cres.lifted)
        if folder is None or is_part(cres.library) or not lasting:
            return
        payload = dumps((self._name, sig, cres._reduce()))
        path = self._path(folder, sig, cres.library.codegen)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
            temporary.replace(path)
            _remove_unused(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            if path.exists():  # another process has written it; Windows does not replace what somebody reads
                return
            _say_once(f"{folder} cannot be written to ({error.strerror})")

    def _path(self, folder, sig, codegen):
        settings = [(name, getattr(config, name, None)) for name in _SETTINGS]
        key = repr((self._name, self._digest, str(sig), codegen.magic_tuple(), settings)).encode()
        return folder / f"{self._name}-{hashlib.sha256(key).hexdigest()[:32]}.nbc"


@functools.cache
def cache_folder():
    """The folder of compiled kernels of these versions of Numba, NumPy and Python, or None if none can be written to.

    The first that can be used of: the one that the variable NUMBA_CACHE_DIR names, ``__pycache__`` beside the kernels,
    the cache folder of the user.
    """
    versions = (numba.__version__, llvmlite.__version__, np.__version__, sys.version, sys.implementation.cache_tag)
    name = f"permrank-{hashlib.sha256(repr(versions).encode()).hexdigest()[:12]}"
    tried = []
    for root in _roots():
        folder = root / name
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            _require_private(folder)
            probe = folder / f"{uuid.uuid4().hex}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            tried.append(f"{root} ({error.strerror})")
        else:
            return folder
    _say_once(f"no folder can be written to: {', '.join(tried)}")
    return None


def _roots():
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    yield Path(__file__).parent / "__pycache__"
    import platformdirs

    yield Path(platformdirs.user_cache_dir("permrank", appauthor=False))


@functools.cache
def _source(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def _digest_of_sources(path):
    """Of a file of kernels and of all files of kernels that it reaches; to name a file is taken for importing it."""
    reached, waiting = {}, [path]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached[path] = text = _source(path)
            for module in _IMPORT.findall(text):
                found = _PACKAGE.joinpath(*module.split("."))
                waiting += [file for file in (found.with_suffix(".py"), found / "__init__.py") if file.is_file()]
    digest = hashlib.sha256()
    for path, text in sorted(reached.items()):
        digest.update(f"{path.name} {len(text)}\n{text}".encode())
    return digest.hexdigest()


def _require_private(folder):
    """Machine code is run as it is found: nobody else may have put it there."""
    if os.name != "posix":
        return
    status = folder.stat()
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
        raise PermissionError(1, "somebody else can write to it")


@functools.cache
def _remove_unused(folder):
    """Remove code that nobody has loaded for long, of older sources mostly; once a process."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _UNUSED:
                path.unlink()


_said: list[str] = []


def _say_once(reason, remedy="Set NUMBA_CACHE_DIR to a folder that can be written to"):
    if not _said:
        _said.append(reason)
        message = f"compiled kernels are not kept, every process compiles them anew: {reason}. {remedy}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
