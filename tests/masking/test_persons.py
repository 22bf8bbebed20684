"""k counts persons: the records of a person stay together, and classes and groups are counted in persons."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.engine.checking import checked
from gpuanon.engine.protect import protect_in_parts
from gpuanon.errors import GpuanonError, GuaranteeError
from gpuanon.masking.claims import Trace
from gpuanon.recipe import Recipe
from tests.support.every import COLUMNS, registry
from tests.support.persons import DRAWN, FREE, PERSON, PROMISING, K, families, rules

SECRET = b"a key for tests, of sixteen bytes or more"
KEY = Key(SECRET)


def persons_per_class(table, release, columns):
    """Distinct persons in each class of the release; an added row is a person of its own."""
    mothers = table["mother"].to_pylist()
    rows = zip(*(release.data[name].to_pylist() for name in columns), strict=True)
    found = defaultdict(set)
    for number, (values, origin) in enumerate(zip(rows, release.link.tolist(), strict=True)):
        found[values].add(mothers[origin] if origin >= 0 else number)
    return [len(persons) for persons in found.values()]


def released_names(release, mask):
    chosen = mask.get("columns") or [name for name, spec in COLUMNS.items() if spec["role"] == "quasi"]
    there = release.data.column_names
    return [place for name in chosen for place in (name, f"{name}_low", f"{name}_high") if place in there]


@pytest.mark.parametrize("name", PROMISING)
def test_a_class_has_k_persons_where_k_records_would_not_do(name):
    mask, table = PROMISING[name], families()
    release = gpuanon.protect(table, rules(mask), rng=SECRET, backend="numpy")
    counts = persons_per_class(table, release, released_names(release, mask))
    assert min(counts) >= mask["k"]
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["verified"]
    assert "persons" in guarantee["statement"]
    assert guarantee["smallest_class"] == min(counts)
    quasi = release.manifest["quasi"]
    assert quasi["unit"] == "person"
    if "columns" not in mask:
        assert quasi["smallest_class"] == min(counts)
    assert "mother" not in release.data.column_names


@pytest.mark.parametrize("name", DRAWN)
def test_values_are_drawn_from_groups_of_k_persons(name):
    release = gpuanon.protect(families(), rules(DRAWN[name]), rng=SECRET, backend="numpy")
    (guarantee,) = release.manifest["guarantee"]
    assert guarantee["verified"]
    assert "persons" in guarantee["statement"]
    assert guarantee["smallest_group"] >= K


@pytest.mark.parametrize("name", FREE)
def test_methods_without_a_promise_run_and_drop_the_person(name):
    release = gpuanon.protect(families(), rules(FREE[name]), rng=SECRET, backend="numpy")
    assert "mother" not in release.data.column_names
    assert release.manifest["quasi"]["unit"] == "person"


def test_records_of_a_person_receive_the_same_centre():
    table = families()
    release = gpuanon.protect(table, rules(PROMISING["microaggregation"]), rng=SECRET, backend="numpy")
    names = released_names(release, {})
    mothers = np.array(table["mother"].to_pylist())[release.link]
    centres = defaultdict(set)
    for mother, *values in zip(mothers, *(release.data[name].to_pylist() for name in names), strict=True):
        centres[mother].add(tuple(values))
    assert all(len(found) == 1 for found in centres.values())


def test_four_records_of_one_person_do_not_make_a_class_of_four():
    """Without the role the guarantee is met by one person's own records."""
    table = pa.table({"age": [30] * 4 + [60] * 8, "mother": ["a"] * 4 + list("bcdefghi")})
    mask = {"method": "suppress", "k": 4}
    alone = {"columns": {"age": {"role": "quasi"}, "mother": {"role": "identifier"}}, "mask": [mask]}
    counted = {"columns": {"age": {"role": "quasi"}, "mother": {"role": "person"}}, "mask": [mask]}
    assert gpuanon.protect(table, alone, rng=SECRET).data.num_rows == 12
    release = gpuanon.protect(table, counted, rng=SECRET)
    assert release.data["age"].to_pylist() == [60] * 8
    padded = counted | {"mask": [{"method": "synthetic-rows", "k": 4}]}
    assert gpuanon.protect(table, padded, rng=SECRET).manifest["rows_added"] == 3


