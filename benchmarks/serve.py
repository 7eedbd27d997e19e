"""Load on ``permrank serve`` over loopback, with a bounded number of requests; and kills in the middle of it.

    python benchmarks/serve.py --model ml-1m.permrank    # fold-in and ten best, durable answers, next question, start
    python benchmarks/serve.py --kills 100               # kill -9 under load; what was acknowledged must be there
    python benchmarks/serve.py --attack 20               # seconds: one address uses its whole rate on a large poll,
                                                         # and somebody else asks for the result of a small one

The clients run in this process, on the same cores as the server: what is printed is what both can do together.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A server in processes of its own."""

    def __init__(self, folder, model=None, workers=1, rate=0):
        self.port, self.db = free_port(), Path(folder) / "answers.sqlite"
        command = [sys.executable, "-c", "from permrank.interfaces.cli.app import main; main()", "serve"]
        command += [str(model)] if model else []
        command += ["--db", str(self.db), "--port", str(self.port), "--rate", str(rate), "--workers", str(workers)]
        began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, start_new_session=True)
        self.base = f"http://127.0.0.1:{self.port}"
        self.wait("/health/live")
        self.began = began

    def wait(self, path, seconds=120.0):
        """Wait until an address answers."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            try:
                with urllib.request.urlopen(self.base + path, timeout=5) as answer:
                    return answer.status
            except OSError:
                time.sleep(0.02)
        raise TimeoutError(path)

    def ask(self, method, path, body=None, key=None):
        """One request."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.base + path, data, headers, method=method)) as answer:
            return json.load(answer)

    def memory(self):
        """Resident megabytes of the web process, and of the process that learns."""
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        found = {}
        for pid in [self.process.pid, *map(int, children.stdout.split())]:
            status = Path(f"/proc/{pid}/status")
            if status.exists():
                lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
                found[pid] = int(lines.get("VmRSS", "0 kB").split()[0]) / 1024
        return found

    def processor(self):
        """Processor seconds of the web processes so far."""
        learner = [pid for pid in self.memory() if "refit" in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")]
        total = 0.0
        for pid in self.memory():
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(") ", 1)[1].split()
            total += 0.0 if pid in learner else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def kill(self):
        """End all its processes at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()


async def request(reader, writer, method, path, body, key=None):
    """One request on an open connection: status and body."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n"
    head += "Content-Type: application/json\r\n" + (f"Authorization: Bearer {key}\r\n" if key else "") + "\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = next(int(line.split(":")[1]) for line in header.lower().splitlines() if line.startswith("content-length"))
    return int(header.split(" ", 2)[1]), await reader.readexactly(length)


async def load(port, n_clients, n_requests, make, acknowledged=None):
    """Seconds of every request, and of all; ``make(client, n)`` gives method, path, body and key."""
    times, left = [], iter(range(n_requests))

    async def client(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in left:
            began = time.perf_counter()
            method, path, body, key = make(number, n)
            status, answer = await request(reader, writer, method, path, body, key)
            times.append(time.perf_counter() - began)
            if status not in (200, 201):
                raise RuntimeError(f"{status}: {answer[:300]!r}")
            if acknowledged is not None:
                acknowledged.append(n)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(n_clients)))
    return times, time.perf_counter() - began


def measured(what, server, n_clients, n_requests, make):
    """Rate and times as a client sees them; and what the server's processors spent, which others do not change."""
    before = server.processor()
    times, seconds = asyncio.run(load(server.port, n_clients, n_requests, make))
    spent = 1e3 * (server.processor() - before) / len(times)
    p99 = sorted(times)[int(0.99 * len(times))]
    told = f"median {1e3 * statistics.median(times):6.1f} ms   p99 {1e3 * p99:6.1f} ms   processor {spent:.2f} ms each"
    print(f"{what:42} {len(times) / seconds:8.0f} a second   {told}", flush=True)


def measure(options):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, options.model, options.workers)
        for _ in range(1 if options.workers == 1 else 20):  # connections go to any of the web processes
            server.wait("/health/ready")
        seconds, spent = time.perf_counter() - server.began, server.processor()
        print(f"{'start until ready':42} {seconds:8.1f} s          processor {spent:.1f} s", flush=True)
        try:
            if options.model:
                fold_in(server, options)
            answers(server, options)
            question(server)
            for pid, megabytes in server.memory().items():
                role = "web process" if pid == server.process.pid else "other process"
                print(f"{'memory, ' + role:42} {megabytes:8.0f} MB")
        finally:
            server.stop()


def fold_in(server, options):
    found = server.ask("GET", "/v1/model/items?limit=1000")["items"]
    rng = random.Random(0)
    lists = [[one["item"] for one in rng.sample(found, 10)] for _ in range(256)]

    def make(client, n):
        return "POST", "/v1/model/recommend", {"ranking": lists[n % len(lists)], "k": 10}, None

    asyncio.run(load(server.port, options.clients, 200, make))
    measured("fold-in of ten and ten best", server, options.clients, options.requests, make)


def people(server, n, items=10):
    made = server.ask("POST", "/v1/polls", {"title": "load", "items": [{"title": f"item {k}"} for k in range(items)]})
    keys = [server.ask("POST", f"/v1/polls/{made['id']}/people", {}, made["keys"]["vote"])["key"] for _ in range(n)]
    return made["id"], keys


def pair(poll, keys, tag="k"):
    def make(client, n):
        answer = {"kind": "pair", "better": f"item {n % 9}", "worse": "item 9", "key": f"{tag}{n}"}
        return "POST", f"/v1/polls/{poll}/answers", {"answers": [answer]}, keys[client]

    return make


