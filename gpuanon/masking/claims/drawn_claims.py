"""Claims about values that were drawn: from the members of a group, or from a mixture of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.rng import GOLDEN_GAMMA, mix_bits
from gpuanon.arrays.sorting import argsort_words
from gpuanon.masking.claims import (
    Claim,
    Counted,
    Evidence,
    Guarantee,
    Trace,
    all_among,
    distinct_count,
    occurs_once,
    require,
)
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import ADDED, Rows


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
        """Upper bounds of the expected number of records that draw their own value, and of its variance.

        The records of a group share one distribution: the expected number of a group is at most the number of records
        that hold its most common value.
        """
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


def _in_group(bits: Array, labels: Array) -> Array:
    """(n,) uint64, equal for equal rows of one group."""
    return mix_bits(bits[:, 0] + labels.astype(np.uint64) * np.uint64(GOLDEN_GAMMA)) ^ bits[:, 1]