def test_persons_with_one_record_each_change_nothing():
    table = registry(200).append_column("mother", pa.array([f"m{number}" for number in range(200)]))
    mask = DRAWN["permute"]
    counted = gpuanon.protect(table, rules(mask), rng=SECRET, backend="numpy")
    plain = gpuanon.protect(
        table, rules(mask, columns=COLUMNS | {"mother": {"role": "identifier"}}), rng=SECRET, backend="numpy"
    )
    by_origin = [release.data.take(pa.array(np.argsort(release.link))) for release in (counted, plain)]
    assert by_origin[0].equals(by_origin[1])


def in_parts(tmp_path, table, given, name="release", pieces=3, **options):
    source = tmp_path / "input"
    if not source.exists():
        source.mkdir()
        cuts = np.linspace(0, table.num_rows, pieces + 1).astype(int)
        for number, (begin, end) in enumerate(pairwise(cuts)):
            pq.write_table(table.slice(begin, end - begin), source / f"{number}.parquet")
    options = {"key": KEY, "backend": "numpy", "cell_rows": 10**6, **options}
    link = tmp_path / f"{name}.link.csv"
    manifest = protect_in_parts(source, Recipe.load(given), tmp_path / name, link=link, **options)
    origin = np.loadtxt(link, dtype=np.int64, skiprows=1)
    return pq.read_table(tmp_path / name), origin, manifest


@pytest.mark.parametrize("name", [*PROMISING, *DRAWN])
def test_memory_and_one_cell_in_parts_agree(tmp_path, name):
    table, given = families(), rules((PROMISING | DRAWN)[name])
    whole = gpuanon.protect(table, given, rng=SECRET, backend="numpy")
    parts, link, manifest = in_parts(tmp_path, table, given)
    assert parts.equals(whole.data.cast(parts.schema))
    assert np.array_equal(link, whole.link)
    assert manifest["quasi"] == whole.manifest["quasi"]


def elsewhere(task, items):
    """Workers that receive pickled tasks, the last one first, and send pickled results."""
    done = [pickle.dumps(pickle.loads(pickle.dumps(task))(item)) for item in reversed(items)]
    return [pickle.loads(result) for result in reversed(done)]


@pytest.mark.parametrize("name", ["microaggregation", "permute", "suppress", "synthetic-rows"])
def test_workers_and_parts_of_the_input_change_nothing(tmp_path, name):
    table, given = families(), rules((PROMISING | DRAWN)[name])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, link, first = in_parts(tmp_path / "a", table, given, cell_rows=100, pieces=1)
    other, same, second = in_parts(tmp_path / "b", table, given, cell_rows=100, pieces=5, workers=elsewhere)
    assert one.equals(other)
    assert np.array_equal(link, same)
    assert first["guarantee"] == second["guarantee"]


def test_a_file_with_smaller_classes_than_were_checked_is_refused(tmp_path, monkeypatch):
    release = gpuanon.protect(families(), rules(PROMISING["mondrian"]), rng=SECRET, backend="numpy")
    monkeypatch.setattr(
        "gpuanon.engine.release.smallest_classes", lambda *_: dict.fromkeys(release._masked.done.smallest, 1)
    )
    with pytest.raises(GuaranteeError, match="smaller than those that were checked"):
        release.write(tmp_path / "release.csv")


def test_weights_of_nothing_leave_fewer_persons_to_draw_from():
    trace = Trace(
        groups=2,
        smallest=2,
        rows=np.arange(6),
        labels=np.array([0, 0, 0, 1, 1, 1]),
        weights=np.array([1.0, 1, 0, 1, 0, 0]),
        persons=np.array([7, 7, 8, 5, 5, 6]),
    )
    assert trace.smallest_drawn == 1
    assert trace.torn == 0
    assert replace(trace, persons=np.array([7, 7, 8, 7, 5, 6])).torn == 1


