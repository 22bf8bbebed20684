"""The page of what the sources describe names only what exists, and every method, measure and part; pages of studies
say of when their tables are."""

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


def test_every_page_of_a_study_says_of_which_commit_its_tables_are() -> None:
    pages = [page for page in (ROOT / "bench" / "studies").glob("*.md") if page.name != "acs.md"]
    assert pages
    for page in pages:
        line = next((line for line in page.read_text().splitlines() if line.startswith("Tables: ")), "")
        assert re.search(r"commit [0-9a-f]{7}\b.*\b20\d\d", line), page.name
