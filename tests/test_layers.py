"""Imports go down only: faces → running → assessing → masking → tables → numerics → arrays."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "gpuanon"
LAYERS = (
    ("gpuanon.errors",),
    ("gpuanon.arrays",),
    ("gpuanon.numerics",),
    ("gpuanon.tables",),
    (
        "gpuanon.parts", "gpuanon.groups", "gpuanon.bases", "gpuanon.operations", "gpuanon.catalogue.combination",
        "gpuanon.catalogue.microaggregation", "gpuanon.catalogue.methods",
    ),
    (
        "gpuanon.measure", "gpuanon.risk", "gpuanon.utility", "gpuanon.workloads", "gpuanon.comparison",
        "gpuanon.catalogue.measures", "gpuanon.catalogue.__init__",
    ),
    ("gpuanon.recipe", "gpuanon.engine", "gpuanon.verify"),
    (
        "gpuanon.cli", "gpuanon.demo", "gpuanon.report", "gpuanon.progress_bar", "gpuanon.anonymizer",
        "gpuanon.doctor", "gpuanon.device_checks", "gpuanon.library_checks",
    ),
)  # fmt: skip
FILES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})  # the package's own face loads every public name


def layer(module):
    for number, prefixes in enumerate(LAYERS):
        if any(module == prefix or module.startswith(f"{prefix}.") for prefix in prefixes):
            return number
    raise AssertionError(f"{module} is in no layer")


def module_of(path):
    return ".".join(("gpuanon", *path.relative_to(PACKAGE).with_suffix("").parts))


def imports(path):
    """Every module of the package that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpuanon"):
            for alias in node.names:
                deeper = PACKAGE.parent.joinpath(*node.module.split("."), alias.name)
                yield (
                    f"{node.module}.{alias.name}"
                    if deeper.is_dir() or deeper.with_suffix(".py").exists()
                    else node.module
                )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("gpuanon"))


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_down(path):
    own = module_of(path)
    for imported in imports(path):
        if imported == "gpuanon":
            continue
        assert layer(imported) <= layer(own), f"{own} imports {imported}"
