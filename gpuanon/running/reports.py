"""What a report is made of; `gpuanon.faces.report` makes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import choose
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.pictures import LEAST, Pictures, pictures
from gpuanon.assessing.streams import Pieces, Streamed
from gpuanon.running.outputs import Guard
from gpuanon.tables.files import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    from gpuanon.running.assess import Assessment
    from gpuanon.running.compare import Trials

MEASURED = (
    "k_anonymity", "uniqueness", "l_diversity", "reidentification", "prediction_distance", "reference_standard",
    "information_loss", "means", "variances", "correlations", "ks", "histogram_intersection",
)  # fmt: skip
"""What the report of `protect` measures beside the recipe's limits; `assess` measures everything."""


@dataclass(frozen=True)
class Contents:
    """What a report tells: of a release its manifest, of an assessment its figures and pictures, or trials."""

    title: str
    manifest: Mapping[str, Any] | None = None
    assessment: Assessment | None = None
    pictures: Pictures | None = None
    trials: Trials | None = None
    notes: tuple[str, ...] = ()


def page_of(contents: Contents) -> str:
    """The report as one HTML page."""
    from gpuanon import report_html

    return report_html(contents)


def write_report(contents: Contents, path: Path, *, force: bool = False) -> None:
    """Write the report, whole or not at all; with `force` over an earlier report, and nothing else."""
    with io.Writing(force=force, guard=Guard()) as out:
        out.text(path, page_of(contents))


def least_of(manifest: Mapping[str, Any] | None) -> int:
    """How many original records or persons everything that is shown has to hold."""
    known = [] if manifest is None else [found.get("k") for found in (*manifest["guarantee"], *manifest["mask"])]
    return max([LEAST, *(k for k in known if isinstance(k, int))])


def assessed(assessment: Assessment, title: str = "Assessment of a release") -> Contents:
    """The report of an assessment, with pictures where the tables are still at hand."""
    seen, found = assessment.seen, None
    if isinstance(seen, (Comparison, Streamed)):
        least = max(assessment.least, least_of(assessment.manifest))
        with progress.stage("report"):
            found = pictures(seen.sample if isinstance(seen, Streamed) else seen, least)
    return Contents(title, assessment.manifest, assessment, found)


def compared(trials: Trials) -> Contents:
    """The report of a comparison."""
    return Contents("Comparison of releases", trials=trials, notes=trials.notes)


def reporter(
    original: Pieces, release: Pieces, schema: Schema, link: np.ndarray[Any, Any], reference: Table | None = None
) -> Callable[[Mapping[str, Any]], str]:
    """From the manifest of a release to the page that shows it, measured against its original."""
    from dataclasses import replace

    from gpuanon.running.assess import measure

    def page(manifest: Mapping[str, Any]) -> str:
        names = tuple(dict.fromkeys((*manifest["limits"], *MEASURED)))
        backend = choose(manifest["backend"])
        found = measure(
            original,
            release,
            schema,
            names,
            link=link,
            reference=reference,
            backend=backend,
            options=manifest.get("measures"),
        )
        return page_of(assessed(replace(found, manifest=manifest), "Release"))

    return page
