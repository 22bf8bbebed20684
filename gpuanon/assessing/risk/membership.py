"""Membership inference: can people who are in the table be told from people who are not?

The attacker has the records of some people and asks which of them are in the table behind the release, which for a
registry of patients is a disclosure by itself.  He looks how near the nearest released record is [1, 2]:

distance   : the nearest released record; whoever is nearer is held to be in the table
calibrated : the same over the distance of the nearest of other people's records, since people in dense regions have a
             near record whoever they are; half of the control records serve as those other people

The area under the ROC curve is the probability that somebody in the table is nearer than somebody who is not: 0.5 when
they cannot be told apart, 1 for a copy.

References
----------
.. [1] D. Chen, N. Yu, Y. Zhang, M. Fritz (2020), GAN-Leaks: a taxonomy of membership inference attacks, CCS.
.. [2] B. van Breugel, H. Sun, Z. Qian, M. van der Schaar (2023), Membership inference attacks against synthetic data
   through overfitting detection, AISTATS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.columns import places
from gpuanon.assessing.figures import Beside, By, ConfidenceInterval, Figure, Measured
from gpuanon.assessing.measure import CONTROLLED, NAMES, NULL_IS_MARKED, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.controlled_attacks import attacked_tables, chosen_columns, targets_of
from gpuanon.assessing.sampling_errors import area_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import nearest
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


TARGETS = 5000
"""People of either table who are looked at, at most: the area is right to ±1.2 per cent."""

_FALSE = 0.01
_DIGITS = 9


def membership(
    original: Array,
    release: Array,
    control: Array,
    *,
    columns: Mapping[str, Sequence[int]] | None = None,
    targets: int = TARGETS,
) -> Measured:
    """AUC with which people in the table are told from people who are not, by the better of the two attacks.

    Parameters
    ----------
    original, release, control : (n, d) points, encoded alike; the control shares no person with the original
    columns : features of each column; by column, the area of its own distance alone
    targets : people who are looked at in either table, at most; of more, a repeatable random sample

    Beside it: what nobody can tell.  The advantage is the largest difference of the shares of both tables within a
    distance; `found_at_1_percent` the share of the table that is found when 1 % of other people are taken for members.

    Cost : a search of twice `targets` among all released records, one per column, and two among few records.
    """
    if min(len(original), len(release)) == 0 or len(control) < 2:
        raise ParameterError("original and release need a record, the control needs two")
    members, others = (side[like(sample_rows(len(side), targets, "membership"), side)] for side in (original, control))
    near = _distances(members, others, release)
    half = np.zeros(len(others), dtype=bool)
    half[sample_rows(len(others), len(others) // 2, "calibration")] = True
    rest = others[like(np.flatnonzero(~half), others)]
    known = others[like(np.flatnonzero(half), others)]
    calibrated = [_ratio(own, _distance(side, known)) for own, side in ((near[0], members), (near[1][~half], rest))]
    areas = {"distance": _area(*near), "calibrated": _area(*calibrated)}
    sizes = {"distance": len(others), "calibrated": len(rest)}
    best = max(areas, key=lambda name: areas[name])
    by_column = {
        name: _area(*_distances(members[:, at], others[:, at], release[:, at]))
        for name, at in (
            (name, like(np.asarray(own, dtype=np.int64), release)) for name, own in (columns or {}).items()
        )
    }
    level = 1 - 0.05 / 2
    found = area_interval(areas[best], len(members), sizes[best], level)
    details: dict[str, Figure] = {"records": len(members), "control_records": len(others)}
    details |= _advantage(*(near if best == "distance" else calibrated))
    parts = (By("column", by_column),) if by_column else ()
    return Measured(
        areas[best],
        details,
        parts=(*parts, By("attack", dict(areas))),
        interval=ConfidenceInterval(found.low, found.high),
        beside=(Beside("cannot_tell", "cannot tell at all", 0.5),),
    )


def _distance(X: Array, Y: Array) -> Host:
    """(q,) distance to the nearest row of `Y`, on the host; rounded, so that equal ones tie."""
    found = np.sqrt(np.asarray(to_host(nearest(X, Y)[0]), dtype=np.float64))
    return np.round(found, _DIGITS)


def _distances(members: Array, others: Array, Y: Array) -> list[Host]:
    """`_distance` of the rows of both tables, by one search."""
    return np.split(_distance(namespace(Y).concatenate([members, others]), Y), [len(members)])


def _ratio(near: Host, other: Host) -> Host:
    """near / other; of two zeros 1, since the record is everybody's."""
    both = (near == 0) & (other == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both, 1.0, np.round(near / other, _DIGITS))


def _area(members: Host, others: Host) -> float:
    """Probability that one of `members` is smaller than one of `others`; ties count one half."""
    ordered = np.sort(others)
    larger = len(others) - np.searchsorted(ordered, members, side="right")
    equal = np.searchsorted(ordered, members, side="right") - np.searchsorted(ordered, members, side="left")
    return float((larger + 0.5 * equal).mean() / len(others))


def _advantage(members: Host, others: Host) -> dict[str, Figure]:
    """Largest excess of members below a distance, and their share where 1 % of the others are below it."""
    at = np.unique(np.concatenate([members, others]))
    found, wrong = (np.searchsorted(np.sort(side), at, side="right") / len(side) for side in (members, others))
    few = found[wrong <= _FALSE]
    return {
        "advantage": max(0.0, float((found - wrong).max())),
        "found_at_1_percent": float(few.max()) if len(few) else 0.0,
    }


def _membership(c: Comparison, columns: list[str] | None = None) -> Measured:
    """By all compared columns, or by named ones."""
    some = targets_of(attacked_tables(c), TARGETS, "membership")[0]
    points, features = c.points_alike(chosen_columns(c, columns, "columns"), *some)
    return membership(*points, columns=places(features))


MEMBERSHIP = Measure(
    name="membership", label="can it be told who is in the table?",
    sentence="Shown somebody who is in the table and somebody who is not, an attacker says who is who this often: half"
    " of the time is guessing.",
    summary="how well people in the table are told from people who are not (0.5: not)",
    family="risk", range=SHARE, usual="0.5 is guessing; 1 is certain",
    unit="person", applies=CONTROLLED, function=membership, compute=_membership, options={"columns": NAMES},
    arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="whole",
    source="Chen et al. 2020; van Breugel et al. 2023", long=0.6,
)  # fmt: skip
