"""The command line: results on stdout, log on stderr, exit codes 0, 1 and 2, and never half a release."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

from gpuanon.arrays import progress
from gpuanon.cli import app as cli
from gpuanon.cli import doctor
from gpuanon.engine import protect as running
from gpuanon.tables.registry import make_registry, registry_recipe
from tests.support.every import registry

RECIPE = """
others = "keep"
nulls = "indicator"
[columns]
person_id = { role = "identifier" }
age       = { role = "quasi" }
sex       = { role = "quasi" }
income    = { role = "quasi", transform = "log1p" }
cost      = { role = "sensitive" }
[[mask]]
method = "microaggregation"
k = 5
"""


@pytest.fixture
def folder(tmp_path):
    pq.write_table(registry(200), tmp_path / "registry.parquet")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "key").write_text("a secret key for the tests")
    return tmp_path


@pytest.fixture
def gpuanon(capsys, monkeypatch, folder):
    """Run the command line in this process; gives exit code, stdout, stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpuanon", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def protect_arguments(*more):
    return ("protect", "registry.parquet", "recipe.toml", "-o", "release.parquet", *more)


def test_protect_writes_the_release_and_its_manifest(gpuanon, folder):
    code, out, err = gpuanon(*protect_arguments("--json"))
    result = json.loads(out)
    assert code == 0
    assert (result["rows_in"], result["rows_out"], result["rows_added"], result["rows_dropped"]) == (200, 200, 0, 0)
    (guarantee,) = result["guarantee"]
    assert guarantee["k"] == 5
    assert guarantee["verified"] is True
    assert result["output"] == "release.parquet"
    assert set(result) >= {"backend", "seconds", "mask"}
    released = pq.read_table(folder / "release.parquet")
    assert "person_id" not in released.column_names
    assert released.group_by(["age", "sex", "income"]).aggregate([([], "count_all")])["count_all"].to_numpy().min() >= 5
    manifest = json.loads((folder / "release.parquet.manifest.json").read_text())
    assert manifest["guarantee"] == result["guarantee"]
    assert "backend: numpy" in err


def test_without_json_a_person_can_read_it(gpuanon):
    code, out, _ = gpuanon(*protect_arguments())
    assert code == 0
    assert "200 in, 200 out" in out
    assert "every combination of age, sex, income is shared by at least 5 released records" in " ".join(out.split())


def test_classes_of_the_original_are_not_called_groups_of_the_release(gpuanon, folder):
    recipe = 'others = "drop"\n[columns]\nage = {role = "quasi"}\nsex = {role = "quasi"}\n'
    (folder / "recipe.toml").write_text(recipe + '[[mask]]\nmethod = "suppress"\nk = 3\nlimit = 1.0\n')
    code, out, _ = gpuanon(*protect_arguments())
    assert code == 0
    assert "classes before it, the smallest of 1 record\n" in "\n".join(line.strip() for line in out.splitlines())
    manifest = json.loads((folder / "release.parquet.manifest.json").read_text())
    assert manifest["mask"][0]["smallest_class_before"] == 1
    assert "smallest_group" not in manifest["mask"][0]


def test_quiet_is_quiet(gpuanon):
    assert gpuanon(*protect_arguments("--quiet")) == (0, "", "")


def test_the_link_is_written_on_request_only_and_is_right(gpuanon, folder):
    gpuanon(*protect_arguments())
    assert not list(folder.glob("*.csv"))
    assert gpuanon(*protect_arguments("--force", "--link", "link.csv"))[0] == 0
    link = csv.read_csv(folder / "link.csv")["row"].to_numpy()
    original, released = pq.read_table(folder / "registry.parquet"), pq.read_table(folder / "release.parquet")
    assert np.array_equal(original["cost"].to_numpy()[link], released["cost"].to_numpy())


def test_a_key_file_makes_a_run_repeatable(gpuanon, folder):
    gpuanon(*protect_arguments("--key-file", "key"))
    first = (folder / "release.parquet").read_bytes()
    gpuanon(*protect_arguments("--key-file", "key", "--force"))
    assert (folder / "release.parquet").read_bytes() == first
    gpuanon(*protect_arguments("--force"))
    assert (folder / "release.parquet").read_bytes() != first


