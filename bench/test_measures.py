"""Assessment of a release: all measures side by side as `assess` runs them, and the search that most attacks need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from frame import Record, normals, on, sizes, ways

import gpuanon
from gpuanon.numerics.distance.distance import k_nearest


def compared(rows: int, columns: int = 10) -> tuple[dict[str, Any], dict[str, Any]]:
    """Original, release (noise, in random order) and recipe; link and a reference of half as many records."""
    rng = np.random.default_rng(0)
    X = normals(rows + rows // 2, columns).round(4)
    order = rng.permutation(rows)
    Y = (X[:rows] + 0.3 * rng.standard_normal((rows, columns))).round(4)[order]
    names = [f"x{j}" for j in range(columns)]
    original, release, reference = (pa.table(dict(zip(names, side.T, strict=True))) for side in (X[:rows], Y, X[rows:]))
    roles = {name: {"role": "quasi" if at < columns - 2 else "sensitive"} for at, name in enumerate(names)}
    recipe = {"columns": roles, "mask": [{"method": "svd-swap"}]}
    return {"original": original, "release": release, "recipe": recipe}, {"link": order, "reference": reference}


@sizes(10_000, full=(100_000,))
@ways("numpy", "compiled", "cupy")
def test_assess(record: Record, rows: int, way: str) -> None:
    """Every measure that this table has the evidence for."""
    tables, evidence = compared(rows)
    backend: Any = "cupy" if way == "cupy" else "numpy"
    work = lambda: gpuanon.assess(**tables, **evidence, backend=backend)
    quality = lambda found: {"measures": float(len(found.measured))}
    record(work, group="assess: all measures", rows=rows, columns=10, rounds=1, warm=False, quality=quality)


@sizes(20_000, full=(100_000,))
@ways("scikit-learn", "numpy", "compiled", "cupy")
def test_nearest_released_records(record: Record, rows: int, way: str) -> None:
    """The five nearest released records of every original: most pairs are left out by bounds, the result is exact."""
    X = normals(rows, 8)
    Y = X + 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    if way == "scikit-learn":
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=5, algorithm="kd_tree").fit(Y)
        work: Any = lambda: search.kneighbors(X)
    else:
        there = on(way, X, Y)
        work = lambda: k_nearest(*there, 5)
    record(work, group="assess: five nearest released records", rows=rows, columns=8, rounds=1)
