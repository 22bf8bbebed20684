"""Attribute disclosure, exact copies and household risk: known extremes and values by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.risk.attribute_disclosure import attribute_disclosure
from gpuanon.assessing.risk.copies import exact_copies
from gpuanon.assessing.risk.household_risk import hierarchical_risk, household_risk
from gpuanon.assessing.risk.individual_risk import risks
from gpuanon.assessing.risk.reference_standard import reference_standard
from tests.support.every import COLUMNS, recipe, registry


def people(rows=3000, seed=0, levels=5):
    """Quasi-identifiers, and a value that has nothing to do with them."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.integers(0, levels, (rows, 1))


def test_a_copy_discloses_what_a_population_cannot_tell():
    X, S = people()
    found = attribute_disclosure((X, S), (X, S), names=["diagnosis"])
    assert found.details["success_by_column"] == {"diagnosis": 1.0}
    assert found.value == pytest.approx(0.8, abs=0.05)  # one in five is right by chance
    assert found.interval.low < found.value < found.interval.high
    assert found.worst[0] == "diagnosis"


@pytest.mark.parametrize("given", [False, True])
def test_an_independent_sample_discloses_nothing(given):
    original, release, control = people(seed=1), people(seed=2), people(seed=3)
    found = attribute_disclosure(original, release, control if given else None, names=["diagnosis"])
    assert found.interval.low <= 0.0 <= found.interval.high + 0.02
    assert abs(found.value) < 0.04


def test_what_the_population_tells_is_no_excess():
    """The value is a function of the quasi-identifiers: any sample predicts it."""
    tables = [people(seed=seed)[0] for seed in range(3)]
    original, release, control = ((X, (X[:, :1] > 0).astype(np.int64)) for X in tables)
    found = attribute_disclosure(original, release, control)
    assert found.details["success_by_column"]["column 1"] > 0.9
    assert abs(found.value) < 0.03


def test_the_worst_column_is_the_headline():
    X, S = people()
    other = np.random.default_rng(9).integers(0, 5, S.shape)
    found = attribute_disclosure((X, np.hstack([S, S])), (X, np.hstack([other, S])), names=["a", "b"])
    assert found.worst[0] == "b"
    assert found.to_json()["by_column"]["a"] < 0.05


def test_equal_groups_of_one_value_disclose_it_and_diverse_ones_do_not():
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(300), 10)
    X = rng.normal(size=(300, 3))[labels]
    alike, mixed = rng.integers(0, 5, 300)[labels][:, None], np.tile(np.arange(10) % 5, 300)[:, None]
    control = people(3000, seed=4)
    assert attribute_disclosure((X, alike), (X, alike), control).value > 0.7
    assert attribute_disclosure((X, mixed), (X, mixed), control).value < 0.05


def test_a_person_is_held_out_whole():
    """Ten records of a person agree: one of them must not stand in the control for another."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(300), 10)
    X, S = rng.normal(size=(300, 3))[who] + 1e-6 * rng.normal(size=(3000, 3)), rng.integers(0, 5, 300)[who][:, None]
    assert attribute_disclosure((X, S), (X, S)).value < 0.1
    assert attribute_disclosure((X, S), (X, S), persons=who).value > 0.6


def test_exact_copies_by_hand():
    original = np.array([[1, 1], [1, 1], [2, 3], [4, 5]])
    release = np.array([[1, 1], [2, 3], [2, 3], [9, 9]])
    found = exact_copies(original, release, np.array([[4, 5], [7, 7]]))
    assert found.value == 0.5
    assert found.details == {"copies": 2, "originals_copied": 1, "unique_originals": 2}
    assert found.beside[0].value == 0.5


def test_three_per_cent_of_copies_fail_the_reference_standard():
    X = np.random.default_rng(1).normal(size=(12000, 5))
    original, release, reference = X[:4000], X[4000:8000].copy(), X[8000:]
    assert reference_standard(original, release, reference).details["passes"] is True
    release[:120] = original[:120]
    found = reference_standard(original, release, reference)
    assert found.details["distance"]["passes"] is True  # the thesis's tests do not see them
    assert found.details["copies"]["passes"] is False
    assert found.details["passes"] is False
    assert "copies" in found.details["verdict"]


def test_copies_by_chance_pass_the_reference_standard():
    X = np.random.default_rng(1).integers(0, 3, (4500, 4)).astype(float)
    found = reference_standard(X[:1500], X[1500:3000], X[3000:])
    assert found.details["copies"]["passes"] is True


def test_household_risk_by_hand():
    found = household_risk(np.array([0.5, 0.5, 0.1, 0.0]), np.array([7, 7, 8, 9]))
    assert found.value == pytest.approx((0.75 + 0.1 + 0.0) / 3)
    assert found.to_json()["by_size"] == {"1": pytest.approx(0.05), "2": pytest.approx(0.75)}
    assert household_risk(np.array([1.0, 0.2]), np.array([1, 1])).value == 1.0


def test_hierarchical_risk_joins_the_published_individual_risks():
    """sdcMicro's eight records of the example of Capobianchi et al., their weights and published individual risks."""
    codes = np.array([[2, 3, 2, 2, 3, 3, 1, 2], [3, 3, 3, 3, 3, 3, 4, 3], [1, 3, 1, 2, 1, 1, 1, 1]]).T
    weights = np.array([18, 45.5, 39, 17, 92, 8, 123.5, 51])
    published = np.array(
        [0.01369863, 0.08579129, 0.01369863, 0.17707583, 0.01877883, 0.01877883, 0.03931625, 0.01369863]
    )
    households = np.array([1, 1, 2, 2, 2, 3, 4, 4])
    risk = np.array([1 - np.prod(1 - published[households == one]) for one in households])
    found = hierarchical_risk(risks(codes, weights), households)
    assert found.value == pytest.approx(risk.mean(), rel=1e-6)
    assert found.details["expected_reidentifications"] == pytest.approx(risk.sum(), rel=1e-6)


