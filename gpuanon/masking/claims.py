"""What a release promises: one class for each promise.

A claim states something of the released rows, checks it, and can fail.  `check` looks at the rows of one cell as they
go into a mask and come out of it; evidence of all cells is merged; `conclude` judges the whole, with the sizes of the
classes that were counted on what is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.hashing import GOLDEN_GAMMA, mix_bits
from gpuanon.arrays.sorting import argsort_words
from gpuanon.errors import GuaranteeError
from gpuanon.masking.evidence import Evidence, Trace
from gpuanon.numerics.sorted_values import all_among, distinct_count, occurs_once
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import ADDED, Rows
from gpuanon.tables.schema import Unit

Figure: TypeAlias = "int | float | str | bool | list[Figure] | dict[str, Figure] | None"
ColumnSet: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """Classes that are to be counted on what is written.

    columns  : on which the records of a class are equal
    wildcard : whether a null matches every value, so that a record counts for every class that it is compatible with
    covered  : with wildcards: a record counts only for those whose values it has, all of them
    unit     : what is counted.  A written file does not say whose its records are: persons are counted in the store
    """

    columns: ColumnSet
    wildcard: bool = False
    unit: Unit = "record"
    covered: bool = False

    @property
    def of_records(self) -> Counted:
        """The same classes, counted in records."""
        return replace(self, unit="record")


@dataclass(frozen=True)
class Guarantee:
    """A statement about the release, and the figures it was verified with.

    verified : True, or None where nothing is promised
    """

    statement: str
    k: int | None
    verified: bool | None
    figures: dict[str, Figure] = field(default_factory=dict)

    def to_json(self) -> dict[str, Figure]:
        return {"statement": self.statement, "k": self.k, "verified": self.verified, **self.figures}


@dataclass(frozen=True)
class Claim:
    """A promise about the released columns.

    k    : that it speaks of
    sets : released columns that share their groups: one set, or one per column
    unit : what k counts
    """

    needs_labels: ClassVar[bool] = False

    k: int
    sets: tuple[ColumnSet, ...]
    unit: Unit = "record"

    @property
    def units(self) -> str:
        """What k counts, in words."""
        return f"{self.unit}s"

    @property
    def statement(self) -> str:
        """The promise in words."""
        raise NotImplementedError

    @property
    def counted(self) -> tuple[Counted, ...]:
        """The classes that are to be counted on what is written."""
        return ()

    def with_wildcards(self) -> Claim:
        """The same claim where a null matches every value."""
        return self

    @property
    def columns(self) -> ColumnSet:
        """All columns that it speaks of."""
        return tuple(name for columns in self.sets for name in columns)

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        """Check what can be checked in one cell; refuse by `GuaranteeError`."""
        return Evidence({"groups": trace.groups}, {"smallest_group": trace.smallest})

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        """Judge the whole release.

        evidence : merged, of all cells
        smallest : rows of the smallest class of each of `counted`, as written
        """
        return Guarantee(self.statement, self.k, True, {"groups": evidence.sums["groups"], **evidence.minima})


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
    """At most a share `most` of the records is left out."""

    most: float = 1.0

    @property
    def statement(self) -> str:
        return f"at most {self.most:.4g} of all records are left out"

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        found = super().check(before, trace, after)
        return Evidence({**found.sums, "rows_before": len(before), "rows_after": len(after)}, found.minima)

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        share = 1 - evidence.sums["rows_after"] / max(evidence.sums["rows_before"], 1)
        require(share <= self.most, f"{share:.2%} of the records would be left out, more than limit = {self.most:g}")
        return Guarantee(self.statement, self.k, True, {"share_left_out": share})


@dataclass(frozen=True)
class _Drawn(Claim):
    """Values were drawn at random among those of at least k records.

    All records of a group draw from one distribution, so the chances that they draw their own values add up to at
    most 1 in each group (among records whose values are unique in their group).  The number of records that keep their
    own values is therefore at most the number of groups, g, in expectation, with a variance of at most g: more than
    g + 5 √g of them, and nothing was drawn.

    Where values repeat inside a group, all records are counted, and the expectation E and the variance V of those that
    receive a value equal to their own are the operation's own (`_expected_own`).  More than E + 5 + √(25 + 30 V) of
    them have a chance below e⁻¹⁵ (Bernstein's inequality), and nothing was drawn.

    A value that a group of s records holds is drawn by one of them with a probability of at least 1 − (1 − 1/s)^s >
    0.632.  Of the d values that the groups hold, far fewer than 0.632 d are released only when values were not drawn
    from all of them (sample weights change these chances: then nothing is said).
    """

    needs_labels: ClassVar[bool] = True
    from_own_group: ClassVar[bool] = True

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        require(trace.smallest >= self.k, f"a group has {trace.smallest} {self.units}, fewer than k = {self.k}")
        fewest = trace.smallest_drawn
        require(fewest >= self.k, f"a group has {fewest} {self.units} of a weight above 0, fewer than k = {self.k}")
        require(trace.torn == 0, f"the records of {trace.torn} persons are in several groups")
        assert trace.labels is not None
        backend, xp = trace.backend, trace.backend.xp
        own = row_bits(before.table, self.columns, backend=backend)
        new = row_bits(after.table, self.columns, backend=backend)
        labels, rows = backend.upload(trace.labels), backend.upload(trace.rows)
        source = rows if trace.source is trace.rows else trace.source
        if source is not None:
            source = backend.upload(source)
            same = all(bool((own[source, half] == new[:, half]).all()) for half in (0, 1))
            require(same, "a released record differs from the record that it was drawn from")
        held, drawn = _in_group(own, labels), xp.empty(0, dtype=np.uint64)
        if self.from_own_group:
            drawn = xp.sort(_in_group(new, labels[rows]))
        order = argsort_words(held)
        members = held[order]
        self._check_values(drawn, members)
        alone = xp.empty(len(held), dtype=bool)
        alone[order] = occurs_once(members)
        equal = (own[rows, 0] == new[:, 0]) & (own[rows, 1] == new[:, 1]) & backend.upload(after.records < ADDED)
        kept = equal & alone[rows]
        place = xp.zeros(len(held), dtype=np.int64)
        place[order[1:]] = xp.cumsum(members[1:] != members[:-1])
        found = super().check(before, trace, after)
        expected, variance = self._expected_own(labels, place, trace.weights)
        sums = {
            "own_values": int(kept.sum()),
            "equal_values": int(equal.sum()),
            "expected_equal": int(np.ceil(expected)),
            "variance_equal": int(np.ceil(variance)),
            "distinct_values": distinct_count(members) if trace.weights is None else 0,
            "distinct_drawn": distinct_count(drawn),
        }
        whole = trace.source is not None and trace.weights is None  # rows that are put together have no distinct source
        moved = distinct_count(xp.sort(own[:, 0])) if whole else 0
        if source is not None and moved == len(own):  # then records differ as their numbers do
            taken = int(xp.count_nonzero(xp.bincount(source, minlength=1)))
        else:
            taken = distinct_count(xp.sort(new[:, 0])) if whole else 0
        sums |= {"distinct_moved": moved, "distinct_taken": taken}
        return Evidence({**found.sums, **sums}, {**found.minima, **trace.minima})

    def _check_values(self, drawn: Array, members: Array) -> None:
        """Check from whom the values may come: those that were drawn, and those of the groups' members, ascending."""

    def _expected_own(self, labels: Array, values: Array, weights: Array | None) -> tuple[float, float]:
        """Bounds of the expectation and the variance of the number of records that receive values equal to their own.

        labels : (n,) the group of each record
        values : (n,) equal for records of one group with equal values
        weights : (n,) sample weights of the records, on the host, or None
        """
        raise NotImplementedError

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        groups, kept = evidence.sums["groups"], evidence.sums["own_values"]
        require(
            kept <= groups + 5 * groups**0.5,
            f"{kept} records kept their own values; a random draw in {groups} groups leaves about {groups} at most",
        )
        equal, expected = evidence.sums["equal_values"], evidence.sums["expected_equal"]
        require(
            equal <= expected + 5 + (25 + 30 * evidence.sums["variance_equal"]) ** 0.5,
            f"{equal} records have values equal to their own; a random draw leaves about {expected} at most",
        )
        guarantee = super().conclude(evidence, smallest)
        return Guarantee(guarantee.statement, self.k, True, {**guarantee.figures, "own_values": kept})


@dataclass(frozen=True)
class DrawnFromGroup(_Drawn):
    """A released record's values are those of one of at least k members of its own group, drawn at random."""

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        held, drawn = evidence.sums["distinct_values"], evidence.sums["distinct_drawn"]
        require(
            drawn >= 0.632 * held - 2.5 * held**0.5,
            f"{drawn} different values were drawn of the {held} that groups hold; a random draw takes 63 % at least",
        )
        return super().conclude(evidence, smallest)

    @property
    def statement(self) -> str:
        names = ", ".join(self.columns)
        return f"the values of {names} in a released record were drawn from at least {self.k} {self.units} of its group"

    def _expected_own(self, labels: Array, values: Array, weights: Array | None) -> tuple[float, float]:
        """A record draws a value of the weight w in a group of the weight W with the probability p = w / W.

        The variance of independent draws is Σ p (1 − p).  That of a permutation of s members is at most s / (s − 1), so
        at most two, times as large (Hoeffding 1951).
        """
        if weights is not None:  # a device adds them up in no fixed order
            labels, values = to_host(labels), to_host(values)
            whole, held = np.bincount(labels, weights), np.bincount(values, weights)
        else:
            xp = namespace(labels)
            whole, held = xp.bincount(labels), xp.bincount(values)
        p = held[values] / namespace(labels).maximum(whole[labels].astype(np.float64), np.finfo(float).tiny)
        return float(p.sum()), float(2 * (p * (1 - p)).sum())

    def _check_values(self, drawn: Array, members: Array) -> None:
        require(all_among(drawn, members), "a record received values that no member of its group has")


@dataclass(frozen=True)
class DrawnFromMixture(_Drawn):
    """A released record's values were drawn from a mixture of groups, each of at least k records."""

    from_own_group: ClassVar[bool] = False

    @property
    def statement(self) -> str:
        names = ", ".join(self.columns)
        where = f"a mixture of groups of {self.k} or more {self.units}"
        return f"the values of {names} in a released record were drawn from {where}"

    def _expected_own(self, labels: Array, values: Array, weights: Array | None) -> tuple[float, float]:
        """The records of a group share one distribution: they receive their own values as often as the commonest of
        them is held in the group, at most; the variance of so many draws is not larger."""
        if len(values) == 0:
            return 0.0, 0.0
        xp = namespace(values)
        most = xp.zeros(int(labels.max()) + 1, dtype=np.uint64)  # a type for which a device has an atomic maximum
        xp.maximum.at(most, labels, xp.bincount(values).astype(np.uint64)[values])
        return float(most.sum()), float(most.sum())

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        guarantee = super().conclude(evidence, smallest)
        held, drawn = evidence.sums["distinct_moved"], evidence.sums["distinct_taken"]
        require(
            drawn >= 0.632 * held - 2.5 * held**0.5,
            f"{drawn} different records were drawn of the {held} that there are; a random draw takes 63 % at least",
        )
        require(
            evidence.minima.get("groups_in_block", 0) > 1 or evidence.sums["groups"] == 1,
            "a block holds one group, so that no groups were mixed there",
        )
        return guarantee


@dataclass(frozen=True)
class RowsAccounted:
    """Every record is released once, or not at all, or stands for nothing: as the operation declares.

    effect : see `gpuanon.masking.contract.RowEffect`
    """

    effect: str

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        """Compare the record numbers before and after, of one cell."""
        kept = after.records
        if self.effect == "kept" and np.array_equal(kept, before.records) and bool((kept[1:] > kept[:-1]).all()):
            return Evidence({"rows_in": len(before), "rows_out": len(after)})  # nothing moved, and no number twice
        if self.effect == "new":
            kept = kept[kept < ADDED]
        elif self.effect == "added":  # rows that an earlier mask added are kept as well
            kept = kept[(kept < ADDED) | np.isin(kept, before.records)]
        kept = np.sort(kept)
        require(distinct_count(kept) == len(kept), "a record was released twice")
        if self.effect == "new":
            require(len(kept) == 0, "a released row stands for a record, and none should")
        else:
            there = all_among(kept, np.sort(before.records))
            require(there, "a released row stands for a record that is not there")
        if self.effect in ("kept", "added"):
            require(len(kept) == len(before), f"{len(before)} rows went in and {len(kept)} of them came out")
        if self.effect == "kept":
            require(len(after) == len(before), f"{len(before)} rows went in and {len(after)} came out")
        return Evidence({"rows_in": len(before), "rows_out": len(after)})


def no_promise(columns: Sequence[str]) -> Guarantee:
    """The guarantee of a mask that claims nothing."""
    names = ", ".join(columns)
    return Guarantee(f"no formal guarantee on {names}: the measured risk is the evidence", None, None)


def require(kept: bool, fault: str) -> None:
    """Refuse the release unless `kept`."""
    if not kept:
        raise GuaranteeError(f"the guarantee does not hold: {fault}; nothing was written")


def _in_group(bits: Array, labels: Array) -> Array:
    """(n,) uint64, equal for equal rows of one group."""
    return mix_bits(bits[:, 0] + labels.astype(np.uint64) * np.uint64(GOLDEN_GAMMA)) ^ bits[:, 1]
