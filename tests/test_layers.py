"""Imports go downwards only."""

import ast
from pathlib import Path

import permrank

SOURCE = Path(permrank.__file__).parent
FLOOR = {"types", "errors", "randomness"}
MAY_IMPORT = {
    "types": set(),
    "errors": set(),
    "randomness": {"errors", "types"},
    "kernels": set(),
    "data": FLOOR,
    "inference": FLOOR | {"kernels"},
    "models": FLOOR | {"kernels", "data", "inference"},
    "evaluation": FLOOR | {"kernels", "data", "models"},
    "interfaces": FLOOR | {"kernels", "data", "inference", "models", "evaluation"},
}
ONLY_IN_INTERFACES = {"typer", "fastapi", "ray"}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "permrank":
                yield from (f"permrank.{alias.name}" for alias in node.names)
            else:
                yield node.module


def violations(path, layer):
    for module in imported_modules(path):
        parts = module.split(".")
        if parts == ["permrank"] and layer != "interfaces":  # every layer can be had through it
            yield f"{path.name} ({layer}) imports permrank itself"
        elif parts[0] == "permrank" and len(parts) > 1 and not parts[1].startswith("__"):
            if parts[1] != layer and parts[1] not in MAY_IMPORT[layer]:
                yield f"{path.name} ({layer}) imports {module}"
        elif parts[0] in ONLY_IN_INTERFACES and layer != "interfaces":
            yield f"{path.name} ({layer}) imports {module}"


def test_every_layer_imports_only_what_lies_below_it():
    found = []
    for path in SOURCE.rglob("*.py"):
        layer = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if layer != "__init__":
            assert layer in MAY_IMPORT, f"{path} belongs to no layer"
            found += violations(path, layer)
    assert found == []


def test_an_import_upwards_is_noticed(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from permrank.models.base import Ranker\nimport typer\nimport permrank as pr\n")
    assert len(list(violations(wrong, "data"))) == 3
    assert list(violations(wrong, "interfaces")) == []
