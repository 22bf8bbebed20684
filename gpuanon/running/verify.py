"""What a release promises, checked on the release itself before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Figure
from gpuanon.assessing.measures import by_name
from gpuanon.errors import GuaranteeError
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.running.assess import compute
from gpuanon.running.plan import Masked, Plan
from gpuanon.tables.codes import level_codes
from gpuanon.tables.table import Table


@dataclass(frozen=True)
class Guarantee:
    """A statement about the release, the k that it speaks of, and the figures it was verified with."""

    statement: str
    k: int | None
    verified: bool
    figures: dict[str, Figure] = field(default_factory=dict)

    def to_json(self) -> dict[str, Figure]:
        return {"statement": self.statement, "k": self.k, "verified": self.verified, **self.figures}


def verify(plan: Plan, original: Table, masked: Masked, release: Table) -> Guarantee:
    """Check, on the released rows, what the mask promises.

    original : the rows that went into the mask
    masked   : what the mask did
    release  : the rows as they are to be written, in the order of `original`

    Raises
    ------
    GuaranteeError
        When the promise is not kept.
    """
    k, names = plan.combination.k, ", ".join(plan.columns)
    promise = plan.combination.promise
    if promise == "none" or k is None:
        return Guarantee(f"no formal guarantee on {names}: the measured risk is the evidence", None, True)
    figures: dict[str, Figure] = {"groups": masked.groups, "smallest_group": masked.smallest}
    _require(masked.smallest >= k, f"a group has {masked.smallest} records, fewer than k = {k}")
    if promise == "identical":
        figures["smallest_class"] = _shared_by_k(release, plan.columns, k)
        return Guarantee(f"every combination of {names} is shared by at least {k} released records", k, True, figures)
    if promise == "values":
        figures["smallest_value_class"] = min(_shared_by_k(release, (name,), k) for name in plan.columns)
        text = f"every value of {names} is shared by at least {k} released records"
        if len(plan.columns) > 1:
            text = f"in each of {names} by itself, every value is shared by at least {k} released records"
            text += " (their combinations may be unique)"
        return Guarantee(text, k, True, figures)
    if masked.source is not None:
        _check_moves(plan, original, masked, release, own_group=promise == "members")
    if promise == "members":
        text = f"the values of {names} in a released record were drawn from at least {k} records of its group"
    else:
        text = f"the values of {names} in a released record were drawn from a mixture of groups of {k} or more records"
    return Guarantee(text, k, True, figures)


def smallest_class(table: Table, columns: tuple[str, ...]) -> int:
    """Rows in the smallest class of equal values of `columns` (nulls are equal to each other)."""
    (codes,) = level_codes([table], columns)
    return int(np.bincount(equal_rows(codes)).min())


def check_limits(comparison: Comparison, limits: Mapping[str, float]) -> dict[str, float]:
    """Measure what the recipe limits; a value that is worse, or that cannot be measured, refuses the release."""
    assessment, known = compute(comparison, tuple(limits)), by_name()
    faults = [f"limits.{name}: could not be measured: {reason}" for name, reason in assessment.failed.items()]
    for name, figure in assessment.measured.items():
        if known[name].exceeds(figure.value, limits[name]):
            way = "at most" if known[name].better == "lower" else "at least"
            faults.append(f"limits.{name}: {way} {limits[name]:g} is allowed, the release has {figure.value:.4g}")
    if faults:
        raise GuaranteeError(
            "\n".join(faults) + "\nNothing was written", hint="a larger k, or another method, lowers the risk"
        )
    return {name: figure.value for name, figure in assessment.measured.items()}


def _shared_by_k(release: Table, columns: tuple[str, ...], k: int) -> int:
    """Rows in the smallest class of equal values of `columns`, which must be at least `k`."""
    smallest, names = smallest_class(release, columns), ", ".join(columns)
    what = f"a combination of {names}" if len(columns) > 1 else f"a value of {names}"
    _require(smallest >= k, f"{what} is shared by {smallest} released records, fewer than k = {k}")
    return smallest


def _check_moves(plan: Plan, original: Table, masked: Masked, release: Table, *, own_group: bool) -> None:
    """Each released record holds the values of its source row, and of a member of its own group where promised."""
    assert masked.source is not None
    assert masked.labels is not None
    before, after = level_codes([original, release], plan.columns)
    _require(
        bool((before[masked.source] == after).all()), "a released record differs from the record that it was drawn from"
    )
    if own_group:
        values = equal_rows(np.concatenate([before, after]))
        here = masked.labels * (int(values.max()) + 1)
        members, drawn = here + values[: len(before)], here + values[len(before) :]
        _require(bool(np.isin(drawn, members).all()), "a record received values that no member of its group has")


def _require(kept: bool, fault: str) -> None:
    if not kept:
        raise GuaranteeError(f"the guarantee does not hold: {fault}; nothing was written")