def test_the_environment_may_hold_the_key(gpuanon, folder, monkeypatch):
    gpuanon(*protect_arguments("--key-file", "key"))
    first = (folder / "release.parquet").read_bytes()
    monkeypatch.setenv("GPUANON_KEY", "a secret key for the tests")
    gpuanon(*protect_arguments("--force"))
    assert (folder / "release.parquet").read_bytes() == first


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz", "arrow"])
def test_every_file_format_is_read_and_written(gpuanon, folder, suffix):
    assert gpuanon("protect", "registry.parquet", "recipe.toml", "-o", f"a.{suffix}", "--key-file", "key")[0] == 0
    recipe = RECIPE.replace('person_id = { role = "identifier" }', "")
    (folder / "again.toml").write_text(recipe)
    assert gpuanon("protect", f"a.{suffix}", "again.toml", "-o", f"b.{suffix}")[0] == 0
    assert (folder / f"b.{suffix}").stat().st_size > 0


def test_an_existing_release_is_not_overwritten_without_force(gpuanon, folder):
    (folder / "release.parquet").write_text("mine")
    code, _, err = gpuanon(*protect_arguments())
    assert code == 2
    assert "release.parquet" in err
    assert "--force" in err
    assert (folder / "release.parquet").read_text() == "mine"


def break_recipe(folder, old, new):
    (folder / "recipe.toml").write_text(RECIPE.replace(old, new))


FAULTS = {
    "missing input": (lambda f: (f / "registry.parquet").unlink(), "registry.parquet"),
    "truncated input": (
        lambda f: (f / "registry.parquet").write_bytes((f / "registry.parquet").read_bytes()[:-100]),
        "registry.parquet",
    ),
    "missing recipe": (lambda f: (f / "recipe.toml").unlink(), "no such recipe"),
    "unknown column": (lambda f: break_recipe(f, "age  ", "agee "), "agee"),
    "k = 1": (lambda f: break_recipe(f, "k = 5", "k = 1"), "mask.0.k"),
    "n < k": (lambda f: break_recipe(f, "k = 5", "k = 500"), "500"),
    "no quasi-identifier": (lambda f: break_recipe(f, '"quasi"', '"other"'), "quasi"),
    "empty table": (lambda f: pq.write_table(registry(200).slice(0, 0), f / "registry.parquet"), "no rows"),
    "nulls refused": (lambda f: break_recipe(f, '"indicator"', '"refuse"'), "income"),
    "infinite value": (lambda f: write_infinite(f), "income"),
    "short key": (lambda f: (f / "key").write_text("short"), "16 bytes"),
    "unwritable folder": (lambda f: (f / "nowhere").write_text("a file"), "nowhere"),
}