@pytest.mark.parametrize("name", [*PROMISING, *DRAWN])
def test_cells_of_a_run_in_parts_hold_whole_persons(tmp_path, name):
    table, mask = families(600), (PROMISING | DRAWN)[name]
    data, link, manifest = in_parts(tmp_path, table, rules(mask), cell_rows=150)
    assert manifest["quasi"]["unit"] == "person"
    (guarantee,) = manifest["guarantee"]
    assert guarantee["verified"]
    if name in PROMISING:

        class Read:
            pass

        release = Read()
        release.data, release.link = data, link
        counts = persons_per_class(table, release, released_names(release, mask))
        assert guarantee["smallest_class"] == min(counts) >= mask["k"]


def test_a_pseudonym_is_fresh_and_equal_for_the_records_of_a_person(tmp_path):
    table = families()
    columns = COLUMNS | {"mother": {"role": "person", "release": "pseudonym"}}
    given = rules(DRAWN["permute"], columns=columns)
    release = gpuanon.protect(table, given, rng=SECRET, backend="numpy")
    mothers = np.array(table["mother"].to_pylist())[release.link]
    pairs = set(zip(mothers, release.data["mother"].to_pylist(), strict=True))
    assert len(pairs) == len(set(mothers)) == len({pseudonym for _, pseudonym in pairs})
    assert not any("mother" in pseudonym for _, pseudonym in pairs)
    other = gpuanon.protect(table, given, rng=b"another key of sixteen bytes", backend="numpy")
    assert not set(other.data["mother"].to_pylist()) & set(release.data["mother"].to_pylist())
    changed = gpuanon.protect(table.slice(1), given, rng=SECRET, backend="numpy")  # the same key, another table
    assert not set(changed.data["mother"].to_pylist()) & set(release.data["mother"].to_pylist())
    parts, _, _ = in_parts(tmp_path, table, given)
    assert parts["mother"].to_pylist() == release.data["mother"].to_pylist()


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_pseudonym_comes_out_in_the_kind_of_dataframe_that_went_in(kind):
    import polars as pl

    columns = COLUMNS | {"mother": {"role": "person", "release": "pseudonym"}}
    table = families(120)
    data = table.to_pandas() if kind == "pandas" else pl.from_arrow(table)
    release = gpuanon.protect(data, rules(DRAWN["permute"], columns=columns), rng=SECRET, backend="numpy")
    assert type(release.data) is type(data)
    assert len(set(release.data["mother"])) == len(set(table["mother"].to_pylist()))


def test_person_codes_reach_no_file_of_the_release(tmp_path):
    data, _, manifest = in_parts(tmp_path, families(), rules(DRAWN["permute"]))
    assert not any("gpuanon" in name or name == "mother" for name in data.column_names)
    text = json.dumps(manifest)
    assert not any(mother in text for mother in families()["mother"].to_pylist())


@pytest.mark.parametrize("output", ["release.parquet", "release.csv", "release.arrow"])
def test_the_file_is_checked_in_records_and_the_headline_stays_in_persons(tmp_path, output):
    release = gpuanon.protect(families(), rules(PROMISING["mondrian interval"]), rng=SECRET, backend="numpy")
    manifest = release.write(tmp_path / output)
    assert manifest["quasi"] == release.manifest["quasi"]
    assert manifest["guarantee"] == release.manifest["guarantee"]


def test_persons_are_counted_on_values_as_they_are_stored():
    """0.0 and −0.0, NaN and null of a column that is kept are two values in the file; one person has the second."""
    for common, rare in ((0.0, -0.0), (None, float("nan"))):
        kept = pa.array([common] * 39 + [rare])
        table = pa.table({"age": [30] * 40, "who": [f"P{n // 2}" for n in range(40)], "kept": kept})
        columns = {"age": {"role": "quasi"}, "who": {"role": "person"}, "kept": {"role": "quasi", "keep": True}}
        rules = {"columns": columns, "mask": [{"method": "microaggregation", "k": 3}]}
        manifest = gpuanon.protect(table, rules, rng=b"a key for persons as they are stored").manifest
        assert manifest["quasi"]["smallest_class"] == 1


