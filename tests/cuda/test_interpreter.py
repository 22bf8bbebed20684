"""The interpreter against what it interprets: NVIDIA's expansion of mathematical functions against SciPy, integer
instructions against Python's integers, exchanges between threads against their definition, and its own checks
against kernels that break one rule each."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cuda.support import faults, rounding
from tests.cuda.support.interpreter import Module
from tests.cuda.support.machine import Watch

PROBES = Path(__file__).parent / "probes"
DTYPES = {"float": np.float32, "double": np.float64}


def module(name: str, real: Any = "double", **define: int) -> Module:
    return Module.from_source((PROBES / f"{name}.cu").read_text(), real, define=define)


def on_all(name: str, real: str, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n = len(inputs[0])
    out = np.full(n, np.nan, DTYPES[real])
    module("math", real).launch(name, -(-n // 64), 64, (*inputs, out, np.int32(n)))
    return out


ANY = np.concatenate([np.linspace(-30, 30, 301), [0.0, 1e-20, -1e-20, 5e-5, 700.0, -700.0]])
POSITIVE = np.concatenate([np.geomspace(1e-30, 1e30, 200), [1.0, 0.999999, 1.000001, 2.0]])
SMALL = np.linspace(-9, 9, 289)
INSIDE = np.concatenate([np.geomspace(1e-30, 0.4, 80), np.linspace(0.4, 0.6, 41), 1 - np.geomspace(1e-6, 0.4, 40)])


def normal_cdf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Φ by its Taylor series in 60 digits: SciPy's is wrong by up to 20 units of the last place in the lower tail."""
    with localcontext(prec=60):
        scale = 1 / (2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494")).sqrt()
        values = []
        for point in map(Decimal, x.tolist()):
            total = term = point
            for n in range(1, 400):
                term *= point * point / (2 * n + 1)
                total += term
            values.append(float(Decimal("0.5") + total * scale * (-point * point / 2).exp()))
    return np.array(values)


# The largest errors that the CUDA programming guide states, in units of the last place, and one for the
# correctly rounded stand-ins of ex2.approx and lg2.approx.
FUNCTIONS = {
    "exponential": (np.exp, ANY, 3),
    "exponential_minus_1": (np.expm1, SMALL, 3),
    "exponential_2": (np.exp2, SMALL, 3),
    "logarithm": (np.log, POSITIVE, 3),
    "logarithm_1_plus": (np.log1p, POSITIVE, 3),
    "square_root": (np.sqrt, POSITIVE, 0.5),
    "reciprocal_root": (lambda x: 1 / np.sqrt(x), POSITIVE, 3),
    "error_function": (scipy.special.erf, SMALL, 4),
    "complementary_error_function": (scipy.special.erfc, SMALL, 6),
    "scaled_complementary_error_function": (scipy.special.erfcx, np.linspace(-3, 30, 200), 8),
    "normal_cdf": (normal_cdf, SMALL[::5], 8),
    "inverse_normal_cdf": (scipy.special.ndtri, INSIDE, 8),
    "hyperbolic_tangent": (np.tanh, SMALL, 3),
    "sine": (np.sin, SMALL, 3),
    "cosine": (np.cos, SMALL, 3),
    "round_down": (np.floor, ANY, 0),
    "round_up": (np.ceil, ANY, 0),
    "round_to_even": (np.rint, np.linspace(-5, 5, 41), 0),
    "towards_zero": (np.trunc, ANY, 0),
    "reciprocal": (lambda x: 1 / x, POSITIVE, 0.5),
}


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number_are_as_accurate_as_nvidia_states(name: str, real: str) -> None:
    function, points, allowed = FUNCTIONS[name]
    x = points.astype(DTYPES[real])
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        rounded = exact.astype(DTYPES[real])
    tiny = float(np.finfo(DTYPES[real]).tiny)
    usable = np.isfinite(rounded) & ((np.abs(exact) >= tiny) | (exact == 0))
    result = on_all(name, real, x)[usable].astype(np.float64)
    error = np.abs(result - exact[usable]) / np.spacing(np.abs(rounded[usable])).astype(np.float64)
    assert usable.sum() > 20
    assert error.max() <= allowed + 0.5  # half a unit for the rounding of the reference


TWO = {
    "quotient": np.divide,
    "power": np.power,
    "remainder_of": np.fmod,
    "with_sign": np.copysign,
    "larger": np.fmax,
    "smaller": np.fmin,
    "length": np.hypot,
}


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers_are_as_accurate_as_nvidia_states(name: str, real: str) -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.uniform(0.1, 9.0, 300).astype(DTYPES[real]) for _ in range(2))
    if name not in ("power", "length"):
        w[::2] *= -1
    exact = TWO[name](x.astype(np.longdouble), w.astype(np.longdouble)).astype(np.float64)
    error = np.abs(on_all(name, real, x, w) - exact) / np.spacing(np.abs(exact).astype(DTYPES[real]))
    assert error.max() <= 8.5 if name == "power" else error.max() <= 2


