"""Imports go down only, from `cli` to `arrays`, and no module imports one that imports it, lazily or not.

No test file imports another test file: what tests share is in tests/support.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gpuanon

PACKAGE = Path(__file__).resolve().parents[1] / "gpuanon"
ROOMS = (
    "version",
    "visible",
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
    "__main__",
)


def module_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# The package's own face loads every public name.
MODULES = {module_of(path): path for path in sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})}


def room_of(module):
    return module.split(".")[1]


def imported_from(module, name, modules):
    """The module that ``from module import name`` needs: a submodule, or where a public name of the package stands."""
    if f"{module}.{name}" in modules:
        return f"{module}.{name}"
    return gpuanon._PUBLIC[name][0] if module == "gpuanon" else module


def imports(text, modules=MODULES):
    """Every module of the package that a text imports, wherever in it: lazily or for types only too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            if module.split(".")[0] == "gpuanon":
                yield from (imported_from(module, alias.name, modules) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name != "gpuanon", "the package's face hides which room is meant"
                if alias.name.startswith("gpuanon."):
                    yield alias.name


def cycle_in(graph):
    """Modules that import each other, in a row; none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


GRAPH = {module: set(imports(path.read_text())) - {module} for module, path in MODULES.items()}


def test_every_file_stands_in_a_room():
    assert {room_of(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module):
    for imported in GRAPH[module]:
        assert ROOMS.index(room_of(imported)) <= ROOMS.index(room_of(module)), f"{module} imports {imported}"


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_of_a_room_imports_one_that_imports_it(room):
    within = {module: {other for other in GRAPH[module] if room_of(other) == room} for module in MODULES}
    assert not cycle_in({module: others for module, others in within.items() if room_of(module) == room})


def test_no_module_imports_one_that_imports_it():
    assert not cycle_in(GRAPH)


def test_the_package_imports_no_module_that_imports_it_back():
    face = set(imports((PACKAGE / "__init__.py").read_text().split("if TYPE_CHECKING")[0]))
    assert face == {"gpuanon.version"}
    assert not GRAPH["gpuanon.version"]


def test_imports_that_hide_are_seen():
    lazy = "def f():\n    from gpuanon import report_html\n    import gpuanon.engine.protect"
    assert set(imports(lazy)) == {"gpuanon.report.page", "gpuanon.engine.protect"}
    assert set(imports("if TYPE_CHECKING:\n    from gpuanon.engine import tasks")) == {"gpuanon.engine.tasks"}
    assert set(imports("from gpuanon.arrays.backend import choose")) == {"gpuanon.arrays.backend"}
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})


TESTS = sorted(Path(__file__).resolve().parent.rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_no_test_file_imports_another(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules += [alias.name for alias in node.names]
        for module in modules:
            assert not module.split(".")[-1].startswith("test_"), f"{path.name} imports {module}: use tests/support"
