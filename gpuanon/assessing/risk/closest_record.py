"""Distance to the closest record: are released records closer to the originals than to other people?

A release that holds back what is particular to its records is as close to them as to an independent sample of the same
size.  The share of released records that are closer to an original than to any record of the sample is then one half
[1]; copies give 1.

References
----------
.. [1] M. Platzer, T. Reutterer (2021), Holdout-based empirical assessment of mixed-type synthetic data, Front. Big
   Data 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, like, to_host
from gpuanon.assessing.figures import Beside, Counts, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_MARKED, RISK_OF_RECORDS, SHARE, Applies, Measure
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.assessing.sampling_errors import sample_note, share_error, share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import nearest
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

POINTS = 20_000
"""Records that are tried, at most; of more, a repeatable random sample."""

PAIRS = EXACT_ROWS**2
"""Pairs of records that are looked at, at most, in both searches together: among very many fewer are tried."""


_DIGITS = 9


def closest_record(original: Array, release: Array, reference: Array, *, points: int = POINTS) -> Measured:
    """Share of released records that are closer to an original than to any reference record; a tie counts one half.

    original, release, reference : (n, d) encoded and standardised alike.  The larger of original and reference is cut
        down to a repeatable random sample of the size of the other, since the nearest of more records is closer
    """
    if min(len(original), len(release), len(reference)) == 0:
        raise ParameterError("original, release and reference need at least one record each")
    size = min(len(original), len(reference))
    points = max(1, min(points, PAIRS // (2 * size)))
    chosen = release[like(sample_rows(len(release), points, "closest released"), release)]
    sides = [
        table if len(table) == size else table[like(sample_rows(len(table), size, "closest"), table)]
        for table in (original, reference)
    ]
    # Rounded, so that equal distances tie.
    own, other = (np.round(np.sqrt(to_host(nearest(chosen, side)[0]) / release.shape[1]), _DIGITS) for side in sides)
    value = float(np.where(own == other, 0.5, own < other).mean())
    details: dict[str, Figure] = {
        "released_records": len(chosen),
        "records_on_either_side": size,
        "median_distance": float(np.median(own)),
        "median_distance_reference": float(np.median(other)),
        "copies": int((own == 0).sum()),
    }
    notes = []
    if len(chosen) < len(release):
        error = share_error(value, len(chosen), len(release))
        notes.append(sample_note(len(chosen), len(release), "released records was tried", error))
    if size < len(original):
        notes.append(f"against {size} of {len(original)} originals, as many as the reference has")
    part = Counts.over("distance to the closest record", {"original": own, "reference": other}, cumulative=True)
    beside = (Beside("independent", "of an independent sample", 0.5),)
    return Measured(value, details, "; ".join(notes) or None, (part,), share_interval(value, len(chosen)), beside)


def _closest_record(c: Comparison) -> Measured:
    return closest_record(*c.standardised, c.standardised_reference)


CLOSEST_RECORD = Measure(
    name="closest_record", label="released records closer to the people in the table than to others",
    sentence="This share of the released records is closer to somebody in the table than to anybody in a sample of"
    " other people: half is what chance gives.",
    summary="share of released records closer to originals than to a reference",
    family="risk", range=SHARE, usual="0.5 is chance, with a reference as large as the table",
    unit="record", applies=Applies(others="reference", roles=("quasi",)), function=closest_record,
    compute=_closest_record, arrays="points", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="whole",
    source="Platzer and Reutterer 2021", long=0.3,
)  # fmt: skip
