"""What became of every column: masked, kept or dropped, how it moved, and whom the kept ones single out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from gpuanon.assessing.column_pictures import Bars, Histogram, Pictures
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import By, figure_text
from gpuanon.assessing.risk.singled_out import LIMIT
from gpuanon.assessing.run import Measurements
from gpuanon.assessing.streams import Streamed
from gpuanon.numerics.alone import alone_on_few
from gpuanon.report import Fate, fates_of, unmasked_columns

_ORDER: tuple[Fate, ...] = ("masked", "released", "kept", "pseudonym", "dropped")


@dataclass(frozen=True)
class Unmasked:
    """The released columns that no mask changed.

    names    : of them
    released : number of columns that are released
    alone    : share of the people who are alone on at most three of them; None where it was not counted
    by_name  : share of the people who are alone on one of them, by name
    """

    names: tuple[str, ...]
    released: int
    alone: float | None = None
    by_name: Mapping[str, float] | None = None

    @property
    def state(self) -> Literal["good", "open", "bad"]:
        """*bad*: they single out more people than is called safe; *open*: some, or nobody counted."""
        if not self.names or self.alone == 0:
            return "good"
        return "open" if self.alone is None or self.alone <= LIMIT else "bad"


@dataclass(frozen=True)
class Moved:
    """How the distribution of a column moved.

    share   : of the people who are in another bin or level: half the sum of the changes
    where   : the bin or level that changed most
    before, after : its share in original and release
    """

    share: float
    where: str
    before: float
    after: float


@dataclass(frozen=True)
class ColumnRow:
    """One column on the page.

    changed : share of the records with another value than before; None where that is not known
    alone   : share of the people who are alone on this column, of one that was kept
    picture : of the distribution, original and release
    """

    name: str
    role: str
    kind: str | None
    fate: Fate
    moved: Moved | None = None
    changed: float | None = None
    alone: float | None = None
    picture: Bars | Histogram | None = None

    def to_json(self) -> dict[str, Any]:
        """Its object in the figures of a report."""
        moved = None if self.moved is None else self.moved.share
        return {"fate": self.fate, "moved": moved, "changed": self.changed, "alone": self.alone}


def left_unmasked(manifest: Mapping[str, Any] | None, seen: Comparison | Streamed | None) -> Unmasked | None:
    """The columns that no mask changed, and whom they single out; None where nothing says which they are.

    People are counted where all rows are at hand: in a sample of them more are alone.
    """
    if manifest is None:
        return None
    names, released = unmasked_columns(manifest)
    if not names or not isinstance(seen, Comparison) or seen.sampled:
        return Unmasked(names, released)
    shown = [at for at, name in enumerate(seen.shown) if name in names]
    codes, who = seen.host.released_codes()[:, shown], seen.released_persons
    counted = None if seen.known_link is None or seen.all_new else seen.known_link >= 0
    each = {
        seen.shown[at]: alone_on_few(codes[:, [place]], who, 1, counted=counted).share for place, at in enumerate(shown)
    }
    return Unmasked(names, released, alone_on_few(codes, who, counted=counted).share, each)


def column_rows(
    manifest: Mapping[str, Any] | None, pictures: Pictures | None, figures: Measurements | None, left: Unmasked | None
) -> list[ColumnRow]:
    """One row per column: masked ones first, the one that moved most before all others; dropped ones last."""
    drawn = {} if pictures is None else {name: _distribution(those) for name, those in pictures.columns.items()}
    if manifest is None:
        fates: dict[str, Fate] = dict.fromkeys(drawn, "released")
        columns: Mapping[str, Any] = {}
    else:
        fates, columns = fates_of(manifest), manifest["columns"]
    changed = _by_column(figures, "records_changed")
    alone = {} if left is None or left.by_name is None else left.by_name
    rows = []
    for name, fate in fates.items():
        about = columns.get(name, {})
        picture = drawn.get(name)
        moved = None if picture is None else moved_in(picture)
        rows.append(
            ColumnRow(
                name, about.get("role", ""), about.get("kind"), fate, moved, changed.get(name), alone.get(name), picture
            )
        )
    return sorted(rows, key=_rank)


def _rank(row: ColumnRow) -> tuple[int, float]:
    worst = row.alone if row.fate == "kept" else None if row.moved is None else row.moved.share
    return _ORDER.index(row.fate), -(worst or 0.0)


def worst_of(rows: Sequence[ColumnRow]) -> ColumnRow | None:
    """The masked column that moved most; None where none has a picture."""
    known = [row for row in rows if row.fate in ("masked", "released") and row.moved is not None]
    return known[0] if known else None


def moved_in(picture: Bars | Histogram) -> Moved:
    """Total variation over the bins or levels that are shown, and the one that changed most."""
    change = np.subtract(picture.after, picture.before)
    at = int(np.argmax(np.abs(change)))
    share = round(float(np.abs(change).sum()) / 2, 3)
    return Moved(share, _bin_names(picture)[at], picture.before[at], picture.after[at])


def _bin_names(picture: Bars | Histogram) -> list[str]:
    if isinstance(picture, Bars):
        return list(picture.labels)
    cuts = [_day(cut) if picture.dates else figure_text(float(cut)) for cut in picture.cuts]
    return [f"below {cuts[0]}", *(f"{low} to {high}" for low, high in pairwise(cuts)), f"from {cuts[-1]}"]


def _day(cut: float) -> str:
    return (date(1970, 1, 1) + timedelta(days=round(cut))).isoformat()


def _distribution(pictures: Sequence[Any]) -> Bars | Histogram | None:
    return next((one for one in pictures if isinstance(one, (Bars, Histogram))), None)


def _by_column(figures: Measurements | None, name: str) -> Mapping[str, float | None]:
    found = None if figures is None else figures.measured.get(name)
    parts = () if found is None else found.parts
    return next((part.values for part in parts if isinstance(part, By) and part.of == "column"), {})
