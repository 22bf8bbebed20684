"""Compiled functions by their declarations.

Inner ones have no way in for Python, which would crash if it called one: only compiled functions may name them.
"""

from __future__ import annotations

import ast
from pathlib import Path

import gpuanon
from gpuanon.cli import doctor

SOURCES = sorted(Path(gpuanon.__file__).parent.rglob("*.py"))
COMPILED = [path for path in SOURCES if path.name.startswith("compiled_")]


def decorators(path: Path) -> dict[str, str]:
    """The only decorator of each function of a module; an error for a function with none or several."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            (decorator,) = node.decorator_list
            found[node.name] = ast.unparse(decorator)
    return found


def test_functions_of_compiled_modules_are_compiled() -> None:
    kinds = {kind for path in COMPILED for kind in decorators(path).values()}
    assert kinds == {"compiled", "compiled_bounds", "inner", "inner_exact", "inner_bounds"}


def test_only_compiled_modules_import_inner_functions() -> None:
    hidden = {name for path in COMPILED for name, kind in decorators(path).items() if kind.startswith("inner")}
    tests = sorted(Path(__file__).parents[1].rglob("*.py"))
    for path in [path for path in [*SOURCES, *tests] if path not in COMPILED]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2].startswith("compiled_"):
                assert not hidden & {alias.name for alias in node.names}, path


def test_each_is_called_by_compiled_functions_alone() -> None:
    for path in COMPILED:
        body = ast.parse(path.read_text()).body
        outside = [node for node in body if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
        names = {node.id for statement in outside for node in ast.walk(statement) if isinstance(node, ast.Name)}
        assert not names & set(decorators(path)), path


def test_every_module_with_compiled_functions_is_warmed_by_the_doctor() -> None:
    root = Path(gpuanon.__file__).parent
    modules = [path for path in SOURCES if "\ndef warm_compiled(" in path.read_text()]
    names = [".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in modules]
    assert sorted(names) == sorted(name for half in doctor.WARMED for name in half)
