"""Imports go downwards only, between layers and between the rooms of a layer."""

import ast
from pathlib import Path

import permrank

SOURCE = Path(permrank.__file__).parent
FLOOR = ["types", "errors", "randomness", "checks", "processes", "ragged", "markup"]
READS = [*FLOOR, "data", "learning", "distributions"]
# Every room may import the rooms that it names, all of them above it in this table: so there is no cycle.
MAY_IMPORT = {
    "types": [],
    "errors": [],
    "randomness": ["errors", "types"],
    "checks": ["errors"],
    "processes": ["errors"],
    "ragged": ["types"],
    "markup": [],
    "storage": FLOOR,
    "kernels": [],
    "kernels.plackett_luce": ["kernels"],
    "kernels.factored": ["kernels", "kernels.plackett_luce"],
    "kernels.latent": ["kernels"],
    "kernels.log_linear": ["kernels", "kernels.factored"],
    "kernels.thurstone": ["kernels"],
    "kernels.pairwise": ["kernels"],
    "kernels.matrix": ["kernels"],
    "kernels.distance": ["kernels"],
    "kernels.catalogue": ["kernels"],
    "data": FLOOR,
    "data.formats": [*FLOOR, "storage", "data"],
    "data.datasets": [*FLOOR, "data", "data.formats"],
    "learning": [*FLOOR, "storage", "kernels", "data"],
    "distributions": [
        *FLOOR, "kernels.plackett_luce", "kernels.latent", "kernels.log_linear", "kernels.distance",
        "kernels.thurstone",
    ],
    "models": [*READS, "storage", "kernels", "kernels.pairwise"],
    "models.priors": [*READS, "kernels"],
    "models.baselines": [*READS, "models"],
    "models.plackett_luce": [*READS, "kernels.plackett_luce", "models", "models.priors"],
    "models.factored": [*READS, "kernels", "kernels.factored", "kernels.plackett_luce", "models", "models.priors"],
    "models.latent": [*READS, "kernels", "kernels.latent", "models", "models.plackett_luce"],
    "models.log_linear": [
        *READS, "kernels", "kernels.factored", "kernels.log_linear", "models", "models.priors", "models.factored",
    ],
    "models.pairwise": [*READS, "kernels", "kernels.pairwise", "models", "models.priors", "models.plackett_luce"],
    "models.matrix": [
        *READS, "kernels.matrix", "kernels.plackett_luce", "models", "models.baselines", "models.plackett_luce",
    ],
    "models.distance": [*READS, "kernels.distance", "models"],
    "models.spectral": [*READS, "kernels", "models"],
    "models.thurstone": [
        *READS, "kernels", "kernels.factored", "kernels.thurstone", "models", "models.priors", "models.factored",
    ],
    "models.catalogue": [
        *READS, "kernels.catalogue", "models", "models.priors", "models.factored",
    ],
    "evaluation": [*READS, "storage", "kernels", "data.formats", "models", "models.priors"],
    "testing": [*READS, "models", "evaluation"],
    "interfaces": [*READS, "data.formats", "evaluation", "models"],
    "interfaces.plots": [
        *READS, "storage", "evaluation", "models", "models.log_linear", "models.spectral", "interfaces",
    ],
    "interfaces.report": [*FLOOR, "storage", "evaluation", "interfaces"],
    "interfaces.server": [
        *READS, "data.datasets", "models", "models.plackett_luce", "models.thurstone", "models.catalogue",
        "models.latent", "evaluation", "storage", "interfaces",
    ],
    "interfaces.cli": [
        *READS, "storage", "kernels", "data.formats", "data.datasets", "models", "models.plackett_luce",
        "models.latent", "evaluation", "interfaces", "interfaces.report", "interfaces.plots",
        "interfaces.server",
    ],
}  # fmt: skip
# `Rankings.write` and `Comparison.report` are where people look for them, and call what writes when they are used.
UPWARDS = {
    ("data.rankings", "permrank.data.formats.writers"),
    ("evaluation.comparison", "permrank.interfaces.report.report"),
}
ONLY_IN = {
    "jinja2": "interfaces",
    "markupsafe": "interfaces",
    "typer": "interfaces",
    "fastapi": "interfaces.server",
    "starlette": "interfaces.server",
    "uvicorn": "interfaces.server",
    "pydantic": "interfaces.server",
    "ray": "learning",
    "pytest": "testing",
    "mpmath": "testing",
}


def imported_modules(path):
    """Modules that a file imports, lazily or not, for types or for use."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                if alias.name.startswith("__"):  # the version
                    continue
                full = f"{node.module}.{alias.name}"
                is_module = module_path(full).exists() or module_path(full).with_suffix("").is_dir()
                yield full if is_module else node.module


def module_path(module):
    return SOURCE.joinpath(*module.split(".")[1:]).with_suffix(".py")


def room_of(module):
    """The longest room that a module of ours lies in; None for what belongs to no room."""
    parts = module.split(".")[1:]
    return next((".".join(parts[:n]) for n in (2, 1) if ".".join(parts[:n]) in MAY_IMPORT), None)


def violations(path, module):
    room = room_of(module)
    for imported in imported_modules(path):
        if imported == "permrank" and not room.startswith("interfaces"):  # every room can be had through it
            yield f"{module} imports permrank itself"
        elif imported.startswith("permrank."):
            other = room_of(imported)
            allowed = other is None or other == room or other in MAY_IMPORT[room]
            if not allowed and (module.removeprefix("permrank."), imported) not in UPWARDS:
                yield f"{module} ({room}) imports {imported}"
        elif not room.startswith(ONLY_IN.get(imported.split(".")[0], "")):
            yield f"{module} ({room}) imports {imported}"


def modules():
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            yield path, ".".join(("permrank", *parts))


def test_every_room_imports_only_what_lies_below_it():
    found = []
    for path, module in modules():
        assert room_of(module) in MAY_IMPORT, f"{module} belongs to no room"
        found += violations(path, module)
    assert found == []


def test_the_table_has_no_cycle_and_names_every_folder():
    rooms = list(MAY_IMPORT)
    for n, (room, below) in enumerate(MAY_IMPORT.items()):
        assert set(below) <= set(rooms[:n]), room
    folders = {path.parent.relative_to(SOURCE) for path, _ in modules()} - {Path()}
    assert {".".join(folder.parts) for folder in folders} <= set(rooms)


def test_what_the_table_allows_is_needed():
    used = {(room_of(module), room_of(name)) for path, module in modules() for name in imported_modules(path)
            if name.startswith("permrank.")}  # fmt: skip
    general = set(READS)
    unused = [(room, below) for room, all_below in MAY_IMPORT.items() for below in all_below
              if below not in general and (room, below) not in used]  # fmt: skip
    assert unused == []


def test_an_import_upwards_is_noticed(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from permrank.models.ranker import Ranker\nimport typer\nimport permrank as pr\n")
    assert len(list(violations(wrong, "permrank.data.wrong"))) == 3
    assert list(violations(wrong, "permrank.interfaces.cli.wrong")) == []
    wrong.write_text("def later():\n    from permrank.models.latent.model import LatentPlackettLuce\n")
    assert len(list(violations(wrong, "permrank.models.factored.wrong"))) == 1
    wrong.write_text("from permrank.models.latent import model\n")
    assert len(list(violations(wrong, "permrank.models.factored.wrong"))) == 1
    assert list(violations(wrong, "permrank.models.latent.wrong")) == []
    wrong.write_text("import pytest\n")
    assert len(list(violations(wrong, "permrank.interfaces.cli.wrong"))) == 1
    assert list(violations(wrong, "permrank.testing.wrong")) == []
