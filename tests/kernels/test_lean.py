"""The parts of a parallel loop are compiled with the kernel, and not each alone as well."""

import numba
import numpy as np
import pytest
from numba.core import codegen

from permrank.kernels import jit, lean
from permrank.kernels.jit import prange


def squares(x):
    out = np.empty(x.size)
    for i in prange(x.size):
        out[i] = x[i] ** 2
    return out


@pytest.mark.skipif(not lean.KNOWN, reason="this version of Numba has not been tried: kernels are compiled in its way")
def test_only_the_kernel_is_optimised_and_with_numba_alone_its_parts_are_too(monkeypatch):
    optimised, optimise = [], codegen.CPUCodeLibrary._optimize_final_module

    def noted(library):
        optimised.append(library.name)
        optimise(library)

    monkeypatch.setattr(codegen.CPUCodeLibrary, "_optimize_final_module", noted)
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    for made, n_parts in ((jit.njit(squares, parallel=True), 0), (numba.njit(parallel=True)(squares), 3)):
        optimised.clear()
        np.testing.assert_array_equal(made(np.arange(100.0)), np.arange(100.0) ** 2)
        assert "squares" in optimised
        assert sum(name.startswith(lean._PARTS) for name in optimised) == n_parts
    # Code of others is left alone, also after a kernel.
    assert numba.core.registry.cpu_target.target_context.codegen()._library_class is codegen.JITCodeLibrary