NUMBERS = st.floats(-1e100, 1e100, allow_subnormal=False)


@given(NUMBERS, NUMBERS, NUMBERS)
@example(1 + 2**-52, 1 + 2**-52, -1.0)
@example(1 + 2**-30, 1 - 2**-30, -1.0)
@example(3.0, 1 / 3, -1.0)
@example(2.0**-60, 1.0, 1.0)
@example(1 + 2**-52, 2.0**-53, 1.0)
def test_fused_multiply_add_in_double_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0 and (abs(exact) < Fraction(1e-200) or abs(Fraction(a) * Fraction(b)) < Fraction(1e-200)):
        return  # the guide's range of ordinary numbers: no rounding at the subnormal border
    result = rounding.fma64(*(np.array([value]) for value in (a, b, c)))[0]
    assert result == float(exact)


SINGLES = st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False)


@given(SINGLES, SINGLES, SINGLES)
@example(1 + 2.0**-23, 1 + 2.0**-23, 2.0**-48)
@example(1 + 2.0**-12, 1 - 2.0**-12, -1.0)
@example(16777215.0, 1.0, 2.0**-30)
def test_fused_multiply_add_in_single_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0 and abs(exact) < Fraction(2) ** -100:
        return
    operands = [np.array([value], np.float32) for value in (a, b, c)]
    result = Fraction(float(rounding.fma32(*operands)[0]))
    half = Fraction(float(np.spacing(np.float32(abs(float(result)))))) / 2
    assert abs(result - exact) <= half
    down, up = (Fraction(float(rounding.fma32(*operands, mode)[0])) for mode in ("rm", "rp"))
    assert down <= exact <= up
    assert down <= result <= up


