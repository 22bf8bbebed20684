"""Guaranteed ranges of statistics, from a released table or file of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuanon.arrays import progress
from gpuanon.assessing.intervals.ranges_of_statistics import DEFAULT, Bounded, ReleasedBoxes, bounded, box_columns
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.outputs import manifest_path, read_manifest
from gpuanon.errors import InputError
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.table import Table


@dataclass(frozen=True)
class Intervals:
    """Ranges of statistics that hold for every table whose records lie in the released boxes.

    columns : that were released as boxes
    notes   : what must be known to read them
    """

    ranges: tuple[Bounded, ...]
    columns: tuple[str, ...]
    boxes: int
    records: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> tuple[float, float]:
        """The range of a statistic such as ``mean(age)``."""
        for found in self.ranges:
            if found.name == name:
                return found.low, found.high
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Strict JSON: an infinite end is None."""
        return {
            "columns": list(self.columns),
            "records": self.records,
            "different_boxes": self.boxes,
            "intervals": [found.to_json() for found in self.ranges],
            "notes": list(self.notes),
        }


def intervals(release: Any, statistic: str | Sequence[str] | None = None) -> Intervals:
    """Guaranteed ranges of statistics from the boxes of a release alone.

    Parameters
    ----------
    release : dataframe, or path of a file or folder, with columns NAME_low and NAME_high, or with interval columns
    statistic : one or several of mean, variance, sd, covariance, correlation, of all boxed columns or of named ones
        (``covariance(age, income)``), ``regression(cost ~ age + income)``; None: all but regressions

    The ranges hold for every table whose records lie in the boxes, so for the original: of the records that were
    released.  A record with a missing value counts with the box of its group.  Statistics have the divisor N.

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> boxes = pa.table({"age_low": [30, 30, 50, 50], "age_high": [40, 40, 60, 60]})
    >>> low, high = gpuanon.intervals(boxes, "mean")["mean(age)"]
    >>> round(low, 9), round(high, 9)
    (40.0, 50.0)
    """
    texts = (statistic,) if isinstance(statistic, str) else tuple(statistic or DEFAULT)
    notes: list[str] = []
    if isinstance(release, str | Path):
        path = Path(release)
        source = io.open(path, csv=CsvOptions(newlines=True))
        pieces = Pieces.counted(source.batches) if source.rows is None else Pieces(source.batches, source.rows)
        manifest = read_manifest(manifest_path(path))
        dropped = int(manifest.get("rows_dropped", 0)) if manifest else 0
        if dropped:
            notes.append(
                f"{dropped} records were not released: the ranges are about the others, and need not hold the"
                " statistics of the original"
            )
    else:
        manifest = None
        pieces = Pieces.of(Table.of(release))
    if manifest is None:
        notes.append("there is no manifest beside the boxes: if records were dropped, the ranges are about the others")
    pieces = pieces.each(with_ends)
    columns = box_columns(pieces.first)
    if not columns:
        raise InputError("the release has no boxes: no column of intervals, no numeric columns NAME_low and NAME_high")
    with progress.stage("intervals"):
        boxes = ReleasedBoxes.over(pieces.give())
        found = bounded(boxes, texts, columns)
    return Intervals(tuple(found), columns, len(boxes.counts), boxes.rows, tuple(notes))
