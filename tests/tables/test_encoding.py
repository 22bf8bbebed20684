"""The encoding: inverse to the bit, the stated scaling, null policies, fits that do not depend on the partitioning."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.preprocessing import StandardScaler

import gpuanon
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.encoding import Encoding, Feature
from gpuanon.tables.formats import io
from gpuanon.tables.registry import make_registry
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from tests.support.frames import KINDS, arrow_tables, as_kind, example_table, same


def fitted(data, columns=None, **options) -> tuple[Table, Encoding]:
    """A table and the encoding of all its columns, with what `columns` says of some."""
    table = Table.of(data)
    said = {name: {"role": "quasi", **(columns or {}).get(name, {})} for name in table.names}
    return table, Encoding.fit(table, Schema.resolve(table, said), "all", **{"nulls": "indicator", **options})


def returned(table: Table, encoding: Encoding):
    """The decoded table when nothing is masked."""
    return table.replace(encoding.decode(encoding.encode(table), table)).to_native()


# Inverse


@pytest.mark.parametrize("categories", ["balanced", "indicator"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, phases=[Phase.explicit, Phase.generate])  # to shrink thirteen columns takes minutes
@given(table=arrow_tables())
@example(table=example_table())
@example(table=example_table(0))
@example(table=example_table(1))
@example(table=example_table(nulls=False))
def test_unmasked_values_are_decoded_to_the_bit(kind: str, categories: str, table: pa.Table) -> None:
    frame, encoding = fitted(as_kind(table, kind), categories=categories)
    matrix = encoding.encode(frame)
    assert matrix.shape == (table.num_rows, len(encoding.features))
    assert np.isfinite(matrix).all()
    assert same(returned(frame, encoding), frame.to_native())


@pytest.mark.parametrize("transform", ["none", "log", "log1p", "normal-scores"])
@given(values=st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40))
@example(values=[5.0])
@example(values=[0.1, 0.2, 0.1, 1e6])
def test_transforms_are_undone(transform: str, values: list[float]) -> None:
    table, encoding = fitted(pa.table({"x": values}), {"x": {"transform": transform}})
    back = returned(table, encoding)["x"].to_numpy()
    # A value is a sum of numbers as large as the mean: rounding is relative to that.
    assert np.allclose(back, values, rtol=1e-11, atol=1e-13 * max(values))


@pytest.mark.parametrize("transform", ["none", "log", "log1p", "normal-scores"])
def test_short_decimals_come_back_exactly(transform: str) -> None:
    values = np.round(np.random.default_rng(0).lognormal(5, 2, 5000), 2) + 0.01
    values = np.round(values, 2)
    table, encoding = fitted(pa.table({"x": values}), {"x": {"transform": transform}})
    assert np.array_equal(returned(table, encoding)["x"].to_numpy(), values)


@pytest.mark.parametrize("transform", ["none", "log", "log1p", "normal-scores"])
def test_unmasked_rows_of_any_float_come_back_to_the_bit(transform: str) -> None:
    values = np.random.default_rng(0).lognormal(0, 3, 2000)
    table, encoding = fitted(pa.table({"x": pa.array(values, mask=values > 50)}), {"x": {"transform": transform}})
    matrix = encoding.encode(table)
    assert encoding.decode(matrix, table)["x"].to_native().equals(table.arrow("x"))
    matrix[::2, 0] += 0.1
    back = encoding.decode(matrix, table)["x"].to_native().to_numpy()
    assert np.array_equal(back[1::2], table.arrow("x").to_numpy()[1::2], equal_nan=True)


def test_means_are_not_rounded_to_the_decimals_of_the_column() -> None:
    table, encoding = fitted(pa.table({"x": [1.5, 2.0, 4.0]}))
    mean = encoding.encode(table).mean(axis=0, keepdims=True)
    assert encoding.decode(mean, table)["x"].to_list() == pytest.approx([2.5], rel=1e-15)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@example([2**63 - 1, 2**63 - 1])
@example([-(2**63), 2**63 - 1])
@example([2**53 + 1])
def test_large_whole_numbers_stay_in_their_type_and_range(values: list[int]) -> None:
    table, encoding = fitted(pa.table({"x": pa.array(values, pa.int64())}))
    back = returned(table, encoding)["x"]
    assert back.type == pa.int64()
    assert min(values) <= min(back.to_pylist()) <= max(back.to_pylist()) <= max(values)
    assert np.allclose(np.array(back.to_pylist(), float), np.array(values, float), rtol=1e-14, atol=2.0**12)
    if min(values) == max(values):
        assert back.to_pylist() == values


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
@example([0, 2**64 - 1])
def test_the_largest_unsigned_numbers_stay_in_range(values: list[int]) -> None:
    table, encoding = fitted(pa.table({"x": pa.array(values, pa.uint64())}))
    back = returned(table, encoding)["x"].to_pylist()
    assert min(values) <= min(back) <= max(back) <= max(values)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_leaves_every_type_and_whole_values_in_their_range(kind: str) -> None:
    table, encoding = fitted(as_kind(example_table(200), kind))
    matrix = encoding.encode(table) + np.random.default_rng(1).normal(0, 3, (200, len(encoding.features)))
    noisy = table.replace(encoding.decode(matrix, table))
    assert [str(dtype) for dtype in noisy.frame.schema.values()] == [
        str(dtype) for dtype in table.frame.schema.values()
    ]
    if kind.startswith("pandas"):
        assert (noisy.to_native().dtypes == table.to_native().dtypes).all()
    before, after = table.to_arrow(), noisy.to_arrow()
    whole = ["date", "moment", "zoned", "length"]
    whole += [] if kind == "pandas" else ["int8", "int16", "int64", "uint64"]  # pandas has floats where there are nulls
    for name in whole:
        seen, now = [
            [cell for cell in column[name].to_pylist() if cell == cell and cell is not None]
            for column in (before, after)
        ]
        assert min(seen) <= min(now), name
        assert max(now) <= max(seen), name
    for name in ("bool", "text", "dictionary"):
        assert set(after[name].to_pylist()) <= set(before[name].to_pylist())
    assert not same(noisy.to_native(), table.to_native()) if kind == "pyarrow" else True


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_days_stay_days_and_minutes_minutes_in_every_unit(unit: str) -> None:
    days = np.array(["2020-02-29", "2021-03-01", "2022-12-31"], dtype=f"datetime64[{unit}]")
    minutes = days + np.array([61, 7, 1], dtype="timedelta64[m]")
    table, encoding = fitted(pa.table({"day": days, "minute": minutes}))
    middle = encoding.decode(encoding.encode(table).mean(axis=0, keepdims=True) + 0.01, table)
    day, minute = (middle[name].to_native().to_numpy()[0] for name in ("day", "minute"))
    assert day == day.astype("datetime64[D]")
    assert minute == minute.astype("datetime64[m]")
    assert middle["day"].to_native().type == table.arrow("day").type


@pytest.mark.parametrize(
    ("type_", "through", "numbers"),
    [
        (pa.date64(), pa.int64(), [86_400_000, 172_800_000]),
        (pa.time32("s"), pa.int32(), [3, 250, 60, 60]),
        (pa.time64("ns"), pa.int64(), [3, 250, 60, 60]),
        (pa.decimal128(8, 2), pa.float64(), [1.25, 99.99, -3.5]),
        (pa.float16(), pa.float16(), [1.5, 2.25, -3.0]),
        (pa.uint8(), pa.uint8(), [0, 255, 7]),
        (pa.dictionary(pa.int8(), pa.int64()), pa.int64(), [3, 1, 3]),
        (pa.large_string(), pa.string(), ["a", "b", "c"]),
        (pa.string_view(), pa.string(), ["a", "b", "c"]),  # comes in as large_string: Arrow cannot take from it
    ],
    ids=str,
)
def test_rarer_arrow_types(type_: pa.DataType, through: pa.DataType, numbers: list) -> None:
    column = pa.array(numbers, through)
    column = column.dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else column.cast(type_)
    data = pa.table({"x": pa.chunked_array([column, pa.nulls(1, type_)])})
    table, encoding = fitted(data)
    assert same(returned(table, encoding), table.to_native())


def test_small_floats_do_not_overflow() -> None:
    table, encoding = fitted(pa.table({"x": pa.array([1.0, 1e30], pa.float32())}), {"x": {"transform": "log"}})
    back = encoding.decode(np.array([[1e6], [-1e6]]), table)["x"].to_list()
    assert back == pytest.approx([np.finfo(np.float32).max, 0.0])


def test_decimals_are_rounded_to_their_scale() -> None:
    column = pa.array(["1.25", "2.50"]).cast(pa.decimal128(6, 2))
    table, encoding = fitted(pa.table({"x": column}))
    assert [str(cell) for cell in encoding.decode(np.array([[0.01], [9.0]]), table)["x"].to_list()] == ["1.88", "2.50"]


def test_categories_and_codes_of_every_kind_come_back() -> None:
    frame = pd.DataFrame(
        {"c": pd.Categorical(["b", None, "a"], ["z", "b", "a"]), "i": pd.Categorical([3, 1, 3], [3, 2, 1])}
    )
    table, encoding = fitted(frame)
    back = returned(table, encoding)
    pd.testing.assert_frame_equal(back, frame)
    assert back["c"].cat.codes.tolist() == frame["c"].cat.codes.tolist()
    enum = pl.DataFrame({"e": pl.Series(["b", "a", None], dtype=pl.Enum(["z", "b", "a"]))})
    table, encoding = fitted(enum)
    assert returned(table, encoding).equals(enum)
    assert returned(table, encoding).schema == enum.schema


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_may_receive_a_level_that_it_does_not_hold(kind: str) -> None:
    whole, encoding = fitted(as_kind(example_table(nulls=False), kind))
    part = whole.take(np.arange(3))
    back = encoding.decode(encoding.encode(whole), part)
    for name in ("bool", "text", "dictionary"):
        assert back[name].to_list() == whole.series(name).to_list()
        assert back[name].dtype == whole.series(name).dtype


def test_the_input_is_not_modified() -> None:
    frame = as_kind(example_table(), "pandas")
    copy = frame.copy(deep=True)
    table, encoding = fitted(frame)
    returned(table, encoding)
    pd.testing.assert_frame_equal(frame, copy)


# What the matrix holds


def test_numbers_are_standardised_as_scikit_learn_does() -> None:
    values = np.random.default_rng(0).gamma(2, 3, (500, 2))
    table, encoding = fitted(pa.table({"a": values[:, 0], "b": values[:, 1]}))
    assert np.allclose(encoding.encode(table), StandardScaler().fit_transform(values), rtol=1e-12, atol=1e-12)


def test_normal_scores_are_those_of_the_mid_ranks() -> None:
    values = np.array([3.0, 1.0, 2.0, 2.0, 10.0, 2.0])
    table, encoding = fitted(pa.table({"x": values}), {"x": {"transform": "normal-scores"}})
    scores = stats.norm.ppf((stats.rankdata(values) - 0.5) / len(values))
    assert np.allclose(encoding.encode(table)[:, 0], (scores - scores.mean()) / scores.std(), rtol=1e-12)


def test_normal_scores_of_very_many_values_are_close_to_normal() -> None:
    values = np.random.default_rng(0).lognormal(0, 2, 200_000)
    table, encoding = fitted(pa.table({"x": values}), {"x": {"transform": "normal-scores"}})
    matrix = encoding.encode(table)
    assert stats.kstest(matrix[:, 0], "norm").statistic < 1e-3
    assert np.array_equal(np.argsort(matrix[:, 0], kind="stable"), np.argsort(values, kind="stable"))
    assert np.allclose(encoding.decode(matrix, table)["x"].to_numpy(), values, rtol=1e-9)


def test_indicators_are_plus_and_minus_one() -> None:
    table, encoding = fitted(
        pa.table({"two": ["a", "b", "a", "a"], "three": ["x", "y", "z", "x"]}), categories="indicator"
    )
    expected = [[-1, 1, -1, -1], [1, -1, 1, -1], [-1, -1, -1, 1], [-1, 1, -1, -1]]
    assert encoding.encode(table).tolist() == expected
    assert encoding.features == (
        Feature("two", "level", 1),
        Feature("three", "level", 0),
        Feature("three", "level", 1),
        Feature("three", "level", 2),
    )


def test_every_column_has_the_variance_one_when_balanced() -> None:
    table, encoding = fitted(
        make_registry(2000).drop_columns(["person_id"]),
        {"cost": {"transform": "log1p"}, "education": {"kind": "ordinal"}},
    )
    variances = encoding.encode(table).var(axis=0)
    total = dict.fromkeys(encoding.columns, 0.0)
    for feature, variance in zip(encoding.features, variances, strict=True):
        total[feature.column] += variance
    assert list(total.values()) == pytest.approx([1.0] * len(total), rel=1e-12)


def test_the_largest_feature_wins_and_ties_go_to_the_lowest_level() -> None:
    table, encoding = fitted(pa.table({"x": ["a", "b", "c"]}), categories="indicator")
    matrix = np.array([[0.1, 0.3, 0.2], [0.5, 0.5, 0.5], [-9, -8, -7.0]])
    assert encoding.decode(matrix, table)["x"].to_list() == ["b", "a", "c"]
    table, encoding = fitted(pa.table({"x": [True, False]}))
    assert encoding.decode(np.array([[0.0], [1e-9], [-3]]), table)["x"].to_list() == [False, True, False]


def test_ordinal_levels_follow_the_order_given() -> None:
    table, encoding = fitted(
        pa.table({"x": ["mid", "low", "high", "low"]}), {"x": {"levels": ["low", "mid", "never", "high"]}}
    )
    codes = np.array([1, 0, 2, 0.0])  # a level that does not occur takes no place
    assert encoding.encode(table)[:, 0] == pytest.approx((codes - codes.mean()) / codes.std())
    assert encoding.decode(np.array([[-9], [0.2], [9.0]]), table)["x"].to_list() == ["low", "mid", "high"]


def test_a_constant_column_is_zeros_and_comes_back() -> None:
    data = pa.table(
        {"f": [0.1] * 3, "i": [2**60 + 1] * 3, "c": ["a"] * 3, "o": ["a"] * 3, "l": [7.3] * 3, "n": [4.2] * 3}
    )
    said = {"o": {"kind": "ordinal"}, "l": {"transform": "log"}, "n": {"transform": "normal-scores"}}
    table, encoding = fitted(data, said)
    matrix = encoding.encode(table)
    assert not matrix.any()
    assert table.replace(encoding.decode(matrix + 5, table)).to_native().equals(data)


@pytest.mark.parametrize(
    "type_", [pa.null(), pa.float64(), pa.int32(), pa.string(), pa.date32(), pa.dictionary(pa.int8(), pa.string())]
)
def test_a_column_of_nulls_is_constant_and_comes_back(type_: pa.DataType) -> None:
    table, encoding = fitted(pa.table({"x": pa.nulls(4, type_), "y": [1, 2, 3, 4]}))
    matrix = encoding.encode(table)
    assert matrix[:, :-1].std(axis=0) == pytest.approx(0)
    assert returned(table, encoding).equals(table.to_native())


def test_other_tables_can_be_encoded_with_the_fit_of_the_original() -> None:
    _, encoding = fitted(pa.table({"x": [1.0, 2.0, 3.0], "c": ["a", "b", "c"]}), categories="indicator")
    other = Table.of(pd.DataFrame({"c": ["b", "new"], "x": [2.0, None], "more": [1, 2]}))
    assert encoding.encode(other).tolist() == [[0, -1, 1, -1], [0, -1, -1, -1]]


def test_an_unknown_ordered_level_and_a_value_outside_of_the_domain_are_refused_as_counts() -> None:
    _, encoding = fitted(pa.table({"o": ["a", "b"]}), {"o": {"kind": "ordinal"}})
    with pytest.raises(InputError, match="'o': 1 rows hold a level") as caught:
        encoding.encode(Table.of(pa.table({"o": ["a", "secret"]})))
    assert "secret" not in str(caught.value)
    _, encoding = fitted(pa.table({"x": [1.0, 2.0]}), {"x": {"transform": "log"}})
    with pytest.raises(InputError, match="1 rows are not"):
        encoding.encode(Table.of(pa.table({"x": [1.0, -4.0]})))


# Nulls


def test_a_null_is_filled_by_the_mean_and_flagged() -> None:
    table, encoding = fitted(pa.table({"x": [1.0, 3.0, None, float("nan")]}), categories="indicator")
    assert encoding.encode(table).tolist() == [[-1, -1], [1, -1], [0, 1], [0, 1]]
    assert [feature.kind for feature in encoding.features] == ["value", "null"]
    assert encoding.decode(np.array([[0, -0.1], [0, 0.1]]), table)["x"].to_list() == [2.0, None]


def test_a_null_category_is_a_level() -> None:
    table, encoding = fitted(pa.table({"x": ["b", None, "a"]}), nulls="category", categories="indicator")
    assert encoding.encode(table).tolist() == [[-1, 1, -1], [-1, -1, 1], [1, -1, -1]]
    table, encoding = fitted(pa.table({"x": [True, None, True]}), categories="indicator")
    assert encoding.encode(table).tolist() == [[-1], [1], [-1]]


def test_nulls_are_refused_by_name_and_count_all_at_once() -> None:
    data = pa.table({"a": [1.0, None], "b": ["x", None], "c": pa.array(["x", None]).dictionary_encode(), "d": [1, 2]})
    with pytest.raises(InputError) as caught:
        fitted(data, nulls="refuse")
    for name in "abc":
        assert f"'{name}': 1 of 2 rows are null" in str(caught.value)
    assert "'d'" not in str(caught.value)


def test_nulls_of_another_table_are_refused_too() -> None:
    _, encoding = fitted(pa.table({"a": [1.0, 2.0]}), nulls="refuse")
    with pytest.raises(InputError, match="'a': 1 rows are null"):
        encoding.encode(Table.of(pa.table({"a": [None, 2.0]})))


def test_wildcards_have_codes_but_no_matrix() -> None:
    table, encoding = fitted(pa.table({"a": [1.0, None]}), nulls="wildcard")
    assert encoding.codes(table).tolist() == [[0], [-1]]
    for use in (encoding.encode, encoding.gower):
        with pytest.raises(ParameterError, match="wildcard"):
            use(table)


# Very many levels


def test_very_many_levels_are_refused_with_a_way_out_and_have_codes() -> None:
    names = pa.array(np.arange(1_000_000)).cast(pa.string())
    table, encoding = fitted(pa.table({"who": names}))
    with pytest.raises(InputError, match=r"'who': 1000000 levels, at most 256(.|\n)*ordinal(.|\n)*identifier"):
        encoding.encode(table)
    assert len(np.unique(encoding.codes(table))) == 1_000_000
    matrix, _ = encoding.gower(table)
    assert matrix.shape == (1_000_000, 1)


def test_many_ordered_levels_are_one_feature() -> None:
    table, encoding = fitted(pa.table({"zip": [f"{i:05d}" for i in range(3000)]}), {"zip": {"kind": "ordinal"}})
    assert encoding.encode(table).shape == (3000, 1)
    assert returned(table, encoding).equals(table.to_native())


# Gower's distance


def test_gower_distances_follow_the_definition() -> None:
    data = pa.table({"n": [0.0, 5.0, 10.0, None], "c": ["a", "b", "a", None], "o": ["lo", "hi", "mid", "lo"]})
    table, encoding = fitted(data, {"o": {"levels": ["lo", "mid", "hi"]}})
    matrix, metric = encoding.gower(table)
    assert metric.kind == "gower"
    assert metric.categorical is not None
    assert metric.weights is not None

    def distance(i: int, j: int) -> list[float]:
        parts = []
        for x, y, flag, weight in zip(matrix[i], matrix[j], metric.categorical, metric.weights, strict=True):
            parts.append(weight * (float(x != y) if flag else abs(x - y)))
        return parts

    assert distance(0, 2) == [1.0, 0.0, 0.0, 0.5]  # n (and its null flag), c, o
    assert distance(0, 1) == [0.5, 0.0, 1.0, 1.0]
    assert distance(0, 3) == [0.5, 0.5, 1.0, 0.0]  # null against the end of the range: 1 in all
    assert distance(1, 3)[:2] == [0.0, 0.5]  # null against the middle: 1/2
    assert sum(distance(3, 3)) == 0


# Parts


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 400), max_size=4), seed=st.integers(0, 5))
@example(cuts=[], seed=0)
@example(cuts=[0, 400], seed=1)
def test_the_encoding_is_the_same_to_the_bit_however_the_rows_are_divided(cuts: list[int], seed: int) -> None:
    data = make_registry(400, seed=9).drop_columns(["person_id"])
    said = {"cost": {"transform": "log1p"}, "income": {"transform": "normal-scores"}, "bmi": {"transform": "log"}}
    whole, encoding = fitted(data, said)
    schema = Schema.resolve(whole, {name: {"role": "quasi", **said.get(name, {})} for name in whole.names})
    shuffled = data.take(pa.array(np.random.default_rng(seed).permutation(400)))
    ends = [0, *sorted(cuts), 400]
    parts = [Table.of(shuffled.slice(a, b - a)) for a, b in pairwise(ends)]
    summaries = [Summary.of(part, schema, schema.select("all")) for part in parts]
    apart = Encoding.from_summary(Summary.merged(summaries), schema, "indicator")
    assert apart.features == encoding.features
    assert np.array_equal(apart.encode(whole), encoding.encode(whole))


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_registry(3000).drop_columns(["person_id"])
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("GPUANON_THREADS", threads)
        table, encoding = fitted(data)
        results.append(encoding.encode(table))
    assert np.array_equal(*results)


def test_an_encoding_survives_pickle() -> None:
    table, encoding = fitted(make_registry(100).drop_columns(["person_id"]))
    copy = pickle.loads(pickle.dumps(encoding))
    assert np.array_equal(copy.encode(table), encoding.encode(table))


def test_no_repr_holds_a_value() -> None:
    table, encoding = fitted(pa.table({"x": [123.456, 7.5], "c": ["secret", "hidden"]}))
    summary = Summary.of(table, Schema.resolve(table, {}), ["x", "c"])
    for thing in (encoding, *encoding.codecs, summary, *summary.columns.values(), summary.columns["x"].moments):
        assert not any(cell in repr(thing) for cell in ("123.456", "7.5", "secret", "hidden"))


def test_bad_matrices_are_refused() -> None:
    table, encoding = fitted(pa.table({"x": [1.0, 2.0]}))
    for bad, said in ((np.zeros((2, 2)), "1 columns are needed"), (np.array([[np.nan]]), "finite")):
        with pytest.raises(ParameterError, match=said):
            encoding.decode(bad, table)


def test_values_that_cannot_be_masked_are_refused_also_in_columns_of_role_other() -> None:
    table = Table.of(pa.table({"x": [1.0, np.inf]}))
    schema = Schema.resolve(table, {})
    with pytest.raises(InputError, match="infinite"):
        Encoding.fit(table, schema, "all")


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "nulls"),
    [
        ("census/census.csv", 0),
        ("adult/adult_train_complete_30162.csv", 0),
        ("oulad/oulad_student_info.csv", 1111),
        ("sd2011/sd2011.csv", 22344),
    ],
)
def test_public_files_come_back_to_the_bit(data_folder, file: str, nulls: int) -> None:
    table, encoding = fitted(io.read(data_folder / file))
    assert sum(column.null_count for column in table.to_native().columns) == nulls
    assert same(returned(table, encoding), table.to_native())


def test_numbers_that_floats_do_not_tell_apart_are_one_point_of_gowers_distance():
    table = pa.table({"x": pa.array([2**60, 2**60 + 1] * 20), "y": list(range(40))})
    rules = {
        "columns": {"x": {"role": "quasi"}, "y": {"role": "quasi"}},
        "mask": [{"method": "microaggregation", "k": 4, "metric": "gower"}],
    }
    release = gpuanon.protect(table, rules, rng=b"a key of sixteen bytes or more", backend="numpy")
    assert set(release.data["x"].to_pylist()) <= {2**60, 2**60 + 1}