def answers(server, options):
    poll, keys = people(server, options.clients)
    measured("durable answers", server, options.clients, options.requests, pair(poll, keys))
    stored = sqlite3.connect(server.db).execute("SELECT count(*) FROM answers WHERE poll = ?", (poll,)).fetchone()[0]
    print(f"{'  of these in the file':42} {stored:8d}")


def question(server):
    poll, keys = people(server, 3, items=1000)
    rng = random.Random(1)
    for key in keys:
        ranking = [f"item {k}" for k in rng.sample(range(1000), 50)]
        server.ask("POST", f"/v1/polls/{poll}/answers", {"answers": [{"kind": "list", "ranking": ranking}]}, key)

    def make(client, n):
        return "GET", f"/v1/polls/{poll}/question", None, keys[0]

    asyncio.run(load(server.port, 1, 2, make))
    measured("next question, 1,000 items, one client", server, 1, 40, make)


async def attack(server, poll, keys, seconds, statuses):
    """All that one address, 127.0.0.2, is let have, by 40 people: 200 requests at once, then 50 a second.

    Nobody waits for an answer before the next request is sent; so many connections are open.
    """
    rng, began = random.Random(3), time.perf_counter()

    async def one(n):
        key, (method, what) = (
            keys[n // 3 % len(keys)],
            (("POST", "answers"), ("GET", "question"), ("GET", "result"))[n % 3],
        )
        order = [f"item {k}" for k in rng.sample(range(1000), 1000)]
        ranking = {"kind": "tiers", "ranking": [order[:500], order[500:]]}  # what takes longest
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
        method, body = ("POST", {"answers": [ranking]}) if what == "answers" else ("GET", None)
        status = "no answer"  # until the end
        try:
            status, _ = await request(reader, writer, method, f"/v1/polls/{poll}/{what}", body, key)
        finally:
            statuses.append(status)
            writer.close()

    n, work = 0, []
    while (now := time.perf_counter() - began) < seconds:
        for at in range(n, 200 + int(50 * now)):
            work.append(asyncio.create_task(one(at)))
            n += 1
        await asyncio.sleep(0.02)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)


async def victim(server, poll, key, until, times):
    """Sends an answer and asks for the result, twice a second, from another address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    while time.perf_counter() < until:
        n = len(times)
        answer = {"kind": "pair", "better": f"item {n % 9}", "worse": "item 9"}
        await request(reader, writer, "POST", f"/v1/polls/{poll}/answers", {"answers": [answer]}, key)
        began = time.perf_counter()
        status, found = await request(reader, writer, "GET", f"/v1/polls/{poll}/result", None, key)
        times.append(time.perf_counter() - began)
        if status != 200 or json.loads(found)["answers"] != n + 1:
            raise RuntimeError(f"{status}: {found[:300]!r}")
        await asyncio.sleep(0.5)
    writer.close()


def attacked(options):
    """How long one waits for the result of a poll while another poll is attacked."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, workers=options.workers, rate=50)
        try:
            server.wait("/health/ready")
            large, keys = people(server, 40, items=1000)
            small, (key,) = people(server, 1)
            time.sleep(5.0)  # the rate of this address fills up

            async def both():
                times, statuses = [], []
                await asyncio.gather(
                    attack(server, large, keys, options.attack, statuses),
                    victim(server, small, key, time.perf_counter() + options.attack, times),
                )
                return times, statuses

            before = server.processor()
            times, statuses = asyncio.run(both())
            spent = server.processor() - before
        finally:
            server.kill()
    codes = ", ".join(f"{statuses.count(code)} times {code}" for code in sorted(set(statuses), key=str))
    print(f"in {options.attack:g} s the attacker had {codes}; the server used {spent:.1f} s of processor")
    print(
        f"result of another poll: median {statistics.median(times):.3f} s, longest {max(times):.3f} s of {len(times)}"
    )


async def killed_under_load(server, n_clients, make, got, wait):
    """Send answers without end, and kill the server after a while; ``got`` has what was acknowledged."""
    work = asyncio.create_task(load(server.port, n_clients, 10**6, make, got))
    await asyncio.sleep(wait)
    server.kill()
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await work


def kills(options):
    """Kill the server under load, again and again; every acknowledged answer must be in the file."""
    rng, acknowledged, lost = random.Random(2), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        poll = keys = None
        for turn in range(options.kills):
            server = Server(folder)
            if poll is None:
                poll, keys = people(server, options.clients)
            got: list[int] = []
            asyncio.run(
                killed_under_load(server, options.clients, pair(poll, keys, f"{turn}-"), got, rng.uniform(0.2, 1.5))
            )
            rows = sqlite3.connect(server.db).execute("SELECT client_key FROM answers WHERE poll = ?", (poll,))
            there = {row[0] for row in rows}
            lost += sum(f"{turn}-{n}" not in there for n in got)
            acknowledged += len(got)
            if turn % 10 == 9:
                print(f"{turn + 1} kills, {acknowledged:,} acknowledged, {lost} lost", flush=True)
            sound = sqlite3.connect(server.db).execute("PRAGMA integrity_check").fetchone()[0]
            if sound != "ok":
                raise RuntimeError(sound)
    print(f"{options.kills} kills, {acknowledged:,} answers acknowledged, {lost} of them lost")
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model file, such as one of ML-1M")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=6_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0, help="so many kills, and nothing else")
    parser.add_argument("--attack", type=float, default=0.0, help="so many seconds of an attack, and nothing else")
    options = parser.parse_args()
    if options.attack:
        attacked(options)
        return
    if options.kills:
        sys.exit(1 if kills(options) else 0)
    measure(options)


if __name__ == "__main__":
    main()
