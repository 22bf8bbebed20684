"""Exact sums against `math.fsum` and rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.errors import ParameterError
from gpuanon.numerics import exact_sum as module
from gpuanon.numerics.exact_sum import ExactMoments, exact_sum

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
vectors = hnp.arrays(np.float64, st.integers(0, 60), elements=finite)


@given(vectors)
@example(np.array([]))
@example(np.array([5e-324, -5e-324, 1e308, 1.7e308, -1e308]))
@example(np.array([2.0**400, 2.0**401, -(2.0**-400), 2.0**-401, 1.0]))
@example(np.array([1e16, 1.0, -1e16, 1e-300]))
@example(np.array([0.0, -0.0]))
def test_moments_equal_rational_arithmetic(values: np.ndarray) -> None:
    exact = [Fraction(float(value)) for value in values]
    moments = ExactMoments.of(values)
    assert moments.count == len(values)
    assert Fraction(moments.total, 1 << 1074) == sum(exact)
    assert Fraction(moments.squares, 1 << 2148) == sum(value * value for value in exact)
    if len(values):
        assert moments.mean == float(sum(exact) / len(exact))


@given(hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e9, 1e9)))
@example(np.array([0.1] * 10))
def test_sum_equals_fsum(values: np.ndarray) -> None:
    assert exact_sum(values) == math.fsum(values)


@given(vectors, st.integers(0, 60), st.randoms())
@example(np.array([1e308, 1.0, -1e308, 3.0]), 2, __import__("random").Random(0))
def test_order_and_partitioning_change_nothing(values: np.ndarray, cut: int, random) -> None:
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert ExactMoments.of(shuffled[:cut]).merge(ExactMoments.of(shuffled[cut:])) == ExactMoments.of(values)


@pytest.mark.parametrize("rows", [1, module._CHUNK - 1, module._CHUNK, module._CHUNK + 1, 3 * module._CHUNK + 17])
def test_chunk_borders_change_nothing(rows: int) -> None:
    values = np.random.default_rng(rows).lognormal(3, 4, rows)
    assert exact_sum(values) == math.fsum(values)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=50), st.sampled_from([0.0, 1e15, 1.7e18]))
@example([1, 2, 3, 4], 1.7e18)
def test_the_deviation_is_exact_for_a_large_mean(offsets: list[int], mean: float) -> None:
    values = mean + 1024.0 * np.array(offsets)
    expected = np.std(1024 * np.array(offsets))
    assert ExactMoments.of(values).deviation == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-160, 1e160, 1e300])
def test_the_deviation_of_tiny_and_huge_values(scale: float) -> None:
    assert ExactMoments.of(np.array([-scale, scale])).deviation == scale


def test_an_empty_set_has_zero_moments() -> None:
    assert ExactMoments().mean == 0.0
    assert ExactMoments().deviation == 0.0


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_infinite_values_are_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match="finite"):
        ExactMoments.of(np.array([1.0, bad]))
