"""Grids of recipes: every combination of the values that a recipe lists, and a grid to start from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from gpuanon.errors import RecipeError
from gpuanon.masking.methods import METHODS, AnyMask
from gpuanon.proposing.proposal import propose
from gpuanon.recipe import Recipe, parse, with_paths
from gpuanon.tables.codes import level_codes
from gpuanon.tables.schema import UNRELEASED, Schema
from gpuanon.tables.table import Table

SUGGESTED_K = (5, 10, 20)


@dataclass(frozen=True)
class Point:
    """One recipe of a grid.

    name   : the recipe, with the values that were chosen
    chosen : those values
    data   : the recipe as a mapping, or as it was given
    """

    name: str
    chosen: Mapping[str, Any]
    data: Any

    @property
    def mapping(self) -> dict[str, Any]:
        """The recipe as it would be written."""
        if isinstance(self.data, Recipe):
            return self.data.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        return dict(self.data)


def grid(recipe: Recipe | Mapping[str, Any] | str | Path) -> Iterator[Point]:
    """Every point of a recipe's grid: a list where a mask wants one value stands for each of its values."""
    if isinstance(recipe, Recipe):
        yield Point("recipe", {}, recipe)
        return
    name = "recipe" if isinstance(recipe, Mapping) else Path(recipe).stem
    data = recipe if isinstance(recipe, Mapping) else _parsed(Path(recipe))
    masks = data.get("mask", []) if isinstance(data, Mapping) else []
    open_ = [
        (number, parameter, values)
        for number, mask in enumerate(masks if isinstance(masks, list) else [])
        for parameter, values in (mask.items() if isinstance(mask, Mapping) else ())
        if isinstance(values, list) and not _wants_list(mask, parameter)
    ]
    empty = [f"{name}: mask.{at}.{parameter}: a grid needs values, got none" for at, parameter, v in open_ if not v]
    if empty:
        raise RecipeError("\n".join(empty))
    for choice in product(*(values for _, _, values in open_)):
        chosen = {
            (parameter if len(masks) == 1 else f"mask.{number}.{parameter}"): value
            for (number, parameter, _), value in zip(open_, choice, strict=True)
        }
        point = [dict(mask) if isinstance(mask, Mapping) else mask for mask in masks]
        for (number, parameter, _), value in zip(open_, choice, strict=True):
            point[number][parameter] = value
        label = ", ".join(f"{parameter} = {value}" for parameter, value in chosen.items())
        if not label and isinstance(recipe, Mapping):  # several recipes without a file have no other name
            label = " + ".join(str(mask["method"]) for mask in point if isinstance(mask, Mapping) and "method" in mask)
        yield Point(f"{name}: {label}" if label else name, chosen, {**data, "mask": point} if masks else data)


def _parsed(path: Path) -> Any:
    """The structure in a recipe file, with the paths that it names as they are found from here."""
    return with_paths(parse(path), path.absolute().parent)


def _wants_list(mask: Mapping[str, Any], parameter: str) -> bool:
    """Whether the value of a parameter is a list by itself: what its type says."""
    others = {name: value[0] if isinstance(value, list) and value else value for name, value in mask.items()}
    try:
        TypeAdapter(AnyMask).validate_python({**others, parameter: mask[parameter]})
    except ValidationError as error:
        return not any(parameter in fault["loc"] for fault in error.errors(include_url=False))
    return True


def common_schema(schemas: Sequence[Schema]) -> Schema:
    """The schema that every release is measured by: a column is what the first recipe says, with a common role.

    A column that one recipe does not release is in none of the comparisons; otherwise a quasi-identifier of any
    recipe is one for all, then a sensitive column.
    """
    columns = []
    for column in schemas[0].columns:
        roles = [schema[column.name].role for schema in schemas]
        role = next((role for role in (*UNRELEASED, "quasi", "sensitive") if role in roles), column.role)
        says = next(schema[column.name] for schema in schemas if schema[column.name].role == role)
        columns.append(says)
    if len({schema.unit for schema in schemas}) > 1:
        raise RecipeError("unit: recipes that are compared must have the same")
    return schemas[0].model_copy(update={"columns": tuple(columns)})


def start_of(recipes: Sequence[Any]) -> dict[str, Any]:
    """The recipe from which a suggested grid starts: the first, or none."""
    return next(iter(grid(recipes[0]))).mapping if recipes else {}


def with_any_mask(start: Mapping[str, Any]) -> Recipe:
    """A recipe whose masks are not looked at."""
    return Recipe.load({**start, "mask": [_ANY]})


def suggested(table: Table, start: Mapping[str, Any]) -> tuple[list[Point], dict[str, str]]:
    """A grid to start from: every method of the catalogue that needs no more than a k, with a few values of k.

    Methods that see classes of equal values are left out where most records are alone in theirs: such methods would
    drop, add or blank most of the table.  They are the second result, with the reason.

    start : a recipe, whose masks are not looked at; without columns, they are proposed as ``gpuanon init`` does
    """
    data = {name: value for name, value in start.items() if name != "mask"}
    if "columns" not in data:
        proposed = propose(table).model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        data = {name: value for name, value in proposed.items() if name not in ("mask", "limits")} | data
    recipe = with_any_mask(data)
    schema = Schema.resolve(table, recipe.columns, recipe.others, recipe.unit)
    alone = _share_alone(table, schema.quasi)
    points, left_out = [], {}
    for name, method in METHODS.items():
        for values in [{"k": k} for k in SUGGESTED_K] if "k" in method.model_fields else [{}]:
            mask = {"method": name, **values}
            try:
                sees = method.model_validate(mask).combination().groups.sees
            except ValidationError:
                continue  # it needs more than a k
            if sees == "classes" and alone > 0.5:
                left_out[name] = f"it works on classes of equal records, and {alone:.0%} of the records are alone"
                continue
            label = ", ".join(f"{key} = {value}" for key, value in values.items())
            points.append(Point(f"{name}: {label}" if label else name, mask, {**data, "mask": [mask]}))
    return points, left_out


_ANY = {"method": next(iter(METHODS)), "k": SUGGESTED_K[0]}


def _share_alone(table: Table, columns: tuple[str, ...]) -> float:
    """Share of the records that no other equals on these columns."""
    if not columns or not table.n_rows:
        return 0.0
    codes = level_codes([table], columns)[0]
    counts = np.unique(codes, axis=0, return_counts=True)[1]
    return float((counts == 1).sum() / table.n_rows)
