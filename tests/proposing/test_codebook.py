"""A codebook wins: roles, types, levels and missing codes, from CSV, JSON, NIST's dictionaries and labelled files."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gpuanon
from gpuanon.errors import InputError
from gpuanon.proposing.codebook import read_codebook
from gpuanon.proposing.dialogue import examine_file
from gpuanon.proposing.proposal import assembled
from gpuanon.proposing.purposes import purpose_of

N = 400


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({
        "v1": rng.integers(18, 90, N),
        "v2": rng.choice([1, 2, 3, 4, 5], N),
        "v3": rng.choice(["lo", "mid", "hi", "none"], N),
        "v4": np.where(rng.random(N) < 0.2, 777, rng.integers(0, 700, N)),
        "v5": rng.integers(10**6, 10**7, N),
    })  # fmt: skip
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    return path


JSON = {
    "variables": [
        {"name": "v1", "label": "Age of the respondent", "type": "integer"},
        {"name": "v2", "description": "Region", "type": "nominal"},
        {"name": "v3", "label": "Agreement", "type": "ordinal", "levels": ["lo", "mid", "hi"], "missing": ["none"],
         "role": "sensitive"},
        {"name": "v4", "label": "Visits", "type": "numeric", "missing": [777]},
        {"name": "v5", "label": "Interview", "role": "other"},
    ]
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_what_a_codebook_says_wins(table, kind):
    path = table.with_name(f"book.{kind}")
    text = "name;label;type;levels;missing;role\nv1;Age of the respondent;integer;;;\nv2;Region;nominal;;;\n"
    text += "v3;Agreement;ordinal;lo|mid|hi;none;sensitive\nv4;Visits;numeric;;777;\nv5;Interview;;;;other\n"
    path.write_text(text if kind == "csv" else json.dumps(JSON))
    _, findings = examine_file(table, purpose_of(None), codebook=read_codebook(path))
    columns = assembled(findings).columns
    assert (columns["v1"].role, columns["v1"].kind) == ("quasi", "numeric")
    assert "age" in next(choice.reason for choice in findings.choices if choice.name == "v1")
    assert columns["v2"].kind == "categorical"
    assert (columns["v3"].role, columns["v3"].kind) == ("sensitive", "ordinal")
    assert columns["v3"].levels == ("lo", "mid", "hi")
    assert columns["v3"].missing == ("none",)
    assert (columns["v4"].kind, columns["v4"].missing) == ("numeric", ("777",))
    assert columns["v5"].role == "other"
    assert columns.keys() == {"v1", "v2", "v3", "v4", "v5"}


def test_init_takes_a_codebook_and_its_recipe_runs(table):
    from typer.testing import CliRunner

    from gpuanon.cli.app import app

    book, recipe, output = (table.with_name(name) for name in ("book.json", "r.toml", "out.csv"))
    book.write_text(json.dumps({**JSON, "variables": JSON["variables"][:4]}))
    run = CliRunner().invoke(app, ["init", str(table), "--codebook", str(book), "-o", str(recipe), "--yes", "--quiet"])
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(app, ["protect", str(table), str(recipe), "-o", str(output), "--quiet"])
    assert run.exit_code == 0, run.output
    released = pd.read_csv(output, dtype=str, keep_default_na=False)
    assert set(released.v3) <= {"lo", "mid", "hi", "none"}
    assert set(released.v2) <= set("12345")
    assert "777" in set(released.v4)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]", "a list of columns"), ("{", "is no JSON"), ('[{"label": "x"}]', "entry 1 has no name"),
        ('[{"name": "a", "role": "quasy"}]', "role 'quasy' is none of"), ("[]", "has no entries"),
        ('[{"name": "a", "type": "blob"}]', "type 'blob' is none of"),
    ],
)  # fmt: skip
def test_a_bad_codebook_is_refused(tmp_path, content, said):
    (tmp_path / "book.json").write_text(content)
    with pytest.raises(InputError, match=said):
        read_codebook(tmp_path / "book.json")


def test_a_codebook_of_another_table_is_refused_and_strange_names_are_noted(table):
    book = table.with_name("book.json")
    book.write_text(json.dumps([{"name": "w1", "role": "quasi"}]))
    with pytest.raises(InputError, match="none of its names"):
        examine_file(table, purpose_of(None), codebook=read_codebook(book))
    book.write_text(json.dumps([{"name": "w1", "role": "quasi"}, {"name": "v1", "role": "sensitive"}]))
    _, findings = examine_file(table, purpose_of(None), codebook=read_codebook(book))
    assert any("1 of its 2 names are no columns" in note for note in findings.notes)


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_labels_of_spss_and_stata_files_are_used(tmp_path, suffix):
    pyreadstat = pytest.importorskip("pyreadstat")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"q1": rng.integers(18, 90, N) * 1.0, "q2": rng.choice([1.0, 2.0, 3.0], N)})
    write = getattr(pyreadstat, f"write_{suffix[1:]}")
    path = tmp_path / f"t{suffix}"
    write(frame, str(path), column_labels={"q1": "Age in years", "q2": "Ever diagnosed with cancer"},
          variable_value_labels={"q2": {1: "yes", 2: "no", 3: "unsure"}})  # fmt: skip
    _, findings = examine_file(path, purpose_of(None))
    roles = {choice.name: (choice.role, choice.kind) for choice in findings.choices}
    assert roles == {"q1": ("quasi", "numeric"), "q2": ("sensitive", "categorical")}
    assert "age" in findings.choices[0].reason


def test_a_column_may_be_called_self():
    frame = pd.DataFrame({"self": [1, 2, 3, 4] * 5, "age": range(20)})
    columns = {"self": {"role": "quasi"}, "age": {"role": "quasi"}}
    release = gpuanon.protect(frame, {"columns": columns, "mask": [{"method": "microaggregation", "k": 2}]})
    assert list(release.data) == ["self", "age"]


@pytest.mark.skipif("GPUANON_DATA" not in os.environ, reason="GPUANON_DATA names no folder of public files")
@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("name", ["tx", "ma"])
def test_roles_of_census_columns_are_those_of_their_data_dictionary(name, coded):
    """Judged from the dictionary, by people, before a proposal was made."""
    folder = Path(os.environ["GPUANON_DATA"]) / "acs"
    sensitive = {"PINCP_DECILE", "POVPIP", "DVET", "DREM", "DPHY", "DEYE", "DEAR"}
    weights = {"PWGTP", "WGTP"}
    book = read_codebook(folder / "data_dictionary.json") if coded else None
    _, findings = examine_file(folder / f"{name}2019.csv", purpose_of(None), codebook=book)
    right = [
        choice.role == ("sensitive" if choice.name in sensitive else "weight" if choice.name in weights else "quasi")
        for choice in findings.choices
    ]
    assert len(right) == 24
    assert sum(right) >= 0.9 * len(right)


def test_a_dataframe_is_proposed_with_a_codebook_too(table):
    book = table.with_name("book.json")
    book.write_text(json.dumps([{"name": "v1", "role": "sensitive"}]))
    frame = pd.read_csv(table)
    assert gpuanon.propose(frame, "public-use", codebook=book).columns["v1"].role == "sensitive"
    strict = gpuanon.propose(frame, "public-use", codebook=book, strict=True)
    assert strict.columns["v2"].role == "dropped"
