"""A release without intervals: what merges over pieces is what NumPy says of the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.assessing.intervals.ranges_of_statistics import PlainValues, ReleasedBoxes
from gpuanon.errors import InputError
from gpuanon.tables.table import Table


def table(rows: int = 500) -> pa.Table:
    """Two dependent columns with missing values, far from 0, and one with few different values."""
    rng = np.random.default_rng(11)
    x = rng.normal(1e6, 3.0, rows)
    columns = {"x": x, "y": x - 1e6 + rng.normal(size=rows), "few": rng.integers(0, 3, rows).astype(float)}
    for name in ("x", "y"):
        columns[name][rng.random(rows) < 0.2] = np.nan
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


def plain(data: pa.Table, piece: int) -> PlainValues:
    pieces = (Table.of(data.slice(at, piece)) for at in range(0, data.num_rows, piece))
    found = PlainValues.over(map(ReleasedBoxes.each, pieces))
    assert found is not None
    return found


@pytest.mark.parametrize("piece", [500, 70, 9])
def test_means_and_covariances_are_those_of_the_records_that_have_both_values(piece: int) -> None:
    data = table()
    found, held = plain(data, piece), ReleasedBoxes.of(Table.of(data))
    values = {name: data[name].to_numpy() for name in data.column_names}
    for one in values:
        assert found.mean(one) == held.mean(one)  # exact sums: to the bit
        for other in values:
            both = ~(np.isnan(values[one]) | np.isnan(values[other]))
            expected = np.cov(values[one][both] - 1e6, values[other][both], bias=True)[0, 1]
            low, high = found.covariance(one, other)
            assert low == high == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_different_records_are_counted_once_over_all_pieces() -> None:
    data = pa.concat_tables([table(), table().slice(0, 100)])
    rows = data.to_pandas().drop_duplicates()
    assert plain(data, 90).boxes == len(rows) == ReleasedBoxes.of(Table.of(data)).boxes
    assert plain(data, 90).rows == 600


def test_a_box_with_a_width_in_any_piece_is_no_plain_value() -> None:
    narrow, wide = (pa.table({"x_low": [1.0, 2.0], "x_high": [1.0, high]}) for high in (2.0, 2.5))
    assert PlainValues.over(ReleasedBoxes.each(Table.of(piece)) for piece in (narrow, narrow)) is not None
    assert PlainValues.over(ReleasedBoxes.each(Table.of(piece)) for piece in (narrow, wide)) is None


def test_columns_without_a_common_record_have_no_covariance() -> None:
    found = plain(pa.table({"x": [1.0, None], "y": [None, 1.0]}), 2)
    with pytest.raises(InputError, match="at least one record"):
        found.covariance("x", "y")
