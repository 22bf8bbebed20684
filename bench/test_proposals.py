"""Proposals at size: minimal sample uniques up to triples, and `init` of a wide CSV."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from frame import Record, sizes

from gpuanon.assessing.risk.suda2 import uniques


@pytest.mark.parametrize("kind", ["mixed", "wide", "continuous"])
@sizes(100_000, full=(1_000_000,))
def test_minimal_uniques(record: Record, kind: str, rows: int) -> None:
    """Eight columns of a few hundred levels, of 300 each, or of as many as rows."""
    counts = {"mixed": (100, 2, 50, 10, 5, 900, 17, 40), "wide": (300,) * 8, "continuous": (rows,) * 8}[kind]
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, count, rows) for count in counts], axis=1)
    names = [f"c{at}" for at in range(len(counts))]
    quality = lambda found: {"records with a minimal unique %": 100 * found.share}
    work = lambda: uniques(codes, names, 3)
    record(work, group=f"proposals: suda2, {kind} levels", rows=rows, columns=8, rounds=1, warm=False, quality=quality)


def wide_table(rows: int) -> pa.Table:
    """Sixty columns: identifiers, numbers, categories, codes, amounts."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "patient_id": rng.permutation(rows) + rows,
        "age": rng.integers(0, 100, rows),
        "sex": rng.integers(0, 2, rows),
        "zip": rng.integers(10_000, 10_090, rows),
        "email": pa.array([f"u{at}@example.org" for at in range(rows)]),
    }
    columns |= {f"lab{at}": rng.normal(100, 20, rows).round(2) for at in range(20)}
    levels = np.array([f"level{at}" for at in range(10)])
    columns |= {f"cat{at}": pa.array(levels[rng.integers(0, 10, rows)]) for at in range(15)}
    columns |= {f"int{at}": rng.integers(0, 1000, rows) for at in range(15)}
    columns |= {f"cost{at}": rng.lognormal(6, 2, rows).round(2) for at in range(5)}
    return pa.table(columns)


@sizes(50_000, full=(1_000_000,))
def test_init(record: Record, tmp_path: Path, rows: int) -> None:
    """The command in a process of its own."""
    path = tmp_path / "registry.csv"
    pyarrow.csv.write_csv(wide_table(rows), path)
    command = [sys.executable, "-m", "gpuanon.cli.app", "init", str(path), "--yes", "--quiet", "--force"]
    work = lambda: subprocess.run(command, check=True, capture_output=True) and None
    record(work, group="proposals: init of a CSV of 60 columns", rows=rows, columns=60, rounds=1, warm=False)
