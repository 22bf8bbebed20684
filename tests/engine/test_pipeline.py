"""The one pipeline from a table to a release: what no single part can show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.engine import pipeline
from gpuanon.engine.checking import checked
from gpuanon.engine.protect import InParts, protect_file
from gpuanon.errors import GpuanonError, ParameterError, RecipeError
from gpuanon.recipe import Recipe
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, MASKS, QUASI, recipe, registry
from tests.support.running import as_rows, divided, in_parts, protected, read_link, written

KEY = b"a key for tests, of sixteen bytes or more"


def test_an_automatic_target_needs_a_reference_and_is_settled_by_it():
    everyone = registry(3000)
    mask = {"method": "pica", "target": "auto"}
    with pytest.raises(RecipeError, match="--reference"):
        gpuanon.protect(everyone, recipe(mask), rng=KEY, backend="numpy")
    release = gpuanon.protect(
        everyone.slice(0, 1500), recipe(mask), rng=KEY, backend="numpy", reference=everyone.slice(1500)
    )
    (done,) = release.manifest["mask"]
    assert 50 <= done["target"] <= 750
    again = recipe(mask | {"target": done["target"]})
    given = gpuanon.protect(everyone.slice(0, 1500), again, rng=KEY, backend="numpy")
    assert as_rows(release.data).equals(as_rows(given.data))


@pytest.mark.parametrize("rng", [None, 7, np.int64(7), np.random.default_rng(7), KEY, gpuanon.Key(KEY)])
def test_every_kind_of_rng_is_taken(rng):
    assert gpuanon.protect(registry(60), recipe("permute"), rng=rng, backend="numpy").data.num_rows == 60


@pytest.mark.parametrize("rng", ["text", 1.5, True])
def test_other_kinds_of_rng_are_refused(rng):
    with pytest.raises(ParameterError, match="rng"):
        gpuanon.protect(registry(60), recipe("permute"), rng=rng, backend="numpy")


def test_sample_weights_decide_what_is_resampled():
    table = registry(300)
    heavy = np.arange(300) < 150
    table = table.append_column("w", pa.array(np.where(heavy, 1000.0, 1e-9)))
    rules = recipe("resample")
    rules["columns"] = rules["columns"] | {"w": {"role": "weight"}}
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    allowed = set(table.filter(pa.array(heavy))["admission"].to_pylist())
    drawn = release.data["admission"].to_pylist()
    share = np.mean([value in allowed for value in drawn])
    assert share > np.mean([value in allowed for value in table["admission"].to_pylist()]) + 0.2


def test_the_response_takes_part_in_the_grouping_and_is_not_changed():
    table = registry(300)
    alone = gpuanon.protect(
        table, recipe({"method": "distribution-preserving", "k": 5, "dither": "permute", "response_weight": 0}), rng=KEY
    )
    together = gpuanon.protect(
        table, recipe({"method": "distribution-preserving", "k": 5, "dither": "permute", "response_weight": 9}), rng=KEY
    )
    ages, costs = ([by_record(release, name) for release in (alone, together)] for name in ("age", "cost"))
    assert ages[0] != ages[1]
    assert costs[0] == costs[1] == table["cost"].to_pylist()


def by_record(release, name):
    """The released values of a column in the order of the originals."""
    return release.data[name].take(pa.array(np.argsort(release.link))).to_pylist()


COMBINATIONS = [
    (groups, basis, operation)
    for groups in (
        {"use": "whole"},
        {"use": "blocks", "size": 60},
        {"use": "k-member", "k": 30},
        {"use": "mdav", "k": 30},
    )
    for basis in (
        {"use": "identity"},
        {"use": "svd"},
        {"use": "svd", "per_group": True},
        {"use": "ica", "per_group": True},
    )
    for operation in ({"use": "centroid"}, {"use": "swap"}, {"use": "permute"}, {"use": "noise"})
]


@pytest.mark.parametrize(("groups", "basis", "operation"), COMBINATIONS)
def test_parts_that_nobody_has_published_together_combine(groups, basis, operation):
    table = registry(150)
    rules = recipe({"groups": groups, "basis": basis, "operation": operation})
    release = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    assert release.data.schema.equals(table.drop_columns(["person_id"]).schema)
    (guarantee,) = release.manifest["guarantee"]
    k = groups.get("k") if operation["use"] in ("centroid", "permute") else None
    assert guarantee["k"] == k
    assert guarantee["verified"] is (None if k is None else True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": ["nothing"]}, "nothing"),
        ({"columns": ["person_id"]}, "identifier"),
        ({"columns": []}, "no column"),
    ],
)
def test_columns_that_cannot_be_masked_are_named(change, message):
    with pytest.raises(GpuanonError, match=message):
        gpuanon.protect(registry(60), recipe({"method": "microaggregation", "k": 3} | change), rng=KEY)


def test_names_with_spaces_and_unicode_are_names():
    table = registry(60).rename_columns([f"{name} – größe" for name in registry(60).column_names])
    columns = {"age – größe": {"role": "quasi"}, "person_id – größe": {"role": "identifier"}}
    release = gpuanon.protect(
        table, {"columns": columns, "others": "keep", "mask": [{"method": "microaggregation", "k": 3}]}, rng=KEY
    )
    assert "age – größe" in release.data.column_names
    assert "person_id – größe" not in release.data.column_names


def test_a_million_categories_are_refused_with_advice():
    table = pa.table({"zip": [f"{i:06d}" for i in range(5000)], "age": list(range(5000))})
    rules = {"columns": {"zip": {"role": "quasi"}}, "others": "keep", "mask": [{"method": "microaggregation", "k": 3}]}
    with pytest.raises(GpuanonError, match=r"'zip': 5000 levels.*\n.*ordinal") as caught:
        gpuanon.protect(table, rules, rng=KEY)
    assert "000017" not in str(caught.value)


def test_a_column_that_was_released_as_an_interval_is_not_masked_again(tmp_path):
    interval = MASKS["mondrian interval"] | {"columns": ["age", "income"]}
    rules = recipe("noise") | {"mask": [interval, {"method": "noise", "columns": ["sex", "age"]}]}
    fault = r"mask\.1: columns: an earlier mask releases others in place of 'age'"
    with pytest.raises(RecipeError, match=fault):
        gpuanon.protect(registry(60), rules, rng=KEY, backend="numpy")
    with pytest.raises(RecipeError, match=fault):
        in_parts(tmp_path, registry(60), rules)
    assert [path.name for path in tmp_path.iterdir()] == ["run-input"]


# In parts as in memory: what a run in parts once refused.


def test_an_automatic_target_is_chosen_in_parts_as_in_memory(tmp_path):
    everyone = registry(3000)
    mask = {"method": "pica", "target": "auto"}
    sample, reference = everyone.slice(0, 1500), everyone.slice(1500)
    expected = gpuanon.protect(sample, recipe(mask), rng=KEY, backend="numpy", reference=reference)
    released, link, manifest = in_parts(
        tmp_path, sample, recipe(mask), key=gpuanon.Key(KEY), reference=Table.of(reference)
    )
    assert manifest["mask"] == expected.manifest["mask"]
    assert released.equals(expected.data)
    assert np.array_equal(link, expected.link)
    with pytest.raises(RecipeError, match="--reference"):
        in_parts(tmp_path, sample, recipe(mask), name="without")
    assert not list(tmp_path.glob(".without*"))


@pytest.mark.parametrize("first", ["suppress", "synthetic-rows"])
def test_several_masks_in_parts_are_those_in_memory(tmp_path, first):
    masks = [
        {"method": first, "k": 8, "columns": ["sex", "education", "smoker"]},
        MASKS["microaggregation"] | {"columns": ["age", "income"]},
        MASKS["permute"] | {"columns": ["admission"]},
    ]
    chain = recipe(*masks)
    expected = gpuanon.protect(registry(), chain, rng=KEY, backend="numpy")
    released, link, manifest = in_parts(tmp_path, registry(), chain, key=gpuanon.Key(KEY))
    assert released.equals(expected.data)
    assert np.array_equal(link, expected.link)
    assert manifest["guarantee"] == expected.manifest["guarantee"]
    for name in ("rows_in", "rows_out", "rows_added", "rows_dropped"):
        assert manifest[name] == expected.manifest[name]
    assert manifest["rows_out"] != manifest["rows_in"]
    assert [guarantee["k"] for guarantee in manifest["guarantee"]] == [8, 4, 4]


def test_the_command_line_takes_a_link_a_reference_and_limits_in_parts(tmp_path):
    everyone = registry(600)
    source = written(tmp_path, divided(everyone.slice(0, 300), 3))
    pq.write_table(everyone.slice(300), tmp_path / "reference.parquet")
    rules = recipe("microaggregation", limits={"k_anonymity": 4, "reference_standard": 1e-300})
    (tmp_path / "recipe.json").write_text(json.dumps(rules))
    (tmp_path / "key").write_bytes(KEY)
    common = {"backend": "numpy", "key_file": tmp_path / "key", "reference": tmp_path / "reference.parquet"}
    results = {}
    for name, how in {"memory": None, "parts": InParts(workers=0, cell=10**6)}.items():
        results[name] = protect_file(
            source, tmp_path / "recipe.json", tmp_path / f"{name}.parquet", link=tmp_path / f"{name}.csv",
            in_parts=how, **common,
        )  # fmt: skip
    assert results["memory"]["guarantee"] == results["parts"]["guarantee"]
    one, other = (pq.read_table(tmp_path / f"{name}.parquet") for name in results)
    assert one.equals(other)
    assert np.array_equal(*(read_link(tmp_path / f"{name}.csv") for name in results))
    measured = [json.loads((tmp_path / f"{name}.parquet.manifest.json").read_text())["measured"] for name in results]
    assert measured[0] == measured[1]


# The order of the rows.


def shared_order(one, other):
    """Share of neighbours in one link that are neighbours in the other: 2 / n by chance."""
    pairs = [set(map(tuple, np.sort(np.stack([link[:-1], link[1:]], axis=1), axis=1))) for link in (one, other)]
    return len(pairs[0] & pairs[1]) / len(pairs[0])


@pytest.mark.parametrize(
    "change",
    [
        {"others": "keep", "mask": [MASKS["permute"] | {"k": 5}]},
        {"others": "keep", "mask": [MASKS["noise"]]},
        {"nulls": "category"},
        {"limits": {"k_anonymity": 1}},
        {"others": "keep", "mask": [MASKS["permute"], MASKS["noise"]]},
    ],
)
def test_two_recipes_under_one_key_share_no_order_of_rows(change):
    one = gpuanon.protect(registry(), recipe("permute"), rng=KEY, backend="numpy").link
    other = gpuanon.protect(registry(), recipe("permute") | change, rng=KEY, backend="numpy").link
    assert shared_order(one, other) < 0.05
    assert (one == other).mean() < 0.05


def test_two_tables_under_one_key_share_no_order_of_rows():
    table = registry()
    one = gpuanon.protect(table, recipe("permute"), rng=KEY, backend="numpy").link
    changed = table.set_column(
        table.column_names.index("cost"), "cost", pa.array([*table["cost"].to_pylist()[:-1], 12345.0])
    )
    other = gpuanon.protect(changed, recipe("permute"), rng=KEY, backend="numpy").link
    assert shared_order(one, other) < 0.05


def test_the_same_rows_in_another_order_share_no_order():
    table = registry()
    other = np.random.default_rng(1).permutation(300)
    links = [gpuanon.protect(t, recipe("permute"), rng=KEY, backend="numpy").link for t in (table, table.take(other))]
    assert shared_order(*links) < 0.05
    assert shared_order(links[0], other[links[1]]) < 0.05  # nor do the people


def test_another_content_of_a_hierarchy_is_another_order(tmp_path):
    rules, links = recipe("recode"), []
    for name, folder in (("a", "one"), ("a", "two"), ("b", "one")):
        (tmp_path / folder).mkdir(exist_ok=True)
        file = tmp_path / folder / "age.csv"
        lines = Path(COLUMNS["age"]["hierarchy"]).read_text().splitlines()
        file.write_text("\n".join(lines if name == "a" else [line.replace("-", " to ") for line in lines]) + "\n")
        columns = rules["columns"] | {"age": {"role": "quasi", "hierarchy": str(file)}}
        release = gpuanon.protect(registry(), rules | {"columns": columns}, rng=KEY, backend="numpy")
        links.append((release.link, release.data))
    assert np.array_equal(links[0][0], links[1][0])  # wherever it lies
    assert not links[0][1].equals(links[2][1])
    assert shared_order(links[0][0], links[2][0]) < 0.05


def test_other_persons_are_another_order():
    links = []
    for size in (2, 3):
        table = registry().append_column("who", pa.array(np.arange(300) // size))
        columns = COLUMNS | {"who": {"role": "person"}}
        links.append(gpuanon.protect(table, recipe("permute", columns=columns), rng=KEY, backend="numpy").link)
    assert shared_order(*links) < 0.05


def test_another_choice_of_an_automatic_parameter_is_another_order():
    masks = [Recipe.load(recipe(MASKS["pica"] | {"target": target})).mask[0] for target in (20, 40)]
    salts = {pipeline._salt("", mask, 1) for mask in masks}
    assert len(salts) == 2


def test_the_division_into_cells_changes_the_order_of_rows(tmp_path):
    _, one, _ = in_parts(tmp_path, registry(600), "permute", name="one")
    _, other, _ = in_parts(tmp_path, registry(600), "permute", name="other", cell_rows=100)
    assert shared_order(one, other) < 0.05


def test_the_same_inputs_give_the_same_order_whatever_the_kind_of_dataframe():
    table = registry()
    links = [
        gpuanon.protect(data, recipe("permute"), rng=KEY, backend="numpy").link
        for data in (table, table, pa.concat_tables([table.slice(0, 100), table.slice(100)]))
    ]
    assert np.array_equal(links[0], links[1])
    assert np.array_equal(links[0], links[2])


def test_release_parts_hold_rows_of_every_cell(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuanon.engine.pipeline.RELEASE_PART_ROWS", 100)
    source = written(tmp_path, [registry(600)])
    manifest = protected(source, tmp_path / "release", "microaggregation", cell_rows=150, link=tmp_path / "link.csv")
    files = sorted((tmp_path / "release").iterdir())
    assert len(files) == 6
    link = read_link(tmp_path / "link.csv")
    assert sorted(link) == list(range(600))
    assert manifest["rows_out"] == 600
    original = registry(600).take(pa.array(link))
    assert pq.read_table(tmp_path / "release")["cost"].to_pylist() == original["cost"].to_pylist()
    ends = np.cumsum([pq.read_metadata(file).num_rows for file in files])
    spans = [np.ptp(part) for part in np.split(link, ends[:-1])]
    assert min(spans) > 500


def test_columns_that_are_not_named_are_refused_dropped_or_kept_as_the_recipe_says():
    table = registry(60)
    rules = recipe("permute")
    with pytest.raises(RecipeError, match=r"'region'.*not named in the recipe"):
        gpuanon.protect(table, rules | {"others": "refuse"}, rng=KEY, backend="numpy")
    dropped = gpuanon.protect(table, rules | {"others": "drop"}, rng=KEY, backend="numpy").data
    assert set(dropped.column_names) == set(rules["columns"]) - {"person_id"}
    kept = gpuanon.protect(table, rules | {"others": "keep"}, rng=KEY, backend="numpy").data
    assert set(kept.column_names) == set(table.column_names) - {"person_id"}


def test_a_quasi_identifier_that_no_mask_changes_is_refused_unless_it_is_kept_on_purpose():
    rules = recipe({"method": "microaggregation", "k": 4, "columns": ["age", "sex"]})
    bare = {name: {**spec, "keep": False} for name, spec in rules["columns"].items()}
    with pytest.raises(RecipeError, match=r"columns.income: a quasi-identifier that no mask changes"):
        gpuanon.protect(registry(60), rules | {"columns": bare}, rng=KEY, backend="numpy")
    quasi = gpuanon.protect(registry(60), rules, rng=KEY, backend="numpy").manifest["quasi"]
    assert quasi["kept"] == ["education", "income", "smoker", "admission"]
    assert quasi["smallest_class"] == 1


def test_a_mask_of_the_quasi_identifiers_leaves_those_that_are_kept():
    rules = recipe("microaggregation")
    columns = rules["columns"] | {"smoker": {"role": "quasi", "keep": True}}
    release = gpuanon.protect(registry(60), rules | {"columns": columns}, rng=KEY, backend="numpy")
    assert "smoker" not in release.manifest["mask"][0]["columns"]
    assert release.data["smoker"].to_pylist() == registry(60)["smoker"].take(pa.array(release.link)).to_pylist()
    assert release.manifest["quasi"]["kept"] == ["smoker"]


def test_columns_that_tell_most_rows_apart_are_warned_of():
    warnings = gpuanon.protect(registry(300), recipe("permute"), rng=KEY, backend="numpy").manifest["warnings"]
    assert any("'cholesterol'" in warning and "released unmasked" in warning for warning in warnings)
    assert not any("'diagnosis' is released" in warning for warning in warnings)


def test_a_column_that_is_recoded_to_its_own_values_is_unmasked():
    table = registry(200).append_column("number", pa.array(np.arange(200)))
    columns = recipe("recode")["columns"] | {"number": {"role": "quasi"}}
    mask = {"method": "recode", "levels": {"age": 2}, "columns": ["age", "sex", "education", "number"]}
    rules = recipe("recode") | {"columns": columns, "mask": [mask]}
    found = gpuanon.protect(table, rules, rng=KEY, backend="numpy").manifest["warnings"]
    assert any("'number' is released unmasked, and 100% of the rows" in warning for warning in found)


def test_a_value_that_one_person_has_in_all_records_is_warned_of(tmp_path):
    table = registry(200).append_column("who", pa.array(np.arange(200) // 4))
    table = table.append_column("phone", pa.array([f"0{7919 * (i // 4)}" for i in range(200)]))
    columns = COLUMNS | {"who": {"role": "person"}, "phone": {"role": "other"}}
    rules = recipe("permute", columns=columns)
    said = "'phone' is released unmasked, and 100% of the rows have a value that only one person has"
    found = gpuanon.protect(table, rules, rng=KEY, backend="numpy").manifest["warnings"]
    assert any(said in warning for warning in found)
    pq.write_table(table, tmp_path / "table.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(rules))
    lines = checked(tmp_path / "recipe.json", tmp_path / "table.parquet", trial=False).lines()
    assert any(said in line for line in lines)
    assert "  who: person, not released" in lines
    plain = gpuanon.protect(table, recipe("permute"), rng=KEY, backend="numpy").manifest["warnings"]
    assert not any("'phone' is released" in warning for warning in plain)  # four rows each share it


def test_check_warns_of_columns_that_tell_most_rows_apart(tmp_path):
    table = registry(200).append_column("a", pa.array(np.arange(200) % 20))
    table = table.append_column("b", pa.array(np.arange(200) // 20)).append_column("n", pa.array(np.arange(200)))
    pq.write_table(table, tmp_path / "table.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("permute")))
    lines = checked(tmp_path / "recipe.json", tmp_path / "table.parquet", trial=False).lines()
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert any("column 'n' is released unmasked, and 100% of the rows" in line for line in warnings)
    assert any("columns 'a' and 'b' are released unmasked, and 100% of the rows" in line for line in warnings)
    assert "  person_id: identifier, not released" in lines


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "mask", [{"method": "noise", "b": 0}, {"method": "svd-swap", "tol": 0}, MASKS["permute"] | {"response_weight": 0}]
)
def test_a_parameter_that_is_no_number_is_refused(mask, bad):
    name = list(mask)[-1]
    with pytest.raises(RecipeError, match=rf"mask\.0\.{name}: input should be"):
        gpuanon.protect(registry(60), recipe(mask | {name: bad}), rng=KEY, backend="numpy")


def test_a_hierarchy_that_no_mask_uses_is_pointed_out():
    unused = gpuanon.protect(registry(60), recipe("permute"), rng=KEY, backend="numpy").manifest["warnings"]
    used = gpuanon.protect(registry(60), recipe("recode"), rng=KEY, backend="numpy").manifest["warnings"]
    assert any("'age': no mask uses its hierarchy" in warning for warning in unused)
    assert not any("hierarchy" in warning for warning in used)


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), "0.1", True])
def test_a_limit_that_is_no_number_is_refused(limit):
    with pytest.raises(RecipeError, match=r"limits\.uniqueness"):
        gpuanon.protect(registry(60), recipe("permute", limits={"uniqueness": limit}), rng=KEY, backend="numpy")


@pytest.mark.parametrize("later", ["suppress", "synthetic-rows"])
def test_a_constraint_before_a_mask_that_changes_the_rows_is_refused(later):
    columns = COLUMNS | {name: {"role": "quasi", "keep": True} for name in ("income", "admission", "age")}
    first = {"method": "microaggregation", "k": 4, "diversity": 2, "columns": ["smoker"]}
    second = {"method": later, "k": 3, "columns": ["sex", "education"]}
    with pytest.raises(RecipeError, match=r"mask\.0: diversity, closeness: a later mask drops or adds rows"):
        gpuanon.protect(registry(), recipe(first, second, columns=columns), rng=KEY, backend="numpy")
    release = gpuanon.protect(registry(), recipe(second, first, columns=columns), rng=KEY, backend="numpy")
    assert [found["verified"] for found in release.manifest["guarantee"]] == [True] * 3


@pytest.mark.parametrize(
    "first",
    [
        {"method": "microaggregation", "k": 4, "closeness": 0.3, "columns": ["smoker"]},
        {"method": "optimal-boxes", "k": 4, "diversity": 2, "epsilon": 0.1, "columns": ["income"]},
    ],
)
@pytest.mark.parametrize(
    "later",
    [
        {"method": "optimal-boxes", "k": 3, "dismiss": True, "columns": ["age"]},  # whose groups dismiss records
        {"method": "suppress", "k": 3, "columns": ["sex"]},
    ],
)
def test_a_constraint_before_rows_are_left_out_is_refused_whatever_it_is_of(first, later):
    masked = [*first["columns"], *later["columns"]]
    kept = {name: {"role": "quasi", "keep": True} for name in QUASI if name not in masked}
    with pytest.raises(RecipeError, match=r"mask\.0: diversity, closeness: a later mask drops or adds rows"):
        gpuanon.protect(registry(), recipe(first, later, columns=COLUMNS | kept), rng=KEY, backend="numpy")


@pytest.mark.parametrize("turned", [False, True])
def test_copies_of_a_record_do_not_make_a_class(turned):
    """Two records in four copies are no eight records."""
    copied = {"method": "sequential-synthesis", "columns": ["income"], "given": ["sex"], "below": 40, "even": False}
    masks = [copied | {"copies": 4}, {"method": "suppress", "k": 8, "columns": ["smoker", "education"]}]
    columns = COLUMNS | {name: {"role": "quasi", "keep": True} for name in ("age", "sex", "admission")}
    rules = recipe(*(masks[::-1] if turned else masks), columns=columns)
    with pytest.raises(RecipeError, match=rf"mask\.{int(turned)}: copies: another mask promises k records"):
        gpuanon.protect(registry(), rules, rng=KEY, backend="numpy")


def test_check_refuses_masks_that_cannot_follow_each_other(tmp_path):
    pq.write_table(registry(60), tmp_path / "table.parquet")
    columns = COLUMNS | {name: {"role": "quasi", "keep": True} for name in ("income", "admission", "age")}
    first = {"method": "microaggregation", "k": 4, "diversity": 2, "columns": ["smoker"]}
    second = {"method": "suppress", "k": 3, "columns": ["sex", "education"]}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe(first, second, columns=columns)))
    with pytest.raises(RecipeError, match=r"mask\.0: diversity, closeness: a later mask drops or adds rows"):
        checked(tmp_path / "recipe.json", tmp_path / "table.parquet", trial=False).lines()


def test_rows_are_not_added_after_a_column_became_two():
    first = {"method": "mondrian", "k": 4, "release": "interval", "columns": ["age", "income", "admission"]}
    second = {"method": "synthetic-rows", "k": 3, "columns": ["sex", "education", "smoker"]}
    with pytest.raises(RecipeError, match=r"mask\.1: an earlier mask releases the two ends of 'age', 'income'"):
        gpuanon.protect(registry(), recipe(first, second), rng=KEY, backend="numpy")


def test_a_claim_lasts_where_later_masks_change_other_columns():
    """A mask that changes the sensitive column ends the constraint on it, and not k equal records."""
    first = {"method": "microaggregation", "k": 4, "diversity": 2}
    second = {"method": "pram", "stay": 0.5, "columns": ["diagnosis"]}
    release = gpuanon.protect(registry(), recipe(first, second), rng=KEY, backend="numpy")
    assert [(found["k"], found["verified"]) for found in release.manifest["guarantee"]] == [(4, True), (None, None)]
    assert release.manifest["guarantee"][0]["smallest_class"] >= 4


def test_a_constraint_on_a_column_that_is_an_interval_by_now_is_refused():
    rows = pa.table({"age": list(range(40)), "cost": [float(at % 9) for at in range(40)]})
    masks = [
        {"method": "mondrian", "k": 4, "release": "interval", "columns": ["cost"]},
        {"method": "microaggregation", "k": 4, "diversity": 2, "columns": ["age"]},
    ]
    wanted = {"columns": {"age": {"role": "quasi"}, "cost": {"role": "sensitive"}}, "mask": masks}
    with pytest.raises(RecipeError, match="an earlier mask releases others in place of 'cost'"):
        gpuanon.protect(rows, wanted, backend="numpy")
