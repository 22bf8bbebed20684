"""A small table of many types, its recipe, and the command line as another program runs it."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

KEY = "a secret key for the tests of doors"
RECIPE = """
nulls = "indicator"
[columns]
person  = { role = "identifier" }
age     = { role = "quasi" }
height  = { role = "quasi" }
cost    = { role = "sensitive" }
born    = { role = "other" }
seen    = { role = "other" }
zoned   = { role = "other" }
male    = { role = "other" }
note    = { role = "other" }
visits  = { role = "other" }
score   = { role = "other" }
stage   = { role = "other", kind = "ordinal" }
clock   = { role = "other" }
raw     = { role = "other" }
[[mask]]
method = "microaggregation"
k = 3
"""
ROOT = str(Path(__file__).parents[2])


def environment():
    """That of this process, with this package first."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}


def table_of_types(rows=120):
    """14 kinds of columns, nulls in each but the first two."""
    rng = np.random.default_rng(7)
    days, gone = rng.integers(0, 9000, rows), rng.random((rows, 12)) < 0.1
    when = [dt.datetime(2001, 1, 1) + dt.timedelta(days=int(d), microseconds=int(d) * 1001) for d in days]
    levels = pa.array(["low", "mid", "high"])
    columns = {
        "person": pa.array([f"p{n:04d}" for n in range(rows)]),
        "age": pa.array(rng.integers(20, 90, rows), pa.int32()),
        "height": pa.array(rng.normal(170, 9, rows), mask=gone[:, 0]),
        "cost": pa.array([Decimal(int(v)) / 100 for v in rng.integers(0, 10**6, rows)], pa.decimal128(12, 2)),
        "born": pa.array([w.date() for w in when], pa.date32(), mask=gone[:, 1]),
        "seen": pa.array(when, pa.timestamp("us"), mask=gone[:, 2]),
        "zoned": pa.array(when, pa.timestamp("us", "UTC"), mask=gone[:, 3]),
        "male": pa.array(rng.random(rows) < 0.5, mask=gone[:, 4]),
        "note": pa.array([f"é'\"{n % 9}, \\n" for n in range(rows)], mask=gone[:, 5]),
        "visits": pa.array(rng.integers(0, 2**40, rows), pa.int64(), mask=gone[:, 6]),
        "score": pa.array(rng.normal(size=rows).astype(np.float32), mask=gone[:, 7]),
        "stage": pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 3, rows), pa.int8(), mask=gone[:, 8]), levels, ordered=True
        ),
        "clock": pa.array([w.time() for w in when], pa.time64("us"), mask=gone[:, 9]),
        "raw": pa.array([bytes([n % 256, 0]) for n in range(rows)], pa.binary(), mask=gone[:, 10]),
    }
    return pa.table(columns)


def command(folder, *arguments, stdin=None, env=None, text=False):
    """A finished run of the command line in `folder`, which has recipe and key."""
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "key").write_text(KEY)
    run = [sys.executable, "-m", "gpuanon", *map(str, arguments)]
    return subprocess.run(
        run, cwd=folder, input=stdin, capture_output=True, check=False, env=environment() | (env or {}), text=text
    )


def plain_rows(table):
    """The values of a release, whatever library or door they came through: texts for levels, UTC for instants."""
    table = pa.table(table)
    return {
        name: [str(v) if isinstance(v, dt.datetime) else v for v in table[name].to_pylist()]
        for name in table.column_names
    }
