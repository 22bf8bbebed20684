"""Options of measures: what a recipe may say under ``[measures]``, by the name of a measure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from gpuanon.errors import nearest

Options: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Keyword arguments by measure."""

WHOLE = Annotated[int, Field(strict=True, ge=1, le=100_000)]
PERMUTATIONS = {"permutations": Annotated[int, Field(strict=True, ge=0, le=10_000)]}
FRACTION = {"fraction": Annotated[float, Field(gt=0, le=1, description="of the population that the records are")]}
SET_SIZE = Annotated[int, Field(strict=True, ge=1, le=10, description="columns of the largest set that is looked at")]
NAMES = list[str]
ABOVE_1 = Annotated[float, Field(gt=1, allow_inf_nan=False)]
ABOVE_0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FROM_0 = Annotated[float, Field(ge=0, allow_inf_nan=False)]
TO_1 = Annotated[float, Field(ge=0, le=1)]
LEVEL = {"level": Annotated[float, Field(gt=0, lt=1)]}


def described(declared: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of a measure as ``measures --json`` lists them."""
    return {name: TypeAdapter(kind).json_schema() for name, kind in declared.items()}


def faults_of(declared: Mapping[str, Mapping[str, Any]], given: Options, known: Collection[str]) -> list[str]:
    """What is wrong with the options of a recipe: no such measure, no such option, a value that is not allowed.

    declared : type of each option, by measure that is given
    known    : names of all measures
    """
    faults = []
    for measure, options in given.items():
        if measure not in declared:
            listed = "; 'gpuanon measures' lists them"
            faults.append(f"unknown measure {measure}{nearest(measure, known) or listed}")
            continue
        for name, value in options.items():
            if name not in declared[measure]:
                allowed = ", ".join(declared[measure]) or "none"
                faults.append(f"{measure} has no option {name}; it has {allowed}")
                continue
            try:
                TypeAdapter(declared[measure][name]).validate_python(value)
            except ValidationError as error:
                message = error.errors(include_url=False, include_input=False)[0]["msg"]
                faults.append(f"{measure}.{name}: {message[:1].lower()}{message[1:]}")
    return faults
