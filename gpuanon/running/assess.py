"""Assess a release: every measure that applies, each failing alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.measures import MEASURES, by_name
from gpuanon.errors import GpuanonError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

DEPENDENT = (
    "a release is made from its original: the two are dependent samples, so distances between them are distances, "
    "and a p-value for two independent samples would not be valid"
)


@dataclass(frozen=True)
class Assessment:
    """Measured figures by name; a measure that could not be computed has its reason in `failed`."""

    measured: Mapping[str, Measured]
    failed: Mapping[str, str]
    notes: tuple[str, ...] = field(default=(DEPENDENT,))

    def to_json(self) -> dict[str, Any]:
        """The object of ``assess --json``."""
        families: dict[str, dict[str, Any]] = {"risk": {}, "utility": {}}
        for measure in MEASURES:
            if measure.name in self.measured:
                families[measure.family][measure.name] = self.measured[measure.name].to_json()
            elif measure.name in self.failed:
                families[measure.family][measure.name] = {"error": self.failed[measure.name]}
        return {**families, "notes": list(self.notes)}


def assess(
    original: Any,
    release: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    reference: Any = None,
    link: Any = None,
    measures: tuple[str, ...] | list[str] | None = None,
) -> Assessment:
    """Measure the risk and the utility of a release.

    Parameters
    ----------
    original, release : dataframes, or `Table`
    recipe : says what each column is
    reference : a second, non-overlapping sample of the same population
    link : for each released row the row number of its original, −1 for an added row
    measures : names; None for all of them
    """
    original, release = _table(original), _table(release)
    schema = Schema.resolve(original, Recipe.load(recipe).columns)
    rows = None if link is None else np.asarray(link, dtype=np.int64)
    comparison = Comparison(original, release, schema, rows, None if reference is None else _table(reference))
    return compute(comparison, tuple(by_name()) if measures is None else tuple(measures))


def compute(comparison: Comparison, names: tuple[str, ...]) -> Assessment:
    """Compute the named measures; one that fails does not sink the others."""
    known = by_name()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ParameterError(
            f"measures: there is no {', '.join(map(repr, unknown))}", hint="'gpuanon measures' lists them"
        )
    measured: dict[str, Measured] = {}
    failed: dict[str, str] = {}
    with progress.stage("assess"):
        for number, name in enumerate(names):
            try:
                figure = known[name].compute(comparison)
            except GpuanonError as error:
                failed[name] = str(error)
            else:
                if isnan(figure.value):
                    failed[name] = figure.note or "is not defined for this release"
                else:
                    measured[name] = figure
            progress.report(0.99 * (number + 1) / len(names))
    return Assessment(measured, failed)


def _table(data: Any) -> Table:
    return data if isinstance(data, Table) else Table.of(data)
