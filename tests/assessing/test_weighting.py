"""Sample weights: a record with weight w counts as w equal records, in every measure that says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.assessing.evidence import TableMoments
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import Measurements, measure
from gpuanon.assessing.streams import Pieces
from gpuanon.assessing.utility.cdf_points import cdf_points
from gpuanon.assessing.weighting import effective_size, inverse_shares, quantiles
from gpuanon.engine.assess import assess
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

COLUMNS = {
    "age": {"role": "quasi"},
    "cost": {"role": "quasi"},
    "region": {"role": "quasi", "kind": "categorical"},
    "ill": {"role": "sensitive", "kind": "categorical"},
    "w": {"role": "weight"},
}
WORKLOAD = {
    "name": "cost",
    "response": "cost",
    "columns": ["age", "ill"],
    "existing": {"region": ["a", "b"]},
    "new": {"region": "c"},
    "kind": "linear",
}
WEIGHTED = {one.name for one in MEASURES.values() if one.family == "utility" and one.weights.how == "used"}
IGNORED = {one.name: one.weights.why for one in MEASURES.values() if one.weights.how == "ignored"}
UTILITY = [one.name for one in MEASURES.values() if one.family == "utility"]


def tables(seed: int = 0, n: int = 400, *, nulls: bool = False) -> tuple[pa.Table, pa.Table]:
    """An original and a release of noise and swapped levels, with weights that tell of age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n).astype(float)
    cost = np.round(np.exp(rng.normal(4 + age / 60, 0.5)), 1)
    region = rng.choice(list("abc"), n, p=[0.5, 0.3, 0.2])
    weights = 1 + (age > 60) * rng.integers(1, 6, n) + rng.integers(0, 3, n)

    def table(age: Any, cost: Any, region: Any) -> pa.Table:
        known = pa.array(np.where(nulls & (np.arange(n) % 50 == 7), np.nan, cost), from_pandas=True)
        ill = np.where(age > 55, "yes", "no")
        return pa.table({"age": age, "cost": known, "region": region, "ill": ill, "w": weights})

    moved = np.where(rng.random(n) < 0.3, rng.permutation(region), region)
    return table(age, cost, region), table(np.round(age + rng.normal(2, 6, n)), cost * rng.uniform(0.8, 1.3, n), moved)


def repeated(table: pa.Table) -> pa.Table:
    """Each record as often as its weight says, with a weight of 1."""
    rows = np.repeat(np.arange(len(table)), table["w"].to_numpy())
    return table.take(pa.array(rows)).set_column(table.schema.names.index("w"), "w", pa.array(np.ones(len(rows), int)))


def assessed(original: pa.Table, release: pa.Table, names: tuple[str, ...], **more: Any) -> Measurements:
    recipe = {
        "columns": COLUMNS,
        "mask": [{"method": "microaggregation", "k": 3}],
        "analysis": [{"formula": "cost ~ age"}],
        **more,
    }
    link = np.arange(len(release)) if len(original) == len(release) else None
    return assess(original, release, recipe, link=link, measures=names, backend="numpy")


@pytest.mark.parametrize("name", sorted(WEIGHTED - {"workload"}))
@pytest.mark.parametrize("seed", [0, 1])
def test_a_weight_is_a_number_of_records(name: str, seed: int) -> None:
    before, after = tables(seed)
    weighted = assessed(before, after, (name,)).measured[name]
    counted = assessed(repeated(before), repeated(after), (name,)).measured[name]
    assert weighted.value == pytest.approx(counted.value, rel=1e-9, abs=1e-12)
    plain = assessed(before.drop_columns("w"), after.drop_columns("w"), (name,), columns=without_weights())
    assert plain.measured[name].value != pytest.approx(counted.value, rel=1e-6)  # the weights matter here


