"""What a report is made of; `gpuanon.report.page` makes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Host, choose
from gpuanon.assessing.bins import LEAST
from gpuanon.assessing.column_pictures import Picture, Pictures, pictures
from gpuanon.assessing.densities import Components, Contours
from gpuanon.assessing.figures import Counts, Distribution, Measured, Part, strict
from gpuanon.assessing.run import Measurements, measure
from gpuanon.assessing.streams import Pieces, Streamed
from gpuanon.report import KIND, Paper
from gpuanon.report.columns import ColumnRow, Unmasked, column_rows, left_unmasked
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.version import __version__

MEASURED = (
    "k_anonymity", "uniqueness", "l_diversity", "reidentification", "prediction_distance", "reference_standard",
    "information_loss", "means", "variances", "correlations", "ks", "histogram_intersection", "records_changed",
    "pmse_logit",
)  # fmt: skip
"""What the report of `protect` measures beside the recipe's limits; `assess` measures everything."""


class TrialData(Protocol):
    """What the page shows of one release of a comparison."""

    @property
    def name(self) -> str: ...
    @property
    def measured(self) -> Mapping[str, float]: ...


class TrialsData(Protocol):
    """What the page shows of a comparison: see `gpuanon.compare`."""

    @property
    def trials(self) -> Sequence[TrialData]: ...
    @property
    def best(self) -> TrialData | None: ...
    @property
    def front(self) -> Sequence[int]: ...
    @property
    def decides(self) -> str | None: ...
    @property
    def against(self) -> str | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Contents:
    """What a report tells: of a release its manifest, of an assessment its figures and pictures, or trials.

    known_least : how many original records or persons everything that is shown has to hold by the recipe
    unmasked    : the columns that no mask changed, where that is known
    papers      : the files that were read.  Whoever knows all of an original but a cell can try values until its digest
                  agrees: the page, which the steward signs and keeps, has the digest, and nothing that travels with a
                  release has it, neither the manifest nor the figures (JSON)
    """

    title: str
    manifest: Mapping[str, Any] | None = None
    figures: Measurements | None = None
    pictures: Pictures | None = None
    trials: TrialsData | None = None
    notes: tuple[str, ...] = ()
    known_least: int = LEAST
    unmasked: Unmasked | None = None
    papers: tuple[Paper, ...] = ()

    @property
    def columns(self) -> list[ColumnRow]:
        """What became of every column, the worst first."""
        return column_rows(self.manifest, self.pictures, self.figures, self.unmasked)

    @property
    def least(self) -> int:
        """How many original records or persons everything that is shown has to hold."""
        return max(self.known_least, least_of(self.manifest))

    def to_json(self) -> dict[str, Any]:
        """The figures of the page: strict JSON."""
        found: dict[str, Any] = {"kind": KIND, "gpuanon": __version__, "title": self.title}
        if self.manifest is not None:
            found["manifest"] = strict(self.manifest)
        if self.figures is not None:
            found |= shareable(self.figures, self.least).to_json()
        if rows := self.columns:
            found["by_column"] = {row.name: row.to_json() for row in rows}
        if self.unmasked is not None:
            left = self.unmasked
            found["unmasked"] = {"columns": list(left.names), "of": left.released, "alone_on_three": left.alone}
        if self.pictures is not None:
            drawn = self.pictures
            found["columns"] = {name: [_numbers(one) for one in those] for name, those in drawn.columns.items()}
            found["together"] = [_numbers(one) for one in drawn.pairs if not isinstance(one, Components)]
            found["least"] = {"count": drawn.least, "unit": drawn.unit}
        if self.trials is not None:
            shown = self.trials.to_json()
            for trial in shown["trials"]:
                del trial["details"]  # ends of distributions are single records
            found |= shown
        return found


def shareable(figures: Measurements, least: int) -> Measurements:
    """The same figures without what belongs to fewer than `least` people: ends of distributions, small bins."""
    return replace(figures, measured={name: _of_many(one, least) for name, one in figures.measured.items()})


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
    """The numbers of a picture: what is drawn, and nothing finer."""
    if isinstance(picture, Contours):
        return {"figure": "contours", "columns": list(picture.columns), "dates": list(picture.dates), **picture.lines()}
    return {"figure": type(picture).__name__.lower(), **strict_mapping(asdict(picture))}


def strict_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """As strict JSON."""
    return {name: strict(value) for name, value in values.items()}


def least_of(manifest: Mapping[str, Any] | None) -> int:
    """How many original records or persons everything that is shown has to hold."""
    known = [] if manifest is None else [found.get("k") for found in (*manifest["guarantee"], *manifest["mask"])]
    return max([LEAST, *(k for k in known if isinstance(k, int))])


def assessed(
    figures: Measurements,
    manifest: Mapping[str, Any] | None = None,
    least: int = LEAST,
    title: str = "Assessment of a release",
    papers: Sequence[Paper] = (),
) -> Contents:
    """The report of measured figures, with pictures where the tables are still at hand.

    least : how many original records or persons everything that is shown has to hold, whatever the manifest says
    """
    seen, drawn = figures.seen, None
    if seen is not None:
        with progress.stage("report"):
            whole = seen.sample if isinstance(seen, Streamed) else seen
            drawn = pictures(whole, max(least, least_of(manifest)))
    left = left_unmasked(manifest, seen)
    return Contents(title, manifest, figures, drawn, known_least=least, unmasked=left, papers=tuple(papers))


def compared(trials: TrialsData) -> Contents:
    """The report of a comparison."""
    return Contents("Comparison of releases", trials=trials, notes=trials.notes)


def reporter(
    original: Pieces,
    release: Pieces,
    schema: Schema,
    link: Host,
    reference: Table | None = None,
    papers: Sequence[Paper] = (),
) -> Callable[[Mapping[str, Any]], Contents]:
    """From the manifest of a release to the report of it, measured against its original."""

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
        return assessed(found, manifest, title="Release", papers=papers)

    return contents
