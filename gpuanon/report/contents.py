"""What a report is made of; `gpuanon.report` makes the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon import __version__
from gpuanon.arrays import progress
from gpuanon.arrays.backend import choose
from gpuanon.assessing.bins import LEAST
from gpuanon.assessing.column_pictures import Picture, Pictures, pictures
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.densities import Components, Contours
from gpuanon.assessing.figures import Counts, Distribution, Measured, Part, strict
from gpuanon.assessing.streams import Pieces, Streamed
from gpuanon.engine.outputs import Guard, figures_path
from gpuanon.errors import GpuanonError
from gpuanon.tables.formats import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    from gpuanon.comparing.compare import Trials
    from gpuanon.engine.assessing import Assessment

MEASURED = (
    "k_anonymity", "uniqueness", "l_diversity", "reidentification", "prediction_distance", "reference_standard",
    "information_loss", "means", "variances", "correlations", "ks", "histogram_intersection", "records_changed",
    "pmse_logit",
)  # fmt: skip
"""What the report of `protect` measures beside the recipe's limits; `assess` measures everything."""

KIND = "report of gpuanon"


@dataclass(frozen=True)
class Contents:
    """What a report tells: of a release its manifest, of an assessment its figures and pictures, or trials."""

    title: str
    manifest: Mapping[str, Any] | None = None
    assessment: Assessment | None = None
    pictures: Pictures | None = None
    trials: Trials | None = None
    notes: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """How many original records or persons everything that is shown has to hold."""
        known = LEAST if self.assessment is None else self.assessment.least
        return max(known, least_of(self.manifest))

    def to_json(self) -> dict[str, Any]:
        """The figures of the page: strict JSON."""
        found: dict[str, Any] = {"kind": KIND, "gpuanon": __version__, "title": self.title}
        if self.manifest is not None:
            found["manifest"] = strict(self.manifest)
        if self.assessment is not None:
            found |= shareable(self.assessment, self.least).to_json()
        if self.pictures is not None:
            drawn = self.pictures
            found["columns"] = {name: [_numbers(one) for one in those] for name, those in drawn.columns.items()}
            found["together"] = [_numbers(one) for one in drawn.pairs if not isinstance(one, (Contours, Components))]
            found["least"] = {"count": drawn.least, "unit": drawn.unit}
        if self.trials is not None:
            shown = self.trials.to_json()
            for trial in shown["trials"]:
                del trial["details"]  # ends of distributions are single records
            found |= shown
        return found


def shareable(assessment: Assessment, least: int) -> Assessment:
    """The same figures without what belongs to fewer than `least` people: ends of distributions, small bins."""
    return replace(assessment, measured={name: _of_many(one, least) for name, one in assessment.measured.items()})


def _of_many(measured: Measured, least: int) -> Measured:
    return replace(measured, parts=tuple(_part_of_many(part, least) for part in measured.parts))


def _part_of_many(part: Part, least: int) -> Part:
    if isinstance(part, Counts):
        return part.coarse(least)
    if not isinstance(part, Distribution):
        return part
    levels = {name: 50 if name == "median" else int(name[1:]) for name in part.quantiles if name not in ("min", "max")}
    kept = {n: part.quantiles[n] for n, at in levels.items() if min(at, 100 - at) * part.count >= 100 * least}
    return replace(part, quantiles=kept)


def _numbers(picture: Picture) -> Any:
    """The numbers of a picture."""
    return {"figure": type(picture).__name__.lower(), **strict_mapping(asdict(picture))}


def strict_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """As strict JSON."""
    return {name: strict(value) for name, value in values.items()}


def page_of(contents: Contents) -> str:
    """The report as one HTML page."""
    from gpuanon import report_html

    return report_html(contents)


def put_report(out: io.Writing, path: Path, contents: Contents) -> None:
    """Write the page and, beside it, its figures."""
    out.text(path, page_of(contents))
    out.text(figures_path(path), json.dumps(contents.to_json(), ensure_ascii=False, allow_nan=False, indent=1) + "\n")


def write_report(contents: Contents, path: Path, *, force: bool = False) -> None:
    """Write the report, whole or not at all; with `force` over an earlier report, and nothing else."""
    with io.Writing(force=force, guard=Guard()) as out:
        put_report(out, path, contents)


def shown_in_notebook(contents: Contents) -> str | None:
    """The page in a frame of its own, whose styles and scripts do not meet the notebook's; None where none is made."""
    from html import escape

    try:
        page = page_of(contents)
    except GpuanonError:
        return None  # the packages of reports are not installed: the notebook shows the plain text
    return f'<iframe srcdoc="{escape(page, quote=True)}" title="{escape(contents.title)}" {_FRAME}></iframe>'


_FRAME = 'sandbox="allow-scripts allow-downloads" style="width:100%;height:40rem;border:1px solid #ccc"'


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
) -> Callable[[Mapping[str, Any]], Contents]:
    """From the manifest of a release to the report of it, measured against its original."""
    from gpuanon.engine.assessing import measure

    def contents(manifest: Mapping[str, Any]) -> Contents:
        names = tuple(dict.fromkeys((*manifest["limits"], *manifest.get("measures", {}), *MEASURED)))
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
        return assessed(replace(found, manifest=manifest), "Release")

    return contents
