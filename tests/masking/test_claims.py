"""The check before anything is written: a release that breaks its promise does not pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from gpuanon.running.plan import Plan
from gpuanon.running.verify import verify

import gpuanon
from gpuanon.arrays.backend import choose
from gpuanon.arrays.rng import Key
from gpuanon.errors import GuaranteeError
from gpuanon.masking.methods.catalogue import DistributionPreserving
from gpuanon.masking.methods.microaggregation import Microaggregation
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry

KEY = Key(b"a key for tests, of sixteen bytes or more")


def masked(method):
    table = Table.of(registry(120))
    schema = Schema.resolve(table, Recipe.load(recipe("permute")).columns)
    plan = Plan.fit(method.combination(), table, schema, "indicator")
    return plan, table, plan.apply(table, KEY.draws(np.arange(120)), choose("numpy"))


def with_cell(table, name, row, value):
    """The table with one cell changed."""
    values = table.to_arrow()[name].to_pylist()
    values[row] = value
    column = pa.chunked_array([pa.array(values, table.to_arrow()[name].type)])
    arrow = table.to_arrow()
    return Table.of(arrow.set_column(arrow.column_names.index(name), name, column))


def test_a_kept_promise_passes_with_its_figures():
    plan, before, result = masked(Microaggregation(k=5))
    guarantee = verify(plan, before, result, result.table)
    assert guarantee.verified
    assert guarantee.figures["smallest_class"] >= 5


@pytest.mark.parametrize("row", [0, 7, 119])
def test_one_cell_that_differs_breaks_a_class(row):
    plan, before, result = masked(Microaggregation(k=5))
    with pytest.raises(GuaranteeError, match="shared by 1 released records, fewer than k = 5"):
        verify(plan, before, result, with_cell(result.table, "age", row, 99))


def test_a_group_that_is_too_small_is_found_whatever_the_values_are():
    plan, before, result = masked(DistributionPreserving(k=5, dither="permute"))
    with pytest.raises(GuaranteeError, match="a group has 4 records"):
        verify(plan, before, replace(result, smallest=4), result.table)


@pytest.mark.parametrize("dither", ["resample", "permute", "cell"])
def test_a_value_from_another_group_is_found(dither):
    plan, before, result = masked(DistributionPreserving(k=5, dither=dither))
    verify(plan, before, result, result.table)
    labels = np.roll(result.labels, 1)  # as if every record had been in another group
    with pytest.raises(GuaranteeError, match="no member of its group"):
        verify(plan, before, replace(result, labels=labels), result.table)


@pytest.mark.parametrize("dither", ["resample", "gaussian"])
def test_a_value_that_was_not_drawn_is_found(dither):
    plan, before, result = masked(DistributionPreserving(k=5, dither=dither))
    with pytest.raises(GuaranteeError, match="differs from the record"):
        verify(plan, before, result, with_cell(result.table, "age", 3, 17))


def test_an_engine_that_breaks_its_promise_releases_nothing(monkeypatch):
    honest = Centroid.apply

    def broken(self, T, groups, records):
        outcome = honest(self, T, groups, records)
        outcome.values[0] += 1.0
        return outcome

    monkeypatch.setattr(Centroid, "apply", broken)
    with pytest.raises(GuaranteeError, match="nothing was written"):
        gpuanon.protect(registry(120), recipe("microaggregation"), rng=KEY, backend="numpy")


def test_a_later_mask_takes_an_earlier_promise_away():
    masks = [{"method": "microaggregation", "k": 4, "columns": ["age"]}, {"method": "noise", "columns": ["age"]}]
    release = gpuanon.protect(registry(120), recipe("noise") | {"mask": masks}, rng=KEY, backend="numpy")
    assert release.manifest["guarantee"]["k"] is None
    assert "no formal guarantee" in release.manifest["guarantee"]["statement"]


def test_promises_on_different_columns_stand_side_by_side():
    masks = [
        {"method": "microaggregation", "k": 4, "columns": ["age"]},
        {"method": "microaggregation", "k": 6, "columns": ["income"]},
    ]
    release = gpuanon.protect(registry(120), recipe("noise") | {"mask": masks}, rng=KEY, backend="numpy")
    assert release.manifest["guarantee"]["k"] == 4
    assert release.manifest["guarantee"]["statement"].count("is shared by at least") == 2


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"reidentification": 1e-6}, "limits.reidentification: at most 1e-06 is allowed"),
        ({"k_anonymity": 1000}, "limits.k_anonymity: at least 1000 is allowed"),
        ({"reference_standard": 0.05}, "could not be measured: needs a reference sample"),
    ],
)
def test_a_limit_that_is_exceeded_or_cannot_be_measured_refuses(limits, message):
    with pytest.raises(GuaranteeError, match=message):
        gpuanon.protect(registry(120), recipe("microaggregation", limits=limits), rng=KEY, backend="numpy")


def test_limits_that_are_kept_are_in_the_manifest():
    limits = {"k_anonymity": 4, "reidentification": 0.9}
    release = gpuanon.protect(registry(120), recipe("microaggregation", limits=limits), rng=KEY, backend="numpy")
    assert set(release.manifest["measured"]) == set(limits)


def test_a_reference_sample_serves_the_limits():
    everyone = registry(400)
    limits = {"reference_standard": 1e-300}
    rules = recipe("microaggregation", limits=limits)
    release = gpuanon.protect(everyone.slice(0, 200), rules, rng=KEY, backend="numpy", reference=everyone.slice(200))
    assert 0 <= release.manifest["measured"]["reference_standard"] <= 1
