"""Parallel kernels write into arrays that are arguments of their own, never into fields of tuples."""

import ast
from pathlib import Path

import permrank

PACKAGE = Path(permrank.__file__).parent
SOURCES = sorted({*PACKAGE.rglob("kernels/**/*.py"), *PACKAGE.rglob("kernels.py")})


def is_parallel(function):
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call)]
    return any(word.arg == "parallel" for call in calls for word in call.keywords)


def targets(node):
    found = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [leaf for one in found for leaf in (one.elts if isinstance(one, ast.Tuple) else [one])]


def writes_into_fields(source):
    """`a.b[i] = ...` in a parallel kernel, and `c[i] = ...` where c = a.b (numba issues 5872, 7135, 10338)."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not (isinstance(function, ast.FunctionDef) and is_parallel(function)):
            continue
        assigned = [node for node in ast.walk(function) if isinstance(node, (ast.Assign, ast.AugAssign))]
        fields = set()
        for node in assigned:
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            names = targets(node)
            if len(names) == len(values):
                pairs = zip(names, values, strict=True)
                fields |= {n.id for n, v in pairs if isinstance(n, ast.Name) and isinstance(v, ast.Attribute)}
            elif isinstance(node.value, ast.Name):  # unpacked
                fields |= {n.id for n in names if isinstance(n, ast.Name)}
        for target in (leaf for node in assigned for leaf in targets(node)):
            if isinstance(target, ast.Subscript):
                array = target.value
                if isinstance(array, ast.Attribute) or (isinstance(array, ast.Name) and array.id in fields):
                    found.append(f"{function.name}: {ast.unparse(target)}")
    return found


def test_no_parallel_kernel_writes_into_a_field():
    found = {str(path): writes_into_fields(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: writes for name, writes in found.items() if writes} == {}


def test_such_writes_are_found():
    head = "@njit(parallel=True)\ndef f(a):\n    for i in prange(3):\n        "
    assert writes_into_fields(head + "a.b[i] = 1") == ["f: a.b[i]"]
    assert writes_into_fields(head + "x, c = 1, a.b\n        c[i] += 1") == ["f: c[i]"]
    assert writes_into_fields(head + "b, c = a\n        c[i] += 1") == ["f: c[i]"]
    assert writes_into_fields(head + "a[i] = 1") == []