def test_a_null_person_is_refused():
    table = families()
    names = table["mother"].to_pylist()
    names[3] = None
    table = table.set_column(table.column_names.index("mother"), "mother", pa.array(names))
    with pytest.raises(GpuanonError, match=r"'mother'.*null, 1 row"):
        gpuanon.protect(table, rules(DRAWN["permute"]), rng=SECRET)


def test_two_person_columns_a_pseudonym_of_another_role_and_wildcards_are_refused():
    table = families()
    with pytest.raises(GpuanonError, match="one column of role person"):
        gpuanon.protect(table, rules(DRAWN["permute"], columns=PERSON | {"person_id": {"role": "person"}}))
    with pytest.raises(GpuanonError, match="pseudonym"):
        gpuanon.protect(
            table, rules(DRAWN["permute"], columns=COLUMNS | {"mother": {"role": "identifier", "release": "pseudonym"}})
        )
    with pytest.raises(GpuanonError, match="wildcard"):
        gpuanon.protect(table, rules(PROMISING["suppress"], nulls="wildcard"))


def test_recoding_that_leaves_a_class_of_few_persons_is_refused():
    table = pa.table({"zip": ["a"] * 5 + ["b"] * 5, "mother": ["x"] * 5 + list("pqrst")})
    columns = {"zip": {"role": "quasi"}, "mother": {"role": "person"}}
    with pytest.raises(GuaranteeError, match="1 released persons"):
        gpuanon.protect(table, {"columns": columns, "mask": [{"method": "recode", "levels": 0, "k": 3}]}, rng=SECRET)


def test_an_identifier_that_repeats_is_pointed_out(tmp_path):
    table = families()
    columns = COLUMNS | {"mother": {"role": "identifier"}}
    given = rules(DRAWN["permute"], columns=columns)
    warnings = gpuanon.protect(table, given, rng=SECRET).manifest["warnings"]
    (warning,) = [text for text in warnings if "'mother'" in text]
    assert 'role = "person"' in warning
    _, _, manifest = in_parts(tmp_path, table, given)
    assert warning in manifest["warnings"]
    as_person = gpuanon.protect(table, rules(DRAWN["permute"]), rng=SECRET).manifest["warnings"]
    assert not any("'mother'" in text for text in as_person)
    (tmp_path / "recipe.json").write_text(json.dumps(given))
    pq.write_table(table, tmp_path / "table.parquet")
    lines = checked(tmp_path / "recipe.json", tmp_path / "table.parquet", trial=False).lines()
    assert f"warning: {warning}" in lines


def test_a_mask_that_counts_records_breaks_the_claim(monkeypatch):
    """The check counts persons on what is released: it does not trust the operation."""
    from gpuanon.masking.operations import suppress

    real = suppress.suppress
    monkeypatch.setattr(suppress, "suppress", lambda codes, groups, k, persons=None: real(codes, groups, k))
    table = pa.table({"age": [30] * 4 + [60] * 8, "mother": ["a"] * 4 + list("bcdefghi")})
    columns = {"age": {"role": "quasi"}, "mother": {"role": "person"}}
    with pytest.raises(GuaranteeError, match="1 released persons"):
        gpuanon.protect(table, {"columns": columns, "mask": [{"method": "suppress", "k": 4}]}, rng=SECRET)


def test_groups_that_tear_persons_apart_break_the_claim(monkeypatch):
    from gpuanon.masking import person_blocks as people

    monkeypatch.setattr(people.People, "expanded", lambda self, groups: _by_record(self, groups))
    with pytest.raises(GuaranteeError, match="persons"):
        gpuanon.protect(families(), rules(DRAWN["permute"]), rng=SECRET, backend="numpy")


def _by_record(people, groups):
    """Every k records by their number, whoever they belong to."""
    from gpuanon.arrays.partition import Partition

    return Partition.from_labels(np.arange(len(people.index)) // K)
