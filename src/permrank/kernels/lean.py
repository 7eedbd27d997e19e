"""Parallel kernels compiled once instead of four times.

Numba makes four libraries of machine code for a `prange` loop: the body, two wrappers around it, and the kernel; each
holds a copy of everything before it, and each is optimised and translated as a whole. Only the kernel is ever run. Here
the first three are handed on as they are, and what the kernel links is optimised and translated with it. The code does
the same; a kernel with a large body compiles in half the time or less.

This leans on how Numba is built inside. With versions that nobody has tried, kernels are compiled in its own way.
"""

import contextlib
import functools

import numba
from numba.core import codegen

# Whether the version of Numba is one that this was tried with.
KNOWN = numba.version_info.short == (0, 68)
# What it names the libraries of a loop: the body and its two wrappers.
_PARTS = ("__numba_parfor_gufunc", "<numba.np.ufunc.wrappers._GufuncWrapper", "parallelgufuncwrapper")


class _Library(codegen.JITCodeLibrary if KNOWN else object):  # type: ignore[misc]
    """A library whose parts of loops are linked only."""

    def finalize(self):
        if not self._is_part():
            super().finalize()
            _set_environments(self._codegen)
            return
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self):
        return _Waiting(self._codegen) if self._is_part() else self._codegen

    def get_pointer_to_function(self, name):
        if self._is_part():
            self._ensure_finalized()
            return 0  # it has no machine code, and nobody calls it
        return super().get_pointer_to_function(name)

    def _is_part(self):
        return self.name.startswith(_PARTS)


class _Waiting:
    """The code generator as a part of a loop sees it: the address of its environment is known when the kernel is."""

    def __init__(self, whole):
        self._whole = whole

    def __getattr__(self, name):
        return getattr(self._whole, name)

    def set_env(self, name, environment):
        _environments.append((name, environment))


# Under the lock of Numba's compiler.
_environments: list[tuple[str, object]] = []


def _set_environments(whole):
    while _environments:
        name, environment = _environments.pop()
        if whole._engine.is_symbol_defined(name):
            whole.set_env(name, environment)


def make_lean(kernel):
    """Have a parallel kernel compiled in this way."""
    if KNOWN:
        maker = kernel._compiler
        maker.compile = functools.partial(_compile, maker, maker.compile)


def _compile(maker, compile_, *arguments):
    with _libraries(maker.targetdescr.target_context.codegen()):
        return compile_(*arguments)


@contextlib.contextmanager
def _libraries(whole):
    if whole._library_class is not codegen.JITCodeLibrary:  # a kernel that is compiled for another, or another Numba
        yield
        return
    whole._library_class = _Library
    try:
        yield
    finally:
        whole._library_class = codegen.JITCodeLibrary
        _environments.clear()
