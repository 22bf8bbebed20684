"""Every method of the catalogue from table to checked release, on ten mixed columns: seconds and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bench_families import KEY, MASKS, recipe, table
from frame import Record, mean_ks, sizes

import gpuanon
from gpuanon.errors import GuaranteeError

FULL = ("spectral × tca × tree-swap", "optimal-boxes, 3 columns")
"""The slowest two, which run at the smallest size only."""


def utility(original: pa.Table, released: pa.Table) -> dict[str, float]:
    """Mean KS distance and largest change of a correlation of the columns that are released as floats; rows."""
    numeric = [name for name in original.column_names if pa.types.is_floating(original[name].type)]
    numeric = [name for name in numeric if name in released.column_names and pa.types.is_floating(released[name].type)]
    found = {"rows %": 100 * released.num_rows / original.num_rows}
    if len(numeric) > 1 and not any(released[name].null_count for name in numeric):
        before, after = (
            np.corrcoef(np.stack([side[name].to_numpy() for name in numeric])) for side in (original, released)
        )
        found |= {"mean KS": mean_ks(original, released, numeric)}
        found |= {"change of correlation": float(np.abs(after - before).max())}
    return found


@pytest.mark.parametrize("name", list(MASKS))
@sizes(10_000, full=(100_000,))
def test_methods(record: Record, name: str, rows: int) -> None:
    """One run each."""
    if name in FULL and rows > 10_000:
        pytest.skip("one of the slowest two")
    data = table(rows)
    masked = recipe(name, data.column_names)
    work: Any = lambda: gpuanon.protect(data, masked, rng=KEY, backend="numpy")
    quality = lambda release: utility(data, release.data)
    try:
        record(work, group=f"methods: {name}", rows=rows, columns=10, rounds=1, warm=False, quality=quality)
    except GuaranteeError:
        pytest.skip("refused on this table")
