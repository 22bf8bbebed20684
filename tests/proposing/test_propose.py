"""Proposals: a recipe for any table, with reasons, that protect runs as it is, and that quotes no cell."""

from __future__ import annotations

import os
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest

import gpuanon
from gpuanon.engine.inputs import read_table
from gpuanon.errors import GpuanonError
from gpuanon.proposing.dialogue import examine_file
from gpuanon.proposing.findings import constant_columns, determinations
from gpuanon.proposing.proposal import assembled
from gpuanon.proposing.purposes import PURPOSES, purpose_of
from gpuanon.recipe import Recipe
from gpuanon.tables.formats.csv.csv_dialect import read_any
from gpuanon.tables.table import Table
from tests.support.every import registry


def roles(proposal):
    return {choice.name: choice.role for choice in proposal.findings.choices}


@pytest.fixture(scope="module")
def visits():
    """Persons with three records each under a number whose name says nothing; sex and birth year are constant in it."""
    rng = np.random.default_rng(1)
    people = rng.choice(900_000, 120, replace=False)
    return pa.table(
        {
            "zq": np.repeat(people, 3),
            "sex": np.repeat(rng.integers(0, 2, 120), 3),
            "born": np.repeat(rng.integers(1930, 2000, 120), 3),
            "region": rng.choice(["north", "south", "east"], 360),
            "cost": rng.lognormal(6, 2, 360).round(2),
        }
    )


def test_a_column_of_repeated_numbers_in_which_others_are_constant_is_the_person(visits):
    assert roles(gpuanon.propose(visits)) == {
        "zq": "person", "sex": "quasi", "born": "quasi", "region": "quasi", "cost": "sensitive",
    }  # fmt: skip


def test_shuffled_records_of_the_same_numbers_are_no_persons(visits):
    shuffled = visits.set_column(0, "zq", visits["zq"].take(np.random.default_rng(2).permutation(360)))
    assert roles(gpuanon.propose(shuffled))["zq"] != "person"
    choices = gpuanon.propose(visits).findings.choices
    assert constant_columns(Table.of(visits), "zq", choices) == ("sex", "born")
    assert constant_columns(Table.of(shuffled), "zq", choices) == ()


