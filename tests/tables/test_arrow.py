"""Arrow arrays from values of NumPy and Python: equal to pyarrow's own, and made without pandas."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.tables.arrow import arrow_array, arrow_scalar, empty_table, numpy_array

ARRAYS = [
    np.array([True, False, True, True, False, False, True, False, True]),
    *(np.array([0, 1, 2, 100], dtype) for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64", "uint64")),
    np.array([-(2**63), 2**63 - 1]),
    np.array([0.5, -0.0, np.nan, np.inf]),
    np.array([0.5, np.nan], np.float32),
    np.array([0.5, np.nan], np.float16),
    np.arange(20.0)[::3],
    np.array([1, 2], ">i8").astype(np.int64),
    np.empty(0),
    np.empty(0, bool),
    np.array(["2020-02-29", "NaT"], "datetime64[D]"),
    np.array(["a", None], object),
    np.ma.masked_array([1, 2, 3], [False, True, False]),
]
SEQUENCES = [
    ("a", "", "Ålvik", "日本"),
    ["x"],
    [1, -2, 2**63 - 1],
    [1.5, float("nan")],
    [True, False],
    [1, 2.5],
    ["a", None],
    [None],
    [],
    [np.float64(2.0), np.float64(3.0)],
]


def same(found, wanted):
    """Equality of type and of values to the bit, where NaN is equal to NaN."""
    found.validate(full=True)
    assert found.type == wanted.type
    assert found.null_count == wanted.null_count
    assert [str(value) for value in found] == [str(value) for value in wanted]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: f"{values.dtype}-{len(values)}")
def test_an_array_is_as_pyarrow_makes_it(values):
    same(arrow_array(values), pa.array(values))


@pytest.mark.parametrize("values", ARRAYS[:-1], ids=lambda values: f"{values.dtype}-{len(values)}")
@pytest.mark.parametrize("every", [1, 2, 1000])
def test_an_array_with_nulls_is_as_pyarrow_makes_it(values, every):
    null = np.arange(1, len(values) + 1) % every == 0
    same(arrow_array(values, null=null), pa.array(values, mask=null))


@pytest.mark.parametrize("values", SEQUENCES, ids=str)
def test_a_sequence_is_as_pyarrow_makes_it(values):
    same(arrow_array(values), pa.array(values))


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["a", "b"], pa.large_string()),
        ([], pa.string()),
        ([], pa.dictionary(pa.int32(), pa.string())),
        ([1, 2], pa.int8()),
        ([1, 2], pa.float64()),
        (np.arange(3), pa.int16()),
        (np.arange(3.0), pa.int64()),
    ],
    ids=str,
)
def test_a_type_can_be_asked_for(values, type_):
    same(arrow_array(values, type_), pa.array(values, type_))


@pytest.mark.parametrize(("values", "type_"), [([300], pa.int8()), (np.array([0.5]), pa.int64())])
def test_a_value_that_does_not_fit_is_refused(values, type_):
    with pytest.raises(pa.ArrowInvalid):
        arrow_array(values, type_)


def test_a_whole_number_beyond_64_bits_is_refused():
    with pytest.raises(OverflowError):
        arrow_array([2**63])


def test_nulls_of_another_length_are_refused():
    with pytest.raises(ValueError, match="length"):
        arrow_array(np.arange(3), null=np.zeros(2, bool))


def test_memory_is_shared_and_outlives_the_array():
    values = np.arange(1000)
    array = arrow_array(values)
    assert array.buffers()[1].address == values.ctypes.data
    del values
    assert array[999].as_py() == 999


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (0, pa.uint64()),
        (-1, pa.int32()),
        (0, pa.float64()),
        (float("nan"), pa.float32()),
        (True, pa.bool_()),
        ("", pa.string()),
        ("x", pa.large_string()),
        (None, pa.float64()),
        (None, pa.string()),
    ],
    ids=str,
)
def test_a_scalar_is_as_pyarrow_makes_it(value, type_):
    found, wanted = arrow_scalar(value, type_), pa.scalar(value, type_)
    assert found.type == wanted.type
    assert str(found) == str(wanted)


COLUMNS = [
    *map(pa.array, ARRAYS),
    pa.array([1.5, None, float("nan")]),
    pa.array([None, None], pa.float64()),
    pa.array([1, None]),
    pa.array([True, None]),
    pa.array(["a", None]),
    pa.array([0, 1], pa.date32()),
    pa.chunked_array([], pa.int16()),
    pa.chunked_array([[]], pa.bool_()),
    pa.chunked_array([[1.5, None], [], [2.5]]),
    pa.chunked_array([[True], [False, True]]),
    pa.chunked_array([[1, 2], [3, None]]),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.type}-{len(column)}")
@pytest.mark.parametrize("skipped", [0, 1])
def test_a_column_becomes_the_array_that_pyarrow_makes_of_it(column, skipped):
    column = column.slice(skipped)
    found, wanted = numpy_array(column), column.to_numpy(zero_copy_only=False)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("first", range(0, 40, 3))
@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 23])
def test_truth_values_and_nulls_are_read_from_any_offset(first, length):
    rng = np.random.default_rng(0)
    flags, null = rng.random(100) < 0.5, rng.random(100) < 0.5
    np.testing.assert_array_equal(
        numpy_array(arrow_array(flags)[first : first + length]), flags[first : first + length]
    )
    numbers = arrow_array(np.arange(100.0), null=null)[first : first + length]
    np.testing.assert_array_equal(
        numpy_array(numbers), np.where(null, np.nan, np.arange(100.0))[first : first + length]
    )


def test_numbers_without_nulls_are_not_copied():
    values = np.arange(10.0)
    assert np.shares_memory(numpy_array(arrow_array(values)), values)
    assert np.shares_memory(numpy_array(pa.chunked_array([arrow_array(values)])[3:]), values)


def test_an_empty_table_is_as_pyarrow_makes_it():
    types = [
        pa.int8(),
        pa.string(),
        pa.dictionary(pa.int8(), pa.string(), ordered=True),
        pa.list_(pa.date32()),
        pa.null(),
    ]
    schema = pa.schema([pa.field(str(at), type_) for at, type_ in enumerate(types)], metadata={"a": "b"})
    assert empty_table(schema).equals(schema.empty_table(), check_metadata=True)


def test_pandas_is_not_imported():
    code = """if True:
        import sys, numpy as np, pyarrow as pa
        from gpuanon.tables.arrow import arrow_array, arrow_scalar, empty_table, numpy_array
        arrow_array(np.arange(3), pa.int8(), np.arange(3) > 1), arrow_array(["a"]), arrow_array([1]), arrow_array([])
        numpy_array(arrow_array(np.arange(3.0), null=np.arange(3) > 1)), numpy_array(arrow_array([True, False]))
        empty_table(pa.schema([("a", pa.string())]))
        arrow_scalar(0.0, pa.float64()), arrow_scalar(None, pa.string())
        assert "pandas" not in sys.modules
        """
    subprocess.run([sys.executable, "-c", code], check=True)
