"""Reading and writing of files: CSV with types found and checked, against Arrow's and pandas' readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from frame import Record, sizes, ways

from gpuanon.tables.formats import io
from gpuanon.tables.formats.writing import write
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def csv(folder: Path, rows: int) -> Path:
    """The generated registry as a CSV."""
    path = folder / f"{rows}.csv"
    if not path.exists():
        pyarrow.csv.write_csv(make_registry(rows, seed=1), path)
    return path


@sizes(20_000, 200_000, full=(2_000_000,))
@ways("pyarrow", "pandas", "numpy")
def test_reading_csv(record: Record, folder: Path, rows: int, way: str) -> None:
    """15 columns; gpuanon finds types that keep every text, and refuses ragged lines."""
    path = csv(folder, rows)
    if way == "pandas":
        import pandas as pd

        work: Any = lambda: pd.read_csv(path)
    else:
        work = (lambda: pyarrow.csv.read_csv(path)) if way == "pyarrow" else (lambda: io.read(path))
    record(work, group="files: reading CSV", rows=rows, columns=15)


@sizes(20_000, 200_000, full=(2_000_000,))
@ways("pyarrow", "pandas", "numpy")
def test_writing_csv(record: Record, folder: Path, rows: int, way: str) -> None:
    """15 columns."""
    table, path = make_registry(rows, seed=1), folder / "written.csv"
    if way == "pandas":
        frame = table.to_pandas()
        work: Any = lambda: frame.to_csv(path, index=False)
    elif way == "pyarrow":
        work = lambda: pa.csv.write_csv(table, path)
    else:
        work = lambda: write(Table.of(table), path, force=True)
    record(work, group="files: writing CSV", rows=rows, columns=15)
