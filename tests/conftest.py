"""Fixtures of all tests."""

import os
import signal
from pathlib import Path

import numba
import pytest

from permrank.core import registry

# A shell that starts the tests in the background has them ignore Ctrl-C, of which some of them are about.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def data_folder():
    """The folder with real data, which may not be redistributed; for tests with the mark `realdata`."""
    return Path(os.environ["PERMRANK_DATA"])


@pytest.fixture(autouse=True)
def one_thread_a_worker():
    """Parallel test processes share the cores: each keeps to one thread unless a test asks for more."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        numba.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_model_registered(monkeypatch):
    """A test meets no model that another test, or a document, has registered."""
    monkeypatch.setattr(registry, "_registered", {})
