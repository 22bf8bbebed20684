"""Every kind of method and every measure on both backends: the last part of `gpuanon doctor --full`.

The tables are made up, and of a size that ends in seconds on either device.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

from gpuanon.arrays.backend import choose

ROWS = 20_000
"""Rows of the tables, at most."""

MASKS: dict[str, dict[str, Any]] = {
    "Gaussian dither": {"method": "distribution-preserving", "k": 5},
    "Gaussian dither in single precision": {"method": "distribution-preserving", "k": 5, "precision": "single"},
    "permutation in groups": {"method": "distribution-preserving", "k": 5, "dither": "permute"},
    "boxes": {"method": "optimal-boxes", "k": 5, "sweeps": 1},
    "Mondrian": {"method": "mondrian", "k": 5},
    "optimal groups of each column": {"method": "microaggregation", "k": 5, "groups": "optimal-univariate"},
    "Gower's distance": {"method": "microaggregation", "k": 5, "metric": "gower"},
    "principal components swapped": {"method": "svd-swap", "tol": 0.5},
    "spectral clusters": {"method": "pica", "target": 40, "block": 256},
    "noise by density": {"method": "noise", "kind": "data-dependent"},
    "ranks swapped": {"method": "rank-swap", "window": 10},
    "copula": {"method": "copula"},
    "condensation": {"method": "clustered-synthesis", "k": 5},
    "recoding": {"method": "recode", "k": 3, "limit": 1.0, "columns": ["sex", "region"]},
    "local suppression": {"method": "blank", "k": 3, "columns": ["sex", "region"]},
    "rows added": {"method": "synthetic-rows", "k": 2, "columns": ["sex", "region"]},
}
"""One of each family of methods; the tests run all of them."""

BY_CUML = ("pmse_forest", "cluster_balance")
"""Measures by cuML's forests and clusters, which are not scikit-learn's; the doctor compares them by themselves."""

_SAME_SHARE = 0.98  # of rows: whole numbers may be rounded, and values drawn, either way
_TOLERANCE = 1e-6  # of figures: sums run in another order


def table(rows: int) -> pa.Table:
    """A made-up registry."""
    rng = np.random.default_rng(rows)
    age = rng.integers(18, 90, rows)
    income = np.exp(rng.normal(10, 0.6, rows) + age / 100)
    codes = {"sex": rng.integers(0, 2, rows), "region": rng.integers(0, 4, rows)}
    cost = income * 0.01 + rng.normal(size=rows)
    columns = {"age": age, "income": income, "bmi": rng.normal(26, 4, rows).round(1), "cost": cost}
    return pa.table({**columns, **{name: np.array([*"abcd"])[values] for name, values in codes.items()}})


def _recipe(mask: dict[str, Any]) -> dict[str, Any]:
    roles = dict.fromkeys(("age", "income", "bmi", "sex", "region"), "quasi") | {"cost": "sensitive"}
    columns: dict[str, dict[str, Any]] = {name: {"role": role} for name, role in roles.items()}
    for name in set(roles) - set(mask.get("columns", roles)) - {"cost"}:
        columns[name]["keep"] = True
    return {"columns": columns, "mask": [mask]}


def compared_method(mask: dict[str, Any], rows: int) -> dict[str, Any]:
    """A method on both backends: the share of released rows that are the same, and the seconds of each."""
    from gpuanon.engine.protect import protect

    data, releases, seconds = table(min(rows, ROWS)), [], {}
    for backend in ("cupy", "numpy"):
        began = time.perf_counter()
        releases.append(protect(data, _recipe(mask), rng=7, backend=backend).data)
        seconds[backend] = {"all": time.perf_counter() - began}
    share = _same_rows(*releases)
    return {"passed": share >= _SAME_SHARE, "equal_share": share, "seconds": seconds}


def _same_rows(found: pa.Table, expected: pa.Table) -> float:
    """Share of the rows that agree in every column: numbers to rounding, whole ones to 1."""
    if found.schema != expected.schema or found.num_rows != expected.num_rows:
        return 0.0
    same = np.ones(found.num_rows, dtype=bool)
    for name in expected.column_names:
        type_ = expected[name].type
        if pa.types.is_floating(type_) or pa.types.is_integer(type_):
            a, b = (column[name].cast(pa.float64()).to_numpy() for column in (found, expected))
            allowed = 1.0 if pa.types.is_integer(type_) else 1e-9 + 1e-7 * np.abs(b)
            same &= (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b))
        else:
            same &= np.array(
                [one == other for one, other in zip(*(t[name].to_pylist() for t in (found, expected)), strict=True)]
            )
    return float(same.mean())


def compared_measures(rows: int) -> dict[str, Any]:
    """All measures that run on a device, on both backends: those whose figures differ, and the seconds of each."""
    from gpuanon.assessing.comparison import Comparison
    from gpuanon.assessing.measures import MEASURES
    from gpuanon.assessing.run import compute
    from gpuanon.engine.protect import protect
    from gpuanon.tables.schema import Schema
    from gpuanon.tables.table import Table

    data, recipe = table(2 * min(rows, ROWS)), _recipe({"method": "noise", "b": 0.1})
    half = len(data) // 2
    original, reference = Table.of(data.slice(0, half)), Table.of(data.slice(half))
    release = protect(original, recipe, rng=7, backend="numpy")
    schema = Schema.resolve(original, recipe["columns"])
    names = tuple(measure.name for measure in MEASURES.values() if measure.host is None and measure.name not in BY_CUML)
    found, seconds = [], {}
    for backend in ("cupy", "numpy"):
        began = time.perf_counter()
        comparison = Comparison(original, release.table, schema, release.link, reference, choose(backend))
        found.append(compute(comparison, names))
        seconds[backend] = {"all": time.perf_counter() - began}
    apart = [name for name in names if not _same_figure(*(one.measured.get(name) for one in found))]
    return {"passed": not apart, "measures": len(names), "different": apart, "seconds": seconds}


def _same_figure(found: Any, expected: Any) -> bool:
    """Whether both could be computed and agree, or neither could."""
    if found is None or expected is None:
        return found is expected
    return bool(np.isclose(float(found.value), float(expected.value), rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True))
