"""What people can call, as text: `python tests/surface.py > before.txt`, and `diff` after a change of structure.

Public names with the signatures of their methods, `--help` of every command, and the service's description. The text is
kept beside the tree, never in it.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import permrank as pr

# Help is laid out for the terminal; a fixed width makes it the same everywhere.
os.environ |= {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}


def signature(value: Any) -> str:
    """The arguments of something that can be called, or its kind."""
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return f" [{type(value).__name__}]"


def names() -> Iterator[str]:
    """Public names, with the public members of classes and modules."""
    for name in pr.__all__:
        value = getattr(pr, name)
        yield f"{name}{signature(value) if callable(value) else ''}"
        members = getattr(value, "__all__", None) or [each for each in dir(value) if not each.startswith("_")]
        for member in members if inspect.isclass(value) or inspect.ismodule(value) else ():
            found = inspect.getattr_static(value, member, None) or getattr(value, member, None)
            found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
            yield f"  {name}.{member}{signature(found) if callable(found) else ''}"


def commands() -> Iterator[str]:
    """`--help` of every command."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from permrank.interfaces.cli.app import app

    for name in sorted(get_command(app).commands):  # type: ignore[attr-defined]
        yield f"$ permrank {name} --help"
        yield CliRunner().invoke(app, [name, "--help"]).output


def description() -> str:
    """The service's own description of its API."""
    from fastapi.testclient import TestClient

    from permrank.interfaces.server.app import create_app
    from permrank.interfaces.server.settings import Settings

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(Settings(str(Path(folder) / "a.sqlite")))
        return json.dumps(TestClient(app, base_url="http://localhost").get("/v1/openapi.json").json(), indent=1)


def main() -> None:
    """Print all of it."""
    for line in [*names(), *commands(), description()]:
        print(line)


if __name__ == "__main__":
    main()
