"""``gpuanon init`` and ``recipes``: from a file to a recipe that protect runs without an edit."""

from __future__ import annotations

import io
import json
import sys
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from gpuanon.cli import app as cli
from gpuanon.errors import InputError
from gpuanon.proposing import dialogue as proposing
from gpuanon.proposing.dialogue import examine_file
from gpuanon.proposing.proposal import assembled
from gpuanon.proposing.purposes import PURPOSES, purpose_of
from gpuanon.recipe import Recipe
from tests.support.every import registry


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pa.csv.write_csv(registry(300), tmp_path / "registry.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def gpuanon(capsys, monkeypatch, folder):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpuanon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_init_then_protect_without_an_edit(gpuanon, folder):
    code, out, _ = gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml")
    assert code == 0
    assert "gpuanon check recipe.toml registry.csv" in out
    assert Recipe.load(folder / "recipe.toml").columns["person_id"].role == "identifier"
    code, out, _ = gpuanon("protect", "registry.csv", "recipe.toml", "-o", "release.csv", "--json")
    assert code == 0
    assert json.loads(out)["verdict"]["state"] == "good"


def test_without_an_output_the_recipe_is_all_of_stdout(gpuanon):
    code, out, err = gpuanon("init", "registry.csv")
    assert code == 0
    assert tomllib.loads(out)["columns"]["person_id"] == {"role": "identifier"}
    assert "person_id" in err


def test_a_purpose_fills_in_its_mask_and_limits(gpuanon):
    _, out, _ = gpuanon("init", "registry.csv", "--for", "public-use")
    found, purpose = tomllib.loads(out), purpose_of("public-use")
    assert found["mask"] == [dict(purpose.mask)]
    assert found["limits"] == dict(purpose.limits)


def test_recipes_lists_every_purpose_and_what_it_is_held_to(gpuanon):
    listed = json.loads(gpuanon("recipes", "--json")[1])
    assert [entry["name"] for entry in listed] == [purpose.name for purpose in PURPOSES]
    assert all(entry["limits"] for entry in listed)
    out = gpuanon("recipes")[1]
    assert all(purpose.name in out for purpose in PURPOSES)


@pytest.mark.parametrize("content", ["mine", "# my recipe\n"])
def test_what_init_did_not_write_is_never_replaced(gpuanon, folder, content):
    (folder / "recipe.toml").write_text(content)
    assert gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml")[0] == 2
    assert gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml", "--force")[0] == 2
    assert (folder / "recipe.toml").read_text() == content


def test_an_earlier_proposal_is_replaced_by_force_only(gpuanon, folder):
    assert gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml")[0] == 0
    assert gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml")[0] == 2
    assert gpuanon("init", "registry.csv", "--yes", "-o", "recipe.toml", "--force", "--for", "training")[0] == 0
    assert "distribution-preserving" in (folder / "recipe.toml").read_text()


@pytest.mark.parametrize(
    "arguments", [("nothing.csv",), ("registry.csv", "--for", "pleasure"), ("registry.csv", "-o", "recipe.yaml")]
)
def test_bad_usage_is_one_message(gpuanon, arguments):
    code, _, err = gpuanon("init", "--yes", *arguments)
    assert code == 2
    assert err.startswith("error: ")


def test_only_doubtful_columns_are_asked_about(folder):
    _, findings = examine_file(folder / "registry.csv", purpose_of(None))
    asked = []

    def ask(choice, reason):
        asked.append(choice.name)
        return "dropped"

    answered = proposing.answered(findings, ask)
    doubtful = [choice.name for choice in findings.choices if choice.doubtful]
    assert asked == doubtful
    assert doubtful
    assert {choice.name for choice in answered.choices if choice.role == "dropped"} >= set(doubtful)
    assert proposing.answered(findings, lambda choice, reason: choice.role) is findings


def test_an_answer_may_keep_what_was_to_be_dropped(folder):
    notes = [f"the record of day {at} was long and had many words" for at in range(200)]
    pa.csv.write_csv(pa.table({"remark": notes, "age": np.arange(200) % 60}), folder / "t.csv")
    _, findings = examine_file(folder / "t.csv", purpose_of(None))
    assert next(choice for choice in findings.choices if choice.name == "remark").role == "dropped"
    answered = proposing.answered(findings, lambda choice, reason: "sensitive")
    assert tomllib.loads(assembled(answered).to_toml())["columns"]["remark"] == {"role": "sensitive"}


def test_a_person_at_the_terminal_is_shown_the_levels_before_they_are_written(folder, monkeypatch):
    bands = np.array(["5-9", "10-14", "15-19"])
    pa.csv.write_csv(pa.table({"ageband": bands[np.arange(300) % 3], "sex": np.arange(300) % 2}), folder / "t.csv")
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=150)
    answers = iter(["", "quasi", "n"])  # the proposal, a wrong word would be asked again, and no to writing
    monkeypatch.setattr(console, "input", lambda *args, **kwargs: next(answers))
    proposal = proposing.init(
        folder / "t.csv", folder / "r.toml", None, ask=True, force=False, out=console, err=console
    )
    assert "5-9, 10-14, 15-19" in shown.getvalue()
    assert proposal.columns["ageband"].levels == ("5-9", "10-14", "15-19")


def test_what_cannot_be_found_out_of_a_csv_can_be_said(folder, monkeypatch, capsys):
    rows = [f'{at % 50}|"two\nlines"|{"x" if at % 9 == 0 else at}' for at in range(300)]
    (folder / "t.csv").write_text("\n".join(["age|note|cost", *rows]))

    def init(*settings):
        monkeypatch.setattr(sys, "argv", ["gpuanon", "init", str(folder / "t.csv"), "--yes", *settings])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    code, _, err = init("--csv", "separator=|")
    assert code == 2
    assert "--csv newlines=true" in err
    code, out, _ = init("--csv", "newlines=true", "--csv", "separator=|", "--csv", "nulls=x,NA")
    assert code == 0
    recipe = tomllib.loads(out)
    assert list(recipe["columns"]) == ["age", "note", "cost"]
    assert recipe["csv"] == {"newlines": True, "separator": "|", "nulls": ["x", "NA"]}
    assert recipe["columns"]["cost"]["kind"] == "numeric"
    assert "did you mean 'newlines'?" in init("--csv", "newline=true")[2]
    assert "--csv newlines: " in init("--csv", "newlines=perhaps")[2]


@pytest.mark.parametrize("name", ["wide.csv", "wide.parquet"])
def test_a_table_of_too_many_columns_is_refused_before_it_is_read(tmp_path, name, monkeypatch):
    columns = {f"c{at}": [1, 2, 3] for at in range(2001)}
    if name.endswith("csv"):
        (tmp_path / name).write_text(",".join(columns) + "\n" + ",".join("1" * 2001) + "\n")
    else:
        pq.write_table(pa.table(columns), tmp_path / name)
    monkeypatch.setattr(proposing, "read_any", lambda *given: pytest.fail("was read"))
    with pytest.raises(InputError, match="2,001 columns, and init looks at 2,000"):
        examine_file(tmp_path / name, purpose_of(None))
