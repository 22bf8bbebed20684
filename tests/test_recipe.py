"""Recipes: read from every format, and every fault named at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuanon.errors import RecipeError
from gpuanon.masking.methods.microaggregation import Microaggregation
from gpuanon.recipe import Recipe

TOML = """
nulls = "category"

[columns]
patient = { role = "identifier" }
age     = { role = "quasi" }
cost    = { role = "sensitive", transform = "log1p" }

[[mask]]
method = "microaggregation"
k = 10

[limits]
reidentification = 0.1
"""
DATA = {
    "columns": {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi"},
        "cost": {"role": "sensitive", "transform": "log1p"},
    },
    "nulls": "category",
    "mask": [{"method": "microaggregation", "k": 10}],
    "limits": {"reidentification": 0.1},
}


def test_toml_yaml_json_and_a_mapping_give_the_same_recipe(tmp_path):
    import yaml

    (tmp_path / "r.toml").write_text(TOML)
    (tmp_path / "r.json").write_text(json.dumps(DATA))
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(DATA))
    expected = Recipe.load(DATA)
    assert expected.mask == (Microaggregation(k=10),)
    for suffix in ("toml", "json", "yaml"):
        assert Recipe.load(tmp_path / f"r.{suffix}") == expected, suffix


def test_a_null_policy_among_the_columns_is_a_fault():
    with pytest.raises(RecipeError, match=r"columns.nulls: .*got 'refuse'"):
        Recipe.load(DATA | {"columns": {**DATA["columns"], "nulls": "refuse"}})


def test_a_hierarchy_is_found_beside_the_recipe_and_must_be_there(tmp_path):
    (tmp_path / "age.csv").write_text("1,*\n2,*\n")
    (tmp_path / "r.toml").write_text(
        '[columns]\nage = { role = "quasi", hierarchy = "age.csv" }\n[[mask]]\nmethod = "suppress"\nk = 3\n'
    )
    assert Recipe.load(tmp_path / "r.toml").columns["age"].hierarchy == tmp_path / "age.csv"
    (tmp_path / "age.csv").unlink()
    with pytest.raises(RecipeError, match=r"columns.age.hierarchy: there is no file age.csv"):
        Recipe.load(tmp_path / "r.toml")


def test_a_column_may_be_called_nulls():
    loaded = Recipe.load(DATA | {"columns": {"nulls": {"role": "quasi"}}, "nulls": "refuse"})
    assert list(loaded.columns) == ["nulls"]
    assert loaded.nulls == "refuse"


def test_the_null_policy_defaults_to_indicator():
    data = {name: value for name, value in DATA.items() if name != "nulls"}
    assert Recipe.load(data).nulls == "indicator"


def test_every_fault_is_named_at_once_with_its_place(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        TOML.replace("k = 10", 'k = 1\nblok = 5\nrefine = "maybe"')
        .replace('"quasi"', '"qasi"')
        .replace("reident", "redient")
    )
    with pytest.raises(RecipeError) as caught:
        Recipe.load(path)
    lines = str(caught.value).splitlines()
    assert "recipe.toml: mask.0.k: input should be greater than or equal to 2, got 1" in lines
    for place in ("columns.age.role", "mask.0.blok", "mask.0.refine", "limits"):
        assert any(line.startswith(f"recipe.toml: {place}: ") for line in lines), (place, lines)


@pytest.mark.parametrize(
    ("mask", "place"),
    [
        ({"method": "microagregation", "k": 3}, "mask.0"),
        ({"k": 3}, "mask.0"),
        ({"method": "microaggregation", "k": 3, "effort": "slow"}, "mask.0.effort"),
        ({"method": "microaggregation", "k": 3, "effort": 0}, "mask.0.effort"),
        ({"groups": {"use": "k-member", "k": 1}, "operation": {"use": "centroid"}}, "mask.0.groups.k"),
        ({"groups": {"use": "nobody"}, "operation": {"use": "centroid"}}, "mask.0.groups"),
        ({"groups": {"use": "whole"}}, "mask.0.operation"),
        ("microaggregation", "mask.0"),
    ],
)
def test_a_bad_mask_is_named(mask, place):
    with pytest.raises(RecipeError, match=rf"recipe: {place}: "):
        Recipe.load(DATA | {"mask": [mask]})


@pytest.mark.parametrize(
    ("change", "meant"),
    [
        ({"limit": {}}, "limit: there is no such setting; did you mean 'limits'?"),
        (
            {"columns": {"age": {"rol": "quasi"}}},
            "columns.age.rol: there is no such setting, got 'quasi'; did you mean 'role'?",
        ),
        (
            {"mask": [{"method": "microaggregation", "k": 5, "blok": 512}]},
            "mask.0.blok: .*, got 512; did you mean 'block'?",
        ),
        ({"mask": [{"method": "microaggregation", "K": 5}]}, "mask.0.K: .*, got 5; did you mean 'k'?"),
        ({"mask": [{"methd": "mondrian", "operation": {"use": "swap"}}]}, "mask.0.methd: .*; did you mean 'method'?"),
        (
            {"mask": [{"groups": {"use": "k-member", "k": 5, "blok": 64}, "operation": {"use": "swap"}}]},
            "mask.0.groups.blok: .*; did you mean 'block'?",
        ),
        ({"csv": {"seperator": ";"}}, "csv.seperator: .*; did you mean 'separator'?"),
        (
            {"analysis": [{"formula": "cost ~ age", "familiy": "linear"}]},
            "analysis.0.familiy: .*; did you mean 'family'?",
        ),
        ({"series": {"time": "age", "colums": ["cost"]}}, "series.colums: .*; did you mean 'columns'?"),
        ({"limits": {"reidentificaton": 0.1}}, "unknown measure reidentificaton; did you mean 'reidentification'?"),
        ({"measures": {"kernel_pc": {}}}, "unknown measure kernel_pc; did you mean 'kernel_pca'?"),
        ({"mask": {"method": "microaggregation", "k": 5}}, r"mask: is a list of tables: write \[\[mask\]\]"),
    ],
)
def test_a_misspelt_setting_is_answered_with_the_one_that_is_meant(change, meant):
    with pytest.raises(RecipeError, match=meant.replace("?", r"\?").replace(".*\\?", ".*")):
        Recipe.load(DATA | change)


def test_nothing_is_proposed_for_a_setting_that_stands_in_the_wrong_place():
    with pytest.raises(RecipeError) as refused:
        Recipe.load(DATA | {"mask": [{"operation": {"use": "swap"}, "groups": {"use": "whole"}, "k": 5}]})
    assert "mask.0.k: there is no such setting, got 5\n" in str(refused.value)


def test_an_unknown_method_is_answered_with_the_nearest_or_with_all():
    with pytest.raises(RecipeError, match="'microagregation' does not exist; did you mean 'microaggregation'"):
        Recipe.load(DATA | {"mask": [{"method": "microagregation", "k": 3}]})
    with pytest.raises(RecipeError, match="'zzz' does not exist; there are microaggregation, distribution-preserving"):
        Recipe.load(DATA | {"mask": [{"method": "zzz", "k": 3}]})


@pytest.mark.parametrize("missing", ["columns", "mask"])
def test_a_recipe_without_columns_or_masks_is_refused(missing):
    data = {name: value for name, value in DATA.items() if name != missing}
    with pytest.raises(RecipeError, match=f"recipe: {missing}: field required"):
        Recipe.load(data)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.toml", "[columns", "well-formed TOML"),
        ("r.json", "{", "well-formed JSON"),
        ("r.yaml", "a: [", "well-formed YAML"),
        ("r.ini", "", "ends in .toml"),
    ],
)
def test_a_malformed_file_says_what_it_is_not(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(RecipeError, match=message):
        Recipe.load(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RecipeError, match="no such recipe"):
        Recipe.load(tmp_path / "r.toml")


def test_free_combinations_are_recipes_too():
    mask = {
        "groups": {"use": "k-member", "k": 10},
        "basis": {"use": "ica", "per_group": True},
        "operation": {"use": "swap"},
        "columns": "all",
    }
    (loaded,) = Recipe.load(DATA | {"mask": [mask]}).mask
    combination = loaded.combination()
    assert (combination.groups.use, combination.basis.use, combination.operation.use) == ("k-member", "ica", "swap")
    assert combination.k == 10


@pytest.mark.parametrize("suffix", [".toml", ".json", ".yaml"])
def test_a_byte_order_mark_is_read_over(tmp_path: Path, suffix: str) -> None:
    texts = {
        ".toml": '[columns]\nage = { role = "quasi" }\n[[mask]]\nmethod = "microaggregation"\nk = 5\n',
        ".json": '{"columns": {"age": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 5}]}',
        ".yaml": "columns: {age: {role: quasi}}\nmask: [{method: microaggregation, k: 5}]\n",
    }
    (tmp_path / f"recipe{suffix}").write_text("\ufeff" + texts[suffix], encoding="utf-8")
    assert Recipe.load(tmp_path / f"recipe{suffix}").columns["age"].role == "quasi"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".json", '{"columns": {"age": {"role": "identifier", "role": "other"}}, "mask": []}'),
        (".json", '{"columns": {"role": {}, "role": {}}, "mask": []}'),
        (".yaml", "columns: {age: {role: identifier, role: other}}\nmask: []\n"),
        (".yaml", "columns: {role: {}}\nmask: []\ncolumns: {role: {}, role: {}}\n"),
        (".toml", "[columns]\nage = { role = 'identifier', role = 'other' }\n"),
    ],
)
def test_a_key_that_occurs_twice_is_an_error(tmp_path: Path, suffix: str, text: str) -> None:
    (tmp_path / f"recipe{suffix}").write_text(text)
    with pytest.raises(RecipeError, match="is not well-formed"):
        Recipe.load(tmp_path / f"recipe{suffix}")


def test_merged_keys_of_yaml_may_be_overridden(tmp_path: Path) -> None:
    text = "columns:\n  a: &base {role: quasi, kind: numeric}\n  b: {<<: *base, kind: ordinal}\n"
    (tmp_path / "recipe.yaml").write_text(text + "mask: [{method: microaggregation, k: 5}]\n")
    assert Recipe.load(tmp_path / "recipe.yaml").columns["b"].kind == "ordinal"


@pytest.mark.parametrize(("suffix", "text"), [("json", "[" * 100_000), ("yaml", "a: " + "[" * 5_000)])
def test_a_recipe_that_is_nested_too_deeply_is_no_recipe(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"recipe.{suffix}"
    path.write_text(text)
    with pytest.raises(RecipeError, match="nested too deeply"):
        Recipe.load(path)


@pytest.mark.parametrize("name", ["suppression", "recoding", "microaggregation", "synthetic_rows"])
def test_the_recipes_that_stand_side_by_side_can_be_read_and_name_the_same_statistics(name):
    folder = Path(__file__).parent.parent / "bench" / "studies" / "side_by_side"
    found, other = Recipe.load(folder / f"{name}.toml"), Recipe.load(folder / "suppression.toml")
    assert found.columns == other.columns
    assert found.measures == other.measures
