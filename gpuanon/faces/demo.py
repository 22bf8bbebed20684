"""The demonstration: make a registry, mask it, show a steward what matters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from gpuanon.faces.progress_bar import shown
from gpuanon.recipe import Recipe
from gpuanon.running.assess import assess
from gpuanon.running.files import read_link
from gpuanon.running.protect import protect_file
from gpuanon.tables.files import io
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


def run(rows: int, folder: Path, out: Console, err: Console) -> None:
    """Make a registry of `rows` people in `folder`, mask it twice over, and print and write the story."""
    folder.mkdir(parents=True, exist_ok=True)
    registry, recipe, release, link = (
        folder / name for name in ("registry.parquet", "recipe.toml", "release.parquet", "link.csv")
    )
    with shown(err, quiet=False):
        with io.Writing(force=True) as made:
            made.table(registry, Table.of(make_registry(rows)))
            made.text(recipe, registry_recipe())
        result = protect_file(registry, recipe, release, link=link, force=True)
        original, loaded = io.read(registry), Recipe.load(recipe)
        itself = np.arange(original.n_rows)
        before = assess(original, original, loaded, link=itself, measures=tuple(SHOWN)).to_json()
        after = assess(original, io.read(release), loaded, link=read_link(link), measures=tuple(SHOWN)).to_json()
    with io.Writing(force=True) as written:
        written.text(folder / "assessment.json", json.dumps({"unmasked": before, "release": after}, indent=2))
    _tell(rows, folder, result, before, after, out)


def _tell(
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
    out.print(f"\nRelease:  {folder / 'release.parquet'}, with its manifest beside it", highlight=False)
    out.print(
        f"Private:  {folder / 'link.csv'} leads back to the people; it was written for this demonstration only",
        highlight=False,
    )
    out.print("Next:     gpuanon protect YOUR.parquet recipe.toml -o release.parquet", highlight=False)


def _figure(figures: dict[str, Any]) -> str:
    return f"{figures['value']:.4g}" if "value" in figures else "–"
