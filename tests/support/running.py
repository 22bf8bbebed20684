"""Short runs of a mask, in memory and in parts, for tests of what a run promises."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from gpuanon.running.part_files import protect_in_parts
from gpuanon.running.plan import Plan

from gpuanon.arrays.backend import choose
from gpuanon.arrays.rng import Key
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry

KEY = Key(b"a key for tests, of sixteen bytes or more")


def written(tmp_path, tables, name="input"):
    """A folder with one Parquet file per table."""
    folder = tmp_path / name
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def protected(source, output, mask, **options):
    """Run a mask (a name, or a whole recipe) on a folder, in cells of 200 rows unless options say otherwise."""
    options = {"key": KEY, "backend": "numpy", "cell_rows": 200, **options}
    return protect_in_parts(source, Recipe.load(mask if isinstance(mask, dict) else recipe(mask)), output, **options)


def masked(method):
    """The plan, the table of 120 records and the result of a method, in memory."""
    table = Table.of(registry(120))
    schema = Schema.resolve(table, Recipe.load(recipe("permute")).columns)
    plan = Plan.fit(method.combination(), table, schema, "indicator")
    return plan, table, plan.apply(table, KEY.draws(np.arange(120)), choose("numpy"))


def with_value(table, name, row, value):
    """The table with one value changed."""
    values = table.to_arrow()[name].to_pylist()
    values[row] = value
    column = pa.chunked_array([pa.array(values, table.to_arrow()[name].type)])
    arrow = table.to_arrow()
    return Table.of(arrow.set_column(arrow.column_names.index(name), name, column))
