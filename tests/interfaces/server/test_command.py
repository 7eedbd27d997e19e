"""The command: what it refuses, what it makes, and what it needs."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
from typer.testing import CliRunner

from permrank.errors import InputError
from permrank.interfaces.cli.app import app
from permrank.interfaces.server.run import poll_of, read_items


def run(*arguments):
    return CliRunner().invoke(app, ["serve", *map(str, arguments)])


def test_the_command_refuses_before_it_serves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dishes.txt").write_text("a\nb\n")
    for arguments, said in (
        (["--host", "0.0.0.0"], "--admin-key"),
        (["--host", "192.168.0.7", "--poll", "x", "--items", "dishes.txt"], "--open"),
        (["--items", "dishes.txt"], "--poll"),
        (["--poll", "Where?"], "--items"),
        (["none.permrank"], "no file"),
        (["--admin-key", "short"], "hexadecimal"),
        (["--db", "none/a.sqlite"], "no folder"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, (arguments, result.output)
        assert said in result.output, (arguments, result.output)


def test_without_the_extra_the_command_says_how_to_install_it(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "fastapi" else found(name, *rest)
    )
    result = run("--demo")
    assert result.exit_code == 1
    assert "pip install 'permrank[serve]'" in result.output


def test_items_come_from_lines_and_tables(tmp_path):
    lines, table, bare = tmp_path / "a.txt", tmp_path / "a.csv", tmp_path / "b.csv"
    lines.write_text("Pizza; wood-fired\n\nRamen\tnoodles; in soup\n")
    assert [(one.title, one.about) for one in read_items(lines)] == [
        ("Pizza", "wood-fired"),
        ("Ramen", "noodles; in soup"),
    ]
    table.write_text('id,Title,about\np,"Pizza, large",hot\nr,Ramen,\n', encoding="utf-8-sig")
    assert [(one.id, one.title, one.about) for one in read_items(table)] == [
        ("p", "Pizza, large", "hot"),
        ("r", "Ramen", ""),
    ]
    bare.write_text("Pizza\nRamen\n")
    assert [one.title for one in read_items(bare)] == ["Pizza", "Ramen"]
    lines.write_text("only one\n")
    with pytest.raises(InputError, match=r"items"):
        poll_of("x", lines)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_one_command_starts_a_poll_with_links_and_ctrl_c_ends_it(tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from permrank.interfaces.cli.app import main; main()", "serve", "--demo"]
    command += ["--port", str(port), "--db", str(tmp_path / "a.sqlite"), "--admin-key", "new"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            until = time.monotonic() + 90.0
            while time.monotonic() < until:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
                        assert answer.status == 200
                    break
                except OSError:
                    time.sleep(0.1)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/polls")
        finally:
            server.send_signal(signal.SIGINT)
            output = server.communicate(timeout=120)[0]
    assert "What shall we cook?" in output
    link = re.search(r"vote: +(http://127.0.0.1:\d+/join/pr_\S+)", output)
    assert link, output
    assert "Traceback" not in output
