"""The contract, read from the sources: the engine knows no part by name, and no part knows another."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import gpuanon
from gpuanon.masking.bases import BASES
from gpuanon.masking.contract import Basis, Groups, MaskPart, Operation
from gpuanon.masking.groups import GROUPS
from gpuanon.masking.operations import OPERATIONS

PACKAGE = Path(gpuanon.__file__).parent
KINDS = {"groups": Groups, "bases": Basis, "operations": Operation}
OFFERED = {"groups": GROUPS, "bases": BASES, "operations": OPERATIONS}
ENGINE = [
    *sorted((PACKAGE / "engine").rglob("*.py")),
    *sorted((PACKAGE / "masking" / "claims").glob("*.py")),
    *(PACKAGE / "masking" / f"{name}.py" for name in ("mask", "view", "contract")),
]
PART_FILES = [path for kind in KINDS for path in sorted((PACKAGE / "masking" / kind).rglob("*.py"))]
PART_FILES = [path for path in PART_FILES if path.parent.name not in KINDS or path.name != "__init__.py"]


def kind_of(path):
    """Groups, bases or operations: the folder of `masking` that a file is in, or a folder of that."""
    return path.relative_to(PACKAGE / "masking").parts[0]


def module_of(path):
    return ".".join(("gpuanon", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def models_of(path):
    """The concrete parts that a module defines: those that a recipe can name."""
    module = import_module(module_of(path))
    found = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, MaskPart)]
    return [model for model in found if model.__module__ == module.__name__ and "use" in model.model_fields]


def names_of_parts():
    return {get_args(model.model_fields["use"].annotation)[0] for path in PART_FILES for model in models_of(path)}


def strings(path):
    """Every text in the code of a file; docstrings are none."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.value


def imports(path):
    """Module and name of whatever a file imports from the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gpuanon"):
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("gpuanon"))


def test_parts_of_every_kind_are_found():
    names = names_of_parts()
    assert {"whole", "k-member", "identity", "svd", "centroid", "permute", "pad", "sample"} <= names
    assert len(names) >= 25


OTHER_MEANINGS = {
    "gpuanon.assessing.run": {"sample"},  # what a measure may be given
    "gpuanon.comparing.grid": {"classes"},  # how rows are seen, as for the next three
    "gpuanon.masking.mask": {"classes"},
    "gpuanon.masking.view": {"classes"},
    "gpuanon.masking.contract": {"classes"},
}


@pytest.mark.parametrize("path", ENGINE, ids=module_of)
def test_the_engine_knows_no_part_and_no_method_by_name(path):
    names = names_of_parts() | {entry["name"] for entry in gpuanon.methods()}
    assert names & set(strings(path)) == OTHER_MEANINGS.get(module_of(path), set())


@pytest.mark.parametrize("path", ENGINE, ids=module_of)
def test_the_engine_imports_no_part(path):
    for module, name in imports(path):
        assert not module.startswith(tuple(f"gpuanon.masking.{kind}" for kind in KINDS)), f"{module}.{name}"


@pytest.mark.parametrize("path", PART_FILES, ids=module_of)
def test_no_part_imports_another_kind_of_part(path):
    others = tuple(f"gpuanon.masking.{kind}" for kind in KINDS if kind != kind_of(path))
    for module, name in imports(path):
        assert not module.startswith(others), f"{module}.{name}"
        assert not (module == "gpuanon.masking" and name in KINDS)
        assert not module.startswith("gpuanon.masking.methods")


@pytest.mark.parametrize("path", PART_FILES, ids=module_of)
def test_no_part_imports_the_model_of_another(path):
    models = {(module_of(other), model.__name__) for other in PART_FILES for model in models_of(other)}
    packages = {f"gpuanon.masking.{kind}" for kind in KINDS}
    for module, name in imports(path):
        assert (module, name) not in models
        assert module not in packages, f"{module}.{name}: a package's face names its models"


@pytest.mark.parametrize("path", [path for path in PART_FILES if kind_of(path) == "operations"], ids=module_of)
def test_no_operation_imports_from_the_module_of_another(path):
    """What operations share lies in numerics, or in a module that holds no operation."""
    with_models = {module_of(other) for other in PART_FILES if models_of(other)} - {module_of(path)}
    assert with_models.isdisjoint(module for module, _ in imports(path))


def test_only_the_catalogue_imports_models_of_parts():
    models = {(module_of(path), model.__name__) for path in PART_FILES for model in models_of(path)}
    allowed = set((PACKAGE / "masking" / "methods").glob("*.py"))
    for path in sorted(set(PACKAGE.rglob("*.py")) - allowed):
        found = models & set(imports(path))
        assert not found, f"{module_of(path)} imports {found}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_is_of_its_kind_and_offered_to_recipes(kind):
    models = [model for path in PART_FILES if kind_of(path) == kind for model in models_of(path)]
    assert all(issubclass(model, KINDS[kind]) for model in models)
    assert set(OFFERED[kind].values()) == set(models)
