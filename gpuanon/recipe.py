"""The recipe: what each column is, how it is masked, and which limits the release must keep.

TOML, YAML and JSON hold the same structure (a `dict` in Python).  A bad recipe names every fault at once:
``recipe.toml: mask.0.k: input should be greater than or equal to 2, got 1``.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from gpuanon.assessing.declared_models import Analysis, Workload
from gpuanon.errors import RecipeError, nearest
from gpuanon.masking.contract import MaskPart
from gpuanon.masking.methods import AnyMask
from gpuanon.masking.methods.combination import whole_row_faults
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.schema import UNRELEASED, ColumnSpec, Kind, Nulls, Others, Schema, Unit
from gpuanon.tables.series import Series

POINTS = ("promise", "smallest_class", "singled_out", "copies", "given_back", "dominance", "warnings")
"""Points of a verdict that a recipe may accept with a reason."""


class Recipe(MaskPart):
    """A whole recipe; `Recipe.load` reads one from a file or a mapping."""

    purpose: str = Field(default="", max_length=300, description="what the release is for: printed on the report")
    columns: dict[str, ColumnSpec] = Field(min_length=1, description="what each column is")
    others: Others = Field(default="refuse", description="what becomes of columns that are not named")
    unit: Unit | None = Field(
        default=None,
        description="what k, limits and measures count: record, person or household; without it persons where a column"
        " has that role, else records",
    )
    nulls: Nulls = Field(default="indicator", description="what a missing value means to the masks")
    mask: tuple[AnyMask, ...] = Field(description="masks, applied one after the other; at least one")
    limits: dict[str, Annotated[float, Field(strict=True, allow_inf_nan=False)]] = Field(
        default_factory=dict, description="measure → the worst value that may be written"
    )
    accept: dict[str, Annotated[str, Field(min_length=3)]] = Field(
        default_factory=dict,
        description="point of the verdict → the reason why it is accepted: singled_out, copies, given_back,"
        " dominance, promise, smallest_class, warnings",
    )
    measures: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="measure → its options ('gpuanon measures' lists them)"
    )
    analysis: tuple[Analysis, ...] = Field(
        default=(), description="models that analysts will fit: their coefficients are compared by assess"
    )
    workload: tuple[Workload, ...] = Field(
        default=(), description="predictions that analysts will make: their bias is compared by assess"
    )
    series: Series | None = Field(
        default=None, description="repeated measurements: the records of a person become one row, before the masks"
    )
    csv: CsvOptions = Field(default=CsvOptions(), description="how CSV files are read")

    @field_validator("mask")
    @classmethod
    def _some_mask(cls, masks: tuple[AnyMask, ...]) -> tuple[AnyMask, ...]:
        if not masks:
            raise ValueError("at least one mask is needed")
        return masks

    @model_validator(mode="after")
    def _series_of_persons(self) -> Self:
        """Refuse repeated measurements without persons, or of columns that are not measured."""
        if self.series is None:
            return self
        if not any(spec.role == "person" for spec in self.columns.values()):
            raise ValueError("series: a column of role person has to say whose records they are")
        for name in (self.series.time, *self.series.columns):
            role = self.columns[name].role if name in self.columns else "other"
            if role in (*UNRELEASED, "weight") or (name == self.series.time and role != "other"):
                raise ValueError(f"series: column {name!r} has the role {role}; a time is other, or not named")
        return self

    @field_validator("accept")
    @classmethod
    def _known_points(cls, accept: dict[str, str]) -> dict[str, str]:
        unknown = sorted(set(accept) - set(POINTS))
        if unknown:
            known = f"; there are {', '.join(POINTS)}"
            raise ValueError("; ".join(f"there is no point {name}{nearest(name, POINTS) or known}" for name in unknown))
        return accept

    @field_validator("limits")
    @classmethod
    def _known_measures(cls, limits: dict[str, float]) -> dict[str, float]:
        from gpuanon.assessing.measures import MEASURES

        unknown = sorted(set(limits) - set(MEASURES))
        if unknown:
            listed = "; 'gpuanon measures' lists them"
            raise ValueError(
                "; ".join(f"unknown measure {name}{nearest(name, MEASURES) or listed}" for name in unknown)
            )
        return limits

    @field_validator("measures")
    @classmethod
    def _known_options(cls, measures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        from gpuanon.assessing.measure import faults_of
        from gpuanon.assessing.measures import MEASURES

        faults = faults_of({name: MEASURES[name].options for name in measures if name in MEASURES}, measures, MEASURES)
        if faults:
            raise ValueError("; ".join(faults))
        return measures

    def fit(self, schema: Schema) -> Schema:
        """The schema of what the masks see, checked against the recipe; every fault is named at once.

        Columns that are not named need a word on what becomes of them, and a quasi-identifier that no mask changes has
        to be one that is kept on purpose.
        """
        faults = []
        unnamed = schema.unnamed()
        if self.others == "refuse" and unnamed:
            faults.append(
                f"columns: {', '.join(map(repr, unnamed))}: not named in the recipe; name each, or say what becomes of"
                ' them: others = "drop" or "keep"'
            )
        released = schema.without(schema.identifiers)
        by_class = any(mask.combination().groups.sees == "classes" for mask in self.mask)
        if schema.unit != "record" and self.nulls == "wildcard" and by_class:
            faults.append(f'nulls: "wildcard" counts records, and k counts {schema.unit}s: "category" counts them')
        changed = {name for mask in self.mask for name in released.select(mask.combination().columns)}
        for name in released.quasi:
            if name not in changed and not schema[name].keep:
                faults.append(
                    f"columns.{name}: a quasi-identifier that no mask changes; keep = true releases it as it is"
                )
            if name in changed and schema[name].keep:
                faults.append(f"columns.{name}: keep = true, and a mask changes it")
        adds = any(mask.combination().operation.rows == "added" for mask in self.mask)
        if adds and schema.unit_column is not None and schema.unit_column.release is not None:
            faults.append(
                f"columns.{schema.unit_column.name}: release: rows are added, each with a pseudonym of its own and one"
                f" record, which tells them from {schema.unit}s with several; leave the column out (no release), or"
                " take a method that adds no rows"
            )
        faults += self._faults_of_limits(schema.unit)
        faults += whole_row_faults([mask.combination() for mask in self.mask], released)
        if faults:
            raise RecipeError("\n".join(faults))
        return released

    def _faults_of_limits(self, unit: Unit) -> list[str]:
        """Limits of measures that cannot count the unit: equal records of one person would keep them."""
        from gpuanon.assessing.measures import MEASURES

        if unit == "record":
            return []
        return [
            f"limits.{name}: counts records, and the unit is {unit}: {MEASURES[name].records}"
            for name in self.limits
            if MEASURES[name].records is not None
        ]

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """Options by measure, the models of ``[[analysis]]`` and predictions of ``[[workload]]`` among them."""
        models = [model.model_dump(mode="json") for model in self.analysis]
        workloads = [one.model_dump(mode="json", by_alias=True) for one in self.workload]
        return {
            **self.measures,
            **({"analysis": {"models": models}} if models else {}),
            **({"workload": {"workloads": workloads}} if workloads else {}),
        }

    @property
    def least(self) -> int:
        """The largest k of the masks; 1 when none has one."""
        return max([1, *(k for mask in self.mask if (k := mask.combination().k) is not None)])

    @property
    def csv_columns(self) -> CsvColumns:
        """The columns of a CSV that are masked or measured, with their kinds; all others stay text as they are."""
        masked = [mask.combination().columns for mask in self.mask]
        named = {name for columns in masked if not isinstance(columns, str) for name in columns}
        kinds: dict[str, Kind | None] = dict.fromkeys(named)
        if self.series is not None:
            kinds[self.series.time] = None
        for name, spec in self.columns.items():
            if spec.role in UNRELEASED or spec.kind == "categorical":
                kinds[name] = "categorical"
            elif spec.role == "weight":
                kinds[name] = "numeric"
            elif spec.role in ("quasi", "sensitive") or spec.kind is not None:
                kinds[name] = spec.kind
        missing = {name: spec.missing_words for name, spec in self.columns.items() if spec.missing is not None}
        return CsvColumns(kinds, rest="all" in masked, missing=missing)

    @classmethod
    def load(cls, source: Recipe | Mapping[str, Any] | str | Path) -> Recipe:
        """Read a recipe from a file (.toml, .yaml, .yml, .json) or a mapping, naming every fault at once.

        Examples
        --------
        >>> import gpuanon
        >>> recipe = gpuanon.Recipe.load(
        ...     {"columns": {"age": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 3}]}
        ... )
        >>> recipe.columns["age"].role, recipe.mask[0].k
        ('quasi', 3)
        """
        if isinstance(source, Recipe):
            return source
        if isinstance(source, Mapping):
            return cls._validated(source, "recipe")
        if not isinstance(source, (str, os.PathLike)):
            raise RecipeError(
                f"recipe: a Recipe, a mapping or the path of a recipe file is allowed, got {type(source).__name__}"
            )
        path = Path(source)
        return cls._validated(with_paths(parse(path), path.absolute().parent), path.name)

    @classmethod
    def _validated(cls, data: Any, name: str) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            faults = [f"{name}: {line}" for line in _faults(error)]
            raise RecipeError(
                "\n".join(faults), hint="'gpuanon schema' prints what a recipe may hold, 'gpuanon methods' the methods"
            ) from None


def with_paths(data: Any, folder: Path) -> Any:
    """The structure with the paths of hierarchies, which are relative to the recipe's folder, as they are found."""
    columns = data.get("columns") if isinstance(data, Mapping) else None
    if not isinstance(columns, Mapping):
        return data

    def found(spec: Any) -> Any:
        file = spec.get("hierarchy") if isinstance(spec, Mapping) else None
        return {**spec, "hierarchy": str(folder / file)} if isinstance(file, str) else spec

    return {**data, "columns": {name: found(spec) for name, spec in columns.items()}}


