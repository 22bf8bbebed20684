"""Compare recipes on the table in a file: what the command line does, without the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName
from gpuanon.arrays.rng import Key
from gpuanon.comparing.compare import USUAL_MEASURES, Trials, compare
from gpuanon.comparing.grid import grid
from gpuanon.comparing.journal import Journal
from gpuanon.engine.inputs import read_table
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io


@dataclass(frozen=True)
class Choosing:
    """How the command line compares: see `gpuanon.comparing.compare.compare`.

    journal : file of finished trials; None for none
    resume  : take finished trials from it
    force   : replace the journal of an interrupted comparison
    """

    choose_by: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    suggest: bool = False
    workers: int | None = None
    journal: Path | None = None
    resume: bool = False
    force: bool = False


def compare_files(
    source: Path,
    recipes: list[Path],
    *,
    names: tuple[str, ...] | None = None,
    reference: Path | None = None,
    backend: BackendName = "auto",
    key_file: Path | None = None,
    how: Choosing | None = None,
) -> Trials:
    """Mask and measure the table in a file by several recipes."""
    how = how or Choosing()
    points = [] if how.suggest else [Recipe.load(point.data) for recipe in recipes for point in grid(recipe)]
    with progress.stage("read"):
        table = read_table(source, points[0]) if points else io.read(source)
        sample = None if reference is None else read_table(reference, points[0]) if points else io.read(reference)
    known = key_file is not None or "GPUANON_KEY" in os.environ
    journal = None if how.journal is None else Journal(how.journal, resume=how.resume, force=how.force)
    return compare(
        table, recipes, measures=names or USUAL_MEASURES, rng=Key.find(key_file) if known else None, backend=backend,
        reference=sample, choose_by=how.choose_by, limits=how.limits, suggest=how.suggest, workers=how.workers,
        journal=journal,
    )  # fmt: skip