def without_weights() -> dict[str, Any]:
    return {name: column for name, column in COLUMNS.items() if name != "w"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mean_bias", {"columns": ["age", "cost"]}),
        ("correlation_bias", {"pair": ["age", "cost"]}),
        ("cdf_points", {"at": {"age": [30, 60]}}),
        ("jsd", {"ways": 1, "bins": 7}),
        ("kl", {"columns": ["age", "region"], "cuts": {"age": [30, 60]}}),
        ("cell_ks", {"ways": "all", "bins": 3}),
        ("grouping_sensitivity", {"ways": 2}),
    ],
)
def test_a_weight_is_a_number_of_records_for_named_columns(name: str, options: dict[str, Any]) -> None:
    before, after = tables(2, nulls=True)
    found = [assessed(*pair, (name,), measures={name: options}) for pair in both(before, after)]
    assert found[0].measured[name].value == pytest.approx(found[1].measured[name].value, rel=1e-9)


def test_tables_are_standardised_by_effective_numbers_of_records() -> None:
    before, after = tables(5)
    found = assessed(before, after, ("jsd",)).measured["jsd"]
    beside = found.beside[0]
    (part,) = found.parts
    cells = {pair: len(counts[0]) for pair, counts in _two_way(before, after).items()}
    size = effective_size(after["w"].to_numpy())
    ratios = [value / ((cells[pair] - 1) / (8 * size)) for pair, value in part.values.items()]
    assert beside.value == pytest.approx(np.mean(ratios), rel=1e-9)
    assert "effective numbers of records" in (found.note or "")


def _two_way(before: pa.Table, after: pa.Table) -> dict[tuple[str, ...], Any]:
    """Cells of each two columns that somebody is in, by the bins of repeated records."""
    names = [name for name in COLUMNS if name != "w"]
    sides = []
    for table in (before, after):
        columns = []
        for name in names:
            values = table[name].to_numpy()
            if values.dtype.kind == "f":
                known = np.repeat(before[name].to_numpy(), before["w"].to_numpy())
                values = np.searchsorted(np.unique(np.quantile(known, np.arange(1, 10) / 10)), values)
            columns.append(values)
        sides.append(columns)
    found = {}
    for i, first in enumerate(names):
        for j, second in list(enumerate(names))[i + 1 :]:
            held = [set(zip(side[i], side[j], strict=True)) for side in sides]
            found[first, second] = [sorted(held[0] | held[1])]
    return found


@pytest.mark.parametrize("name", ["vw", "ft", "g"])
def test_statistics_of_counts_are_the_same_with_weights_and_without(name: str) -> None:
    before, after = tables(6)
    weighted = assessed(before, after, (name,)).measured[name]
    plain = assessed(before.drop_columns("w"), after.drop_columns("w"), (name,), columns=without_weights())
    assert weighted.value == plain.measured[name].value
    assert "sample weights are not used" in (weighted.note or "")