def parse(path: Path) -> Any:
    """The structure in a recipe file."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a byte order mark
    except FileNotFoundError:
        raise RecipeError(f"{path}: there is no such recipe") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read ({type(error).__name__})") from None
    suffix = path.suffix.lower()
    try:
        if suffix == ".toml":
            return tomllib.loads(text)
        if suffix == ".json":
            return json.loads(text, object_pairs_hook=_without_duplicates)
        if suffix in (".yaml", ".yml"):
            try:
                import yaml
            except ImportError:
                raise RecipeError(
                    f"{path.name}: YAML needs pyyaml, which is not installed", hint="pip install 'gpuanon[yaml]'"
                ) from None
            try:
                return yaml.load(text, Loader=_yaml_loader(yaml))
            except yaml.YAMLError as error:
                raise ValueError(str(error)) from None
    except ValueError as error:
        raise RecipeError(f"{path.name}: is not well-formed {suffix[1:].upper()}: {error}") from None
    except RecursionError:
        raise RecipeError(f"{path.name}: is nested too deeply for a recipe") from None
    raise RecipeError(f"{path.name}: a recipe ends in .toml, .yaml, .yml or .json, got {suffix!r}")


def _without_duplicates(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """The pairs as a mapping; a key that occurs twice is an error, as in TOML: the second would hide the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = sorted({str(key) for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at])})
        raise ValueError(f"{', '.join(map(repr, twice))} occurs twice in one table")
    return found


