"""Short runs of a mask, in memory and in parts, for tests of what a run promises."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpuanon.arrays.backend import choose
from gpuanon.arrays.rng import Key
from gpuanon.engine.protect import protect_in_parts
from gpuanon.engine.workers import in_turn
from gpuanon.masking.mask import Mask
from gpuanon.masking.mask_columns import needed_columns
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import count_classes
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry

KEY = Key(b"a key for tests, of sixteen bytes or more")


def written(tmp_path, tables, name="input"):
    """A folder with one Parquet file per table."""
    folder = tmp_path / name
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number:03d}.parquet")
    return folder


def divided(table, parts):
    """A table as so many tables of about equal size."""
    return [table.take(pa.array(rows)) for rows in np.array_split(np.arange(table.num_rows), parts)]


def protected(source, output, mask, **options):
    """Run a mask (a name, or a whole recipe) on a folder, in cells of 200 rows unless options say otherwise."""
    options = {"key": KEY, "backend": "numpy", "cell_rows": 200, **options}
    return protect_in_parts(source, Recipe.load(mask if isinstance(mask, dict) else recipe(mask)), output, **options)


def in_parts(tmp_path, table, mask, name="run", parts=3, cell_rows=10**9, **options):
    """A release in parts, its link and its manifest."""
    source = tmp_path / f"{name}-input"
    if not source.exists():
        written(tmp_path, divided(table, parts), source.name)
    output, link = tmp_path / f"{name}-release", tmp_path / f"{name}-link.csv"
    manifest = protected(source, output, mask, cell_rows=cell_rows, link=link, **options)
    return pq.read_table(output), read_link(link), manifest


def read_link(path):
    """(n,) the row number that each line of a link file names."""
    return np.array([int(line) for line in path.read_text().split()[1:]])


def as_rows(table):
    """The rows in an order of their own."""
    frame = table.to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)


class ShuffledWorkers:
    """Stands in for workers: tasks and results are pickled, and tasks are done in another order every time.

    Items are dealt to `count` workers; in each turn one of those that have something left does its next task.
    """

    def __init__(self, count, seed=0):
        self.count, self.random = count, random.Random(seed)

    def __call__(self, task, items):
        waiting = [list(range(worker, len(items), self.count)) for worker in range(self.count)]
        results = {}
        while any(waiting):
            mine = self.random.choice([own for own in waiting if own])
            number = mine.pop(self.random.randrange(len(mine)))
            own_task, item = pickle.loads(pickle.dumps((task, items[number])))
            results[number] = pickle.loads(pickle.dumps(own_task(item)))
        return [results[number] for number in range(len(items))]


class Interrupted(Exception):
    """A run was stopped."""


class InterruptedWorkers:
    """This process, until so many tasks are done; `done` counts them."""

    def __init__(self, tasks):
        self.left, self.done = tasks, 0

    def __call__(self, task, items):
        def one(item):
            if self.left == self.done:
                raise Interrupted
            self.done += 1
            return task(item)

        return in_turn(one, items)


def masked(method, rows=120, nulls="indicator"):
    """The fitted mask, the rows of a small registry and what the mask made of them."""
    table = Table.of(registry(rows).drop_columns(["person_id"]))
    columns = {name: spec for name, spec in recipe("permute")["columns"].items() if name != "person_id"}
    schema = Schema.resolve(table, Recipe.load(recipe("permute", columns=columns)).columns)
    combination = method.combination()
    summary = Summary.of(table, schema, needed_columns(combination, schema))
    mask = Mask.fit(combination, summary, schema, nulls)
    before = Rows.of(table)
    return mask, before, mask.apply(before, KEY, "mask.0", choose("numpy"))


def verify(mask, before, trace, after):
    """Check every claim of a mask on rows before and after it; the guarantees."""
    mask.accounting.check(before, trace, after)
    guarantees = []
    for claim in mask.claims:
        evidence = claim.check(before, trace, after)
        found = count_classes(
            after.table, [(classes.columns, classes.wildcard, classes.covered) for classes in claim.counted]
        )
        smallest = {classes: counts.smallest for classes, counts in zip(claim.counted, found, strict=True)}
        guarantees.append(claim.conclude(evidence, smallest))
    return guarantees


def with_value(table, name, row, value):
    """The table with one value changed."""
    values = table.to_arrow()[name].to_pylist()
    values[row] = value
    column = pa.chunked_array([pa.array(values, table.to_arrow()[name].type)])
    arrow = table.to_arrow()
    return Table.of(arrow.set_column(arrow.column_names.index(name), name, column))
