"""Containers and job files: what they copy exists, and what they run is what the command line has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from gpuanon.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
FILES = sorted(path for path in DOCKER.rglob("*") if path.is_file() and path.suffix != ".md")


def commands(text):
    """Every `gpuanon …` command of a file, as (command, options); comments are not looked at."""
    text = re.sub(r"\\\n\s*", " ", text)
    for line in text.splitlines():
        if line.lstrip().startswith(("#", "//", "RUN", "COPY")):
            continue
        for found in re.finditer(r"(?<![\w/.])gpuanon\"?,? \"?([a-z]+)([^|>;)]*)", line):
            yield found[1], re.findall(r"(?<![\w-])--[a-z][a-z-]*", found[2])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_and_option_exists(path):
    known = get_command(app).commands
    for name, options in commands(path.read_text()):
        assert name in known, (path.name, name)
        have = {flag for parameter in known[name].params for flag in parameter.opts}
        assert set(options) <= have, (path.name, name, set(options) - have)


def test_commands_are_found_at_all():
    found = [name for path in FILES for name, _ in commands(path.read_text())]
    assert {"protect", "assess", "doctor"} <= set(found)
    assert len(found) >= 8


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_images_copy_what_exists_pin_their_base_and_are_not_root(name):
    lines = (DOCKER / name).read_text().splitlines()
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            for source in shlex.split(line)[1:-1]:
                assert (ROOT / source).exists(), source
        if line.startswith("FROM"):
            assert re.search(r":\S*\d+\.\d+", line), line
    kinds = [line.split()[0] for line in lines if line and line[0].isupper()]
    assert kinds.index("USER") > max(at for at, kind in enumerate(kinds) if kind == "FROM")
    assert "HEALTHCHECK" in kinds


def test_extras_that_are_installed_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in FILES:
        for wanted in re.findall(r"'(?:\.|/src)\[([a-z0-9,]+)\]'", path.read_text()):
            assert set(wanted.split(",")) <= set(extras), path.name


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".sbatch"], ids=lambda path: path.name)
def test_job_files_are_shell(path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash to read them")
    assert subprocess.run([bash, "-n", str(path)], capture_output=True).returncode == 0
    assert "set -euo pipefail" in path.read_text()
