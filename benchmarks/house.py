"""What there is to know of the source: its size, what one part imports of another, and what a question runs through.

Run it before and after a change of structure. Nothing is timed; a journey is counted by `sys.setprofile`, on its second
run, so that neither imports nor compilation count.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import permrank as pr

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "permrank"
ONCE = ("Problem", "Passes", "Said", "Settings", "Lists", "Part", "State")
WIDE = 40  # lines of a function


def trees() -> dict[Path, ast.Module]:
    """Every source file, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def is_kernel(node: ast.AST) -> bool:
    """Whether a function is compiled."""
    if not isinstance(node, ast.FunctionDef):
        return False
    names = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(re.match(r"(numba\.)?njit|vectorize|guvectorize", name) for name in names)


def of_kernels(path: Path) -> bool:
    """Whether a file holds kernels: it is called so, or lies in a room that is."""
    return "kernels" in path.relative_to(SOURCE).with_suffix("").parts


def sizes(files: dict[Path, ast.Module]) -> Iterator[tuple[str, object]]:
    """Lines, files, classes, kernels, functions; names that are defined more than once."""
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    nodes = [(path, node) for path, tree in files.items() for node in ast.walk(tree)]
    classes = Counter(node.name for _, node in nodes if isinstance(node, ast.ClassDef))
    functions = [node for _, node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = sum(1 for node in functions if (node.end_lineno or 0) - node.lineno >= WIDE)
    yield "lines of src", sum(lines.values())
    yield "files of src", len(files)
    yield "classes", classes.total()
    yield "kernels", sum(is_kernel(node) for _, node in nodes)
    yield "functions", f"{len(functions)}, {long} over {WIDE} lines"
    yield (
        "lines of imports",
        sum(
            (node.end_lineno or 0) - node.lineno + 1
            for _, node in nodes
            if isinstance(node, (ast.Import, ast.ImportFrom))
        ),
    )
    yield "definitions", ", ".join(f"{name} {classes[name]}" for name in ONCE)
    outside = [path for path in files if not of_kernels(path)]
    spoken = sum(len(re.findall(r"\bAny\b", path.read_text(encoding="utf-8"))) for path in outside)
    yield "Any per 1,000 lines outside kernels", round(1000 * spoken / sum(lines[path] for path in outside), 1)
    yield (
        "lines of tests",
        sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")),
    )
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    yield (
        "words of docs and README",
        sum(len(p.read_text(encoding="utf-8").split()) for p in pages if "_build" not in p.parts),
    )


def family_of(module: str) -> str | None:
    """The family that a module belongs to, as permrank.families.NAME or permrank.models.NAME."""
    parts = module.split(".")
    inside = len(parts) > 3 and parts[0] == "permrank" and parts[1] in ("families", "models")
    return parts[2] if inside and SOURCE.joinpath(*parts[1:3]).is_dir() else None


def between_families(files: dict[Path, ast.Module]) -> Counter[tuple[str, str]]:
    """How often one family imports another."""
    found: Counter[tuple[str, str]] = Counter()
    for path, tree in files.items():
        own = family_of(".".join(("permrank", *path.relative_to(SOURCE).with_suffix("").parts)))
        for node in ast.walk(tree):
            if own and isinstance(node, ast.ImportFrom) and node.module:
                other = family_of(f"{node.module}.x")
                if other and other != own:
                    found[own, other] += 1
    return found


class Trace:
    """Counts files of permrank that are entered and Python calls that are made there, in all threads begun since."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls, self.on = 0, False
        threading.setprofile(self.look)
        sys.setprofile(self.look)

    def look(self, frame: Any, event: str, _: Any) -> None:
        """Count a call."""
        name = frame.f_code.co_filename
        if self.on and event == "call" and name.startswith(str(SOURCE)):
            self.files.add(name)
            self.calls += 1

    def of(self, ask: Callable[[], Any]) -> str:
        """What a question runs through, the second time that it is asked."""
        ask()
        self.files, self.calls, self.on = set(), 0, True
        ask()
        self.on = False
        return f"{len(self.files):3d} files, {self.calls:6,d} calls"


def journeys(folder: Path, trace: Trace) -> Iterator[tuple[str, str]]:
    """The questions that people ask first, each with what it runs through."""
    from permrank.interfaces.cli.app import app

    rankings = pr.datasets.load("simulated", n_users=60, n_items=30, list_length=(6, 9), ties=5, choice=1.0)
    rankings.to_frame().select("user", "item", "rating").write_csv(folder / "ratings.csv")
    ratings = pr.read(folder / "ratings.csv")
    user, items = ratings.user_ids[0], list(ratings.item_ids)[:5]
    popular = pr.Popularity().fit(ratings, verbose=False)
    factored = pr.FactoredPlackettLuce(3, max_iter=6).fit(ratings, verbose=False)

    def command(*words: str) -> Callable[[], Any]:
        def run() -> None:
            done = CliRunner().invoke(app, list(words))
            if done.exit_code:
                raise SystemExit(done.output)

        return run

    path, model = str(folder / "ratings.csv"), str(folder / "m.permrank")
    two = [pr.Popularity(), pr.Random()]
    yield 'pr.read("ratings.csv")', trace.of(lambda: pr.read(path))
    yield "Popularity.fit", trace.of(lambda: pr.Popularity().fit(ratings, verbose=False))
    yield "Popularity.recommend", trace.of(lambda: popular.recommend(user))
    small = pr.FactoredPlackettLuce(3, max_iter=6)
    yield "FactoredPlackettLuce.fit, 6 sweeps", trace.of(lambda: small.clone().fit(ratings, verbose=False))
    yield "FactoredPlackettLuce.rank, 5 items", trace.of(lambda: factored.rank(user, items))
    yield "fold_in, recommend", trace.of(lambda: factored.recommend(factored.fold_in(items)))
    yield "permrank fit", trace.of(command("fit", path, "-o", model))
    yield "permrank recommend", trace.of(command("recommend", model, str(user)))
    yield "compare, two trivial models", trace.of(lambda: pr.compare(two, ratings, protocol=pr.LeaveOut(2)))
    yield from of_the_service(folder, trace)


def of_the_service(folder: Path, trace: Trace) -> Iterator[tuple[str, str]]:
    """A ballot, and the result of its poll."""
    try:
        from fastapi.testclient import TestClient
    except ImportError as error:
        yield "a poll", f"not run: {error}"
        return
    from permrank.interfaces.server.app import create_app
    from permrank.interfaces.server.results import Ballots, GroupResult, Person
    from permrank.interfaces.server.settings import Settings

    dishes = ["toro", "ebi", "uni", "ika"]
    with TestClient(
        create_app(Settings(db=str(folder / "polls.sqlite"))), base_url="http://localhost", client=("127.0.0.1", 1)
    ) as client:
        made = client.post("/v1/polls", json={"title": "Where?", "items": [{"title": name} for name in dishes]}).json()
        path = f"/v1/polls/{made['id']}"
        key = client.post(f"{path}/people", json={"name": "ann"}).json()["key"]
        ids = [item["id"] for item in client.get(path).json()["items"]]
        body = {"answers": [{"kind": "list", "ranking": ids}]}
        headers = {"Authorization": f"Bearer {key}"}
        answered = client.post(f"{path}/answers", json=body, headers=headers)
        if answered.status_code >= 300:
            raise SystemExit(answered.text)
        post = trace.of(lambda: client.post(f"{path}/answers", json=body, headers=headers))
        yield "a ballot, until it is on disk", post
    people = {}
    for name, ranking in {"ann": dishes, "bob": dishes[::-1], "cat": dishes[1:]}.items():
        people[name] = Person()
        people[name].add("list", json.dumps([[item] for item in ranking]))
    items = [{"id": name, "title": name} for name in dishes]
    yield "the result of a poll", trace.of(lambda: GroupResult(items, Ballots(people, {}, 3, 3)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="leave the journeys out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    files = trees()
    for what, value in sizes(files):
        print(f"{what:40s} {value}")
    found = between_families(files)
    print(f"{'imports between families':40s} {found.total()}")
    for (own, other), times in found.most_common():
        print(f"{'':40s} {own} of {other}: {times}")
    if not options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            for what, value in journeys(Path(folder), Trace()):
                print(f"{what:40s} {value}", flush=True)


if __name__ == "__main__":
    main()