def test_both_household_risks_of_a_table_with_weights():
    table = registry(600).append_column("family", pa.array(np.arange(600) // 3))
    table = table.append_column("weight", pa.array(np.full(600, 50.0)))
    rules = recipe("permute", columns=COLUMNS | {"family": {"role": "household"}, "weight": {"role": "weight"}})
    release = gpuanon.protect(table, rules, rng=7, backend="numpy")
    names = ("household_risk", "hierarchical_risk", "individual_risk")
    found = gpuanon.assess(table, release.data, rules, link=release.link, measures=names)
    assert not found.failed
    own = found.measured["hierarchical_risk"].value
    alone = found.measured["individual_risk"].value
    assert alone < own <= 3 * alone  # three members


def test_the_measures_of_a_table():
    table = registry(600).append_column("family", pa.array(np.arange(600) // 3))
    columns = COLUMNS | {"family": {"role": "household"}}
    rules = recipe("permute", columns=columns)
    release = gpuanon.protect(table, rules, rng=7, backend="numpy")
    assert "family" not in release.data.column_names
    names = ("attribute_disclosure", "exact_copies", "household_risk", "reidentification")
    found = gpuanon.assess(table, release.data, rules, link=release.link, measures=names)
    assert not found.failed
    assert set(found.measured["attribute_disclosure"].to_json()["by_column"]) == {"diagnosis", "cost"}
    assert found.measured["household_risk"].value >= found.measured["reidentification"].value
    without = gpuanon.assess(registry(600), release.data, recipe("permute"), link=release.link, measures=names)
    assert "household" in without.failed["household_risk"]


def test_groups_that_ignore_the_sensitive_columns_disclose_little_and_are_the_default():
    """The paper's weight of 1 makes groups alike in the diagnosis: whoever knows the rest knows it."""
    table, rules = registry(2000), recipe({"method": "distribution-preserving", "k": 10, "dither": "permute"})
    success = []
    for mask in ({}, {"response_weight": 0.0}, {"response_weight": 1.0}):
        chosen = rules | {"mask": [rules["mask"][0] | mask]}
        release = gpuanon.protect(table, chosen, rng=b"a key of sixteen bytes or more", backend="numpy")
        found = gpuanon.assess(table, release.data, chosen, measures=("attribute_disclosure",), backend="numpy")
        success.append(found.measured["attribute_disclosure"].details["success_by_column"]["diagnosis"])
        control = found.measured["attribute_disclosure"].details["control_by_column"]["diagnosis"]
    assert success[0] == success[1]
    assert success[1] < control + 0.1
    assert success[2] > control + 0.1


def test_where_the_control_tells_everything_no_risk_is_left_to_be_told():
    """Everybody has the value 0, and the release says 1."""
    X = np.random.default_rng(0).normal(size=(50, 1))
    zeros = np.zeros((50, 1), dtype=int)
    found = attribute_disclosure((X, zeros), (X, zeros + 1), (X + 9, zeros))
    assert found.value == -1
    assert found.to_json()["risk_by_column"] == {"column 1": None}
