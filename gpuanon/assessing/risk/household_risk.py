"""Household risk: a household is known when one of its members is.

Two forms, by what the risk of a member is.  `household_risk` takes the attack of `reidentification`: somebody knows the
person, and that the person is in the table.  `hierarchical_risk` takes the individual risk in the population, from
sample weights, as μ-Argus and sdcMicro do [1, 2]: the sample itself protects, and it is lower by about the mean weight.

References
----------
.. [1] A. Hundepool et al. (2012), Statistical Disclosure Control, Wiley, section 3.3: hierarchical risk.
.. [2] M. Templ, A. Kowarik, B. Meindl (2015), sdcMicro, J. Stat. Softw. 67(4): `measure_risk` with a household.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host, like, to_host
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import Beside, By, Distribution, Measured, join
from gpuanon.assessing.measure import (
    NULL_IS_A_VALUE,
    NULL_IS_MARKED,
    RISK_OF_RECORDS,
    SHARE,
    Applies,
    Measure,
    Weights,
)
from gpuanon.assessing.risk.individual_risk import risks
from gpuanon.assessing.risk.reidentification import hit_probabilities, place_in
from gpuanon.assessing.sampling_errors import sample_note, share_error
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.row_bits import row_bits

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

_LARGEST = 5


def household_risk(members: Host, households: Host) -> Measured:
    """Expected share of households of which some member is reidentified: the mean of 1 − Π (1 − risk of a member).

    members    : (n,) probability that each original record is reidentified
    households : (n,) equal for the records of a household

    Members are taken to be found independently of each other.
    """
    risk, _, sizes = _joined(members, households)
    names = {size: f"{size}" if size < _LARGEST else f"{size} or more" for size in range(1, _LARGEST + 1)}
    by_size = {
        name: float(risk[np.minimum(sizes, _LARGEST) == size].mean())
        for size, name in names.items()
        if bool((np.minimum(sizes, _LARGEST) == size).any())
    }
    return Measured(
        float(risk.mean()),
        {"households": len(sizes), "records": len(members), "largest_household": int(sizes.max())},
        "members are taken to be found independently of each other",
        parts=(By("size", by_size), Distribution.over("households", risk)),
        beside=(Beside("record", "of a record alone", float(members.mean())),),
    )


def hierarchical_risk(members: Host, households: Host) -> Measured:
    """Mean over records of the risk of their household, 1 − Π (1 − individual risk of a member).

    members    : (m,) individual risk of each released record in the population, by sample weights
    households : (m,) equal for the records of a household

    The sum over records is the expected number of reidentifications of sdcMicro's hierarchical risk.  Members are taken
    to be found independently of each other.
    """
    risk, labels, sizes = _joined(members, households)
    of_record = risk[labels]
    return Measured(
        float(of_record.mean()),
        {
            "expected_reidentifications": float(of_record.sum()),
            "households": len(sizes),
            "by_household": float(risk.mean()),
        },
        "members are taken to be found independently of each other",
        parts=(Distribution.over("released records", of_record),),
        beside=(Beside("record", "of a record alone", float(members.mean())),),
    )


def _joined(members: Host, households: Host) -> tuple[Host, Host, Host]:
    """(h,) the risk of each household, (n,) the household of each record, (h,) records of each household."""
    if len(members) == 0 or len(members) != len(households):
        raise ParameterError("household: one for each record is needed, at least one")
    _, labels, sizes = np.unique(households, return_inverse=True, return_counts=True)
    with np.errstate(divide="ignore"):
        safe = np.bincount(labels.reshape(-1), np.log1p(-np.minimum(members, 1.0)))
    return -np.expm1(safe), labels.reshape(-1), sizes


def _hierarchical_risk(c: Comparison) -> Measured:
    """The household of a released record is that of its original; an added row is of none."""
    name = c.schema.household
    if name is None:
        raise MissingEvidence("needs a column of role household")
    link, members = to_host(c.link), risks(c.classes, c.release_weights)
    there = link >= 0
    return hierarchical_risk(members[there], row_bits(c.original, [name])[:, 0][link[there]])


def _household_risk(c: Comparison) -> Measured:
    """The member's risk is that of the reidentification attack."""
    name = c.schema.household
    if name is None:
        raise MissingEvidence("needs a column of role household")
    labels = row_bits(c.original, [name])[:, 0]
    hits = c.hits
    if len(hits.rows) == hits.originals:
        return household_risk(hits.values, labels)
    who = np.unique(labels, return_inverse=True)[1].reshape(-1)  # too many to attack all: whole households
    count = int(who.max()) + 1
    chosen = np.zeros(count, dtype=bool)
    chosen[sample_rows(count, max(1, count * len(hits.rows) // hits.originals), "households")] = True
    rows = np.flatnonzero(chosen[who])
    before, after = c.quasi
    hit = hit_probabilities(before[like(rows, before)], after, place_in(rows, to_host(c.link)))
    found = household_risk(to_host(hit), labels[rows])
    attacked = int(chosen.sum())
    note = sample_note(attacked, count, "households was attacked", share_error(found.value, attacked, count))
    return replace(found, note=join(note, found.note))


HOUSEHOLD_RISK = Measure(
    name="household_risk", label="households of which somebody is found",
    sentence="In this share of households at least one member would be found by the attack of `reidentification`, and"
    " with that member the whole household.",
    summary="expected share of households of which a member is reidentified",
    family="risk", range=SHARE,
    usual="0: no household is found",
    unit="household", records="it joins the risks of all records of a household",
    applies=Applies(("kept", "dropped", "added"), link=True, roles=("household", "quasi")),
    function=household_risk, compute=_household_risk, arrays="quasi", weights=RISK_OF_RECORDS,
    nulls=NULL_IS_MARKED, scaling="whole", source="Hundepool et al. 2012; sdcMicro",
)  # fmt: skip
HIERARCHICAL_RISK = Measure(
    name="hierarchical_risk", label="chance that a household is found in the population",
    sentence="Somebody who knows the whole population would find a released person, or somebody of the same household,"
    " with this chance on average.",
    summary="mean risk of a record's household, from individual risks by sample weights",
    family="risk", range=SHARE,
    usual="at most `individual_risk` times the members of a household",
    unit="record", records="it joins the risks of all records of a household",
    applies=Applies(("kept", "dropped", "added"), link=True, roles=("household", "quasi", "weight")),
    function=hierarchical_risk, compute=_hierarchical_risk, arrays="classes",
    weights=Weights("used", "a class stands for as many people as its sample weights add up to"),
    nulls=NULL_IS_A_VALUE, scaling="whole", source="Hundepool et al. 2012; sdcMicro",
)  # fmt: skip
