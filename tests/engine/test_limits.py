"""Limits of a recipe, in memory and in parts: kept, exceeded, unmeasurable."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.errors import GuaranteeError
from gpuanon.tables.table import Table
from tests.support.every import recipe, registry
from tests.support.files import left_behind
from tests.support.running import KEY, ShuffledWorkers, in_parts, protected, written


@pytest.fixture(params=["memory", "parts", "workers"])
def run(request, tmp_path):
    """From a table, a recipe and a reference to a manifest."""

    def in_memory(table, rules, reference=None):
        return gpuanon.protect(table, rules, rng=KEY, backend="numpy", reference=reference).manifest

    def on_files(table, rules, reference=None):
        workers = {"workers": ShuffledWorkers(2)} if request.param == "workers" else {}
        reference = None if reference is None else Table.of(reference)
        return in_parts(tmp_path, table, rules, reference=reference, **workers)[2]

    return in_memory if request.param == "memory" else on_files


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"reidentification": 1e-6}, "limits.reidentification: at most 1e-06 is allowed"),
        ({"k_anonymity": 1000}, "limits.k_anonymity: at least 1000 is allowed"),
        ({"reference_standard": 0.05}, "could not be measured: needs a reference sample"),
    ],
)
def test_a_limit_that_is_exceeded_or_cannot_be_measured_refuses(run, limits, message, tmp_path):
    with pytest.raises(GuaranteeError, match=message):
        run(registry(120), recipe("microaggregation", limits=limits))
    assert set(left_behind(tmp_path)) <= {"run-input"}


def test_limits_that_are_kept_are_in_the_manifest(run):
    limits = {"k_anonymity": 4, "reidentification": 0.9}
    assert set(run(registry(120), recipe("microaggregation", limits=limits))["measured"]) == set(limits)


def test_a_reference_sample_serves_the_limits(run):
    everyone = registry(400)
    rules = recipe("microaggregation", limits={"reference_standard": 1e-300})
    manifest = run(everyone.slice(0, 200), rules, everyone.slice(200))
    assert 0 <= manifest["measured"]["reference_standard"] <= 1


def test_what_is_measured_in_one_cell_is_what_is_measured_in_memory(tmp_path):
    rules = recipe("gaussian", limits={"k_anonymity": 1, "reidentification": 1.0, "information_loss": 1e9, "ks": 1.0})
    expected = gpuanon.protect(registry(), rules, rng=KEY, backend="numpy").manifest["measured"]
    assert in_parts(tmp_path, registry(), rules)[2]["measured"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mask", ["suppress", "synthetic-rows"])
def test_limits_on_releases_with_other_rows_are_measured_in_parts_as_in_memory(tmp_path, mask):
    rules = recipe(mask, limits={"k_anonymity": 1, "reidentification": 1.0})
    expected = gpuanon.protect(registry(), rules, rng=KEY, backend="numpy").manifest["measured"]
    assert in_parts(tmp_path, registry(), rules)[2]["measured"] == pytest.approx(expected, rel=1e-9)


def test_a_refused_run_in_parts_leaves_what_was_there(tmp_path):
    source = written(tmp_path, [registry(120)])
    protected(source, tmp_path / "release", "microaggregation")
    before = pq.read_table(tmp_path / "release")
    with pytest.raises(GuaranteeError, match="Nothing was written"):
        protected(source, tmp_path / "release", recipe("permute", limits={"k_anonymity": 1000}), force=True)
    assert pq.read_table(tmp_path / "release").equals(before)
    assert left_behind(tmp_path) == ["input", "release", "release.manifest.json"]


@pytest.mark.parametrize(
    ("name", "kept", "broken"),
    [("linkage_probabilistic", 0.9, 1e-9), ("ct_isolation", 0.9, 1e-9), ("interval_disclosure", 1.0, 1e-9),
     ("k_ambiguity", 1, 1000)],
)  # fmt: skip
def test_attacks_on_single_records_are_limits(name, kept, broken):
    def run(limit):
        return gpuanon.protect(
            registry(120), recipe("microaggregation", limits={name: limit}), rng=KEY, backend="numpy"
        ).manifest

    assert name in run(kept)["measured"]
    with pytest.raises(GuaranteeError, match=f"limits.{name}: at (most|least) .* allowed"):
        run(broken)