def write_infinite(folder):
    table = registry(200)
    income = table["income"].to_numpy().copy()
    income[0] = np.inf
    pq.write_table(
        table.set_column(table.column_names.index("income"), "income", pa.array(income)), folder / "registry.parquet"
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_exits_with_2_says_what_and_writes_nothing(gpuanon, folder, fault):
    break_it, message = FAULTS[fault]
    break_it(folder)
    before = set(folder.rglob("*"))
    output = "nowhere/release.parquet" if fault == "unwritable folder" else "release.parquet"
    code, out, err = gpuanon("protect", "registry.parquet", "recipe.toml", "-o", output, "--key-file", "key")
    assert (code, out) == (2, ""), err
    assert message in err
    assert "internal error" not in err
    assert set(folder.rglob("*")) == before


def test_a_wrong_suffix_names_those_that_are_right(gpuanon):
    code, _, err = gpuanon("protect", "registry.parquet", "recipe.toml", "-o", "release.xlsx")
    assert code == 2
    assert ".parquet" in err


def test_a_limit_that_is_not_met_exits_with_1_and_writes_nothing(gpuanon, folder):
    (folder / "recipe.toml").write_text(RECIPE + "[limits]\nreidentification = 0.0001\n")
    code, _, err = gpuanon(*protect_arguments())
    assert code == 1, err
    assert "reidentification" in err
    assert not (folder / "release.parquet").exists()


def test_cupy_without_a_device_is_refused_not_replaced(gpuanon, folder):
    code, _, err = gpuanon(*protect_arguments("--backend", "cupy"))
    assert code == 2
    assert "cupy was asked for" in err
    assert not (folder / "release.parquet").exists()


def test_assess_gives_risk_and_utility_as_json_and_as_a_table(gpuanon):
    gpuanon(*protect_arguments("--link", "link.csv"))
    arguments = ("assess", "registry.parquet", "release.parquet", "--recipe", "recipe.toml", "--link", "link.csv")
    code, out, err = gpuanon(*arguments, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["risk"]["k_anonymity"]["value"] >= 5
    assert result["risk"]["reidentification"]["value"] <= 0.2 + 4 / np.sqrt(5 * 200)
    assert result["utility"]["means"]["value"] < 0.1
    code, out, _ = gpuanon(*arguments, "--measures", "k_anonymity,means")
    assert code == 0
    assert "k_anonymity" in out
    assert "reidentification" not in out
    code, out, _ = gpuanon(*arguments, "--measures", "reidentification")
    unmasked = result["risk"]["reidentification"]["unmasked"]
    assert f"unmasked {unmasked:.4g}" in " ".join(out.split())


def test_a_measure_that_cannot_be_computed_says_why(gpuanon):
    gpuanon(*protect_arguments())
    code, out, _ = gpuanon(
        "assess",
        "registry.parquet",
        "release.parquet",
        "--recipe",
        "recipe.toml",
        "--measures",
        "reidentification,k_anonymity",
        "--json",
    )
    result = json.loads(out)
    assert code == 0
    assert "link" in result["risk"]["reidentification"]["not_applicable"]
    assert result["risk"]["reidentification"]["value"] is None
    assert result["risk"]["k_anonymity"]["value"] >= 5


def test_an_unknown_measure_is_a_usage_error(gpuanon):
    gpuanon(*protect_arguments())
    code, _, err = gpuanon(
        "assess", "registry.parquet", "release.parquet", "--recipe", "recipe.toml", "--measures", "k_anonimity"
    )
    assert code == 2
    assert "k_anonimity" in err


def test_check_says_what_a_recipe_would_do(gpuanon):
    code, out, _ = gpuanon("check", "recipe.toml", "registry.parquet")
    assert code == 0
    assert "200 rows" in out
    assert "income: quasi, numeric" in out
    assert "person_id: identifier, not released" in out
    assert "promised: every combination of age, sex, income is shared by at least 5 released records" in out
    assert "expected: about" in out


def test_check_warns_first_and_tells_machines_the_same(gpuanon, folder):
    break_recipe(folder, 'person_id = { role = "identifier" }', 'person_id = { role = "other" }')
    _, out, _ = gpuanon("check", "recipe.toml", "registry.parquet", "--quick")
    assert out.startswith("warning: column 'person_id' is released unmasked")
    found = json.loads(gpuanon("check", "recipe.toml", "registry.parquet", "--json")[1])
    becomes = {column["name"]: column["becomes"] for column in found["columns"]}
    assert (becomes["person_id"], becomes["age"], becomes["cost"]) == ("kept", "masked", "kept")
    assert found["quasi"]["smallest"] == 1
    assert found["kept"]["sets"]["person_id"] == 1
    assert found["estimate"]["seconds"] > 0
    assert found["promises"]


def test_check_of_a_recipe_alone_and_of_a_trial_that_fails(gpuanon, folder):
    assert "5 columns, 1 mask: no fault" in gpuanon("check", "recipe.toml")[1]
    break_recipe(folder, 'method = "microaggregation"', 'method = "rhs"')
    assert "not estimated, a trial" in gpuanon("check", "recipe.toml", "registry.parquet")[1]


COMMANDS = sorted(command.name or command.callback.__name__ for command in cli.app.registered_commands)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_in_its_help(gpuanon, command):
    code, out, _ = gpuanon(command, "--help")
    assert code == 0
    assert f"gpuanon {command}" in out.split("Examples:")[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gpuanon expl", "explain"),
        ("gpuanon explain microag", "microaggregation"),
        ("gpuanon init --for pub", "public-use"),
    ],
)
def test_the_shell_completes_commands_and_names(words, expected):
    program = "import sys; sys.argv = ['gpuanon']; from gpuanon.cli.app import main; main()"
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_GPUANON_COMPLETE": "complete_bash"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | typed, capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == [expected]


def test_explain_prints_source_and_parameters(gpuanon):
    code, out, _ = gpuanon("explain", "microaggregation")
    assert code == 0
    assert "Domingo-Ferrer" in out
    assert "has to be given" in out
    assert gpuanon("explain", "nonsense")[0] == 2


@pytest.mark.parametrize("command", ["methods", "measures"])
def test_the_catalogues_are_lists_of_objects(gpuanon, command):
    code, out, _ = gpuanon(command, "--json")
    entries = json.loads(out)
    assert code == 0
    assert all(set(entry) >= {"name", "summary", "source", "parameters"} for entry in entries)
    assert all(entry["summary"] and entry["source"] for entry in entries)
    assert gpuanon(command)[0] == 0


def test_schema_is_a_json_schema_that_knows_the_methods(gpuanon):
    code, out, _ = gpuanon("schema")
    assert code == 0
    assert "Microaggregation" in json.loads(out)["$defs"]


def test_demo_tells_the_story(gpuanon, folder):
    code, out, err = gpuanon("demo", "--rows", "500", "--out", "story", "--report", "story/report.html")
    assert code == 0, err
    assert (folder / "story" / "report.html").exists()  # in a folder that was not there
    assert "Guarantee, verified on the release" in out
    assert {path.name for path in (folder / "story").iterdir()} >= {
        "registry.parquet",
        "recipe.toml",
        "release.parquet",
        "release.parquet.manifest.json",
    }
    verdict = json.loads((folder / "story" / "release.parquet.manifest.json").read_text())["verdict"]
    assert verdict["state"] == "bad"  # measurements are left unmasked: the story says so
    assert "Should not go out" in out
    assert "columns that no mask touches" in " ".join(out.split())


def test_no_cell_value_and_no_key_reaches_the_streams(gpuanon):
    streams = ""
    for more in ((), ("--force", "--json"), ("--force", "--key-file", "key")):
        _, out, err = gpuanon(*protect_arguments(*more))
        streams += out + err
    assert "a secret key for the tests" not in streams
    assert not any(cell in streams for cell in registry(200)["person_id"].to_pylist())


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "gpuanon.cli.app", *map(str, arguments)],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def handles(process, number):
    """Whether the process has set up its own answer to a signal: it has come as far as its commands."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_no_release(folder, number):
    pq.write_table(registry(60_000), folder / "registry.parquet")
    whole_table = RECIPE + 'groups = "k-member"\nblock = 0\n'  # quadratic: it takes longer than is waited
    (folder / "recipe.toml").write_text(whole_table)
    process = start(folder, *protect_arguments())
    while process.poll() is None and not handles(process, signal.SIGTERM):
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(number)
    process.communicate(timeout=60)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    assert process.returncode == codes[number]
    assert not (folder / "release.parquet").exists()
    assert not (folder / "release.parquet.manifest.json").exists()


@pytest.mark.parametrize("turned", [RuntimeError("by an import"), None])
def test_an_interruption_that_an_import_turns_into_an_error_is_an_interruption(gpuanon, folder, monkeypatch, turned):
    """Python turns what is raised while a class is made into a RuntimeError."""
    monkeypatch.setattr(progress, "_request", None)

    def protect_file(*_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException as request:
            if turned is None:
                raise
            raise turned from request

    monkeypatch.setattr(running, "protect_file", protect_file)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        code, _, err = gpuanon(*protect_arguments())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert code == 130
    assert "interrupted; nothing was written" in err


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("cupy", "cuml", "dask", "sklearn", "pandas", "pyarrow", "scipy.stats", "matplotlib")
    code = f"import sys, gpuanon; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("mask", "unused"),
    [
        ('method = "microaggregation"\nk = 5', ("scipy", "gpuanon.masking.operations.dither")),
        ('method = "distribution-preserving"\nk = 10', ("gpuanon.masking.operations.centroid",)),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_masking_a_small_table_imports_nothing_that_it_does_not_need(tmp_path, mask, unused, kind):
    table = make_registry(300)
    if kind == "csv":
        csv.write_csv(table, tmp_path / "registry.csv")
    else:
        pq.write_table(table, tmp_path / "registry.parquet")
    (tmp_path / "recipe.toml").write_text(registry_recipe().split("[[mask]]")[0] + f"[[mask]]\n{mask}\n")
    heavy = ("pandas", "scipy.stats", "sklearn", "numba", "matplotlib", "dask", "polars", "asyncio", "rich.progress")
    code = f"""if True:
        import sys
        from gpuanon.cli.app import main
        sys.argv = ["gpuanon", "protect", "registry.{kind}", "recipe.toml", "-o", "release.{kind}"]
        try:
            main()
        except SystemExit as end:
            assert not end.code
        print([name for name in {(*heavy, *unused)} if name in sys.modules])
        """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (tmp_path / f"release.{kind}").exists()
    assert answer.stdout.splitlines()[-1] == "[]"


def test_what_is_kept_is_named_beside_the_headline_and_names_are_no_markup_and_no_emoji(gpuanon, folder):
    table = registry(200)
    names = [{"age": "age [/years]", "income": "[red]income :bug:"}.get(name, name) for name in table.column_names]
    pq.write_table(table.rename_columns(names), folder / "registry.parquet")
    text = RECIPE.replace("age  ", '"age [/years]"').replace("income  ", '"[red]income :bug:"')
    text = text.replace('sex       = { role = "quasi" }', 'sex = { role = "quasi", keep = true }')
    (folder / "recipe.toml").write_text(text)
    code, out, err = gpuanon("protect", "registry.parquet", "recipe.toml", "-o", "release [red].parquet")
    assert code == 0, err
    assert "smallest class over all of age [/years], sex, [red]income :bug:" in " ".join(out.split())
    assert "released as they are: sex" in out
    assert "release [red].parquet" in out


def test_output_that_cannot_be_printed_is_no_internal_error(gpuanon, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("builtins.print", full)
    code, _, err = gpuanon("schema")
    assert code == 2
    assert err == "error: No space left on device; nothing was written\n"


def test_a_folder_that_cannot_be_made_is_no_internal_error(gpuanon, folder):
    (folder / "file").write_text("")
    code, _, err = gpuanon("demo", "--rows", 100, "--out", folder / "file" / "demo")
    assert code == 2
    assert "demo: cannot be written (Not a directory)" in err


@pytest.mark.parametrize("way", ["processes", "cluster"])
def test_an_interrupt_of_the_terminal_reaches_the_command_and_not_its_processes(folder, way):
    (folder / "other.toml").write_text(RECIPE.replace("k = 5", "k = [3, 4]"))
    pq.write_table(registry(3000), folder / "registry.parquet")
    commands = {
        "processes": ["compare", "registry.parquet", "other.toml", "--workers", "2", "--measures", "suda2,pmse_cart"],
        "cluster": [
            "protect",
            "registry.parquet",
            "recipe.toml",
            "-o",
            "o.parquet",
            "--workers",
            "2",
            "--cell",
            "1000",
        ],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuanon.cli.app", *commands[way]], cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    ends = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < ends:  # until processes of its own are at work
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        if sum(len(task.read_text().split()) for task in tasks) >= 2:  # one of them counts what the others share
            break
        time.sleep(0.02)
    time.sleep(0.3)  # they import what they need
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error: interrupted; nothing was written" in err
    assert "Traceback" not in err


def test_another_process_of_the_doctor_ends_with_an_interrupt(monkeypatch):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, command, **options):
            started.append(self)
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], **options)

        def wait(self, timeout=None):
            if self.returncode is None and not stopped:
                stopped.append(True)
                raise cli.Interrupted
            return super().wait(timeout)

    stopped = []
    monkeypatch.setattr(subprocess, "Popen", Popen)
    with pytest.raises(cli.Interrupted), doctor._other_process():
        pass
    assert started[0].returncode == -signal.SIGKILL


def test_files_that_went_with_their_workspace_are_not_said_to_be_written(gpuanon, folder, monkeypatch):
    def stopped(*_, **__):
        cli.PLACED.append(folder / "gone")
        raise cli.Interrupted

    monkeypatch.setattr(running, "protect_file", stopped)
    code, _, err = gpuanon("protect", "registry.parquet", "recipe.toml", "-o", "release.parquet")
    assert code == 130
    assert err == "error: interrupted; nothing was written\n"


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("init", "formats"),
        ("protect", "formats"),
        *((name, "report") for name in ("protect", "assess", "compare", "demo")),
    ],
)
def test_the_help_names_the_extra_that_is_needed(gpuanon, command, extra):
    code, out, _ = gpuanon(command, "--help")
    assert code == 0
    assert f"gpuanon[{extra}]" in out


@pytest.mark.parametrize("command", ["protect", "methods"])
def test_the_help_of_a_command_is_the_same_whether_others_are_built_or_not(monkeypatch, capsys, command):
    texts = []
    for only in (cli._only, lambda names: cli.app):
        monkeypatch.setattr(cli, "_only", only)
        monkeypatch.setattr(sys, "argv", ["gpuanon", command, "--help"])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert f"gpuanon {command}" in texts[0]


def test_of_a_called_command_no_other_is_built():
    assert [command.callback.__name__ for command in cli._only(["protect"]).registered_commands] == ["protect"]
    assert cli._only([]) is cli._only(["protekt"]) is cli._only(["--help"]) is cli.app
    assert len(cli.app.registered_commands) > 10
