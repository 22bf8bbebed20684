"""Claims about classes: their sizes, the diversity and closeness of their sensitive values, few records dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.masking.claims import Claim, ColumnSet, Counted, Evidence, Guarantee, Trace, require
from gpuanon.masking.constraints import ROUNDING, Constraint, Spread, separated_values
from gpuanon.numerics.closeness import distinct_values, equal_distance, ordered_distance
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.row_bits import bits_of, column_words, row_bits
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Unit
from gpuanon.tables.summaries import SensitiveColumn


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


_NO_ROWS = 1 << 62


@dataclass(frozen=True)
class _OfGroups(Claim):
    """A claim on the sensitive values that the released records of each group have.

    Records that are equal in the release are those of one group or of several: a class is no less diverse, and no
    farther from the table, than its groups.

    sensitive : the sensitive columns in the whole table
    united    : rows of several groups may be equal in the release: the claim is on the classes of released records
    """

    needs_labels: ClassVar[bool] = True

    sensitive: tuple[SensitiveColumn, ...] = field(default=(), compare=False, repr=False)
    united: bool = False

    @property
    def names(self) -> str:
        """The sensitive columns, in words."""
        return ", ".join(column.name for column in self.sensitive)

    @property
    def group(self) -> str:
        """What holds the constraint, in words."""
        return "class" if self.united else "group"

    def lasts(self, changed: Collection[str]) -> bool:
        return super().lasts(changed) and not any(column.name in changed for column in self.sensitive)

    def released_groups(self, trace: Trace, after: Rows) -> Host:
        """(m,) group, or class, of each released row, numbered from 0 without gaps."""
        if self.united:
            return np.asarray(equal_rows(row_bits(after.table, self.columns).view(np.int64)))
        assert trace.labels is not None
        return np.unique(trace.labels[trace.rows], return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True)
class DiverseGroups(_OfGroups):
    """The released records of a group have at least `least` different values in each sensitive column.

    A missing value is none of them: it leaves those of the others to be known.
    """

    least: int = 2

    @property
    def statement(self) -> str:
        return (
            f"the released records of each {self.group} have at least {self.least} different values in each of"
            f" {self.names}, where a missing value does not count"
        )

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        found = super().check(before, trace, after)
        labels, fewest = self.released_groups(trace, after), _NO_ROWS
        for column in self.sensitive if len(after) else ():
            words = column_words(after.table, [column.name], stored=False)[column.name]
            values = np.unique(bits_of([words], len(after))[:, 0], return_inverse=True)[1].reshape(-1)
            fewest = min(fewest, int(distinct_values(labels, values, words.missing).min()))
        return Evidence(found.sums, {**found.minima, "fewest_values": fewest})

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        fewest = evidence.minima["fewest_values"]
        require(
            fewest >= self.least,
            f"a group has {fewest} different values of a sensitive column, fewer than diversity = {self.least}",
        )
        return super().conclude(evidence, smallest)


@dataclass(frozen=True)
class CloseGroups(_OfGroups):
    """In each sensitive column the released records of a group are at most `most` from the whole table."""

    most: float = 1.0

    @property
    def statement(self) -> str:
        return (
            f"the distribution of each of {self.names} in each {self.group} is at most {self.most:g} from that in the"
            " whole table (earth mover's distance)"
        )

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        found = super().check(before, trace, after)
        labels, largest = self.released_groups(trace, after), 0.0
        for column in self.sensitive if len(after) else ():
            distance = ordered_distance if column.ordered else equal_distance
            largest = max(largest, float(distance(labels, column.codes(after.table), column.counts).max()))
        return Evidence(found.sums, found.minima, {"largest_distance": largest})

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        largest = evidence.maxima["largest_distance"]
        require(
            largest <= self.most + ROUNDING,
            f"the distribution of a sensitive column in a group is {largest:.4f} from the table's, more than closeness"
            f" = {self.most:g}",
        )
        guarantee = super().conclude(evidence, smallest)
        figures = {**guarantee.figures, "largest_distance": min(largest, self.most)}
        return Guarantee(guarantee.statement, self.k, True, figures)


@dataclass(frozen=True)
class SpreadBoxes(Claim):
    """In every class of equal released records the columns have values that are far enough apart.

    spread   : how many, and how far
    encoding : by which distances are measured, in standard deviations
    """

    spread: Spread = field(default_factory=lambda: Spread(1, ()))
    encoding: Encoding | None = field(default=None, compare=False, repr=False)

    @property
    def statement(self) -> str:
        names = ", ".join(f"{name} (by {epsilon:g})" for name, epsilon in self.spread.columns)
        return (
            f"the records of each released box have at least {self.spread.least} values that differ, by the given"
            f" number of standard deviations or more, in each of {names}"
        )

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        found = super().check(before, trace, after)
        fewest = _NO_ROWS
        if len(after):
            assert self.encoding is not None
            X = self.encoding.encode(before.table.take(trace.rows).select(self.encoding.columns))
            bits = row_bits(after.table, self.columns)
            boxes = Partition.from_labels(equal_rows(bits.view(np.int64)))
            place = {feature.column: at for at, feature in enumerate(self.encoding.features) if feature.kind == "value"}
            for name, epsilon in self.spread.columns:
                values = separated_values(X[:, place[name]], boxes, epsilon, self.spread.least)
                fewest = min(fewest, int(values.min()))
        return Evidence(found.sums, {**found.minima, "fewest_separated_values": fewest})

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        fewest = evidence.minima["fewest_separated_values"]
        require(
            fewest >= self.spread.least,
            f"a box has {fewest} values of a column that differ enough, fewer than diversity = {self.spread.least}",
        )
        return super().conclude(evidence, smallest)


def constraint_claims(
    constraint: Constraint,
    k: int,
    sets: Sequence[ColumnSet],
    unit: Unit,
    sensitive: tuple[SensitiveColumn, ...],
    united: bool = False,
) -> tuple[Claim, ...]:
    """The claims that a constraint makes."""
    claims: list[Claim] = []
    if constraint.diversity is not None:
        claims.append(DiverseGroups(k, tuple(sets), unit, sensitive, united, constraint.diversity))
    if constraint.closeness is not None:
        claims.append(CloseGroups(k, tuple(sets), unit, sensitive, united, constraint.closeness))
    return tuple(claims)
