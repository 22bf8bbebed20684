"""The page of what the sources describe names only what exists, and every method, measure and part."""

from __future__ import annotations

import re
from pathlib import Path

import gpuanon
from gpuanon.masking.bases import BASES
from gpuanon.masking.groups import GROUPS
from gpuanon.masking.operations import OPERATIONS

ROOT = Path(__file__).resolve().parents[1]
ROWS = [line.split("|") for line in (ROOT / "bench" / "COVERAGE.md").read_text().splitlines() if line.startswith("| ")]
NAMED = [name for row in ROWS[1:] for name in re.findall(r"`([^`]+)`", row[3])]


def known_names() -> set[str]:
    return {*GROUPS, *BASES, *OPERATIONS} | {entry["name"] for entry in [*gpuanon.methods(), *gpuanon.measures()]}


def test_every_name_and_file_of_the_page_exists() -> None:
    known = known_names() | {"diversity", "closeness"}
    for name in NAMED:
        command = name.startswith("gpuanon ")
        assert name in known or command or (ROOT / name).exists(), name


def test_every_method_measure_and_part_is_on_the_page() -> None:
    assert known_names() - set(NAMED) == set()
