"""Persons and constraints on the stand-in for CuPy: the groups are those of NumPy, and rows are never copied back."""

from __future__ import annotations

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.masking.constraints import Constraint, Sensitive, unite_failing
from gpuanon.masking.person_blocks import persons_per_part
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.groups import refine_briefly
from tests.support.persons import DRAWN, PROMISING, families, rules
from tests.support.same_release import assert_same_release

NAMES = ("microaggregation", "mondrian", "suppress", "synthetic-rows", "permute")


@pytest.fixture
def brief_refinement(monkeypatch):
    """One short turn on either device: the usual ones are too many to interpret."""
    refine_briefly(monkeypatch, turns=1, steps=6)


@pytest.mark.usefixtures("brief_refinement")
@pytest.mark.parametrize("name", NAMES)
def test_a_release_of_persons_is_that_of_the_host(name):
    table, given = families(120), rules((PROMISING | DRAWN)[name])
    expected = gpuanon.protect(table, given, rng=7, backend="numpy")
    with fake_cupy():
        found = gpuanon.protect(table, given, rng=7, backend="cupy")
    assert_same_release(found.data, expected.data)
    assert found.manifest["quasi"] == expected.manifest["quasi"]


@pytest.mark.parametrize("constraint", [Constraint(3, None), Constraint(None, 0.3)])
def test_groups_are_united_as_on_the_host(constraint):
    rng = np.random.default_rng(4)
    X, labels = np.round(rng.normal(size=(200, 2)), 2), np.arange(200) // 5
    codes = np.stack([rng.integers(0, 5, 200), rng.integers(0, 20, 200)], axis=1)
    table = tuple(np.bincount(column) for column in codes.T)
    expected = unite_failing(
        Partition.from_labels(labels), X, Sensitive(codes, table, (False, True), (False, True)), constraint
    )
    with fake_cupy() as cp:
        sensitive = Sensitive(
            cp.asarray(codes), tuple(cp.asarray(column) for column in table), (False, True), (False, True)
        )
        found = unite_failing(Partition.from_labels(cp.asarray(labels)), cp.asarray(X), sensitive, constraint)
        assert isinstance(found.order, cp.ndarray)
        np.testing.assert_array_equal(host(found.labels()), expected.labels())


def test_persons_are_counted_as_on_the_host():
    rng = np.random.default_rng(1)
    labels, persons = rng.integers(0, 9, 100), rng.integers(0, 30, 100)
    expected = [len(set(persons[labels == part])) for part in range(9)]
    assert persons_per_part(Partition.from_labels(labels), persons).tolist() == expected
    with fake_cupy() as cp:
        found = persons_per_part(Partition.from_labels(cp.asarray(labels)), cp.asarray(persons))
        assert host(found).tolist() == expected
