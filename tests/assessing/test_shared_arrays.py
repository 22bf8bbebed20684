"""Arrays of a comparison: each measure makes those of the kind that it declares, and they are given up."""

from __future__ import annotations

import ast
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays import progress
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import compute
from gpuanon.assessing.shared_arrays import ARRAYS, MADE_FROM, by_kind, give_up, made_once, take_up
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import registry

RECIPE = Recipe.load(
    {
        "others": "drop",
        "columns": {
            "age": {"role": "quasi"},
            "sex": {"role": "quasi"},
            "income": {"role": "quasi"},
            "cost": {"role": "sensitive"},
        },
        "mask": [{"method": "svd-swap"}],
    }
)


@pytest.fixture(scope="module")
def comparison():
    table, other = Table.of(registry(300)), Table.of(registry(500)).take(np.arange(300, 500))
    order = np.random.default_rng(0).permutation(300)
    return Comparison(table, table.take(order), Schema.resolve(table, RECIPE.columns, RECIPE.others), order, other)


@pytest.mark.parametrize("name", [measure.name for measure in MEASURES.values()])
def test_a_measure_leaves_arrays_of_its_own_kind_only(comparison, name):
    fresh, measure = replace(comparison), MEASURES[name]
    with contextlib.suppress(GpuanonError):
        measure.measured(fresh if measure.host is None else fresh.host, {})
    made = {kind for kind, names in ARRAYS.items() for one in names if one in fresh.__dict__}
    assert made <= {measure.arrays, MADE_FROM.get(measure.arrays)}


def test_every_measure_comes_once_whatever_the_order():
    found = [measure.name for _, those in by_kind(tuple(MEASURES.values())) for measure in those]
    assert sorted(found) == sorted(MEASURES)
    assert len({kind for kind, _ in by_kind(tuple(MEASURES.values()))}) == len(list(by_kind(tuple(MEASURES.values()))))


def test_arrays_are_given_up_and_the_order_of_the_names_is_kept(comparison):
    fresh, names = replace(comparison), ("means", "k_anonymity", "mse", "ks", "workload", "kl")
    found = compute(fresh, names)
    assert not {one for arrays in ARRAYS.values() for one in arrays} & set(fresh.__dict__)
    assert tuple(found.measured) == ("means", "k_anonymity", "mse", "ks", "kl")
    assert tuple(found.failed) == ("workload",)


def test_threads_change_no_figure(comparison, monkeypatch):
    names = [measure.name for measure in MEASURES.values() if not measure.alone]
    monkeypatch.setenv("GPUANON_THREADS", "3")
    several = compute(replace(comparison), names)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    assert compute(replace(comparison), names).to_json() == several.to_json()


def test_kind_after_kind_gives_the_figures_of_one_queue(comparison, monkeypatch):
    names = [measure.name for measure in MEASURES.values() if not measure.long > 0.7]
    together = compute(replace(comparison), names)
    monkeypatch.setattr("gpuanon.assessing.run.SIDE_BY_SIDE_ROWS", 0)
    assert compute(replace(comparison), names).to_json() == together.to_json()


def test_the_bar_moves_with_each_measure_and_never_back(comparison):
    seen = []
    with progress.listening(lambda stage, done: seen.append((stage, done))):
        compute(replace(comparison), ("means", "ks", "mmd", "estimator_mse", "k_anonymity", "mse"))
    shares = [done for _, done in seen]
    assert {stage for stage, _ in seen} == {"assess"}
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(set(shares)) > 8


ENGINE = (
    "shared_arrays",
    "comparison",
    "compared_tables",
    "evidence",
    "streams",
    "columns",
    "figures",
    "measure",
    "sampling_errors",
)
RUNNING = ("assessing/run.py", "engine/assess.py")


@pytest.mark.parametrize("path", [*(f"assessing/{name}.py" for name in ENGINE), *RUNNING])
def test_no_engine_file_lists_names_of_measures(path):
    tree = ast.parse((Path(gpuanon.__file__).parent / path).read_text())
    formats = [node.format_spec for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) and node.format_spec]
    spec = {id(part) for one in formats for part in ast.walk(one)}  # "g" is a number's format, and a measure
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in spec}
    assert not constants & set(MEASURES)


def test_a_property_is_made_once_whichever_thread_asks():
    class Counted:
        made = 0

        @made_once
        def array(self):
            time.sleep(0.02)
            self.made += 1
            return self.made

    one, other = Counted(), Counted()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: one.array, range(8))) == {1}
    assert other.array == 1
    give_up_by_hand = one.__dict__.pop("array")
    assert (give_up_by_hand, one.array) == (1, 2)


def test_points_replace_the_quasi_identifiers_that_they_are_made_from(comparison):
    fresh = replace(comparison)
    before = fresh.quasi[0]
    take_up(fresh, "points")
    assert "quasi" not in fresh.__dict__
    assert np.allclose(fresh.standardised[0].mean(axis=0), 0, atol=1e-9)
    assert fresh.standardised[0].shape == before.shape
    give_up(fresh, "points")
    assert not {"quasi", "standardised"} & set(fresh.__dict__)
