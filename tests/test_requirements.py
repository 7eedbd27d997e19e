"""Marks that skip, and the guard against connections beyond loopback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# 192.0.2.1 is reserved for documentation: nobody is there.
CONNECTING = """
import contextlib, socket, urllib.request, pytest

def connects(host):
    with contextlib.suppress(OSError), socket.create_connection((host, 9), timeout=1):
        pass

def test_loopback():
    connects("127.0.0.1"); connects("::1"); connects("localhost")

def test_address():
    connects("192.0.2.1")

def test_name():
    connects("permrank.invalid")

def test_datagram():
    with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("192.0.2.1", 9))

def test_page():
    with pytest.raises(OSError):
        urllib.request.urlopen("http://192.0.2.1:9/", timeout=1)

@pytest.fixture
def fetched():
    connects("192.0.2.1")

def test_fixture(fetched):
    pass
"""
MARKED = """
import pytest

@pytest.mark.realdata
def test_marked():
    pass

@pytest.mark.browser
def test_other_reason():
    pytest.skip("built no pages")

def test_plain():
    pytest.skip("on this system")
"""
ABSENT = """
import pytest
pytest.importorskip("no_such_package")
"""


@pytest.fixture
def outcomes(tmp_path):
    """Runs a file of tests in a pytest of its own, with these variables: names of tests by outcome."""

    def run(code, **variables):
        (tmp_path / "test_it.py").write_text(code, encoding="utf-8")
        options = ["-c", ROOT / "pyproject.toml", "-o", "addopts=-p requirements", "-rA", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, tmp_path]
        environment = {**os.environ, "PERMRANK_DATA": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **variables}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        found = {}
        for line in done.stdout.splitlines():
            outcome, _, where = line.partition(" ")
            if outcome in ("PASSED", "FAILED", "ERROR", "SKIPPED"):
                found.setdefault(outcome, set()).add(where)
        return done, found

    return run


def names(found, outcome):
    return {where.partition("::")[2].partition(" ")[0] for where in found.get(outcome, ())}


def test_a_test_that_goes_beyond_loopback_fails_even_if_it_catches_the_error(outcomes):
    _, found = outcomes(CONNECTING)
    assert names(found, "PASSED") == {"test_loopback"}
    assert names(found, "FAILED") == {"test_address", "test_name", "test_datagram", "test_page"}
    assert names(found, "ERROR") == {"test_fixture"}


def test_a_mark_skips_and_says_what_is_missing(outcomes):
    done, found = outcomes(MARKED, PERMRANK_REQUIRE="")
    assert done.returncode == 0
    assert any("set PERMRANK_DATA" in where for where in found["SKIPPED"])
    assert len(found["SKIPPED"]) == 3


def test_what_is_required_may_not_be_skipped(outcomes):
    done, found = outcomes(MARKED, PERMRANK_REQUIRE="realdata browser")
    assert done.returncode == 1
    assert names(found, "FAILED") | names(found, "ERROR") == {"test_marked", "test_other_reason"}
    assert "set PERMRANK_DATA" in done.stdout
    assert len(found["SKIPPED"]) == 1


def test_a_file_may_not_be_skipped_where_anything_is_required(outcomes):
    assert outcomes(ABSENT, PERMRANK_REQUIRE="")[0].returncode == 5  # no tests
    done, found = outcomes(ABSENT, PERMRANK_REQUIRE="ray")
    assert done.returncode != 0
    assert found["ERROR"]


def test_an_unknown_requirement_is_refused(outcomes):
    done, _ = outcomes(MARKED, PERMRANK_REQUIRE="rays")
    assert done.returncode == 4
    assert "PERMRANK_REQUIRE has rays, expected some of: realdata browser ray" in done.stderr