def test_columns_that_determine_each_other_are_named():
    rng = np.random.default_rng(3)
    code = rng.integers(0, 8, 500)
    table = pa.table({"code": code, "coarse": code // 4, "free": rng.integers(0, 3, 500)})
    found = determinations(Table.of(table), gpuanon.propose(table).findings.choices)
    assert found == {"coarse": ("code",)}


@pytest.mark.parametrize("purpose", [purpose.name for purpose in PURPOSES])
def test_protect_takes_a_proposal_as_it_is(purpose):
    table = registry(400)
    proposal = gpuanon.propose(table, purpose)
    assert roles(proposal)["person_id"] == "identifier"
    release = gpuanon.protect(table, proposal, rng=3)
    assert "person_id" not in release.data.column_names
    assert set(release.manifest.get("measured", {})) == set(proposal.limits)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_any_dataframe_has_the_same_proposal(kind):
    data = {"id": np.arange(100), "sex": ["f", "m"] * 50, "age": np.arange(100) % 60}
    assert roles(gpuanon.propose(kind(data))) == {"id": "identifier", "sex": "quasi", "age": "quasi"}


def test_the_toml_is_the_recipe_with_a_reason_on_every_line():
    proposal = gpuanon.propose(registry(400))
    text = proposal.to_toml()
    assert Recipe.load(tomllib.loads(text)).model_dump() == Recipe.model_validate(proposal.model_dump()).model_dump()
    columns = text.split("[columns]\n")[1].split("\n\n")[0].splitlines()
    assert len(columns) == len(proposal.columns)
    assert all(" # " in line for line in columns)


def test_odd_names_survive_the_toml():
    names = ["a b", 'quote"', "ünïcode", "dot.ted", "back\\slash", "#hash"]
    table = pa.table({name: np.arange(50) % 7 for name in names})
    assert list(tomllib.loads(gpuanon.propose(table).to_toml())["columns"]) == names


def test_the_repr_is_a_table_and_the_html_is_escaped():
    proposal = gpuanon.propose(pa.table({"<b>x</b>": np.arange(50) % 7, "age": np.arange(50)}))
    assert [line.split()[:2] for line in repr(proposal).splitlines()[2:4]] == [["<b>x</b>", "quasi"], ["age", "quasi"]]
    html = proposal._repr_html_()
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<script" not in html


def test_no_cell_is_quoted_but_levels_that_many_records_have():
    rng = np.random.default_rng(6)
    bands = np.array(["5-9", "10-14", "15-19"])
    secret = [f"secret{at}" for at in range(300)]
    table = pa.table(
        {
            "name": secret,
            "city": [f"hidden{at % 40}" for at in range(300)],
            "note": [f"the patient of room {at} said nothing much today" for at in range(300)],
            "ageband": bands[rng.integers(0, 3, 300)],
            "rareband": [*bands[rng.integers(0, 3, 299)], "90-94"],
            "amount": rng.lognormal(8, 1, 300).round(2),
        }
    )
    proposal = gpuanon.propose(table)
    texts = proposal.to_toml(), repr(proposal), proposal._repr_html_(), str(pickle.dumps(proposal))
    for text in texts:
        assert "secret" not in text
        assert "hidden" not in text
        assert "said nothing" not in text
        assert "90-94" not in text
        assert not any(f"{value:g}" in text for value in table["amount"].to_numpy())
    assert proposal.columns["ageband"].levels == ("5-9", "10-14", "15-19")
    assert proposal.columns["rareband"].levels is None


def test_categories_with_an_order_are_ordinal():
    sizes = pd.Categorical(["s", "l", "m"] * 20, categories=["s", "m", "l"], ordered=True)
    proposal = gpuanon.propose(pd.DataFrame({"residence": sizes, "age": range(60)}))
    assert (proposal.columns["residence"].kind, proposal.columns["residence"].levels) == ("ordinal", None)


def test_missing_codes_of_a_csv_are_nulls_of_their_column(tmp_path):
    rng = np.random.default_rng(7)
    rows = ["age,income,other_amount"]
    rows += [f"{rng.integers(20, 80)},{-8 if at % 5 == 0 else rng.integers(100, 9000)},{at % 9}" for at in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    _, findings = examine_file(tmp_path / "t.csv", purpose_of(None))
    assert {choice.name: choice.missing for choice in findings.choices} == {
        "age": (),
        "income": (-8,),
        "other_amount": (),
    }
    table = pd.read_csv(tmp_path / "t.csv")
    assert "-8 may stand for a missing value" in repr(gpuanon.propose(table))  # a dataframe is taken as it is


def test_another_encoding_and_decimal_commas_are_found_and_written_into_the_recipe(tmp_path):
    rows = ["größe;gewicht", *(f"{150 + at},5;{60 + at},25" for at in range(40))]
    (tmp_path / "t.csv").write_bytes("\n".join(rows).encode("latin-1"))
    table, csv, _ = read_any(tmp_path / "t.csv")
    assert (csv.encoding, csv.decimal) == ("cp1252", ",")
    assert pa.types.is_floating(table.arrow("größe").type)


def test_decimal_commas_are_found_beside_whole_numbers_and_signs_for_missing_values(tmp_path):
    heights = [f"{150 + at},5" if at % 3 else str(150 + at) for at in range(60)]
    rows = [f"{'-' if at % 20 == 7 else '.' if at % 20 == 9 else height};{at}" for at, height in enumerate(heights)]
    (tmp_path / "t.csv").write_text("\n".join(["height;number", *rows]))
    table, csv, missing = read_any(tmp_path / "t.csv")
    assert csv.decimal == ","
    assert missing == {"height": ("-", ".")}
    assert pa.types.is_floating(table.arrow("height").type)
    assert table.arrow("height").null_count == 6
    # What is a value of another column is not taken for a missing one.
    (tmp_path / "t.csv").write_text(
        "\n".join(["height;rhesus", *(f"{row.split(';')[0]};{'+-'[at % 2]}" for at, row in enumerate(rows))])
    )
    table, csv, missing = read_any(tmp_path / "t.csv")
    assert missing == {"height": ("-", ".")}
    assert table.arrow("rhesus").null_count == 0


def test_utf_16_is_read_where_it_says_that_it_is(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe;gewicht\n1;2\n3;4\n".encode("utf-16"))
    table, csv, _ = read_any(tmp_path / "t.csv")
    assert csv.encoding == "utf-16"
    assert table.names == ("größe", "gewicht")


def test_a_file_without_rows_has_no_proposal(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(GpuanonError, match="the table has no rows"):
        examine_file(tmp_path / "t.csv", purpose_of(None))


def test_what_is_to_be_known_of_the_file_stands_below_the_proposal(tmp_path):
    (tmp_path / "t.csv").write_text(
        "\n".join(["age;cost", *(f"{at};{f'about {at}' if at % 9 == 5 else at}" for at in range(40))])
    )
    _, findings = examine_file(tmp_path / "t.csv", purpose_of(None))
    shown = repr(assembled(findings))
    assert "note: column 'cost': 4 of 40 values are not numbers" in shown


def test_a_purpose_that_does_not_exist_is_refused():
    with pytest.raises(GpuanonError, match="research"):
        gpuanon.propose(registry(50), "pleasure")


@pytest.mark.parametrize("table", [{"x": [1.0]}, {"x": [None, None]}, {"x": []}, {"x": [[1], [2]], "y": [1, 2]}])
def test_tiny_and_odd_tables_have_a_proposal(table):
    assert gpuanon.propose(pa.table(table)).findings.choices


FILES = {
    "adult": "adult/adult_train_complete_30162.csv",
    "oulad": "oulad/oulad_student_info.csv",
    "rand": "randhie/randhie_wei_like.csv",
    "sd2011": "sd2011/sd2011.csv",
    "nhanes": "nhanes/nhanes_1999_2004_complete.csv",
    "census": "census/census.csv",
}
IDENTIFIERS = {"nhanes": {"sampleID": "identifier"}, "rand": {"zper": "person"}, "oulad": {"id_student": "person"}}


@pytest.fixture(scope="module")
def folder():
    if "GPUANON_DATA" not in os.environ:
        pytest.skip("GPUANON_DATA names no folder with the reference files")
    return Path(os.environ["GPUANON_DATA"])


@pytest.mark.data
@pytest.mark.slow
def test_identifiers_of_public_files_are_found_and_other_columns_raise_few_alarms(folder):
    alarms, others = [], 0
    for name, file in FILES.items():
        found = {
            choice.name: choice.role
            for choice in examine_file(folder / file, purpose_of(None))[1].choices
            if choice.role in ("identifier", "person", "household", "dropped")
        }
        known = IDENTIFIERS.get(name, {})
        assert {column: found.get(column) for column in known} == known
        alarms += [(name, column) for column in found if column not in known]
        others += len(pa.csv.read_csv(folder / file).column_names) - len(known)
    assert others == 121
    assert len(alarms) <= 0.05 * others, alarms


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_public_files_are_protected_by_their_proposal_as_it_is(folder, name):
    proposal = assembled(examine_file(folder / FILES[name], purpose_of(None))[1])
    table = read_table(folder / FILES[name], proposal)  # missing-value codes are nulls now
    release = gpuanon.protect(table, proposal, rng=1)
    assert release.manifest["rows_out"] == table.n_rows
    assert all(guarantee["verified"] for guarantee in release.manifest["guarantee"])


def test_an_edited_proposal_is_the_recipe_that_its_toml_says(tmp_path):
    table = registry(200)
    proposal = gpuanon.propose(table)
    edited = proposal.with_column("income", role="sensitive", kind="numeric").with_column("age", role="dropped")
    edited = edited.with_mask({"method": "microaggregation", "k": 4}).with_limits(k_anonymity=4)
    assert (edited.columns["income"].role, edited.columns["age"].role) == ("sensitive", "dropped")
    assert proposal.columns["age"].role == "quasi"  # the proposal itself stays
    path = tmp_path / "recipe.toml"
    path.write_text(edited.to_toml())
    loaded = Recipe.load(path)
    assert loaded.model_dump() == edited.model_dump()
    assert "as edited" in str(edited)
    assert edited.findings.risk is None  # it was of other quasi-identifiers
    release = gpuanon.protect(table, edited)
    assert "age" not in release.table.names
    assert (
        gpuanon.assess(table, release.data, edited, link=release.link, measures=["k_anonymity"])["k_anonymity"].value
        >= 4
    )


def test_the_mask_of_an_edited_proposal_follows_the_roles_unless_it_was_set():
    proposal = gpuanon.propose(registry(200))
    kept = proposal.with_column("income", role="other")
    assert kept.mask != proposal.mask
    assert "income" not in kept.mask[0].columns
    assert (
        proposal.with_mask(*[{"method": "microaggregation", "k": 7}]).with_column("income", role="other").mask[0].k == 7
    )


def test_masks_of_several_parts_are_written_as_toml(tmp_path):
    mask = {
        "groups": {"use": "mdav", "k": 3},
        "operation": {"use": "centroid"},
        "columns": "quasi",
    }
    edited = gpuanon.propose(registry(200)).with_mask(mask, {"method": "microaggregation", "k": 3})
    (tmp_path / "recipe.toml").write_text(edited.to_toml())
    assert Recipe.load(tmp_path / "recipe.toml").mask == edited.mask


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda one: one.with_column("agee", role="quasi"), "did you mean .age"),
        (lambda one: one.with_column("age", role="quasy"), "columns.age.role"),
        (lambda one: one.with_column("age", roll="quasi"), "columns.age.roll"),
        (lambda one: one.with_mask(), "at least one mask"),
        (lambda one: one.with_limits(k_anonimity=3), "did you mean .k_anonymity"),
    ],
)
def test_an_edit_that_is_no_recipe_is_refused(edit, says):
    with pytest.raises(GpuanonError, match=says):
        edit(gpuanon.propose(registry(50)))