def both(before: pa.Table, after: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
    return [(before, after), (repeated(before), repeated(after))]


def test_a_weight_is_a_number_of_records_for_predictions() -> None:
    found = [assessed(*pair, ("workload",), workload=[WORKLOAD]) for pair in both(*tables(3, 1500, nulls=True))]
    assert found[0].measured["workload"].value == pytest.approx(found[1].measured["workload"].value, rel=1e-9)


def test_coefficients_of_analysts_are_those_of_the_population() -> None:
    pytest.importorskip("statsmodels")
    found = [assessed(*pair, ("analysis",)).measured["analysis"].to_json() for pair in both(*tables(4, nulls=True))]
    estimates = [
        [one["estimate"] for side in ("original", "release") for one in json["compared"][side].values()]
        for json in found
    ]
    assert len(estimates[0]) == 4
    np.testing.assert_allclose(*estimates, rtol=1e-9)


@pytest.mark.slow
def test_a_measure_that_does_not_take_them_says_so_beside_its_figure() -> None:
    before, after = tables()
    found = assessed(before, after, tuple(UTILITY))
    for name, figure in found.measured.items():
        told = "sample weights are not used" in (figure.note or "")
        assert told == (name in IGNORED), name
    assert len(found.measured) > 30


def test_notes_of_a_quick_measure_and_of_weights_that_were_not_released() -> None:
    before, after = tables()
    found = assessed(before, after, ("mse", "means", "k_anonymity")).measured
    assert IGNORED["mse"] in (found["mse"].note or "")
    assert "weights" not in (found["means"].note or "")
    assert "weights" not in (found["k_anonymity"].note or "")
    lost = assessed(before, after.drop_columns("w"), ("means",)).measured["means"]
    assert "only one of the tables has them" in (lost.note or "")


def test_weights_in_pieces_are_those_of_the_whole() -> None:
    before, after = (Table.of(table) for table in tables(5))
    recipe = Recipe.load({"columns": COLUMNS, "mask": [{"method": "svd-swap"}]})
    schema = Schema.resolve(before, recipe.columns, recipe.others)
    names = ("means", "variances", "correlations", "covariances")
    whole = measure(Pieces.of(before), Pieces.of(after), schema, names)

    def cut(table: Table) -> Pieces:
        return Pieces.counted(lambda: [table.take(np.arange(0, 150)), table.take(np.arange(150, 400))])

    parts = measure(cut(before), cut(after), schema, names, sample_rows=200)
    for name in names:
        assert parts.measured[name].value == pytest.approx(whole.measured[name].value, rel=1e-9)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_fails_the_measure_alone(bad: float) -> None:
    before, after = tables()
    wrong = np.array(after["w"].to_numpy(), dtype=float)
    wrong[3] = bad
    after = after.set_column(4, "w", pa.array(wrong))
    found = assessed(before.set_column(4, "w", before["w"].cast(pa.float64())), after, ("means", "mse"))
    assert "every weight must be a number of 0 or more" in found.failed["means"]
    assert "mse" in found.measured


def test_quantiles_are_those_of_repeated_values() -> None:
    rng = np.random.default_rng(6)
    levels = np.array([0.0, 0.1, 0.25, 0.333, 0.5, 0.9, 1.0])
    for n in (1, 2, 7, 60):
        values, weights = rng.normal(size=n).round(1), rng.integers(1, 6, n)
        every = np.repeat(values, weights)
        np.testing.assert_allclose(quantiles(values, levels, weights), np.quantile(every, levels), rtol=1e-12)
        np.testing.assert_array_equal(
            inverse_shares(values, levels[1:], weights), np.quantile(every, levels[1:], method="inverted_cdf")
        )


def test_moments_are_those_of_numpy() -> None:
    rng = np.random.default_rng(7)
    X, w = rng.normal(size=(50, 3)), rng.uniform(0.2, 5, 50)
    found = TableMoments.of(X, w)
    np.testing.assert_allclose(found.mean, np.average(X, axis=0, weights=w))
    np.testing.assert_allclose(found.products / found.rows, np.cov(X.T, aweights=w, ddof=0))
    pieces = TableMoments.over([X[:20], X[20:]], [w[:20], w[20:]])
    np.testing.assert_allclose(pieces.products, found.products)


def test_equal_weights_have_the_effective_size_of_the_records() -> None:
    assert effective_size(np.full(40, 3.5)) == pytest.approx(40)
    assert effective_size(np.array([1.0, 1.0, 0.0])) == pytest.approx(2)


@pytest.mark.parametrize("unit", [1 / 400, 0.001, 0.3, 1.0])
def test_equal_shares_change_no_figure(unit: float) -> None:
    """Weights that add up to 1 are as good as numbers of people."""
    names = sorted(WEIGHTED - {"workload"})
    original, release = (table.drop_columns(["w"]) for table in tables(3, nulls=True))
    plain = {name: spec for name, spec in COLUMNS.items() if name != "w"}
    expected = assess(original, release, {"columns": plain, "mask": [{"method": "noise"}]}, measures=names).measured
    weighted = [table.append_column("w", pa.array(np.full(400, unit))) for table in (original, release)]
    found = assess(*weighted, {"columns": COLUMNS, "mask": [{"method": "noise"}]}, measures=names).measured
    for name in names:
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-9, abs=1e-9), name


def test_a_column_that_only_records_without_weight_have_is_left_out() -> None:
    values, weights = np.array([[1.0, 2.0], [np.nan, 3.0], [np.nan, 4.0]]), np.array([0.0, 1.0, 1.0])
    found = cdf_points(values, values, names=["a", "b"], weights=(weights, weights))
    assert found.value == 0
    assert found.parts[0].values.keys() == {"b"}
