"""Models that a recipe names: the names are known beforehand, a model is imported when it is named.

A run uses a few of some eighty methods, groups, bases and operations; importing all of them would take longer than
masking a small table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gpuanon.masking.contract import MaskPart

Model = TypeVar("Model", bound=MaskPart)


class Named(Mapping[str, type[Model]]):
    """The models of a package by their names.

    As an annotation, ``Annotated[Groups, GROUPS]``, it stands for the union of all its models, distinguished by the
    name in their field `tag`: faults and JSON schema are those of such a union.

    tag     : the field that holds the name
    package : where the models are
    places  : name → module of the package and class, ``"kmember.KMember"``
    """

    def __init__(self, tag: str, package: str, places: Mapping[str, str]) -> None:
        self._tag, self._package, self._places = tag, package, dict(places)

    def __getitem__(self, name: str) -> type[Model]:
        module, _, model = self._places[name].rpartition(".")
        found: type[Model] = getattr(import_module(f"{self._package}.{module}"), model)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    __eq__, __hash__ = object.__eq__, object.__hash__  # members of annotations are hashed; a mapping could not be

    def _validated(self, name: str, value: Any) -> Model:
        return self[name].model_validate(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {
            name: core_schema.no_info_plain_validator_function(partial(self._validated, name)) for name in self
        }
        return core_schema.tagged_union_schema(choices, discriminator=self._tag)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        models: dict[Any, CoreSchema] = {name: model.__pydantic_core_schema__ for name, model in self.items()}
        return handler(core_schema.tagged_union_schema(models, discriminator=self._tag))
