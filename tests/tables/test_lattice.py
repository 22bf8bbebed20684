"""Numbers that a mask made, put back on the lattice and inside the bounds of their column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import fft, stats

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.encoding.lattice import Lattice
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table

KEY = Key(b"a key for the tests of lattices")
N = 4000
SHAPES = ("poisson", "binomial", "zero-inflated", "lognormal", "income", "halves")


def columns(nulls: bool) -> pd.DataFrame:
    """Correlated columns of few and of many values; as floats with nulls, or as whole numbers where they are."""
    rng = np.random.default_rng(5)
    common = rng.normal(size=N)
    shares = stats.norm.cdf(0.6 * common[:, None] + 0.8 * rng.normal(size=(N, 6)))
    frame = pd.DataFrame(
        {
            "poisson": stats.poisson.ppf(shares[:, 0], 1.2),
            "binomial": stats.binom.ppf(shares[:, 1], 20, 0.1),
            "zero-inflated": np.where(rng.random(N) < 0.6, 0, stats.poisson.ppf(shares[:, 2], 4)),
            "lognormal": np.rint(stats.lognorm.ppf(shares[:, 3], 0.8, scale=3)),
            "income": np.rint(stats.lognorm.ppf(shares[:, 4], 0.8, scale=3000)),
            "halves": np.rint(2 * stats.gamma.ppf(shares[:, 5], 2)) / 2,
        }
    )
    if nulls:
        return frame.mask(rng.random(frame.shape) < 0.07)
    return frame.astype({name: int for name in SHAPES if name != "halves"})


def released(frame: pd.DataFrame, mask: dict) -> pd.DataFrame:
    recipe = {"columns": {name: {"role": "quasi"} for name in frame}, "mask": [mask], "nulls": "indicator"}
    return gpuanon.protect(frame, recipe, rng=KEY, backend="numpy").data


@pytest.mark.parametrize("nulls", [False, True])
def test_noise_that_promises_the_moments_keeps_them_in_what_is_released(nulls: bool) -> None:
    """Mean within 0.3 %, variance within 1 %; whole numbers whole, nothing outside of the range."""
    frame = columns(nulls)
    found = released(frame, {"method": "noise", "b": 0.1, "kind": "corrected", "exact": True})
    for name in SHAPES:
        before, after = frame[name].dropna(), found[name].dropna()
        step = 0.5 if name == "halves" else 1.0
        assert (after % step == 0).all(), name
        assert before.min() <= after.min(), name
        assert after.max() <= before.max(), name
        assert after.mean() == pytest.approx(before.mean(), rel=0.003), name
        assert after.var() == pytest.approx(before.var(), rel=0.01), name


def test_swapped_components_keep_the_mean_and_leave_no_pile_at_the_bound() -> None:
    frame = columns(False)
    found = released(frame, {"method": "svd-swap"})
    for name in SHAPES:
        assert found[name].mean() == pytest.approx(frame[name].mean(), rel=0.003), name
        at_bound = (found[name] == frame[name].min()).mean()
        assert at_bound < max(0.08, 1.1 * (frame[name] == frame[name].min()).mean()), name


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("method", ["svd-swap", "pica"])
def test_swapped_components_keep_the_mean_and_the_share_of_zeros(method: str, nulls: bool) -> None:
    """Mean within 0.3 %; a value at the end of the range keeps its share to half a point where it has 5 % or more."""
    frame = columns(nulls)
    found = released(frame, {"method": method})
    for name in SHAPES:
        before, after = frame[name].dropna(), found[name].dropna()
        assert after.mean() == pytest.approx(before.mean(), rel=0.003), name
        share = (before == before.min()).mean()
        if share >= 0.05:
            assert (after == before.min()).mean() == pytest.approx(share, abs=0.005), name
    assert (frame["zero-inflated"] == 0).mean() > 0.5


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("transform", ["none", "log1p"])
def test_a_rotation_of_the_rows_keeps_mean_variance_and_zeros_of_what_is_decoded(transform: str, nulls: bool) -> None:
    """Random signs of all cosine coefficients but the first: an orthogonal matrix that keeps every sum."""
    rng = np.random.default_rng(10)
    frame = columns(nulls)
    table = Table.of(frame)
    schema = Schema.resolve(table, {name: {"role": "quasi", "transform": transform} for name in frame})
    encoding = Encoding.fit(table, schema, nulls="indicator" if nulls else "refuse")
    signs = np.where(rng.random((N, 1)) < 0.5, -1.0, 1.0)
    signs[0] = 1.0
    matrix = fft.idct(signs * fft.dct(encoding.encode(table), axis=0, norm="ortho"), axis=0, norm="ortho")
    found = encoding.decode(matrix, table, KEY.draws(np.arange(N)))
    for name in SHAPES:
        before, after = frame[name].dropna(), pd.Series(found[name].to_numpy()).dropna()
        if transform == "none":
            assert after.mean() == pytest.approx(before.mean(), rel=0.003), name
            assert after.var() == pytest.approx(before.var(), rel=0.01), name
        share = (before == before.min()).mean()
        if share >= 0.05:
            assert (after == before.min()).mean() == pytest.approx(share, abs=0.001), name


def test_zeros_of_a_float_column_keep_their_share() -> None:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame({"spent": np.where(rng.random(N) < 0.22, 0, rng.lognormal(5, 1, N)), "x": rng.normal(size=N)})
    found = released(frame, {"method": "svd-swap"})["spent"]
    assert (found == 0).mean() == pytest.approx((frame["spent"] == 0).mean(), abs=0.001)
    assert found.mean() == pytest.approx(frame["spent"].mean(), rel=0.003)


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("groups", ["mdav", "univariate"])
def test_centres_of_whole_numbers_keep_the_mean_and_their_groups(groups: str, nulls: bool) -> None:
    frame = columns(nulls)[["poisson", "zero-inflated"]]
    found = released(frame, {"groups": {"use": groups, "k": 5}, "operation": {"use": "centroid"}})
    for name in frame:
        values = found[name].dropna()
        assert (values % 1 == 0).all()
        assert found[name].value_counts(dropna=False).min() >= 5
        if not nulls:  # the null of a group is that of most of its rows, which moves the mean
            assert values.mean() == pytest.approx(frame[name].mean(), rel=0.003)
    if groups == "mdav":
        assert found.value_counts(dropna=False).min() >= 5


def test_a_float_column_of_one_sign_keeps_it_and_its_moments() -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"income": rng.lognormal(8, 0.8, N), "loss": -rng.lognormal(0, 1, N)})
    found = released(frame, {"method": "noise", "b": 0.3, "kind": "corrected", "exact": True})
    assert (found["income"] >= 0).all()
    assert (found["loss"] <= 0).all()
    assert found.mean().to_numpy() == pytest.approx(frame.mean().to_numpy(), rel=1e-3)
    assert found.var().to_numpy() == pytest.approx(frame.var().to_numpy(), rel=1e-3)
    assert (found["income"] < 1).mean() < 0.01


def settle(values: np.ndarray, records: np.ndarray, groups: np.ndarray | None = None, **bounds: float) -> np.ndarray:
    lattice = Lattice(1.0, bounds.get("low", -np.inf), bounds.get("high", np.inf), coarse=True)
    return lattice.settle(values, None, KEY.draws(records), groups)


def test_every_value_is_rounded_up_with_the_probability_of_its_fraction() -> None:
    """Mean over 2 000 keys, for each of 20 values, to five standard errors."""
    values = np.random.default_rng(7).uniform(0, 4, 20)
    groups = np.arange(20)
    lattice = Lattice(1.0, 0.0, 4.0, coarse=True)
    total = np.zeros(20)
    for number in range(2000):
        draws = Key(number.to_bytes(16, "big")).draws(np.arange(20))
        found = lattice.settle(values, None, draws, groups)
        assert (np.abs(found - values) < 1).all()
        total += found
    fraction = values % 1
    assert (np.abs(total / 2000 - values) < 5 * np.sqrt(fraction * (1 - fraction) / 2000) + 1e-6).all()


@pytest.mark.parametrize("grouped", [False, True])
def test_what_a_record_receives_does_not_depend_on_the_order_of_the_rows(grouped: bool) -> None:
    rng = np.random.default_rng(8)
    groups = np.arange(600) // 4
    values, records = rng.normal(2, 1, 150)[groups] if grouped else rng.normal(2, 1, 600), rng.permutation(600)
    found = settle(values, records, groups if grouped else None, low=0.0)
    order = rng.permutation(600)
    assert (settle(values[order], records[order], groups[order] if grouped else None, low=0.0) == found[order]).all()
    if grouped:
        assert pd.Series(found).groupby(groups).nunique().max() == 1


def test_values_of_the_lattice_inside_the_bounds_stay_as_they_are() -> None:
    values = np.random.default_rng(9).poisson(1.2, 500).astype(float)
    assert (settle(values + 1e-9, np.arange(500), low=0.0, high=values.max()) == values).all()


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([1.0, 2.0, 7.0], 1.0),
        ([0.5, 2.0, 3.5], 0.5),
        ([0.25, 1.5], 0.25),
        ([0.2, 1.4, 3.0], 0.2),
        ([0.1, 0.25], 0.05),
        ([100.0, 300.0], 1.0),
        ([np.pi, np.e], None),
    ],
)
def test_the_step_is_found_by_values_however_the_rows_are_divided(values: list[float], step: float | None) -> None:
    found = []
    for parts in ([values], [[value] for value in values], [[value] for value in reversed(values)]):
        tables = [Table.of(pd.DataFrame({"x": part})) for part in parts]
        schema = Schema.resolve(tables[0], {"x": {"role": "quasi"}})
        summary = Summary.merged([Summary.of(table, schema, ["x"]) for table in tables]).columns["x"]
        found.append(None if summary.decimals is None else summary.unit / 10**summary.decimals)
    assert found == [step] * 3
