"""A pytest plugin: what marked tests require of the machine, and that no test opens a connection beyond loopback.

A mark of `REQUIREMENTS` skips its tests where what it stands for is missing. Marks that are named in PERMRANK_REQUIRE
may not be skipped, for whatever reason: a test of theirs that is skipped fails, and so does a file that is skipped
while tests are collected.
"""

import importlib.util
import ipaddress
import os
import sys
from pathlib import Path

import pytest

from browser import CHROMIUM

REQUIREMENTS = {
    "realdata": (
        Path(os.environ.get("PERMRANK_DATA") or "/dev/null").is_dir(),
        "real data: set PERMRANK_DATA to the folder that holds the archives",
    ),
    "browser": (CHROMIUM is not None, "no Chromium: apt-get install chromium, or put Chrome on the path"),
    "ray": (importlib.util.find_spec("ray") is not None, "no Ray: pip install 'permrank[ray]'"),
}
REQUIRED = os.environ.get("PERMRANK_REQUIRE", "").split()
# Where this process went, or wanted to go, beyond loopback since the last look.
beyond: list[str] = []


def pytest_configure():
    unknown = set(REQUIRED) - set(REQUIREMENTS)
    if unknown:
        known = " ".join(REQUIREMENTS)
        raise pytest.UsageError(f"PERMRANK_REQUIRE has {' '.join(sorted(unknown))}, expected some of: {known}")
    sys.addaudithook(watch)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for name, (there, reason) in REQUIREMENTS.items():
        if item.get_closest_marker(name) and not there:
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.skipped and any(map(item.get_closest_marker, REQUIRED)) and not hasattr(report, "wasxfail"):
        _fail(report, f"skipped, but PERMRANK_REQUIRE is '{' '.join(REQUIRED)}': {call.excinfo.value}")
    if beyond:
        _fail(report, f"a test keeps to loopback, but this one wanted to go to {', '.join(beyond)}")
        beyond.clear()
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.skipped and REQUIRED:
        _fail(report, f"skipped, but PERMRANK_REQUIRE is '{' '.join(REQUIRED)}': {report.longrepr[-1]}")
    return report


def _fail(report, reason):
    report.longrepr = f"{report.longreprtext}\n{reason}" if report.failed else reason
    report.outcome = "failed"


def watch(event, arguments):
    """An audit hook: it sees every socket of Python, whoever made it, but none of other processes."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else None  # of another kind: a socket of the file system
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        beyond.append(str(host))
        raise ConnectionRefusedError(f"tests keep to loopback: {host}")


def _is_local(host):
    if host in (None, "", b"", "localhost"):
        return True
    try:
        found = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:  # a name
        return False
    return found.is_loopback or found.is_unspecified
