"""Claims about the sizes of classes: equal records, shared values, few records dropped for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gpuanon.masking.claims import Claim, Counted, Guarantee, require
from gpuanon.masking.claims.evidence import Evidence, Trace
from gpuanon.tables.rows import Rows


@dataclass(frozen=True)
class EqualRecords(Claim):
    """At least k released records are equal on each set of columns: k-anonymity over that set.

    wildcard : a null matches every value: every record is compatible with at least k.  This says nothing of an intruder
        who knows the values behind the nulls
    """

    wildcard: bool = False

    @property
    def statement(self) -> str:
        names = ", ".join(self.columns)
        if self.wildcard:
            return (
                f"every combination of {names} is compatible with at least {self.k} released {self.units}, where a"
                " missing value stands for any value"
            )
        if len(self.sets) > 1:
            return (
                f"in each of {names} by itself, every value is shared by at least {self.k} released {self.units}"
                " (their combinations may be unique)"
            )
        what = "combination" if len(self.columns) > 1 else "value"
        return f"every {what} of {names} is shared by at least {self.k} released {self.units}"

    @property
    def counted(self) -> tuple[Counted, ...]:
        return tuple(Counted(columns, self.wildcard, self.unit) for columns in self.sets)

    def with_wildcards(self) -> Claim:
        return replace(self, wildcard=True)

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        for classes in self.counted:
            columns, found = classes.columns, smallest[classes]
            what = f"a {'combination' if len(columns) > 1 else 'value'} of {', '.join(columns)}"
            require(
                found >= self.k or found == 0,
                f"{what} is shared by {found} released {self.units}, fewer than k = {self.k}",
            )
        guarantee = super().conclude(evidence, smallest)
        name = "smallest_class" if len(self.sets) == 1 else "smallest_value_class"
        return Guarantee(
            guarantee.statement,
            self.k,
            True,
            {**guarantee.figures, name: min(smallest[classes] for classes in self.counted)},
        )


@dataclass(frozen=True)
class SharedValues(Claim):
    """The values that are left of each released record are shared, all of them, by at least k released records.

    Stronger than compatibility: a record with a missing value does not count for one that has a value there.
    """

    @property
    def statement(self) -> str:
        names = ", ".join(self.columns)
        return (
            f"the values of {names} that a released record has are shared, all together, by at least {self.k} released"
            f" {self.units}; missing values are shared by all"
        )

    @property
    def counted(self) -> tuple[Counted, ...]:
        return tuple(Counted(columns, True, self.unit, covered=True) for columns in self.sets)

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        fewest = min(smallest[classes] for classes in self.counted)
        require(
            fewest >= self.k or fewest == 0,
            f"the values of a record are shared by {fewest} released {self.units}, fewer than k = {self.k}",
        )
        guarantee = super().conclude(evidence, smallest)
        return Guarantee(guarantee.statement, self.k, True, {**guarantee.figures, "fewest_sharing": fewest})


@dataclass(frozen=True)
class FewDropped(Claim):
    """At most a share `most` of the records that the mask is given is left out."""

    most: float = 1.0

    @property
    def statement(self) -> str:
        names = ", ".join(self.columns)
        return f"suppression on {names} leaves out at most {self.most:.4g} of the records that it is given"

    def lasts(self, changed: Collection[str]) -> bool:
        return True  # a record that was left out stays out

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        found = super().check(before, trace, after)
        return Evidence({**found.sums, "rows_before": len(before), "rows_after": len(after)}, found.minima)

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        share = 1 - evidence.sums["rows_after"] / max(evidence.sums["rows_before"], 1)
        require(share <= self.most, f"{share:.2%} of the records would be left out, more than limit = {self.most:g}")
        return Guarantee(self.statement, self.k, True, {"share_left_out": share})