def words(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(8)
    edge = np.array([0, 1, 2, 31, 32, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    pairs = np.stack(np.meshgrid(edge, edge)).reshape(2, -1)
    return tuple(np.concatenate([pairs, rng.integers(0, 2**32, (2, count), dtype=np.uint32)], axis=1))


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def quotient(x: int, y: int) -> int:
    """Division as in C: towards zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def test_32_bit_integer_instructions_equal_pythons_integers() -> None:
    a, b = words(60)
    out = np.zeros((len(a), 20), np.uint32)
    module("integers").launch("words", 2, 64, (a, b, out, np.int32(len(a))))
    for row, x, y in zip(out.tolist(), a.tolist(), b.tolist(), strict=True):
        s, t, by = signed(x), signed(y), y & 31
        both = y << 32 | x
        expected = [
            x + y,
            x * y,
            x * y >> 32,
            s * t >> 32,
            x.bit_count(),
            32 - x.bit_length(),
            int(f"{x:032b}"[::-1], 2),
            (x & -x).bit_length(),
            both << by >> 32,
            both >> by,
            sum(((both >> 8 * sel & 255) << 8 * place) for place, sel in enumerate((0, 4, 2, 6))),
            x // y if y else 0,
            x % y if y else 0,
            quotient(s, t) if t else 0,
            s - quotient(s, t) * t if t else 0,
            x << by,
            s >> by,
            (x & y) ^ (x | ~y),
            abs(s) + min(s, t) - max(x, y),
            (x & 255) + signed(y, 8) + (x * 3 & 0xFFFF),
        ]
        assert row == [value % 2**32 for value in expected], (x, y)


def test_64_bit_integer_instructions_equal_pythons_integers() -> None:
    rng = np.random.default_rng(9)
    edge = np.array([0, 1, 63, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    a, b = np.concatenate(
        [np.stack(np.meshgrid(edge, edge)).reshape(2, -1), rng.integers(0, 2**64, (2, 60), np.uint64)], 1
    )
    out = np.zeros((len(a), 12), np.uint64)
    module("integers").launch("longs", 2, 64, (a, b, out, np.int32(len(a))))
    for row, x, y in zip(out.tolist(), a.tolist(), b.tolist(), strict=True):
        s, t, low_x, low_y = signed(x, 64), signed(y, 64), x & 0xFFFFFFFF, y & 0xFFFFFFFF
        expected = [
            x + y,
            x * y,
            x * y >> 64,
            s * t >> 64,
            x.bit_count(),
            64 - x.bit_length(),
            int(f"{x:064b}"[::-1], 2),
            x // y if y else 0,
            x % y if y else 0,
            quotient(s, t) if t else 0,
            s >> (y & 63),
            low_x * low_y + signed(low_x) * signed(low_y),
        ]
        assert row == [value % 2**64 for value in expected], (x, y)


def test_conversions_round_as_asked_and_stop_at_the_ends_of_the_range() -> None:
    x = np.array(
        [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e9 + 0.5, -7.75, 3e9, -3e9, 1e19, -1e19, 1e30, np.inf, -np.inf, 1 / 3]
    )
    out, singles = np.zeros((len(x), 8), np.int64), np.zeros((len(x), 5), np.float32)
    module("integers").launch("conversions", 1, 32, (x, out, singles, np.int32(len(x))))
    low, high = -(2**31), 2**31 - 1
    for column, rounded in enumerate((np.trunc(x), np.rint(x), np.floor(x), np.ceil(x))):
        np.testing.assert_array_equal(out[:, column], np.clip(rounded, low, high))
    np.testing.assert_array_equal(out[:, 4], np.clip(np.trunc(x), 0, 2**32 - 1))
    assert out[:, 5].tolist() == [int(max(-(2**63), min(2**63 - 1, v))) for v in np.clip(x, -1e20, 1e20).tolist()]
    assert out[:, 6].view(np.uint64).tolist() == [
        int(max(0, min(2**64 - 1, v))) for v in np.clip(x, -1e20, 1e20).tolist()
    ]
    np.testing.assert_array_equal(out[:, 7], x.view(np.int64))
    finite = np.isfinite(x)
    np.testing.assert_array_equal(singles[:, 0], x.astype(np.float32))
    assert (np.abs(singles[finite, 1].astype(float)) <= np.abs(x[finite])).all()
    assert (singles[finite, 2].astype(float) <= x[finite]).all()
    np.testing.assert_array_equal(singles[:, 3], out[:, 5].astype(np.float32))


def test_shuffles_votes_and_block_wide_counts_follow_their_definition() -> None:
    x = np.random.default_rng(3).integers(-99, 100, 128).astype(np.int32)
    out = np.zeros((12, 128), np.int32)
    module("warps").launch("shuffles", 2, 64, (x, out))
    warps, lane = x.reshape(4, 32), np.arange(32)
    expected = [
        warps[:, lane ^ 5],
        warps[:, np.where(lane + 3 < 32, lane + 3, lane)],
        warps[:, np.where(lane >= 2, lane - 2, lane)],
        np.repeat(warps[:, 7:8], 32, axis=1),
        warps[:, lane // 8 * 8 + 3],
        warps[:, np.where(lane % 16 + 3 < 16, lane + 3, lane)],
    ]
    for row, values in zip(out, expected, strict=False):
        np.testing.assert_array_equal(row, values.ravel())
    bits = (np.left_shift(1, lane, dtype=np.int64) * (warps > 0)).sum(axis=1)
    np.testing.assert_array_equal(out[6].view(np.uint32), np.repeat(bits, 32))
    np.testing.assert_array_equal(out[7], np.repeat((warps > 40).any(1) + 2 * (warps > -90).all(1), 32))
    np.testing.assert_array_equal(out[8], np.repeat(warps.sum(1), 32))
    np.testing.assert_array_equal(out[9], np.repeat(warps.min(1), 32))
    blocks = x.reshape(2, 64)
    np.testing.assert_array_equal(out[10], np.repeat((blocks > 0).sum(1), 64))
    np.testing.assert_array_equal(out[11], np.repeat((blocks > 95).any(1) + 2 * (blocks > -100).all(1), 64))


def test_diverged_lanes_reconverge() -> None:
    x = np.arange(1, 33, dtype=np.int32)
    out = np.zeros(32, np.int32)
    module("warps").launch("divergent", 1, 32, (x, out))

    def turns(value: int) -> int:
        return 0 if value <= 1 else 1 + turns(3 * value + 1 if value % 2 else value // 2)

    counts = np.array([turns(int(value)) for value in x])
    np.testing.assert_array_equal(out, counts + counts[np.arange(32) ^ 1])


def test_atomics_lose_no_update() -> None:
    x = np.random.default_rng(4).integers(1, 1000, 300).astype(np.int32)
    counts, total = np.array([0, 0, 0, 0, 5000, 0, 0, 0], np.int32), np.zeros(1, np.uint64)
    module("warps").launch("atomics", 3, 128, (x, counts, total, np.int32(300)))
    np.testing.assert_array_equal(counts[:4], np.bincount(x & 3))
    assert counts[4:7].tolist() == [x.min(), x.max(), 17]
    assert counts[7] == np.bitwise_or.reduce(1 << (x & 7))
    assert total[0] == x.sum()


def sums(n: int = 300, blocks: int = 3, **define: int) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(6).normal(size=n).astype(np.float32)
    out = np.full(blocks, np.nan, np.float32)
    watch = Watch(limit=200_000)
    module("warps", **define).launch("block_sums", blocks, 128, (x, out, np.int32(n)), watch=watch)
    padded = np.concatenate([x, np.zeros(blocks * 128 - n, np.float32)])
    np.testing.assert_allclose(out, padded.reshape(blocks, 128).sum(1), rtol=1e-4)
    return out


def test_a_sound_reduction_passes_every_check() -> None:
    sums(FAULT=0)
    sums(n=384, FAULT=0)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (1, faults.OutOfBounds),  # a load without its guard
        (2, faults.Uninitialised),  # shared memory that some thread does not set
        (3, faults.OutOfBounds),  # one past the end of shared memory
        (4, faults.Race),  # no barrier after the first write
        (5, faults.BarrierFault),  # a barrier that half of the threads skip
        (6, faults.Race),  # warps that are taken to run in lock step
        (7, faults.Race),  # all blocks write one word
        (8, faults.OutOfBounds),  # one past the end of the result
        (9, faults.Endless),
        (11, faults.BarrierFault),  # a shuffle that names lanes which are not there
        (12, faults.Misaligned),
    ],
)
def test_a_broken_reduction_is_caught(fault: int, found: type[Exception]) -> None:
    with pytest.raises(found):
        sums(FAULT=fault)


def test_a_barrier_after_some_threads_have_left_is_caught() -> None:
    with pytest.raises(faults.BarrierFault):
        sums(n=100, blocks=1, FAULT=10)


def test_arguments_of_the_wrong_size_and_launches_out_of_range_are_refused() -> None:
    x, out = np.zeros(128, np.float32), np.zeros(1, np.float32)
    kernels = module("warps", FAULT=0)
    with pytest.raises(faults.BadLaunch, match="argument 2 has 8 bytes"):
        kernels.launch("block_sums", 1, 128, (x, out, 128))  # a Python integer is passed as 64 bits
    with pytest.raises(faults.BadLaunch, match="2 arguments"):
        kernels.launch("block_sums", 1, 128, (x, out))
    with pytest.raises(faults.BadLaunch, match="threads"):
        kernels.launch("block_sums", 1, 2048, (x, out, np.int32(128)))
    with pytest.raises(faults.BadLaunch, match="contiguous"):
        kernels.launch("block_sums", 1, 128, (np.zeros((128, 2), np.float32)[:, 0], out, np.int32(128)))


def test_sectors_and_bank_conflicts_are_counted() -> None:
    x, out = np.zeros(32 * 8, np.float32), np.zeros(32, np.float32)
    done = module("warps", FAULT=0).launch("accesses", 1, 32, (x, out, np.int32(8)), watch=Watch(traffic=True))
    assert done.traffic is not None
    loads = [counter for counter in done.traffic.table() if counter.space == "global" and counter.what == "load"]
    assert sorted(counter.taken for counter in loads) == [1, 4, 32]  # the same word, neighbours, a sector each
    assert sorted(counter.ratio for counter in loads) == [1, 1, 8]
    shared = [counter for counter in done.traffic.table() if counter.space == "shared" and counter.what == "load"]
    assert sorted(counter.worst for counter in shared) == [1, 32]
