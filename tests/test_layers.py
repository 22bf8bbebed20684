"""Imports go down only, from `cli` to `arrays`, and no module imports one that imports it, lazily or not.

A file with one importer is a member of a registry, stands in the folder of an algorithm, or has a reason below.
No test file imports another test file: what tests share is in tests/support.
"""

from __future__ import annotations

import ast
from collections import Counter
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


TYPE_IGNORES = 12

SAME_NAME = {
    "Check": "of the doctor, and of a verdict in the report",
    "Moved": "an outcome of a mask, and how far a column moved in the report",
    "Point": "of a verdict, and of a grid of comparisons",
}
"""Public classes of one name that are still to be renamed."""

ONE_IMPORTER = {
    "gpuanon.arrays.compiled_sorting": "compiled twin, loaded where Numba is installed",
    "gpuanon.assessing.risk.auto_target": "loaded by a run with an automatic target only",
    "gpuanon.cli.app": "entry point of the command line",
    "gpuanon.cli.demo": "a command that loads what others do not need",
    "gpuanon.cli.schemas": "published forms, loaded by one command",
    "gpuanon.comparing.files": "a command that loads what others do not need",
    "gpuanon.comparing.grid": "to be folded",
    "gpuanon.comparing.running": "to be folded",
    "gpuanon.comparing.trials": "tasks of worker processes",
    "gpuanon.engine.automatic": "loads measures, which a run without an automatic target does not need",
    "gpuanon.engine.checking": "a command that loads what others do not need",
    "gpuanon.engine.verdict": "loads measures",
    "gpuanon.engine.workers.clusters": "loads Dask",
    "gpuanon.engine.workers.processes": "workers of comparisons",
    "gpuanon.proposing.content": "to be folded",
    "gpuanon.proposing.dialogue": "a command that loads what others do not need",
    "gpuanon.proposing.words": "a vocabulary",
    "gpuanon.report.figures": "loads matplotlib",
    "gpuanon.report.verdict": "to be folded",
    "gpuanon.tables.formats.csv.csv_dialect": "belongs to the format that it detects",
    "gpuanon.tables.registry": "the made-up table of the demonstration, tests and benchmarks",
}
"""Files with one importer, each with its reason."""


def registered():
    """Modules of all members of registries: what the package, its commands, measures, formats and masks are made of."""
    from gpuanon.assessing import measures
    from gpuanon.cli.app import app
    from gpuanon.masking.bases import BASES
    from gpuanon.masking.groups import GROUPS
    from gpuanon.masking.methods import METHODS
    from gpuanon.masking.operations import OPERATIONS
    from gpuanon.tables.doors import DOORS
    from gpuanon.tables.formats import FORMATS

    members = {module for module, _ in gpuanon._PUBLIC.values()}
    members |= {command.callback.__module__ for command in app.registered_commands}
    members |= {f"gpuanon.assessing.{place.rpartition('.')[0]}" for place in measures._PLACES.values()}
    members |= {f"gpuanon.tables.formats.{place.rpartition('.')[0]}" for place in FORMATS.values()}
    members |= {f"gpuanon.tables.doors.{place.rpartition('.')[0]}" for place in DOORS.values()}
    return members | {part.__module__ for parts in (BASES, GROUPS, METHODS, OPERATIONS) for part in parts.values()}


def test_a_file_with_one_importer_has_a_reason():
    members = registered()
    families = ("masking.bases", "masking.groups", "masking.operations", "masking.methods", "assessing.risk")
    shelves = {f"gpuanon.{name}" for name in (*ROOMS, *families, "assessing.utility", "tables.formats", "tables.doors")}
    alone = set()
    for module, path in MODULES.items():
        importers = [other for other, imported in GRAPH.items() if module in imported]
        folder = module.rpartition(".")[0]
        of_algorithm = folder not in shelves and all(f"{one}.".startswith(f"{folder}.") for one in importers)
        if len(importers) == 1 and path.name != "__init__.py" and module not in members and not of_algorithm:
            alone.add(module)
    assert alone <= set(ONE_IMPORTER), "fold them into their importers"


def test_no_two_public_classes_have_one_name():
    classes = Counter(
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in classes.items() if count > 1} <= set(SAME_NAME)


def test_few_lines_hide_from_the_type_checker():
    assert sum(path.read_text().count("type: ignore") for path in MODULES.values()) <= TYPE_IGNORES


TESTS = sorted(Path(__file__).resolve().parent.rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_no_test_file_imports_another(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules += [alias.name for alias in node.names]
        for module in modules:
            assert not module.split(".")[-1].startswith("test_"), f"{path.name} imports {module}: use tests/support"
