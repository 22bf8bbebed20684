"""Added rows filled through the whole pipeline: lattices, types, parts, workers' view, and no trace in the manifest."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.errors import GpuanonError
from gpuanon.masking.filling import ModelledColumns
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import registry
from tests.support.running import ShuffledWorkers, in_parts

QUASI = ("age", "sex", "education")
FILLS = (
    "marginal", "marginal-mean", "joint", "joint-mean", "regression", "beta", "tree", "forest", "bagging", "boosting",
    "network", "hierarchical",
)  # fmt: skip
KEY = b"a key for tests, of sixteen bytes or more"


def recipe(**mask):
    columns = {name: {"role": "quasi"} for name in QUASI} | {"person_id": {"role": "identifier"}}
    return {
        "columns": columns,
        "others": "keep",
        "nulls": "category",
        "mask": [{"method": "synthetic-rows", "k": 3, **mask}],
    }


@pytest.mark.parametrize(
    "fill", [pytest.param(fill, marks=pytest.mark.slow) if fill in ("boosting", "beta") else fill for fill in FILLS]
)
def test_every_fill_draws_every_column_on_its_own_lattice(fill):
    table = registry(400).select(["person_id", *QUASI, "bmi", "visits", "diagnosis", "admission", "cost", "hba1c"])
    trees = {"trees": 3} if fill in ("forest", "bagging") else {}
    release = gpuanon.protect(table, recipe(fill=fill, leaf=10, **trees), rng=KEY, backend="numpy")
    before, made = table.to_pandas(), release.data.filter(pa.array(release.link < 0)).to_pandas()
    assert len(made) == release.manifest["rows_added"] > 100
    for name, decimals in (("bmi", 1), ("cost", 2), ("hba1c", 1)):
        known = made[name].dropna()
        np.testing.assert_array_equal(known.round(decimals), known)
        assert known.between(before[name].min(), before[name].max()).all()
        assert known.nunique() > 5
    assert made.bmi.notna().all()
    assert set(made.diagnosis) <= set(before.diagnosis)
    assert made.diagnosis.nunique() > 3
    assert made.admission.isna().any()
    assert release.data.schema.field("visits").type == table.schema.field("visits").type


def test_zeros_and_missing_values_do_not_tell_an_added_row(tmp_path):
    """A fill gives 0.0 and null; records with −0.0 and NaN have them too, also in cells without added rows."""
    table = registry(200).select(["person_id", *QUASI])
    numbers = pa.array([(float("nan"), -0.0, 1.5, 2.0)[n % 4] for n in range(200)])
    table = table.append_column("numbers", numbers)
    whole = gpuanon.protect(table, recipe(), rng=KEY, backend="numpy").data["numbers"]
    divided, _, _ = in_parts(tmp_path, table, recipe(), cell_rows=40)
    for column in (whole, divided["numbers"]):
        values = column.drop_null().to_numpy()
        assert column.null_count > 50
        assert not np.isnan(values).any()
        assert not np.signbit(values).any()


def test_columns_that_no_model_can_read_are_copied_from_records():
    table = registry(200).select(["person_id", *QUASI])
    lists = pa.array([[n // 2, n // 2 + 1] for n in range(200)])
    numbers = pa.array([2**60 + 7 * (n // 2) for n in range(200)])
    table = table.append_column("lists", lists).append_column("numbers", numbers)
    release = gpuanon.protect(table, recipe(), rng=KEY, backend="numpy")
    made = release.data.filter(pa.array(release.link < 0))
    assert set(map(tuple, made["lists"].to_pylist())) <= set(map(tuple, lists.to_pylist()))
    assert set(made["numbers"].to_pylist()) <= set(numbers.to_pylist())  # no bit is lost on the way


@pytest.mark.parametrize("nulls", ["category", "wildcard"])
def test_parts_and_cells_do_not_change_what_is_learned(nulls, tmp_path):
    """The same cells, in one part of the input or in several: the same release."""
    table = registry(600)
    rules = recipe(fill="tree", sample=1000, calibrate={"means": ["cost"]}) | {"nulls": nulls}
    one, link, manifest = in_parts(tmp_path, table, rules, "one", parts=1, cell_rows=150)
    three, other_link, other_manifest = in_parts(tmp_path, table, rules, "three", parts=3, cell_rows=150)
    assert one.equals(three)
    assert np.array_equal(link, other_link)
    assert manifest["mask"] == other_manifest["mask"]
    many = in_parts(tmp_path, table, rules, "three", cell_rows=150, workers=ShuffledWorkers(2), force=True)[0]
    assert one.equals(many)


def test_the_manifest_holds_the_certificate_and_the_price_and_no_value():
    table = registry(500)
    release = gpuanon.protect(table, recipe(calibrate={"means": ["cost"]}), rng=KEY, backend="numpy")
    mask = release.manifest["mask"][0]
    sizes = release.data.filter(pa.array(release.link >= 0)).select(QUASI).to_pandas()
    counts = sizes.groupby(list(QUASI), observed=True).size()
    assert mask["padded_by"] == {"1": int((counts == 2).sum()), "2": int((counts == 1).sum())}
    assert mask["classes"] == len(counts)
    assert mask["calibration"]["cost"]["price_nats"] >= 0
    assert mask["calibration"]["cost"]["reached"] is True
    json.dumps(release.manifest, allow_nan=False)
    after, before = release.data["cost"].to_pandas().mean(), table["cost"].to_pandas().mean()
    assert abs(after - before) < 0.03 * before


def test_a_calibration_of_what_is_not_filled_is_refused():
    for calibrate in ({"means": ["age"]}, {"means": ["nothing"]}, {"means": ["diagnosis"]}):
        with pytest.raises(GpuanonError, match="calibrate"):
            gpuanon.protect(registry(100), recipe(calibrate=calibrate), rng=KEY, backend="numpy")


def test_values_survive_the_coding():
    table = Table.of(registry(200))
    schema = Schema.resolve(table, {})
    coding = ModelledColumns.fit(table, schema, table.names)
    values = coding.sampled(table, table.names)
    for at, name in enumerate(table.names):
        back = coding.column(name, values[:, at], table)
        assert pa.chunked_array([back.to_arrow()]).equals(pa.chunked_array([table.series(name).to_arrow()])), name
