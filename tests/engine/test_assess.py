"""Assessing in memory and piece by piece: the same figures, or a sample that says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import measure
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.assess import assess
from gpuanon.errors import BackendError, InputError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import class_sizes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import QUASI, recipe, registry

EXACT = tuple(measure.name for measure in MEASURES.values() if measure.scaling == "merged")
PAIRED = tuple(measure.name for measure in MEASURES.values() if measure.scaling == "pairs")
QUERIED = tuple(measure.name for measure in MEASURES.values() if measure.scaling == "queries")
WHOLE = tuple(measure.name for measure in MEASURES.values() if measure.scaling == "whole")


def pieces(table, rows=170):
    return Pieces(lambda: (Table.of(table.slice(at, rows)) for at in range(0, table.num_rows, rows)), table.num_rows)


@pytest.fixture(scope="module")
def released():
    table = registry(1500)
    return table, gpuanon.protect(table, recipe("microaggregation"), rng=1, backend="numpy")


@pytest.fixture(scope="module")
def both(released):
    return released[0], released[1].data


@pytest.fixture(scope="module")
def schema(both):
    return Schema.resolve(Table.of(both[0]), Recipe.load(recipe("microaggregation")).columns)


def in_pieces(both, schema, names, *, size=700, **known):
    return measure(pieces(both[0]), pieces(both[1], 400), schema, names, sample_rows=size, **known)


@pytest.mark.parametrize("file", ["../assessing/run.py", "assess.py"])
def test_the_engine_knows_no_measure_by_name(file):
    lines = Path(gpuanon.__file__).parent.joinpath("engine", file).read_text().splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith(">>>"))  # examples may name them
    assert not [name for name in MEASURES if f'"{name}"' in code]


def test_evidence_that_merges_gives_the_figures_of_tables_in_memory(both, schema):
    needed = {"population_uniqueness": {"fraction": 0.1}}  # the registry has no weights
    found = in_pieces(both, schema, EXACT, options=needed)
    expected = measure(Pieces.of(Table.of(both[0])), Pieces.of(Table.of(both[1])), schema, EXACT, options=needed)
    assert set(found.measured) == set(EXACT)
    for name in EXACT:
        # Sums of 1500 standardised values in another order.
        assert_same(found.measured[name].to_json(), expected.measured[name].to_json(), 1e-11)


def assert_same(found, expected, tolerance):
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found:
            # Columns that differ by rounding alone may change places.
            if key != "worst":
                assert_same(found[key], expected[key], tolerance)
    elif isinstance(found, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


def test_the_rest_is_a_sample_that_says_so_or_is_refused(both, schema):
    found = in_pieces(both, schema, tuple(MEASURES))
    assert set(found.measured) | set(found.failed) == set(MEASURES)
    for name, figure in found.measured.items():
        assert name in EXACT or "random sample of" in figure.note
    refused = set(WHOLE) - found.inapplicable  # what does not apply says that first
    assert "l_diversity" in refused
    assert all("a sample would mislead" in found.failed[name] for name in refused)
    for name in (*PAIRED, "reidentification", "match_auc"):
        assert "--link" in found.failed[name]
    assert "--reference" in found.failed["reference_standard"]
    whole = assess(*both, recipe("microaggregation"), measures=["ks"])
    assert abs(found.measured["ks"].value - whole.measured["ks"].value) < 0.1
    assert any("on all rows" in note for note in found.notes)


def test_a_sample_that_holds_every_row_gives_the_figures_of_tables_in_memory(released, schema):
    table, release = released
    names = (*PAIRED, *QUERIED)
    known = {"link": release.link, "reference": Table.of(registry(3000).slice(1500))}
    found = in_pieces((table, release.data), schema, names, size=10**6, **known)
    expected = assess(table, release.data, recipe("microaggregation"), measures=names, **known)
    assert set(found.measured) == set(expected.measured) == set(names)
    for name in names:
        # The original's rows stand in the order of the link: sums in another order.
        assert found.measured[name].value == pytest.approx(expected.measured[name].value, rel=1e-9), name
        assert [one.value for one in found.measured[name].beside] == pytest.approx(
            [one.value for one in expected.measured[name].beside]
        )


def test_sampled_originals_are_sought_among_all_released_rows(released, schema):
    table, release = released
    expected = assess(table, release.data, recipe("microaggregation"), link=release.link, measures=["reidentification"])
    whole = expected.measured["reidentification"]
    found = in_pieces((table, release.data), schema, ("reidentification",), size=600, link=release.link)
    figure = found.measured["reidentification"]
    assert "against all released rows" in figure.note
    assert figure.details["records"] == pytest.approx(600, abs=100)
    assert figure.interval.low - 0.02 < whole.value < figure.interval.high + 0.02
    unmasked, guess = (one.value for one in figure.beside)
    # On the sample alone more records would be unique than in the table.
    assert unmasked == pytest.approx(whole.beside[0].value, abs=0.02)
    assert guess == 1 / 1500


def test_pairs_are_sampled_with_their_originals_and_added_rows_left_out(released, schema):
    table, release = released
    link = release.link.copy()
    link[::3] = -1
    found = in_pieces((table, release.data), schema, PAIRED, size=10**6, link=link).measured
    expected = assess(table, release.data, recipe("microaggregation"), link=link, measures=PAIRED).measured
    for name in PAIRED:
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-9), name
        assert "of the 1000 released rows that have an original" in found[name].note


@pytest.mark.parametrize("fault", ["length", "range"])
def test_a_link_that_does_not_fit_is_refused(both, schema, fault):
    link = np.arange(1499) if fault == "length" else np.arange(1, 1501)
    with pytest.raises(InputError, match="link"):
        in_pieces(both, schema, EXACT, link=link)


def test_too_small_a_sample_and_unknown_measures_are_refused(both, schema):
    with pytest.raises(ParameterError, match="sample_rows"):
        in_pieces(both, schema, EXACT, size=99)
    with pytest.raises(ParameterError, match="k_anonimity"):
        in_pieces(both, schema, ("k_anonimity",))


def test_cupy_without_a_device_fails(both):
    with pytest.raises(BackendError, match="cupy was asked for"):
        assess(*both, recipe("microaggregation"), measures=EXACT, backend="cupy")


def test_classes_are_those_that_a_dictionary_counts(both):
    frame = both[1].select(list(QUASI)).to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    counts = {}
    for row in frame.itertuples(index=False):
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    for held in (10**6, 100):
        sizes = class_sizes(pieces(both[1]).give, both[1].num_rows, QUASI, held=held)
        assert sorted(sizes) == sorted(counts.values())


def test_bits_tell_values_apart_and_equal_ones_together():
    table = pa.table({"a": [0.0, -0.0, None, np.nan, 1.0], "b": ["x", "x", "x", "x", None]})
    bits = row_bits(Table.of(table), ["a", "b"])
    assert len(np.unique(bits, axis=0)) == 3  # as masks see them: one zero, and NaN is a null
    stored = row_bits(Table.of(table), ["a"], stored=True)
    assert len(np.unique(stored, axis=0)) == 5  # as they are written
    again = row_bits(Table.of(pa.concat_tables([table.slice(3), table.slice(0, 3)])), ["a", "b"])
    assert np.array_equal(np.roll(again, 3, axis=0), bits)
    for type_ in (pa.int64(), pa.uint64(), pa.date32(), pa.float64()):
        words = [0, 1, 2**64 - 1, 2**63] if type_ == pa.uint64() else [0, 1, -1, -2]
        whole = pa.table(
            {"a": pa.array([None, *words], pa.uint64() if type_ == pa.uint64() else pa.int32()).cast(type_)}
        )
        assert len(np.unique(row_bits(Table.of(whole), ["a"]), axis=0)) == 5  # a null is no number
    large = pa.table({"a": pa.array([2**53, 2**53 + 1], pa.int64())})
    assert len(np.unique(row_bits(Table.of(large), ["a"]), axis=0)) == 2
    swapped = pa.table({"a": [1, 2], "b": [2, 1]})
    assert len(np.unique(row_bits(Table.of(swapped), ["a", "b"]), axis=0)) == 2
    own = [pa.table({"a": pa.array(values).dictionary_encode()}) for values in (["u", "v"], ["v", "u"])]
    first, second = (row_bits(Table.of(table), ["a"]) for table in own)
    assert (first == second[::-1]).all()


def test_nulls_and_minus_one_are_two_classes():
    table = pa.table({"a": pa.array([None, -1, -1, None, -1], pa.int64())})
    assert sorted(class_sizes(pieces(table).give, 5, ["a"])) == [2, 3]


def test_files_larger_than_the_limit_are_assessed_piece_by_piece(released, both, tmp_path, monkeypatch):
    link = released[1].link
    for name, table in zip(("original", "release"), both, strict=True):
        (tmp_path / name).mkdir()
        for part in range(3):
            pq.write_table(table.slice(500 * part, 500), tmp_path / name / f"{part}.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("microaggregation")))
    paths = tmp_path / "original", tmp_path / "release", tmp_path / "recipe.json"
    names = ("k_anonymity", "ks", "reidentification")
    (tmp_path / "link.csv").write_text("\n".join(["row", *map(str, link)]))
    whole = assess(*paths, measures=names, link=tmp_path / "link.csv").to_json()
    assert "random sample" not in str(whole)
    sampled = assess(*paths, measures=("ks",), sample_rows=500).to_json()
    assert "random sample of" in sampled["utility"]["ks"]["note"]
    for module in ("engine.assess", "assessing.run"):
        monkeypatch.setattr(f"gpuanon.{module}.IN_MEMORY_ROWS", 1000)
    pieced = assess(*paths, measures=names, link=tmp_path / "link.csv").to_json()
    assert pieced["risk"]["k_anonymity"] == whole["risk"]["k_anonymity"]
    assert "random sample of" in pieced["utility"]["ks"]["note"]
    assert "random sample of" in pieced["risk"]["reidentification"]["note"]


def test_a_name_that_is_no_measure_is_answered_with_the_nearest_and_one_text_is_no_list(both):
    with pytest.raises(ParameterError, match=r"there is no 'meens'; did you mean 'means'\?"):
        assess(*both, recipe("microaggregation"), measures=["meens"])
    with pytest.raises(ParameterError, match=r"a list of names is allowed.*\nHint: measures=\['means'\]"):
        assess(*both, recipe("microaggregation"), measures="means")


def test_an_assessment_prints_a_line_for_each_figure_and_no_extreme_of_single_records(both):
    found = assess(*both, recipe("microaggregation"), measures=["k_anonymity", "prediction_distance", "means", "mse"])
    lines = repr(found).splitlines()
    assert lines[:3] == [
        "Assessment of a release",
        "  risk",
        f"    k_anonymity{'':15}{found.measured['k_anonymity'].value}",
    ]
    assert any(line.startswith("    means ") for line in lines[lines.index("  utility") :])
    assert lines[-1] == "  not measured: mse"
    assert len(lines) == 7
