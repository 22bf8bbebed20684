"""Attribute disclosure: does the release tell the sensitive value of a person whose quasi-identifiers are known?

The attacker predicts the value of each person from the released records that are nearest on the quasi-identifiers: by
the commonest value of the nearest class of equal records, or by a vote of the 10 or 50 nearest records, whichever does
best.  Numbers are right when their decile is.

That age predicts a diagnosis is knowledge of the population and no fault of a release.  So the same attack is made from
records of other people: a reference sample, or original records that are held out.  The excess over it is the risk.

References
----------
.. [1] M. Giomi, F. Boenisch, C. Wehmeyer, B. Tasnádi (2023), A unified framework for quantifying privacy risk in
   synthetic data, PoPETs: attacks with a control.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.compared_tables import require_values, types_of
from gpuanon.assessing.figures import Beside, By, ConfidenceInterval, Figure, Measured
from gpuanon.assessing.measure import QUASI_SENSITIVE, RISK_OF_RECORDS, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


TARGETS = 2000
"""People who are attacked, at most: shares are right to ±2 per cent."""
VOTERS = (10, 50)


def attribute_disclosure(
    original: tuple[Array, Array],
    release: tuple[Array, Array],
    control: tuple[Array, Array] | None = None,
    *,
    names: Names = None,
    persons: Host | None = None,
) -> Measured:
    """Share of people whose sensitive value the release predicts, beyond what other people's records predict.

    Parameters
    ----------
    original, release, control : the quasi-identifiers (n, d), encoded alike, and codes (n, s) of the sensitive columns
        (numbers: of their deciles).  The control shares no person with the original; None holds a fifth of the original
        out, of which people are attacked, and predicts them from the rest
    names   : of the sensitive columns
    persons : (n,) equal for records of one person, who is held out whole; None: each record is one

    Returns
    -------
    The value is the largest excess of a column: the share right from the release less the share right from the
    control, with a 95 % interval (differences of the same people).
    """
    X, S = (to_host(array) for array in original)
    if S.ndim != 2 or S.shape[1] == 0:
        raise ParameterError("sensitive: at least one column is needed")
    if len(X) < 10 or len(release[0]) < 2:
        raise ParameterError("original: at least ten records are needed, and two released ones")
    targets, others = _held_out(len(X), persons)
    known = (X[others], S[others]) if control is None else (to_host(control[0]), to_host(control[1]))
    hits = _best(X[targets], S[targets], to_host(release[0]), to_host(release[1]))
    beside = _best(X[targets], S[targets], *known)
    return _figure(
        hits, beside, S, column_names(names, S.shape[1]), "a fifth held out" if control is None else "reference"
    )


def _figure(hits: Host, beside: Host, S: Host, columns: Sequence[str], control: str) -> Measured:
    """The figure from (targets, s) hits from the release and from the control."""
    gain = hits - beside
    excess, count = gain.mean(axis=0), len(gain)
    error = 1.96 * gain.std(axis=0) / np.sqrt(count)
    success, base = hits.mean(axis=0), beside.mean(axis=0)
    worst = int(excess.argmax())
    commonest = [float(np.unique(column, return_counts=True)[1].max() / len(S)) for column in S.T]

    def named(values: Any) -> dict[str, Figure]:
        return {name: float(value) for name, value in zip(columns, values, strict=True)}

    details: dict[str, Figure] = {
        "records": count,
        "control_is": control,
        "success_by_column": named(success),
        "control_by_column": named(base),
        "commonest_share_by_column": named(commonest),
        "risk_by_column": {
            name: float(gained / (1 - known)) if known < 1 else None  # nothing is left to be found out
            for name, gained, known in zip(columns, excess, base, strict=True)
        },
        "low_by_column": named(excess - error),
        "high_by_column": named(excess + error),
    }
    return Measured(
        float(excess[worst]),
        details,
        "right for a number means the same decile of the original",
        parts=(By("column", {name: float(value) for name, value in zip(columns, excess, strict=True)}),),
        interval=ConfidenceInterval(float(excess[worst] - error[worst]), float(excess[worst] + error[worst])),
        beside=(
            Beside("success", "from the release", float(success[worst])),
            Beside("control", "from other people", float(base[worst])),
        ),
    )


def _held_out(n: int, persons: Host | None) -> tuple[Host, Host]:
    """People to attack, and records of other people."""
    who = np.arange(n) if persons is None else np.unique(persons, return_inverse=True)[1].reshape(-1)
    people = int(who.max()) + 1
    chosen = np.zeros(people, dtype=bool)
    chosen[sample_rows(people, max(1, people // 5), "attribute disclosure")] = True
    held = np.flatnonzero(chosen[who])
    return held[sample_rows(len(held), TARGETS, "attribute disclosure")], np.flatnonzero(~chosen[who])


def _best(X: Host, S: Host, Y: Host, R: Host) -> Host:
    """(targets, s) whether the value of each is predicted, by the way of predicting that is right most often."""
    labels = equal_rows(Y)
    most = min(max(VOTERS), len(Y))
    index = k_nearest(X, Y, most)[1]
    asked, nearest = np.unique(
        labels[index[:, 0]], return_inverse=True
    )  # of equally near classes that of the lowest row
    members, number = _members(labels, asked)
    out = np.empty(S.shape, dtype=np.float64)
    for column in range(S.shape[1]):
        values = R[:, column]
        guesses = [_commonest(number, values[members])[nearest.reshape(-1)]]
        for voters in VOTERS:
            votes = values[index[:, :voters]]
            line = np.repeat(np.arange(len(votes)), votes.shape[1])
            guesses.append(_commonest(line, votes.reshape(-1)))
        right = [guess == S[:, column] for guess in guesses]
        out[:, column] = max(right, key=lambda hit: float(hit.mean()))
    return out


def _members(labels: Host, chosen: Host) -> tuple[Host, Host]:
    """The rows of the `chosen` classes, and for each of them which of these classes it is in."""
    number = np.full(int(labels.max()) + 1, -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(number[labels] >= 0)
    return rows, number[labels[rows]]


def _commonest(labels: Host, values: Host) -> Host:
    """(g,) the commonest value of each group; the lowest on a tie."""
    levels, codes = np.unique(values, return_inverse=True)
    pairs, counts = np.unique(labels * len(levels) + codes.reshape(-1), return_counts=True)
    order = np.lexsort((pairs, -counts, pairs // len(levels)))
    group = (pairs // len(levels))[order]
    first = np.concatenate([[True], group[1:] != group[:-1]])
    return np.asarray(levels[(pairs % len(levels))[order][first]])


def _sensitive_bins(c: Comparison, tables: list[Table]) -> list[Host]:
    """(n, s) codes of the sensitive columns of each table: numbers and dates by deciles of the original; null is −1."""
    names = c.schema.sensitive
    for table in tables[1:]:
        require_values(table, types_of(c.original), names)
    codes = level_codes(tables, names)
    for at, name in enumerate(names):
        if c.schema[name].kind in ("numeric", "date"):
            values = [floats(table.arrow(name)) for table in tables]
            there = values[0][~np.isnan(values[0])]
            edges = np.unique(np.quantile(there, np.arange(1, 10) / 10)) if len(there) else there
            for out, found in zip(codes, values, strict=True):
                out[:, at] = np.where(np.isnan(found), -1, np.searchsorted(edges, found, side="left"))
    return codes


def _attribute_disclosure(c: Comparison) -> Measured:
    reference = c.reference_table
    tables = [c.original, c.points, *(() if reference is None else (reference,))]
    codes = _sensitive_bins(c, tables)
    points = [*c.standardised, *(() if reference is None else (c.standardised_reference,))]
    person = c.schema.unit_column
    return attribute_disclosure(
        (points[0], codes[0]),
        (points[1], codes[1]),
        None if reference is None else (points[2], codes[2]),
        names=c.schema.sensitive,
        persons=None if person is None else row_bits(c.original, [person.name])[:, 0],
    )


ATTRIBUTE_DISCLOSURE = Measure(
    name="attribute_disclosure", label="sensitive values that the release gives away",
    sentence="For this share of people the release tells a sensitive value that the records of other people would not"
    " have told.",
    summary="share of sensitive values predicted beyond what other people's tell",
    family="risk", range=(-1.0, 1.0), usual="0 or less: nothing beyond what is known of people in general",
    unit="person", records="a value is told by the released records near a person, who may be one",
    applies=QUASI_SENSITIVE, function=attribute_disclosure, compute=_attribute_disclosure,
    arrays="points", weights=RISK_OF_RECORDS,
    nulls="a missing sensitive value is a value of its own; missing quasi-identifiers count as means, and are marked",
    scaling="whole",
    host="2 000 people are attacked, whose neighbours vote in lists",
    source="Giomi et al. 2023; ours", long=0.4,
)  # fmt: skip
