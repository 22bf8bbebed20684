"""Inference: does the release tell an attribute of people in the table better than that of people who are not?

The attacker knows some columns of a person, takes the released record that is nearest on them and guesses that the
person has its value of the secret column; of several nearest records one is taken at random.  A guess of a category is
right when it is equal; of a number when it is off by at most 5 % of the range between the 5 % and 95 % quantiles of the
original.  The attack is made on original records and on control records [1]: see `controlled_attacks`.

`attribute_disclosure` asks the same with another control: it predicts the same people from other people's records.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs 2023(2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import CONTROLLED, NAMES, RISK_OF_RECORDS, SHARE, TO_1, Measure
from gpuanon.assessing.risk.controlled_attacks import (
    Attack,
    attacked_tables,
    chosen_columns,
    counted,
    nearest_classes,
    placed_beside,
    targets_of,
    values_of,
)
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

TARGETS = 2000
"""People of either table who are attacked, at most: shares are right to ±2 per cent."""

TOLERANCE = 0.05

Sides = tuple[Array, Array, Array]
"""Original, release and control."""


def inference(
    known: Sides, secrets: Sides, reach: Sequence[float], *, names: Names = None, targets: int = TARGETS
) -> Measured:
    """Largest risk of a secret column.

    Parameters
    ----------
    known   : (n, d) points of the columns that the attacker knows, encoded alike
    secrets : (n, s) values of the secret columns, codes of categories; NaN for null, which is right for a null only
    reach   : (s,) how far a guess may be off; 0 for categories
    targets : people who are attacked in either table, at most; of more, a repeatable random sample

    Beside it: the shares right in both tables, and of guesses that are released values taken at random.

    Cost : a search of twice `targets` among all released records, and a sort of them per secret.
    """
    return inference_of(inferred(known, secrets, reach, targets=targets), column_names(names, len(reach)))


def inferred(known: Sides, secrets: Sides, reach: Sequence[float], *, targets: int = TARGETS) -> list[Attack]:
    """The attack on each secret column."""
    X, Y, C = known
    if min(len(X), len(Y), len(C)) == 0:
        raise ParameterError("original, release and control need at least one record each")
    if secrets[0].ndim != 2 or secrets[0].shape[1] != len(reach):
        raise ParameterError("reach: one number per secret column is needed")
    rows = [like(sample_rows(len(side), targets, "inference"), side) for side in (X, C)]
    xp, own = namespace(Y), len(rows[0])
    asked = xp.concatenate([X[rows[0]], C[rows[1]]])
    right = _right(asked, Y, xp.concatenate([secrets[0][rows[0]], secrets[2][rows[1]]]), secrets[1], reach)
    found = []
    for near, chance in right:
        success, control, naive = (float(to_host(part.mean())) for part in (near[:own], near[own:], chance[:own]))
        found.append(Attack(success, control, naive, own, len(rows[1])))
    return found


def _right(X: Array, Y: Array, S: Array, R: Array, reach: Sequence[float]) -> list[tuple[Array, Array]]:
    """Per secret column (q,) the probability that a guess is right, from the nearest records and from any record."""
    xp = namespace(X)
    near = nearest_classes(X, Y)
    out = []
    for j, off in enumerate(reach):
        levels = xp.unique(R[:, j][~xp.isnan(R[:, j])])
        width = len(levels) + 2
        rank = xp.where(xp.isnan(R[:, j]), len(levels), xp.searchsorted(levels, R[:, j]))
        null = xp.isnan(S[:, j])
        low = xp.where(null, len(levels), xp.searchsorted(levels, S[:, j] - off, side="left"))
        high = xp.where(null, len(levels) + 1, xp.searchsorted(levels, S[:, j] + off, side="right"))
        base = near.index * width
        right = counted(xp.sort(near.labels * width + rank), base + low[:, None], base + high[:, None])
        out.append(
            (xp.where(near.tied, right, 0).sum(axis=1) / near.records, counted(xp.sort(rank), low, high) / len(Y))
        )
    return out


def inference_of(attacks: Sequence[Attack], columns: Sequence[str]) -> Measured:
    """The figure from the attack on each secret column."""
    risks = {name: attack.risk for name, attack in zip(columns, attacks, strict=True)}
    known = {name: risk for name, risk in risks.items() if risk is not None}
    if not known:
        raise InputError("inference: not defined, every value of the control is guessed")
    worst = max(known, key=lambda name: known[name])
    attack = attacks[list(columns).index(worst)]
    details: dict[str, Figure] = {"records": attack.targets, "control_records": attack.controls}
    for word in ("success", "control", "naive"):
        details[f"{word}_by_column"] = {
            name: float(getattr(one, word)) for name, one in zip(columns, attacks, strict=True)
        }
    return Measured(
        known[worst],
        details,
        parts=(By("column", risks),),
        interval=attack.interval(len(known)),
        beside=(
            Beside("success", "right from the release", attack.success),
            Beside("control", "right of people not in the table", attack.control),
            Beside("naive", "by a released value at random", attack.naive),
        ),
    )


def reach_of(values: Array, tolerance: float = TOLERANCE) -> float:
    """How far a guess of a number may be off: `tolerance` times the range of the middle 90 % of the values."""
    there = values[~np.isnan(values)]
    return float(tolerance * np.subtract(*np.quantile(there, [0.95, 0.05]))) if len(there) else 0.0


def _inference(
    c: Comparison, secrets: list[str] | None = None, known: list[str] | None = None, tolerance: float = TOLERANCE
) -> Measured:
    """Of named secrets from named columns.

    By default of the sensitive columns from the quasi-identifiers; without sensitive columns, of each column from all
    others.
    """
    chosen = chosen_columns(c, secrets or c.schema.sensitive, "secrets")
    given = chosen_columns(c, known, "known") if known else c.schema.quasi
    shared = tuple(name for name in given if name not in chosen)
    sets = [(chosen, shared)] if shared else [((name,), tuple(n for n in c.columns if n != name)) for name in chosen]
    tables, attacks = attacked_tables(c), []
    for hidden, seen in sets:
        if not seen:
            raise MissingEvidence("needs a column that is known besides the secret one")
        values, coded = values_of(c, hidden, tables)
        reach = [0.0 if flag else reach_of(values[0][:, j], tolerance) for j, flag in enumerate(coded)]
        some, own, others = targets_of(tables, TARGETS, "inference")
        points, _ = c.points_alike(seen, *some)
        secret = placed_beside(c, [values[0][own], values[1], values[2][others]])
        attacks += inferred((points[0], points[1], points[2]), secret, reach)
    return inference_of(attacks, chosen)


INFERENCE = Measure(
    name="inference", label="secrets that the release lets an attacker guess",
    sentence="For this share of people an attacker guesses a secret from the release who would not guess it for people"
    " who are not in it.",
    summary="share of attributes that it tells, beyond those of people not in the table",
    family="risk", range=SHARE,
    usual="0: no more than for people who are not in the table",
    unit="person", applies=CONTROLLED, function=inference, compute=_inference,
    options={"secrets": NAMES, "known": NAMES, "tolerance": TO_1}, arrays=None, weights=RISK_OF_RECORDS,
    nulls="a guess of a null is right for a null only; what is known may be missing, and is marked", scaling="whole",
    source="Giomi et al. 2023; ours", long=0.3,
)  # fmt: skip
