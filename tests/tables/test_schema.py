"""The schema: kinds by type; all errors at once, with names and counts of rows, never a value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpuanon.errors import GpuanonError, InputError, RecipeError
from gpuanon.tables.registry import make_registry, registry_recipe
from gpuanon.tables.schema import ColumnSpec, Schema
from gpuanon.tables.table import Table
from tests.support.frames import KINDS, as_kind, example_table

EXPECTED = {
    "int8": "numeric",
    "int16": "numeric",
    "int64": "numeric",
    "uint64": "numeric",
    "float32": "numeric",
    "short float": "numeric",
    "bool": "categorical",
    "text": "categorical",
    "dictionary": "categorical",
    "date": "date",
    "moment": "date",
    "zoned": "date",
    "length": "date",
}


def message(data: object, columns: dict, kind: type[GpuanonError]) -> str:
    with pytest.raises(kind) as caught:
        Schema.resolve(Table.of(data), columns)
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_inferred_from_types(kind: str, nulls: bool) -> None:
    schema = Schema.resolve(Table.of(as_kind(example_table(nulls=nulls), kind)), {})
    assert {column.name: column.kind for column in schema.columns} == EXPECTED
    assert all(column.role == "other" for column in schema.columns)


def test_columns_of_python_objects() -> None:
    frame = pd.DataFrame(
        {
            "text": pd.Series(["a", None], dtype=object),
            "whole": pd.Series([1, None], dtype=object),
            "flag": pd.Series([True, None], dtype=object),
            "date": pd.Series([dt.date(2020, 1, 1), None], dtype=object),
            "decimal": pd.Series([Decimal("1.5"), None], dtype=object),
            "nothing": pd.Series([None, None], dtype=object),
        }
    )
    kinds = [column.kind for column in Schema.resolve(Table.of(frame), {}).columns]
    assert kinds == ["categorical", "numeric", "categorical", "date", "numeric", "categorical"]


def test_an_order_makes_an_ordinal_column() -> None:
    ordered = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["low", "high"]), ordered=True)
    arrow = Schema.resolve(Table.of(pa.table({"x": ordered})), {})
    assert (arrow["x"].kind, arrow["x"].levels) == ("ordinal", ("low", "high"))
    frame = pd.DataFrame({"x": pd.Categorical(["a"], ["b", "a"], ordered=True), "y": pd.Categorical(["a"], ["b", "a"])})
    schema = Schema.resolve(Table.of(frame), {})
    assert (schema["x"].kind, schema["x"].levels) == ("ordinal", ("b", "a"))
    assert (schema["y"].kind, schema["y"].levels) == ("categorical", None)


def test_a_polars_enum_is_a_set_unless_the_recipe_says_ordinal() -> None:
    table = Table.of(pl.DataFrame({"x": pl.Series(["b", "a"], dtype=pl.Enum(["b", "a", "c"]))}))
    assert Schema.resolve(table, {})["x"].kind == "categorical"
    said = Schema.resolve(table, {"x": {"role": "quasi", "kind": "ordinal"}})
    assert said["x"].levels == ("b", "a", "c")
    assert said.notes == ()


def test_levels_make_an_ordinal_column_and_alphabetical_order_is_noted() -> None:
    table = Table.of(pa.table({"x": ["mid", "low", None], "n": [3, 1, 2]}))
    given = Schema.resolve(
        table, {"x": {"role": "quasi", "levels": ["low", "mid", "high"]}, "n": {"levels": [3, 2, 1]}}
    )
    assert (given["x"].kind, given["x"].levels) == ("ordinal", ("low", "mid", "high"))
    assert given["n"].levels == (3, 2, 1)
    silent = Schema.resolve(
        table, {"x": {"role": "quasi", "kind": "ordinal"}, "n": {"role": "quasi", "kind": "ordinal"}}
    )
    assert len(silent.notes) == 1
    assert "'x'" in silent.notes[0]
    assert "alphabetical" in silent.notes[0]


def test_every_fault_is_named_at_once_with_the_nearest_name() -> None:
    table = pa.table({"age": [1, 2], "Größe": [1.0, 2.0], "sex": ["m", "f"], "w1": [1, 1], "w2": [1, 1]})
    said = message(
        table,
        {
            "agee": {"role": "quasi"},
            "AGE": {"role": "quasi"},
            "nothing like it": {"role": "quasi"},
            "sex": {"role": "quasi", "kind": "numeric"},
            "Größe": {"role": "quasy"},
            "w1": {"role": "person"},
            "w2": {"role": "person"},
        },
        RecipeError,
    )
    assert "'agee': not in the table; did you mean 'age'?" in said
    assert "'AGE': not in the table; did you mean 'age'?" in said
    assert "'nothing like it': not in the table\n" in said + "\n"
    assert "'sex': kind numeric does not fit, the column holds text; allowed: categorical, ordinal" in said
    assert "'Größe': role: input should be 'identifier', 'person', 'household', 'quasi', 'sensitive'," in said
    assert "one column of role person is allowed, got 'w1', 'w2'" in said


def test_unknown_fields_of_a_column_are_refused() -> None:
    assert "'a': rolle: extra inputs" in message(pa.table({"a": [1]}), {"a": {"rolle": "quasi"}}, RecipeError)


@pytest.mark.parametrize("role", ["quasi", "sensitive"])
def test_infinite_values_are_refused_as_a_count(role: str) -> None:
    said = message(pa.table({"x": [1.0, np.inf, -np.inf, 7.25]}), {"x": {"role": role}}, InputError)
    assert "'x': 2 rows hold an infinite value" in said
    assert "7.25" not in said


def test_infinite_values_may_stay_in_a_column_that_is_kept_as_it_is() -> None:
    assert Schema.resolve(Table.of(pa.table({"x": [1.0, np.inf]})), {})["x"].role == "other"


@pytest.mark.parametrize(
    ("transform", "values", "count", "hint"),
    [
        ("log", [0.0, 1.0, 0.0], 2, "log1p"),
        ("log", [-5.0, 1.0, 2.0], 1, None),
        ("log1p", [-1.0, -3.5, 2.0], 2, None),
    ],
)
def test_a_logarithm_outside_of_its_domain_is_refused_as_a_count(transform, values, count, hint) -> None:
    said = message(pa.table({"x": values}), {"x": {"role": "quasi", "transform": transform}}, InputError)
    assert f"{count} rows are not" in said
    assert ("Hint" in said) == (hint is not None)
    assert "3.5" not in said


def test_a_transform_of_what_is_no_number_is_refused() -> None:
    said = message(pa.table({"x": ["a"]}), {"x": {"role": "quasi", "transform": "log"}}, RecipeError)
    assert "transform log is for numeric columns, this one is categorical" in said


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([1.0, -2.0], "must not be negative, 1 rows"),
        ([1.0, None], "must not be null, 1 rows"),
        ([1.0, np.nan], "must not be null, 1 rows"),
        ([1.0, np.inf], "1 rows hold an infinite"),
    ],
)
def test_weights_are_known_finite_and_not_negative(values: list[float | None], fault: str) -> None:
    assert fault in message(pa.table({"w": pa.array(values)}), {"w": {"role": "weight"}}, InputError)


def test_a_weight_that_is_no_number_is_refused() -> None:
    assert "a weight must be a number" in message(pa.table({"w": ["a"]}), {"w": {"role": "weight"}}, RecipeError)


@pytest.mark.parametrize("values", [["jane", 1], [1, "jane"], [True, 1], [1.5, "jane", None], [b"jane", "jane"]])
@pytest.mark.parametrize("role", ["quasi", "other"])
def test_mixed_types_in_one_column_are_refused_without_a_value(values: list, role: str) -> None:
    frame = pd.DataFrame({"who": pd.Series(values, dtype=object), "fine": 1})
    said = message(frame, {"who": {"role": role}}, InputError)
    assert "'who'" in said
    assert "jane" not in said


def test_mixed_types_in_an_identifier_do_not_matter() -> None:
    table = Table.of(pd.DataFrame({"who": pd.Series(["jane", 1], dtype=object)}))
    assert Schema.resolve(table, {"who": {"role": "identifier"}})["who"].role == "identifier"


def test_columns_of_lists_are_kept_but_not_masked() -> None:
    table = pa.table({"x": [[1], [2, 3]]})
    assert Schema.resolve(Table.of(table), {})["x"].kind is None
    assert "cannot be masked" in message(table, {"x": {"role": "quasi"}}, RecipeError)


@pytest.mark.parametrize(
    ("levels", "fault"),
    [
        (["low", "low"], "occurs twice"),
        (["low"], "2 rows hold a value that is not named"),
        ([1, 2, 3], "3 rows hold a value that is not named"),
    ],
)
def test_levels_must_fit_the_values(levels: list, fault: str) -> None:
    table = pa.table({"x": ["low", "secret", "secret", None]})
    said = message(table, {"x": {"role": "quasi", "levels": levels}}, InputError)
    assert fault in said
    assert "secret" not in said


def test_levels_that_are_not_of_the_type() -> None:
    assert "not of the column's type" in message(
        pa.table({"x": [1, 2]}), {"x": {"role": "quasi", "levels": ["one"]}}, InputError
    )


def test_roles_are_found_and_columns_selected() -> None:
    table = Table.of(pa.table({name: [1.0] for name in "abcdef"}))
    roles = {"a": "identifier", "b": "quasi", "c": "sensitive", "d": "weight", "f": "quasi"}
    schema = Schema.resolve(table, {name: ColumnSpec(role=role) for name, role in roles.items()})
    assert schema.identifiers == ("a",)
    assert schema.quasi == ("b", "f")
    assert schema.sensitive == ("c",)
    assert schema.weight == "d"
    assert schema.select("quasi") == ("b", "f")
    assert schema.select("all") == ("b", "c", "e", "f")
    assert schema.select(["f", "c"]) == ("f", "c")
    with pytest.raises(RecipeError, match=r"(?s)'g': not in the table.*'a': an identifier is dropped"):
        schema.select(["g", "a"])


def test_a_column_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Schema.resolve(Table.of(pa.table({"a": [1]})), {})["b"]


def test_an_all_null_and_a_constant_column_and_an_empty_table_resolve() -> None:
    table = pa.table({"n": pa.nulls(3), "f": pa.nulls(3, pa.float64()), "c": [7, 7, 7]})
    columns = {name: {"role": "quasi"} for name in table.column_names}
    assert [column.kind for column in Schema.resolve(Table.of(table), columns).columns] == [
        "categorical",
        "numeric",
        "numeric",
    ]
    Schema.resolve(Table.of(table.slice(0, 0)), columns)


def test_the_repr_holds_no_level() -> None:
    table = Table.of(pa.table({"x": ["secret"]}))
    assert "secret" not in repr(Schema.resolve(table, {"x": {"levels": ["secret"]}}))


@pytest.mark.parametrize("kind", KINDS)
def test_the_registry_resolves_as_every_kind(kind: str) -> None:
    import tomllib

    table = Table.of(as_kind(make_registry(300), kind))
    schema = Schema.resolve(table, tomllib.loads(registry_recipe())["columns"])
    assert schema["education"].kind == "ordinal"
    assert schema["education"].levels == ("none", "primary", "secondary", "vocational", "bachelor", "master or higher")
    assert schema.notes == ()


def test_a_schema_survives_json() -> None:
    table = Table.of(make_registry(50))
    schema = Schema.resolve(table, {"age": {"role": "quasi"}})
    assert Schema.model_validate_json(schema.model_dump_json()) == schema
