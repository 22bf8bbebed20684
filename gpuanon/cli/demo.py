"""The demonstration: make a registry, mask it, show a steward what matters."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from gpuanon.cli.printing import shown, verdict_lines
from gpuanon.engine.assess import assess
from gpuanon.engine.identity import digest_of, read_link
from gpuanon.engine.outputs import check_report, manifest_path, read_manifest
from gpuanon.engine.protect import protect_file
from gpuanon.errors import OutputError
from gpuanon.recipe import Recipe
from gpuanon.report import require
from gpuanon.tables.formats import io
from gpuanon.tables.formats.writing import translate_os_errors
from gpuanon.tables.registry import make_registry, registry_recipe
from gpuanon.tables.table import Table

SHOWN = {
    "k_anonymity": "smallest class of records equal on the quasi-identifiers",
    "uniqueness": "share of records that are alone in their class",
    "reidentification": "share of people that a nearest-record attack finds",
    "information_loss": "per cent of the quasi-identifiers' variance lost",
    "means": "median shift of a column's mean, in standard deviations",
    "correlations": "median change of a correlation",
}


MADE = ".gpuanon-demo.json"
"""Digests of what a demonstration wrote into its folder, so that nothing else is replaced."""


def run(
    rows: int, folder: Path, out: Console, err: Console, *, report: Path | None = None, force: bool = False
) -> None:
    """Make a registry of `rows` people in `folder`, mask it, and print and write the story.

    report : HTML page to write, or None
    force  : replace the files of an earlier demonstration; files that are not its own are never replaced
    """
    registry, recipe, release, link, assessment = files = [
        folder / name for name in ("registry.parquet", "recipe.toml", "release.parquet", "link.csv", "assessment.json")
    ]
    files.append(manifest_path(release))
    _check_folder(folder, files, force)
    with translate_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if report is not None:
        require()
        check_report(report, files, force=force)
    with shown(err, quiet=False):
        with io.Writing(force=force) as made:
            made.table(registry, Table.of(make_registry(rows)))
            made.text(recipe, registry_recipe())
        result = protect_file(registry, recipe, release, link=link, force=force)
        original, loaded = io.read(registry), Recipe.load(recipe)
        itself = np.arange(original.n_rows)
        before = assess(original, original, loaded, link=itself, measures=tuple(SHOWN)).to_json()
        found = assess(original, io.read(release), loaded, link=read_link(link), measures=tuple(SHOWN))
        if report is not None:
            replace(found, manifest=read_manifest(manifest_path(release))).report(report, force=force)
    after = found.to_json()
    with io.Writing(force=force) as written:
        written.text(assessment, json.dumps({"unmasked": before, "release": after}, indent=2))
    with io.Writing(force=True) as mark:
        mark.text(folder / MADE, json.dumps({file.name: digest_of(file) for file in files}))
    _print_story(rows, folder, result, before, after, out)
    if report is not None:
        out.print(f"Report:   {report}, to be opened in a browser", highlight=False)


_LESSON = (
    "\nThe promise was kept, and people can still be found: by columns that no mask touches. Mask them too"
    ' (columns = "all"), drop them, or accept the point with a reason. `gpuanon init` proposes a recipe that leaves no'
    " column unmasked."
)


def _check_folder(folder: Path, files: list[Path], force: bool) -> None:
    """Refuse a folder in which the demonstration would replace a file that it did not write, or that was changed."""
    try:
        made = json.loads((folder / MADE).read_text())
    except (OSError, ValueError):
        made = {}
    for file in files:
        if not os.path.lexists(file):
            continue
        if not force:
            raise OutputError(
                f"{file}: exists already", hint="--force replaces an earlier demonstration, --out moves it"
            )
        if not isinstance(made, dict) or file.is_symlink() or digest_of(file) != made.get(file.name, ""):
            raise OutputError(
                f"{file}: is not as a demonstration wrote it, and is not replaced", hint="--out names another folder"
            )


def _print_story(
    rows: int, folder: Path, result: dict[str, Any], before: dict[str, Any], after: dict[str, Any], out: Console
) -> None:
    """The story on the terminal."""
    out.print(f"A made-up registry of {rows:,} people: {folder / 'registry.parquet'}")
    out.print(f"was masked as {folder / 'recipe.toml'} says, in {result['seconds']:.1f} s on {result['backend']}.\n")
    for guarantee in result["guarantee"]:
        out.print(f"Guarantee, verified on the release: {guarantee['statement']}.\n")
    table = RichTable(show_edge=False)
    table.add_column("measure")
    table.add_column("unmasked", justify="right")
    table.add_column("release", justify="right")
    table.add_column("what it is")
    for name, meaning in SHOWN.items():
        family = "risk" if name in after["risk"] else "utility"
        table.add_row(name, _figure(before[family][name]), _figure(after[family][name]), meaning)
    out.print(table, highlight=False)
    out.print("\nVerdict:", highlight=False)
    for text, _ in verdict_lines(result["verdict"]):
        out.print(f"  {text}", markup=False, highlight=False)
    if result["verdict"]["state"] == "bad":
        out.print(_LESSON, markup=False, highlight=False)
    out.print(f"\nRelease:  {folder / 'release.parquet'}, with its manifest beside it", highlight=False)
    out.print(
        f"Private:  {folder / 'link.csv'} identifies the people; it was written for this demonstration only",
        highlight=False,
    )
    out.print("Next:     gpuanon init YOUR.parquet", highlight=False)


def _figure(figures: dict[str, Any]) -> str:
    from gpuanon.assessing.figures import figure_text

    return figure_text(figures.get("value"))
