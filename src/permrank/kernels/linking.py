"""Kernels compiled once, with all that they call, instead of layer by layer.

Numba makes a library of machine code of every function that a kernel calls, of what these call, and of its own
functions for arrays; for a `prange` loop it makes three more: the body and two wrappers around it. Each holds a copy of
everything below it, and each is optimised and translated as a whole, though only the kernel is ever run. Here all
libraries but that of the kernel are handed on as they are, and what the kernel links is optimised and translated with
it. The code does the same; the kernels of a first fit compile in half the time.

A function that was compiled for a kernel has no machine code of its own. It is compiled again when Python calls it,
which tests do; and a kernel never takes what was compiled for Python, in this process or before. Sums that the compiler
may reorder would else depend on who was called first.

This replaces parts of Numba's inside, so the dependency on Numba is pinned to the minor version that the tests run
with, and another one is refused when permrank is imported (docs/decisions/0027-kernels-compiled-once.md).
"""

import functools

import numba
from numba.core import codegen
from numba.core.compiler_lock import global_compiler_lock

VERSION = (0, 68)
if numba.version_info.short != VERSION:
    raise ImportError(
        f"permrank works with Numba {VERSION[0]}.{VERSION[1]}, here is {numba.__version__}. "
        f"Install the right one: pip install 'numba=={VERSION[0]}.{VERSION[1]}.*'"
    )

# Names of the functions that are being compiled, from the kernel inwards; under the lock of Numba's compiler.
_compiling: list[str] = []
# Environments of functions without machine code, until a kernel that links them defines their addresses.
_environments: dict[str, object] = {}


class _Library(codegen.JITCodeLibrary):
    """A library that is linked only, unless it is that of the kernel."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.is_part = self.name != _compiling[0] or len(_compiling) > 1

    def finalize(self):
        if not self.is_part:
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
        return _Waiting(self._codegen) if self.is_part else self._codegen

    def get_pointer_to_function(self, name):
        if self.is_part:
            self._ensure_finalized()
            return 0  # it has no machine code, and nobody calls it
        return super().get_pointer_to_function(name)


class _Waiting:
    """The code generator as a part sees it: the address of its environment is known when the kernel is."""

    def __init__(self, whole):
        self._whole = whole

    def __getattr__(self, name):
        return getattr(self._whole, name)

    def set_env(self, name, environment):
        _environments[name] = environment


def _set_environments(whole):
    for name in [name for name in _environments if whole._engine.is_symbol_defined(name)]:
        whole.set_env(name, _environments.pop(name))


def is_part(library):
    """Whether a library has no machine code of its own."""
    return getattr(library, "is_part", False)


def compiles_a_part():
    """Whether what is asked for now is for a kernel that is being compiled."""
    return bool(_compiling)


def optimise_once(kernel):
    """Have a kernel, or what kernels call, compiled in this way."""
    maker = kernel._compiler
    maker.compile = functools.partial(_compile, maker, maker.compile)
    maker._customize_flags = _without_wrapper
    kernel.compile = functools.partial(_compile_for_use, kernel, kernel.compile)
    kernel.add_overload = functools.partial(_add_overload, kernel, kernel.add_overload)


def _compile(maker, compile_, *arguments):
    whole = maker.targetdescr.target_context.codegen()
    before = whole._library_class
    if before not in (codegen.JITCodeLibrary, _Library):  # somebody else's
        return compile_(*arguments)
    whole._library_class = _Library
    _compiling.append(maker.py_func.__qualname__)
    try:
        return compile_(*arguments)
    finally:
        _compiling.pop()
        whole._library_class = before


def _without_wrapper(flags):
    """What is compiled for a kernel is not called by Python."""
    flags.no_cpython_wrapper = len(_compiling) > 1
    return flags


def _compile_for_use(kernel, compile_, signature):
    """Compile for Python what was compiled for a kernel only, and the other way round.

    Python finds its own in a table inside the dispatcher; ``overloads`` are for kernels, if there is one for them.
    """
    with global_compiler_lock:
        arguments = tuple(numba.core.sigutils.normalize_signature(signature)[0])
        there = kernel.overloads.get(arguments)
        if there is not None and is_part(there.library) != compiles_a_part():
            del kernel.overloads[arguments]
        else:
            there = None
        try:
            return compile_(signature)
        finally:
            if there is not None and (is_part(there.library) or arguments not in kernel.overloads):
                kernel.overloads[arguments] = there


def _add_overload(kernel, add, result):
    if is_part(result.library):
        kernel.overloads[tuple(result.signature.args)] = result  # for callers that are compiled
    else:
        add(result)
