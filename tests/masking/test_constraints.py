"""ℓ-diversity and t-closeness of the groups: constraints that are met by merging, and claims that can fail."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.diversity import l_diversity, t_closeness
from gpuanon.engine.protect import protect_in_parts
from gpuanon.errors import GpuanonError, GuaranteeError
from gpuanon.masking.constraints import Constraint, Sensitive, unite_failing
from gpuanon.numerics.closeness import distinct_values, equal_distance, ordered_distance
from gpuanon.recipe import Recipe
from tests.support.every import COLUMNS, QUASI, recipe, registry

SECRET = b"a key for tests, of sixteen bytes or more"
MICRO = [
    {"method": "microaggregation", "groups": name}
    for name in ("mdav", "k-member", "first-axis", "fuzzy", "spanning-tree")
]
EQUAL = {
    **{f"microaggregation {mask['groups']}": mask | {"k": 4} for mask in MICRO},
    "mondrian": {"method": "mondrian", "k": 4},
    "mondrian interval": {"method": "mondrian", "k": 4, "release": "interval"},
    "spectral-rhs": {"method": "spectral-rhs", "k": 4},
}
DRAWN = {
    dither: {"method": "distribution-preserving", "k": 4, "dither": dither}
    for dither in ("permute", "resample", "gaussian")
}
ONLY_DIAGNOSIS = COLUMNS | {"cost": {"role": "other"}}


def naive_equal(labels, values, table):
    q = table / table.sum()
    return [
        0.5 * np.abs(np.bincount(values[labels == g], minlength=len(q)) / (labels == g).sum() - q).sum()
        for g in range(labels.max() + 1)
    ]


def naive_ordered(labels, values, table):
    q = table / table.sum()
    found = []
    for g in range(labels.max() + 1):
        p = np.bincount(values[labels == g], minlength=len(q)) / (labels == g).sum()
        found.append(np.abs(np.cumsum(p - q)).sum() / max(len(q) - 1, 1))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_distances_of_groups_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    groups, levels = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    labels = np.concatenate([np.arange(groups), rng.integers(0, groups, 60)])
    values = rng.integers(0, levels, len(labels))
    table = rng.integers(1, 50, levels)  # of a larger table
    assert equal_distance(labels, values, table) == pytest.approx(naive_equal(labels, values, table))
    assert ordered_distance(labels, values, table) == pytest.approx(naive_ordered(labels, values, table))
    assert distinct_values(labels, values).tolist() == [len(set(values[labels == g])) for g in range(groups)]


@pytest.mark.parametrize("constraint", [Constraint(3, None), Constraint(None, 0.3), Constraint(2, 0.4)])
def test_groups_are_united_until_each_holds(constraint):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    codes = np.stack([(X[:, 0] > 0.5).astype(np.int64) + rng.integers(0, 3, 400), rng.integers(0, 40, 400)], axis=1)
    sensitive = Sensitive(codes, tuple(np.bincount(column) for column in codes.T), (False, True))
    begin = Partition.from_labels(np.argsort(np.argsort(X[:, 0])) // 5)
    found = unite_failing(begin, X, sensitive, constraint)
    labels, before = found.labels(), begin.labels()
    assert all(len(set(labels[before == g])) == 1 for g in range(begin.parts))  # whole groups are united
    assert 1 < found.parts < begin.parts
    for at, values in enumerate(codes.T):
        table = np.bincount(values)
        if constraint.diversity:
            assert distinct_values(labels, values).min() >= constraint.diversity
        if constraint.closeness:
            distance = (naive_equal, naive_ordered)[at](labels, values, table)
            assert max(distance) <= constraint.closeness + 1e-12


def test_groups_that_hold_are_left_alone_and_a_table_that_cannot_is_refused():
    X = np.arange(8.0)[:, None]
    groups = Partition.from_labels(np.arange(8) // 2)
    good = np.arange(8)[:, None] % 2
    sensitive = Sensitive(good, (np.array([4, 4]),), (False,))
    assert unite_failing(groups, X, sensitive, Constraint(2, 0.1)).parts == 4
    with pytest.raises(GuaranteeError, match="3 different"):
        unite_failing(groups, X, sensitive, Constraint(3, None))


@pytest.mark.parametrize("name", EQUAL)
def test_classes_of_the_release_are_diverse_and_close(name):
    mask = EQUAL[name] | {"diversity": 3, "closeness": 0.4}
    release = gpuanon.protect(registry(300), recipe(mask, columns=ONLY_DIAGNOSIS), rng=SECRET, backend="numpy")
    names = [
        place for name in QUASI for place in (name, f"{name}_low", f"{name}_high") if place in release.data.column_names
    ]
    classes = np.unique(
        [str(row) for row in zip(*(release.data[n].to_pylist() for n in names), strict=True)], return_inverse=True
    )[1]
    values = np.unique(release.data["diagnosis"].to_pylist(), return_inverse=True)[1]
    diverse, close = l_diversity(classes[:, None], values[:, None]), t_closeness(classes[:, None], values[:, None])
    assert diverse.value >= 3
    assert close.value <= 0.4 + 1e-12
    first, second, third = release.manifest["guarantee"]
    assert first["k"] == 4
    assert second["verified"]
    assert "3 different values" in second["statement"]
    assert third["verified"]
    assert third["largest_distance"] <= 0.4
    plain = gpuanon.protect(registry(300), recipe(EQUAL[name], columns=ONLY_DIAGNOSIS), rng=SECRET, backend="numpy")
    assert release.manifest["mask"][0]["groups_formed"] < plain.manifest["mask"][0]["groups_formed"]


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_methods_promise_diverse_groups(name):
    mask = DRAWN[name] | {"diversity": 3, "closeness": 0.4}
    release = gpuanon.protect(registry(300), recipe(mask), rng=SECRET, backend="numpy")
    assert [guarantee["verified"] for guarantee in release.manifest["guarantee"]] == [True] * 3


def test_suppression_drops_classes_that_are_not_diverse():
    table = pa.table({"age": [30] * 4 + [60] * 4, "diagnosis": ["a"] * 4 + ["a", "b", "c", "a"]})
    columns = {"age": {"role": "quasi"}, "diagnosis": {"role": "sensitive"}}
    mask = {"method": "suppress", "k": 3, "diversity": 3}
    release = gpuanon.protect(table, {"columns": columns, "mask": [mask]}, rng=SECRET)
    assert release.data["age"].to_pylist() == [60] * 4
    assert len(release.manifest["guarantee"]) == 2


@pytest.mark.parametrize("constraint", [{"diversity": 3}, {"closeness": 0.35}])
@pytest.mark.parametrize("name", ["permute", "microaggregation mdav"])
def test_in_parts_the_distance_is_that_from_the_whole_table(tmp_path, name, constraint):
    table, given = registry(600), recipe((EQUAL | DRAWN)[name] | constraint, columns=ONLY_DIAGNOSIS)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=100)
    options = {"key": Key(SECRET), "backend": "numpy"}
    whole = gpuanon.protect(table, given, rng=SECRET, backend="numpy")
    protect_in_parts(tmp_path / "in.parquet", Recipe.load(given), tmp_path / "one.parquet", cell_rows=10**6, **options)
    assert pq.read_table(tmp_path / "one.parquet").equals(whole.data.cast(pq.read_schema(tmp_path / "one.parquet")))
    cells = protect_in_parts(
        tmp_path / "in.parquet", Recipe.load(given), tmp_path / "cells.parquet", cell_rows=200, **options
    )
    assert [guarantee["verified"] for guarantee in cells["guarantee"]] == [True, True]


@pytest.mark.parametrize("constraint", [{"diversity": 4}, {"closeness": 0.2}])
def test_groups_that_ignore_the_constraint_break_the_claim(monkeypatch, constraint):
    monkeypatch.setattr("gpuanon.masking.groups.in_blocks.unite_failing", lambda groups, *rest: groups)
    with pytest.raises(GuaranteeError, match=r"different values|distribution"):
        gpuanon.protect(registry(300), recipe(DRAWN["permute"] | constraint), rng=SECRET, backend="numpy")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"method": "microaggregation", "k": 4, "groups": "univariate", "diversity": 2}, "univariate"),
        ({"method": "microaggregation", "k": 4, "diversity": 1}, "greater than or equal to 2"),
        ({"method": "microaggregation", "k": 4, "closeness": 0}, "greater than 0"),
        ({"method": "microaggregation", "k": 4, "closeness": 0.3, "columns": "all"}, "changes it"),
        ({"method": "microaggregation", "k": 4, "diversity": 13, "columns": "quasi"}, "different values"),
    ],
)
def test_what_cannot_be_met_is_refused_with_a_reason(mask, message):
    with pytest.raises(GpuanonError, match=message):
        gpuanon.protect(registry(200), recipe(mask, columns=ONLY_DIAGNOSIS), rng=SECRET, backend="numpy")


def test_a_constraint_without_sensitive_columns_is_refused():
    rules = {"columns": {"a": {"role": "quasi"}}, "mask": [{"method": "mondrian", "k": 2, "diversity": 2}]}
    with pytest.raises(GpuanonError, match="role sensitive"):
        gpuanon.protect(pa.table({"a": [1.0, 2, 3, 4]}), rules, rng=SECRET)
