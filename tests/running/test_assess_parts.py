"""Assessing what is larger than memory: the figures of the engine in memory, or a sample that says so."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.assessing.measures import by_name
from gpuanon.errors import ParameterError
from gpuanon.recipe import Recipe
from gpuanon.running.assess import assess
from gpuanon.running.assess_parts import assess_parts
from gpuanon.running.files import assess_files
from gpuanon.tables.class_counts import class_sizes, row_bits
from gpuanon.tables.table import Table
from tests.support.every import QUASI, recipe, registry

EXACT = ("k_anonymity", "uniqueness", "means", "variances", "correlations", "mean_bias")


def pieces(table, rows=170):
    return lambda: (Table.of(table.slice(at, rows)) for at in range(0, table.num_rows, rows))


@pytest.fixture(scope="module")
def both():
    table = registry(1500)
    return table, gpuanon.protect(table, recipe("microaggregation"), rng=1, backend="numpy").data


def test_all_rows_give_the_figures_of_the_engine_in_memory(both):
    loaded = Recipe.load(recipe("microaggregation"))
    found = assess_parts(pieces(both[0]), pieces(both[1], 400), loaded, measures=EXACT)
    expected = assess(*both, loaded, measures=EXACT)
    assert set(found.measured) == set(EXACT)
    for name in EXACT:
        ours, theirs = (side.measured[name].to_json() for side in (found, expected))
        assert ours.keys() == theirs.keys()
        # Sums of 1500 standardised values in another order.
        assert np.allclose(_numbers(ours), _numbers(theirs), rtol=0, atol=1e-11, equal_nan=True)


def _numbers(figure):
    flat = []
    for value in figure.values():
        flat += value if isinstance(value, list) else [value]
    return [np.nan if value is None or isinstance(value, str) else value for value in flat]


def test_the_rest_is_a_sample_that_says_so_or_is_refused(both):
    loaded = Recipe.load(recipe("microaggregation"))
    found = assess_parts(pieces(both[0]), pieces(both[1]), loaded, sample_rows=700)
    assert set(found.measured) | set(found.failed) == set(by_name())
    for name, figure in found.measured.items():
        assert name in EXACT or "random sample of" in (figure.note or "")
    for name in ("l_diversity", "prediction_distance", "confidence_overlap", "vw"):
        assert "a sample would mislead" in found.failed[name]
    assert abs(found.measured["ks"].value - assess(*both, loaded, measures=["ks"]).measured["ks"].value) < 0.1
    assert any("on all rows" in note for note in found.notes)


def test_classes_are_those_that_a_dictionary_counts(both):
    frame = both[1].select(list(QUASI)).to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    counts = {}
    for row in frame.itertuples(index=False):
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    for held in (10**6, 100):
        sizes = class_sizes(pieces(both[1]), both[1].num_rows, QUASI, held=held)
        assert sorted(sizes) == sorted(counts.values())


def test_bits_tell_values_apart_and_equal_ones_together():
    table = pa.table({"a": [0.0, -0.0, None, np.nan, 1.0], "b": ["x", "x", "x", "x", None]})
    bits = row_bits(Table.of(table), ["a", "b"])
    assert (bits[0] == bits[1]).all()
    assert (bits[2] == bits[3]).all()
    assert len(np.unique(bits, axis=0)) == 3
    large = pa.table({"a": pa.array([2**53, 2**53 + 1], pa.int64())})
    assert len(np.unique(row_bits(Table.of(large), ["a"]), axis=0)) == 2
    swapped = pa.table({"a": [1, 2], "b": [2, 1]})
    assert len(np.unique(row_bits(Table.of(swapped), ["a", "b"]), axis=0)) == 2
    own = [pa.table({"a": pa.array(values).dictionary_encode()}) for values in (["u", "v"], ["v", "u"])]
    first, second = (row_bits(Table.of(table), ["a"]) for table in own)
    assert (first == second[::-1]).all()


def test_files_larger_than_the_limit_are_assessed_piece_by_piece(both, tmp_path, monkeypatch):
    for name, table in zip(("original", "release"), both, strict=True):
        (tmp_path / name).mkdir()
        for part in range(3):
            pq.write_table(table.slice(500 * part, 500), tmp_path / name / f"{part}.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("microaggregation")))
    paths = tmp_path / "original", tmp_path / "release", tmp_path / "recipe.json"
    whole = assess_files(*paths, names=("k_anonymity", "ks"))
    assert "random sample" not in str(whole)
    assert "random sample of" in assess_files(*paths, names=("ks",), sample_rows=500)["utility"]["ks"]["note"]
    monkeypatch.setattr("gpuanon.running.files.IN_MEMORY_ROWS", 1000)
    pieced = assess_files(*paths, names=("k_anonymity", "ks"))
    assert pieced["risk"]["k_anonymity"] == whole["risk"]["k_anonymity"]
    assert "random sample of" in pieced["utility"]["ks"]["note"]
    with pytest.raises(ParameterError, match="link"):
        assess_files(*paths, link=tmp_path / "link.csv")
