"""Masking in parts: on two workers from Parquet parts to Parquet parts, and the effect of cell borders on the loss."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import parts
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from frame import Record, normals, sizes

from gpuanon.engine.protect import protect_in_parts
from gpuanon.recipe import Recipe

pytestmark = pytest.mark.filterwarnings("ignore")  # Dask's, at the end of a cluster

COLUMNS = 4


@pytest.fixture
def source(tmp_path: Path, rows: int) -> Iterator[Path]:
    """Parquet parts of so many rows, removed afterwards."""
    parts.make_parts(tmp_path / "table", rows, COLUMNS)
    yield tmp_path / "table"
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("method", list(parts.METHODS))
@sizes(500_000, full=(1_000_000, 10_000_000))
def test_two_workers(record: Record, source: Path, method: str, rows: int) -> None:
    """Four columns; processor time is that of the workers, per row in µs."""
    how = argparse.Namespace(workers=2, memory="3GB", masked=COLUMNS, cell=parts.CELL_ROWS)

    def quality(found: dict[str, Any]) -> dict[str, float]:
        return {"worker processor µs per row": found["worker_cpu_us_per_row"], "worker MB": found["peak_worker_rss_mb"]}

    work = lambda: parts.in_parts(source, method, rows, how)
    name = f"two workers: {method}, k = 10"
    record(work, group=name, rows=rows, columns=COLUMNS, rounds=1, warm=False, quality=quality)


@pytest.mark.parametrize("cell", [0, 25_000, pytest.param(100_000, marks=pytest.mark.full)])
@sizes(100_000, full=(400_000,))
def test_cell_borders(record: Record, tmp_path: Path, rows: int, cell: int) -> None:
    """Microaggregation of the whole table (cell 0) and in cells; an unmasked column holds the row numbers."""
    X = normals(rows, 8)
    table = pa.table({"row": np.arange(rows), **{f"x{j}": X[:, j] for j in range(8)}})
    pq.write_table(table, tmp_path / "table.parquet")
    columns = {f"x{j}": {"role": "quasi"} for j in range(8)} | {"row": {"role": "other"}}
    recipe = Recipe.load({"columns": columns, "mask": [{"method": "microaggregation", "k": 10}]})
    output = tmp_path / "release"
    options: Any = {"key": parts.KEY, "backend": "numpy", "cell_rows": cell or 10**9, "force": True}
    work = lambda: protect_in_parts(tmp_path / "table.parquet", recipe, output, **options)

    def quality(_: Any) -> dict[str, float]:
        release = pq.read_table(output)
        masked = np.column_stack([release[f"x{j}"].to_numpy() for j in range(8)])
        apart = X[release["row"].to_numpy()] - masked
        return {"loss %": float(100 * np.square(apart).sum() / np.square(X).sum())}

    name = f"cell borders: {cell:,} rows" if cell else "cell borders: whole table"
    record(work, group=name, rows=rows, columns=8, rounds=1, warm=False, quality=quality)
