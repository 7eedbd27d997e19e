"""What a kernel calls is compiled with it, and not alone as well."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import codegen

from permrank.kernels import jit, linking
from permrank.kernels.jit import njit, prange


def squares(x):
    out = np.empty(x.size)
    for i in prange(x.size):
        out[i] = x[i] ** 2
    return out


@njit
def _root(x):
    if x < 0.0:
        raise ValueError("below 0")
    return np.sqrt(x)


@njit
def _twice_the_root(x):
    return 2.0 * _root(x)


@njit
def _sum_of_roots(x):
    total = 0.0
    for i in range(x.size):
        total += _twice_the_root(x[i])
    return total


def _forget():
    for made in (_root, _twice_the_root, _sum_of_roots):
        made._reset_overloads()


@pytest.fixture
def optimised(monkeypatch):
    """Names of the libraries that are optimised; nothing is loaded from a cache, nor compiled before."""
    _forget()
    names, optimise = [], codegen.CPUCodeLibrary._optimize_final_module

    def noted(library):
        names.append(library.name)
        optimise(library)

    monkeypatch.setattr(codegen.CPUCodeLibrary, "_optimize_final_module", noted)
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    return names


def test_only_the_kernel_is_optimised_and_with_numba_alone_its_parts_are_too(optimised):
    for made, n_parts in ((jit.njit(squares, parallel=True), 0), (numba.njit(parallel=True)(squares), 3)):
        optimised.clear()
        np.testing.assert_array_equal(made(np.arange(100.0)), np.arange(100.0) ** 2)
        parts = ("__numba_parfor_gufunc", "<numba.np.ufunc.wrappers._GufuncWrapper", "parallelgufuncwrapper")
        assert "squares" in optimised
        assert sum(name.startswith(parts) for name in optimised) == n_parts
    # Code of others is left alone, also after a kernel.
    assert numba.core.registry.cpu_target.target_context.codegen()._library_class is codegen.JITCodeLibrary


def test_what_a_kernel_calls_is_compiled_again_when_python_calls_it(optimised):
    assert _sum_of_roots(np.array([1.0, 4.0])) == 6.0
    assert optimised == ["_sum_of_roots"]
    for _ in range(2):  # once
        assert _root(9.0) == 3.0
        assert _twice_the_root(9.0) == 6.0
    assert optimised == ["_sum_of_roots", "_root", "_twice_the_root"]
    # Compiled callers do not take it.
    assert [linking.is_part(found.library) for found in _root.overloads.values()] == [True]


def test_a_kernel_does_not_take_what_was_compiled_for_python(optimised):
    assert _root(9.0) == 3.0
    assert [linking.is_part(found.library) for found in _root.overloads.values()] == [False]
    assert _sum_of_roots(np.array([1.0, 4.0])) == 6.0
    assert [linking.is_part(found.library) for found in _root.overloads.values()] == [True]
    assert _root(16.0) == 4.0
    assert optimised == ["_root", "_sum_of_roots"]


def test_errors_of_what_a_kernel_calls_are_raised(optimised):
    with pytest.raises(ValueError, match="below 0"):
        _sum_of_roots(np.array([1.0, -1.0]))


def test_a_kernel_that_does_not_compile_leaves_the_next_as_it_should_be(optimised):
    @njit
    def bad(x):
        return _root(x) + "text"

    with pytest.raises(numba.TypingError):
        bad(1.0)
    assert linking._compiling == []
    assert _root(25.0) == 5.0


def test_parts_are_not_written_to_the_cache_and_the_kernel_is(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    _forget()
    assert _sum_of_roots(np.array([4.0])) == 4.0
    names = {path.name.rsplit("-", 1)[0].rsplit(".", 1)[1] for path in tmp_path.iterdir()}
    assert names == {"_sum_of_roots"}


def test_another_version_of_numba_is_refused_by_name():
    code = "import numba; numba.version_info = numba.version_info._replace(short=(0, 1)); import permrank.kernels.jit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: permrank works with Numba 0.68, here is" in done.stderr
    assert "pip install 'numba==0.68.*'" in done.stderr


def test_what_is_installed_is_what_is_accepted():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "numba=={}.{}.*".format(*linking.VERSION) in project["dependencies"]
