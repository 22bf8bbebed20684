"""With ``--json`` every result and every error has the published form."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pyarrow.parquet as pq
import pytest

from gpuanon.cli import app as cli
from gpuanon.cli.schemas import RESULTS, VERSION, json_schema
from gpuanon.recipe import Recipe
from tests.support.every import registry

RECIPE = {
    "others": "keep",
    "nulls": "indicator",
    "columns": {
        "person_id": {"role": "identifier"},
        "age": {"role": "quasi"},
        "income": {"role": "quasi"},
        "cost": {"role": "sensitive"},
    },
    "mask": [{"method": "microaggregation", "k": 5}],
}
BOXES = {**RECIPE, "mask": [{"method": "mondrian", "k": 5, "release": "interval"}]}


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run the command line with ``--json``; gives exit code and what stdout says."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(registry(200), "in.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(RECIPE))
    (tmp_path / "grid.json").write_text(json.dumps({**RECIPE, "mask": [{"method": "microaggregation", "k": [3, 5]}]}))

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpuanon", *arguments, "--json"])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, json.loads(capsys.readouterr().out)

    return command


def checked(of, found):
    """The result has the form: no key is missing, and none is there that the form does not know."""
    assert found["schema"] == VERSION
    RESULTS[of].model_validate(found, strict=True)
    jsonschema.Draft202012Validator(json_schema(of)).validate(found)


def test_what_commands_print_has_the_published_form(run):
    for of, *arguments in (
        ("protect", "in.parquet", "recipe.json", "-o", "out.parquet", "--link", "link.csv"),
        ("check", "in.parquet", "recipe.json"),
        ("compare", "in.parquet", "grid.json", "--workers", "0"),
        ("assess", "in.parquet", "out.parquet", "--recipe", "recipe.json", "--measures", "ks,k_anonymity,suda2"),
    ):
        code, found = run(of, *arguments)
        assert code == 0
        checked(of, found)


def test_a_result_of_another_form_is_noticed(run):
    _, found = run("check", "recipe.json")
    checked("check", found)
    for other in ({**found, "more": 1}, {name: value for name, value in found.items() if name != "masks"}):
        with pytest.raises(ValueError, match="CheckResult"):
            checked("check", other)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, json_schema("check"))


def test_intervals_have_the_published_form(run, tmp_path):
    (tmp_path / "boxes.json").write_text(json.dumps(BOXES))
    assert run("protect", "in.parquet", "boxes.json", "-o", "boxes.parquet")[0] == 0
    checked("intervals", run("intervals", "boxes.parquet", "--statistic", "mean")[1])


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("protect", "in.parquet", "recipe.json"), 2, "output"),  # bad usage
        (("protect", "none.parquet", "recipe.json", "-o", "out.parquet"), 2, "none.parquet"),
        (("assess", "in.parquet", "in.parquet", "--recipe", "recipe.json", "--measures", "kz"), 2, "kz"),
        (("protect", "in.parquet", "limited.json", "-o", "out.parquet"), 1, "limits.k_anonymity"),
    ],
)
def test_errors_are_json_with_the_same_exit_code(run, tmp_path, arguments, code, what):
    (tmp_path / "limited.json").write_text(json.dumps({**RECIPE, "limits": {"k_anonymity": 100}}))
    got, found = run(*arguments)
    checked("error", found)
    assert (got, found["error"]["exit_code"]) == (code, code)
    assert what in found["error"]["message"]
    assert not (tmp_path / "out.parquet").exists()


def test_schema_publishes_the_form_of_recipes_and_results(capsys, monkeypatch):
    for of in (None, *RESULTS):
        monkeypatch.setattr(sys, "argv", ["gpuanon", "schema", *([] if of is None else ["--of", of])])
        with pytest.raises(SystemExit):
            cli.main()
        found = json.loads(capsys.readouterr().out)
        assert found == (Recipe.model_json_schema() if of is None else json_schema(of))
        jsonschema.Draft202012Validator.check_schema(found)
        if of is None:
            jsonschema.validate(RECIPE, found)
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**RECIPE, "mask": [{"method": "microaggregation", "k": 1}]}, found)
        else:
            assert "schema" in found["required"]


def test_check_takes_its_files_in_either_order(run):
    found = [
        run("check", *order, "--quick")[1] for order in (("in.parquet", "recipe.json"), ("recipe.json", "in.parquet"))
    ]
    assert found[0] == found[1]
    assert found[0]["table"] == "in.parquet"


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "gpuanon", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpuanon ")