def _yaml_loader(yaml: Any) -> Any:
    """PyYAML's safe loader, which refuses a key that occurs twice."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
            _without_duplicates([(key.value, None) for key in keys])
            return super().construct_mapping(node, deep=deep)

    return Loader


def _faults(error: ValidationError) -> list[str]:
    """One line per fault: where, what is allowed, what came."""
    lines = []
    for fault in error.errors(include_url=False):
        where = ".".join(str(part) for part in _path(fault["loc"])) or "recipe"
        came = fault.get("input")
        shown = f", got {came!r}" if isinstance(came, (str, int, float, bool)) and fault["type"] != "missing" else ""
        meant = nearest(where.split(".")[-1], _settings(fault["loc"])) if fault["type"] == "extra_forbidden" else ""
        lines.append(f"{where}: {_message(fault)}{shown}{meant}")
    return lines


def _message(fault: Any) -> str:
    """What is wrong, in the recipe's own terms."""
    if fault["type"] == "union_tag_invalid":
        tag, known = fault["ctx"]["tag"], re.findall("'([^']+)'", fault["ctx"]["expected_tags"])
        there = nearest(tag, known) or f"; there are {', '.join(known)}"
        name = fault["ctx"]["discriminator"].strip("'")
        return f"{name} {tag!r} does not exist{there}"
    if fault["type"] == "extra_forbidden":
        return "there is no such setting"
    if fault["type"] == "tuple_type" and isinstance(fault["input"], Mapping):
        return f"is a list of tables: write [[{fault['loc'][-1]}]]"
    message: str = fault["msg"].removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _path(location: tuple[int | str, ...]) -> list[int | str]:
    """The place of a fault as the user wrote it: without the tags that choose a member of a union."""
    start, rest = list(location[:2]), list(location[2:])
    if start[:1] == ["mask"] and rest[:1] == ["method"]:
        rest = rest[2:]
    elif start[:1] == ["mask"] and rest[:1] == ["combination"]:
        rest = rest[1:2] + rest[3:] if rest[1:2] and rest[1] in ("groups", "basis", "operation") else rest[1:]
    rest = [part for part in rest if not str(part).startswith("constrained-")]  # a number with bounds
    return [part for part in start + rest if not (isinstance(part, str) and "[" in part)]


def _settings(location: tuple[int | str, ...]) -> set[str]:
    """Names of the settings that a recipe may hold beside the one at this location."""
    schema = Recipe.model_json_schema()
    # What says whether a mask is a method or a combination is not written by the user, who may have misspelt `method`.
    parts = [part for at, part in enumerate(location[:-1]) if not (at == 2 and location[0] == "mask")]
    nodes = [schema]
    for part in parts:
        nodes = [inner for node in nodes for inner in _inside(node, part, schema["$defs"])]
    return {
        name for node in nodes for one in _alternatives(node, schema["$defs"]) for name in one.get("properties", ())
    }


def _inside(node: Any, part: int | str, definitions: Any) -> list[Any]:
    """The schemas of what stands at one part of a location; a tag chooses an alternative."""
    found: list[Any] = []
    for one in _alternatives(node, definitions):
        chosen = one.get("discriminator", {}).get("mapping", {}).get(part)
        inner = one.get("items") if isinstance(part, int) else one.get("properties", {}).get(part)
        inner = one.get("additionalProperties") if inner is None else inner
        found += [{"$ref": chosen}] if chosen else [inner] if isinstance(inner, dict) else []
    return found


def _alternatives(node: Any, definitions: Any) -> list[Any]:
    """A schema with all schemas that it refers to or allows in its place."""
    named = [definitions[node["$ref"].split("/")[-1]]] if "$ref" in node else []
    inner = [*named, *node.get("oneOf", ()), *node.get("anyOf", ())]
    return [node, *(found for one in inner for found in _alternatives(one, definitions))]
