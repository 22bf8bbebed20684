"""Names of methods and parts: every one stands for the model of that name, and a model is imported when it is named."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from gpuanon.errors import RecipeError
from gpuanon.masking.bases import BASES
from gpuanon.masking.contract import MaskPart
from gpuanon.masking.groups import GROUPS, AnyGroups
from gpuanon.masking.methods import METHODS
from gpuanon.masking.named import Named
from gpuanon.masking.operations import OPERATIONS
from gpuanon.recipe import Recipe


class One(MaskPart):
    """A model."""

    use: Literal["one"] = "one"
    size: int = Field(default=3, ge=1)


class Two(MaskPart):
    """Another."""

    use: Literal["two"] = "two"
    inner: One = One()


NAMED = Named[MaskPart]("use", "tests.masking", {"one": "test_named.One", "two": "test_named.Two"})
LAZY: TypeAdapter[Any] = TypeAdapter(list[Annotated[MaskPart, NAMED]])
UNION: TypeAdapter[Any] = TypeAdapter(list[Annotated[One | Two, Field(discriminator="use")]])


@pytest.mark.parametrize(("names", "tag"), [(GROUPS, "use"), (BASES, "use"), (OPERATIONS, "use"), (METHODS, "method")])
def test_every_name_is_that_of_its_model(names: Named[Any], tag: str) -> None:
    assert {name: model.model_fields[tag].default for name, model in names.items()} == {name: name for name in names}
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("value", [[], [{"use": "one"}, {"use": "two", "inner": {"size": 5}}], [One(size=2), Two()]])
def test_values_are_those_of_the_union(value: Any) -> None:
    found, expected = LAZY.validate_python(value), UNION.validate_python(value)
    assert found == expected
    assert LAZY.dump_python(found) == UNION.dump_python(expected)
    assert LAZY.validate_json(LAZY.dump_json(found)) == expected


@pytest.mark.parametrize(
    "value",
    [
        [{"use": "three"}, {"use": "one", "size": 0}, {"use": "two", "inner": {"size": "x"}, "other": 1}],
        [{}, 5, "one", None, {"use": ["one"]}, {"use": None}],
        {"use": "one"},
    ],
)
def test_faults_are_those_of_the_union(value: Any) -> None:
    with pytest.raises(ValidationError) as union:
        UNION.validate_python(value)
    with pytest.raises(ValidationError) as found:
        LAZY.validate_python(value)
    assert found.value.errors() == union.value.errors()


def test_the_json_schema_is_that_of_the_union() -> None:
    assert LAZY.json_schema() == UNION.json_schema()


def test_names_are_known_without_their_models() -> None:
    code = """if True:
        import sys
        from gpuanon.recipe import Recipe
        from gpuanon.masking.groups import GROUPS
        assert "spectral" in GROUPS and "nobody" not in GROUPS and len(list(GROUPS)) == len(GROUPS)
        Recipe.load({"columns": {"a": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 5}]})
        parts = ("groups.spectral", "groups.boxes", "operations.pad", "operations.dither", "views.ica", "methods.noise")
        print([name for name in parts if f"gpuanon.masking.{name}" in sys.modules])
        """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_an_unknown_name_is_answered_with_all_names() -> None:
    with pytest.raises(ValidationError, match="expected tags: 'whole', 'blocks', 'k-member'"):
        TypeAdapter(AnyGroups).validate_python({"use": "nobody"})


@pytest.mark.parametrize(
    ("mask", "name"),
    [
        ({"method": "synthetic-rows", "k": 3, "fill": "boosting", "trees": 50}, "trees"),
        ({"method": "distribution-preserving", "k": 3, "dither": "permute", "alpha": 0.5}, "alpha"),
        ({"method": "distribution-preserving", "k": 3, "dither": "cell", "bins": 5}, "bins"),
        ({"method": "distribution-preserving", "k": 3, "dither": "resample", "order": "given"}, "order"),
        ({"method": "svd-swap", "tol": 1.0}, "tol"),
        ({"groups": {"use": "k-member", "k": 3}, "operation": {"use": "dither", "kind": "cell", "alpha": 1}}, "alpha"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused_by_its_name(mask, name):
    with pytest.raises(RecipeError, match=rf"{name}: "):
        Recipe.load({"columns": {"a": {"role": "quasi"}}, "mask": [mask]})
