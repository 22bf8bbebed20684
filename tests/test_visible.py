"""What others wrote into names reaches no terminal, page or file as something to be obeyed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.visible import json_text, visible

EVIL = {
    "age": "age\x1b]0;owned\x07\x1b[2J",
    "sex": "sex\u202ereversed",
    "cost": "cost\x9b31m\u2066",
    "region": 'region\nothers = "keep"\r',
}
LEVEL = "north\x1b[5m\u202e"
ALLOWED = "\n\t"


def obeyed(text: str) -> list[str]:
    """Characters that a terminal obeys or does not show: by Unicode's own categories, not by our table."""
    return sorted({one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {*ALLOWED})


def test_every_hidden_character_is_escaped_and_comes_back():
    for number in range(0x110000):
        one = chr(number)
        shown = visible(one)
        joiner = one in "\u200c\u200d"  # which letters and emoji need
        visible_format = unicodedata.category(one) == "Cf" and unicodedata.name(one, "").startswith(
            ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN", "SHORTHAND", "MUSICAL")
        )
        if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one not in ALLOWED and not joiner:
            assert visible_format or obeyed(shown) == [], hex(number)
        assert json.loads(json_text([one])) == [one]
        if shown != one and unicodedata.category(one) != "Cs":
            assert tomllib.loads(f'x = "{shown}"')["x"] == one
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("Zürich · 東京 · سلام · 👩‍🔬") == "Zürich · 東京 · سلام · 👩‍🔬"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    table = {
        EVIL["age"]: rng.integers(20, 80, 300),
        EVIL["sex"]: rng.choice(["f", "m"], 300),
        EVIL["cost"]: rng.lognormal(8, 1, 300).round(2),
        EVIL["region"]: rng.choice([LEVEL, "south"], 300),
    }
    pq.write_table(pa.table(table), "table\u202e\x1b[2J.parquet")
    roles = {"age": "quasi", "sex": "quasi", "cost": "sensitive", "region": "other"}
    columns = "\n".join(f"{json_text(EVIL[name])} = {{ role = {role!r} }}" for name, role in roles.items())
    Path("recipe\x1b[1m.toml").write_text(f'[columns]\n{columns}\n[[mask]]\nmethod = "microaggregation"\nk = 5\n')
    return tmp_path


TABLE, RECIPE = "table\u202e\x1b[2J.parquet", "recipe\x1b[1m.toml"
COMMANDS = {
    "check": ["check", TABLE, RECIPE],
    "protect": ["protect", TABLE, RECIPE, "-o", "rel\u202e.csv", "--report", "report.html"],
    "assess": ["assess", TABLE, TABLE, "--recipe", RECIPE, "--measures", "k_anonymity,ks,means,singled_out"],
    "init": ["init", TABLE],
    "init_file": ["init", TABLE, "-o", "proposed.toml", "--yes"],
    "compare": ["compare", TABLE, RECIPE, "--measures", "k_anonymity,ks", "--workers", "0", "--best", "b.toml"],
    "missing": ["protect", "no\x1b[2J.parquet", RECIPE, "-o", "x.csv"],
    "unknown column": ["check", "recipe\x1b[1m.toml", "other.parquet"],
}


def commanded(monkeypatch, capfd, *arguments: str) -> str:
    from gpuanon.cli import app as cli

    monkeypatch.setattr(sys, "argv", ["gpuanon", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    return "".join(capfd.readouterr())


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys(folder, monkeypatch, capfd, name, json_):
    pq.write_table(pa.table({"other\x1b[2J": [1, 2, 3]}), "other.parquet")
    if json_ and name.startswith("init"):
        pytest.skip("a proposal is TOML")
    text = commanded(monkeypatch, capfd, *COMMANDS[name], *(["--json"] if json_ else []))
    assert "internal error" not in text
    assert len(text) > 20
    assert obeyed(text) == []
    for path in folder.iterdir():
        if path.suffix in (".json", ".html", ".toml") and path.name != RECIPE:
            assert obeyed(path.read_text()) == [], path.name


def test_a_proposal_with_such_names_is_the_recipe_of_its_table(folder, monkeypatch, capfd):
    commanded(monkeypatch, capfd, *COMMANDS["init_file"])
    text = Path("proposed.toml").read_text()
    assert set(tomllib.loads(text)["columns"]) == set(EVIL.values())
    assert tomllib.loads(text)["others"] == "refuse"


def test_a_terminal_gets_colours_of_ours_only(folder):
    """On a terminal rich writes escapes of its own; those of names are not among them."""
    script = "import sys; from gpuanon.cli.app import main; main()"
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", script, *COMMANDS["check"]], capture_output=True, text=True, env=environment, check=False
    )
    shown = done.stdout + done.stderr
    assert "\\u001b[2J" in shown
    for bad in ("\x1b[2J", "\x1b]0;", "\x07", "\x9b", "\u202e", "\u2066", "\r"):
        assert bad not in shown


def test_errors_and_reprs_in_python_too(folder):
    with pytest.raises(gpuanon.GpuanonError) as caught:
        gpuanon.protect(pq.read_table(TABLE), {"columns": {"x": {"role": "quasi"}}, "mask": [{"method": "suppress"}]})
    assert obeyed(str(caught.value)) == []
    assert obeyed(repr(gpuanon.propose(pq.read_table(TABLE)))) == []
