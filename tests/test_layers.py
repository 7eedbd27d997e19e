"""Imports go downwards only, between layers and between the rooms of a layer."""

import ast
import sys
from pathlib import Path

import permrank

SOURCE = Path(permrank.__file__).parent
FLOOR = ["types", "errors", "randomness", "checks", "processes", "ragged", "markup"]
LOW = [*FLOOR, "kernels", "rankings", "files", "learning"]
# A room may import itself, kernels, and the rooms that it names, all of them above it here: so there is no cycle. A
# family may import what all of them share, its own folder, and the relatives that `RELATIVES` names. A file that is
# called kernels.py, or lies in a folder called kernels, may import NumPy, Numba and other kernels, and nothing else.
MAY_IMPORT = {
    **{name: FLOOR[:n] for n, name in enumerate(FLOOR)},
    "kernels": [],
    "rankings": FLOOR,
    "files": [*FLOOR, "rankings"],
    "learning": [*FLOOR, "kernels", "rankings", "files"],
    "core": LOW,
    "inference": [*LOW, "core"],
    "posterior": [*LOW, "core"],
    "families": [*LOW, "core", "inference", "posterior"],
    "evaluation": [*LOW, "core", "inference", "posterior"],
    "testing": [*LOW, "core", "families", "evaluation"],
    "interfaces": [*LOW, "core", "inference", "families", "evaluation"],
}
RELATIVES = {
    "catalogue": ["factored"],
    "latent": ["plackett_luce"],
    "matrix": ["baselines"],
}
# These are where people look for them, and call what lies above them when they are used.
UPWARDS = {
    ("core.registry", "permrank.families"),  # the list of names
    ("core.questions", "permrank.interfaces.plots"),
    ("rankings.rankings", "permrank.files.formats"),
    ("evaluation.comparison", "permrank.interfaces.report.report"),
}
# The service is built on what everybody can import: the package, the floor, how files are written, how text is printed.
SERVICE = "permrank.interfaces.server"
SERVICE_MAY_IMPORT = ["permrank", *(f"permrank.{name}" for name in FLOOR)]
SERVICE_MAY_IMPORT += ["permrank.files.atomic", "permrank.files.container", "permrank.interfaces.output"]
# What kernels import that is not ours; `kernels.jit` is Python around the compiler.
WITH_KERNELS = {*sys.stdlib_module_names, "numba", "numpy"}
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    """The folder or file of the package that a module lies in."""
    return module.split(".")[1]


def family_of(module):
    parts = module.split(".")
    return parts[2] if parts[1] == "families" and len(parts) > 2 else None


def is_kernel(module):
    return "kernels" in module.split(".")


def may(module, imported):
    """Whether one module of ours may import another."""
    if module.startswith(SERVICE):
        return imported.startswith(SERVICE) or imported in SERVICE_MAY_IMPORT
    room, other, families = room_of(module), room_of(imported), (family_of(module), family_of(imported))
    if is_kernel(module):
        return (
            is_kernel(imported)
            and (other == "kernels" or other == room or room == "families")
            and may_be_related(*families)
        )
    if room == other == "families":
        return may_be_related(*families)
    return other == room or other in MAY_IMPORT[room]


def may_be_related(family, other):
    return family is None or other in (None, family, *RELATIVES.get(family, []))


def violations(path, module):
    for imported in imported_modules(path):
        if imported == "permrank" and room_of(module) != "interfaces":  # every room can be had through it
            yield f"{module} imports permrank itself"
        elif imported.startswith("permrank."):
            if not may(module, imported) and (module.removeprefix("permrank."), imported) not in UPWARDS:
                yield f"{module} imports {imported}"
        else:
            package = imported.split(".")[0]
            bare = is_kernel(module) and room_of(module) != "kernels"
            if not module.startswith("permrank." + ONLY_IN.get(package, "")) or (bare and package not in WITH_KERNELS):
                yield f"{module} imports {imported}"


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


def private_names(path):
    """Attributes with an underscore of anything that is not defined in the file itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not mine and node.attr not in own:
                found.add(node.attr)
    return found


def test_the_service_uses_no_private_name():
    for path, module in modules():
        if module.startswith(SERVICE):
            assert private_names(path) <= {"_asdict", "_replace"}, module


def test_the_table_has_no_cycle():
    for table in (MAY_IMPORT, RELATIVES):
        rooms = list(table)
        for n, (room, below) in enumerate(table.items()):
            assert not set(below) & set(rooms[n:]), room


def test_what_the_table_allows_is_needed():
    imported = [(module, name) for path, module in modules() for name in imported_modules(path)]
    used = {(family_of(module), family_of(name)) for module, name in imported if name.startswith("permrank.")}
    used |= {(room_of(module), room_of(name)) for module, name in imported if name.startswith("permrank.")}
    allowed = {(room, below) for room, all_below in MAY_IMPORT.items() for below in all_below if below not in LOW}
    allowed |= {(family, relative) for family, relatives in RELATIVES.items() for relative in relatives}
    assert allowed - used == set()


def test_an_import_upwards_is_noticed(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from permrank.core.ranker import Ranker\nimport typer\nimport permrank as pr\n", encoding="utf-8")
    assert len(list(violations(wrong, "permrank.rankings.wrong"))) == 3
    assert list(violations(wrong, "permrank.interfaces.cli.wrong")) == []
    wrong.write_text(
        "def later():\n    from permrank.families.latent.model import LatentPlackettLuce\n", encoding="utf-8"
    )
    assert len(list(violations(wrong, "permrank.families.factored.wrong"))) == 1
    wrong.write_text("from permrank.families.latent import model\n", encoding="utf-8")
    assert len(list(violations(wrong, "permrank.families.factored.wrong"))) == 1
    assert list(violations(wrong, "permrank.families.latent.wrong")) == []
    wrong.write_text("import pytest\n", encoding="utf-8")
    assert len(list(violations(wrong, "permrank.interfaces.cli.wrong"))) == 1
    assert list(violations(wrong, "permrank.testing.wrong")) == []
    wrong.write_text("from permrank.families.latent.model import LatentPlackettLuce\n", encoding="utf-8")
    assert len(list(violations(wrong, "permrank.families.latent.kernels"))) == 1
    wrong.write_text(
        "from permrank.families.latent.kernels.stages import BY_LIST\nfrom permrank.kernels.jit import njit\n",
        encoding="utf-8",
    )
    assert list(violations(wrong, "permrank.families.latent.kernels.wrong")) == []
    assert len(list(violations(wrong, "permrank.kernels.wrong"))) == 1
    for name in ("core.ranker", "families.mallows.model", "evaluation.compare", "rankings.rankings", "posterior.chain"):
        wrong.write_text(f"def later():\n    import permrank.{name}\n", encoding="utf-8")
        assert len(list(violations(wrong, "permrank.interfaces.server.wrong"))) == 1
    wrong.write_text(
        "import permrank as pr\nfrom permrank.errors import InputError\nfrom permrank.types import Array\n",
        encoding="utf-8",
    )
    assert list(violations(wrong, "permrank.interfaces.server.wrong")) == []
    wrong.write_text("def f(a, b):\n    return a._learnt + b.fitted_._derived + self._own\n", encoding="utf-8")
    assert private_names(wrong) == {"_learnt", "_derived"}
    wrong.write_text("import polars\n", encoding="utf-8")
    assert len(list(violations(wrong, "permrank.posterior.kernels.wrong"))) == 1
