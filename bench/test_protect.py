"""`gpuanon.protect` from table to checked release: every family of methods, seconds and quality."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from frame import REGISTRY_QUASI, Record, loss_of_values, mean_ks, normals, sizes, ways

import gpuanon
from gpuanon.arrays.rng import Key

KEY = Key(b"a benchmark's key is no secret")


def masked(rows: int, columns: int, mask: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Values, their table and a recipe."""
    X = normals(rows, columns)
    names = [f"x{j}" for j in range(columns)]
    table, roles = pa.table(dict(zip(names, X.T, strict=True))), {name: {"role": "quasi"} for name in names}
    if mask["method"] == "distribution-preserving":  # what it hides is beside what the records stand
        table = table.append_column("beside", pa.array(np.arange(rows) % 2 == 0))
        roles["beside"] = {"role": "sensitive"}
    return X, table, {"columns": roles, "mask": [mask]}


@sizes(10_000, 100_000, full=(1_000_000, 10_000_000))
@ways("numpy", "compiled", "cupy")
def test_microaggregation(record: Record, rows: int, way: str) -> None:
    """By default, k = 5; eight columns, ten from a million rows on."""
    columns = 10 if rows >= 1_000_000 else 8
    X, table, recipe = masked(rows, columns, {"method": "microaggregation", "k": 5})

    def quality(release: Any) -> dict[str, float]:
        values = np.column_stack([release.data[name].to_numpy() for name in release.data.column_names])
        return {"loss %": loss_of_values(X[release.link], values)}

    backend: Any = "cupy" if way == "cupy" else "numpy"
    work = lambda: gpuanon.protect(table, recipe, rng=KEY, backend=backend)
    rounds = 1 if rows > 100_000 else 3
    name = "protect: microaggregation, k = 5"
    record(work, group=name, rows=rows, columns=columns, rounds=rounds, warm=rows <= 100_000, quality=quality)


@pytest.mark.parametrize("dither", ["resample", "permute", "gaussian"])
@sizes(50_000, full=(200_000, 1_000_000))
@ways("numpy", "compiled", "cupy")
def test_distribution_preserving(record: Record, dither: str, rows: int, way: str) -> None:
    """The generated registry, five quasi-identifiers, k = 10."""
    from gpuanon.tables.registry import make_registry

    table = make_registry(rows, seed=1)
    columns = {"person_id": {"role": "identifier"}, **{name: {"role": "quasi"} for name in REGISTRY_QUASI}}
    method = {"method": "distribution-preserving", "k": 10, "dither": dither}
    recipe = {"columns": columns | {"cost": {"role": "sensitive"}}, "others": "drop", "mask": [method]}
    backend: Any = "cupy" if way == "cupy" else "numpy"
    work = lambda: gpuanon.protect(table, recipe, rng=KEY, backend=backend)

    def quality(release: Any) -> dict[str, float]:
        return {"mean KS": mean_ks(table, release.data, ("age", "bmi", "income"))}

    name = f"protect: {dither}, k = 10"
    record(work, group=name, rows=rows, columns=5, rounds=1, warm=rows < 100_000, quality=quality)


BLOCKED: dict[str, dict[str, Any]] = {
    "microaggregation, k = 5": {"method": "microaggregation", "k": 5},
    "resample, k = 10": {"method": "distribution-preserving", "k": 10, "dither": "resample"},
    "permute, k = 10": {"method": "distribution-preserving", "k": 10, "dither": "permute"},
    "gaussian, k = 10": {"method": "distribution-preserving", "k": 10, "dither": "gaussian"},
    "PICA": {"method": "pica"},
    "clustered swapping": {"method": "clustered-swap"},
    "clustered synthesis, k = 20": {"method": "clustered-synthesis", "k": 20},
}
"""Methods that form their groups in blocks of rows."""


@pytest.mark.parametrize("name", BLOCKED)
@sizes(full=(10_000, 100_000, 1_000_000, 10_000_000))
def test_blocked_methods(record: Record, name: str, rows: int) -> None:
    """Five columns; does the time grow with the rows, and no faster?"""
    _, table, recipe = masked(rows, 5, BLOCKED[name])
    work = lambda: gpuanon.protect(table, recipe, rng=KEY, backend="numpy")
    rounds, warm = 3 if rows <= 100_000 else 1, rows <= 100_000
    quality = lambda release: {"mean KS": mean_ks(table, release.data, table.column_names[:5])}
    record(work, group=f"blocked: {name}", rows=rows, columns=5, rounds=rounds, warm=warm, quality=quality)
