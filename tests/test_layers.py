"""Imports go down only, from `cli` to `arrays`.

No test file imports another test file: what tests share is in tests/support.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "gpuanon"
ROOMS = (
    "errors",
    "arrays",
    "numerics",
    "tables",
    "masking",
    "assessing",
    "recipe",
    "report",
    "engine",
    "proposing",
    "comparing",
    "cli",
)
FILES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})  # the package's own face loads every public name


def rank(room):
    return ROOMS.index("comparing" if room in ("report", "engine", "proposing") else room)


def room_of(module):
    return module.split(".")[1]


def module_of(path):
    return ".".join(("gpuanon", *path.relative_to(PACKAGE).with_suffix("").parts))


def imports(path):
    """Every module of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpuanon."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("gpuanon."))


def test_every_file_stands_in_a_room():
    assert {room_of(module_of(path)) for path in FILES} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_down(path):
    own = rank(room_of(module_of(path)))
    for imported in imports(path):
        assert rank(room_of(imported)) <= own, f"{module_of(path)} imports {imported}"


TESTS = sorted(Path(__file__).resolve().parent.rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_no_test_file_imports_another(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules += [alias.name for alias in node.names]
        for module in modules:
            assert not module.split(".")[-1].startswith("test_"), f"{path.name} imports {module}: use tests/support"
