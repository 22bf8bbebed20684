"""Releases of two devices are the same, but for rounding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def assert_same_release(found: pa.Table, expected: pa.Table) -> None:
    """Equal, but for the last digits of floating-point numbers.

    A mean that lies half way between two whole numbers may be rounded either way: sums run in another order.
    """
    assert found.schema == expected.schema
    for name in expected.column_names:
        ours, theirs = found[name].combine_chunks(), expected[name].combine_chunks()
        if pa.types.is_floating(theirs.type):
            assert ours.is_null().equals(theirs.is_null())
            a, b = (column.to_numpy(zero_copy_only=False) for column in (ours, theirs))
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        elif pa.types.is_integer(theirs.type):
            assert ours.is_null().equals(theirs.is_null())
            a, b = (column.fill_null(0).to_numpy().astype(np.int64) for column in (ours, theirs))
            assert np.abs(a - b).max() <= 1
            assert np.mean(a != b) <= 0.02
        else:
            assert ours.equals(theirs), name
