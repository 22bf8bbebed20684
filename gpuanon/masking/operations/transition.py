"""Post-randomisation (PRAM): a value is replaced by one that is drawn from the line of a transition matrix.

References
----------
.. [1] J. Gouweleeuw, P. Kooiman, L. Willenborg, P.-P. de Wolf (1998), Post randomisation for statistical disclosure
   control: theory and implementation, J. Off. Stat. 14(4): invariant matrices by a second stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import NewColumn, Recoded


def spread(counts: Host, stay: float) -> Host:
    """(strata, values, values) chances: a value stays with `stay`, else it is drawn by how often each occurs.

    Invariant: t P = stay t + (1 − stay) t = t, t the counts.

    counts : (strata, values) records of each value; values that do not occur in a stratum are not drawn there
    """
    total = counts.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, counts / np.maximum(total, 1), 1 / max(counts.shape[1], 1))
    return np.asarray(stay * np.eye(counts.shape[1]) + (1 - stay) * shares[:, None, :])


def invariant(P: Host, counts: Host) -> Host:
    """(strata, values, values) `P` followed by a second stage that restores the expected counts of the values [1].

    With t the counts, Q_ji = t_i P_ij / Σ_m t_m P_mj draws the value i that may have become j; R = P Q has t R = t.
    A value that does not occur stays as it is.
    """
    joint = counts[:, :, None] * P  # t_i P_ij
    total = joint.sum(axis=1)
    back = np.swapaxes(joint, 1, 2) / np.where(total > 0, total, 1)[:, :, None]
    identity = np.eye(counts.shape[1])
    back = np.where((total > 0)[:, :, None], back, identity)
    return np.where((counts > 0)[:, :, None], P @ back, identity)


def draw_values(codes: Array, stratum: Array, cumulated: Array, u: Array) -> Array:
    """(n,) the value that each of the `codes` (n,) becomes; nulls (−1) stay null.

    cumulated : (strata, values, values) cumulated chances of the new value
    u         : (n,) uniform numbers

    Cost : a binary search per row.
    """
    xp = namespace(codes)
    values = cumulated.shape[2]
    if values == 0:
        return codes
    own = xp.maximum(codes, 0)
    low, high = xp.zeros(len(codes), dtype=np.int64), xp.full(len(codes), values - 1, dtype=np.int64)
    for _ in range(max(values - 1, 1).bit_length()):
        middle = (low + high) // 2
        beyond = u >= cumulated[stratum, own, middle]
        low, high = xp.where(beyond & (low < high), middle + 1, low), xp.where(beyond, high, middle)
    return xp.where(codes < 0, -1, low)


_MOST_CHANCES = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class ValueTallies:
    """Records of each value of each column, within each stratum; those of several cells are added.

    names  : of the columns
    counts : for each column (strata, values) int64
    """

    names: tuple[str, ...]
    counts: tuple[Host, ...]

    def merge(self, other: ValueTallies) -> ValueTallies:
        """The tallies of the rows of both."""
        return ValueTallies(self.names, tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """For each column that is drawn anew the chances of every value, in every stratum.

    columns   : positions of the columns
    cumulated : for each of them (strata, values, values): cumulated chances of the new value
    kept      : for each the expected share of records that keep their value
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    cumulated: tuple[Host, ...]
    kept: tuple[float, ...]


def check_invariant(invariant: bool, matrix: Mapping[str, Any] | None) -> None:
    """Refuse to leave out the second stage where there is none."""
    if not invariant and matrix is None:
        raise ValueError("invariant: applies to a matrix; chances by stay keep the expected counts by themselves")


class Transition(Operation):
    """Each value stays with a chance of `stay`, or is drawn anew from its column, by how often each value occurs.

    So the expected number of records of each value does not change, in each stratum.  With `invariant` it does not by
    a `matrix` either: a second stage restores it.  Strata are the values of the column `within`, which is one of the
    mask and is not changed: values are drawn among those that occur in the stratum.  Nulls stay null.  Nothing is
    promised: chances bound what a released value tells of the true one.
    """

    sees: ClassVar[Sight] = "classes"
    learns: ClassVar[bool] = True
    whole_table: ClassVar[bool] = True

    use: Literal["transition"] = "transition"
    stay: float = Field(default=0.8, ge=0, le=1, description="chance that a value is not drawn anew")
    invariant: bool = Field(default=True, description="expected counts of the values do not change by a matrix either")
    within: str | None = Field(default=None, description="column of the mask within whose values others are drawn")
    matrix: dict[str, list[list[float]]] | None = Field(
        default=None,
        description="by column, chances of each value for each value in ascending order, in place of stay",
        repr=False,
    )

    @model_validator(mode="after")
    def _invariant_is_used(self) -> Self:
        check_invariant(self.invariant, self.matrix)
        return self

    def learn(self, T: Array, groups: Partition, records: Records) -> ValueTallies:
        classes = records.classes
        if classes is None:
            raise ParameterError("transition: the rows must be seen as classes", hint='basis = { use = "codes" }')
        stratum, strata = self._strata(T, classes.names, [len(table) for table in classes.ancestors])
        xp, counts = namespace(T), []
        for j, table in enumerate(classes.ancestors):
            there = T[:, j] >= 0
            place = stratum[there] * len(table) + T[there, j]
            tally = xp.bincount(place, minlength=strata * len(table)) if len(table) else xp.zeros(0, dtype=np.int64)
            counts.append(to_host(tally).reshape(strata, len(table)))
        return ValueTallies(classes.names, tuple(counts))

    def _strata(self, T: Array, names: Sequence[str], values: Sequence[int]) -> tuple[Array, int]:
        """(n,) stratum of each row, a null as the last one, and how many there are."""
        xp = namespace(T)
        if self.within is None:
            return xp.zeros(len(T), dtype=np.int64), 1
        if self.within not in names:
            raise ParameterError(f"within: column {self.within!r} is not among the columns of the mask")
        at = names.index(self.within)
        return xp.where(T[:, at] < 0, values[at], T[:, at]), values[at] + 1

    def conclude(self, summary: ValueTallies) -> Transitions:
        given = self.matrix or {}
        unknown = [name for name in given if name not in summary.names]
        if unknown:
            raise ParameterError("\n".join(f"matrix: column {name!r} is not among the columns" for name in unknown))
        chosen = [j for j, name in enumerate(summary.names) if name != self.within]
        cumulated, kept = [], []
        for j in chosen:
            counts, name = summary.counts[j], summary.names[j]
            if counts.size * counts.shape[1] > _MOST_CHANCES:
                raise ParameterError(
                    f"transition: column {name!r} has {counts.shape[1]} values in {len(counts)} strata, too many for a"
                    " matrix of chances",
                    hint="recode the column first",
                )
            if name in given:
                P = _given(given[name], counts, name)
                P = invariant(P, counts) if self.invariant else P
            else:  # keeps the expected counts by itself: a second stage would draw a value anew twice
                P = spread(counts, self.stay)
            same = np.einsum("sv,svv->", counts, P)
            kept.append(float(same / max(counts.sum(), 1)))
            cumulated.append(np.cumsum(P, axis=2))
        return Transitions(summary.names, tuple(chosen), tuple(cumulated), tuple(kept))

    def findings(self, learned: Transitions) -> Mapping[str, Any]:
        names = [learned.names[j] for j in learned.columns]
        return {"expected_unchanged": dict(zip(names, learned.kept, strict=True))}

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        learned, classes = records.learned, records.classes
        assert isinstance(learned, Transitions)
        assert classes is not None
        stratum, _ = self._strata(T, classes.names, [len(table) for table in classes.ancestors])
        u = records.draws.child("transition").uniform(T.shape[1])
        columns = [NewColumn(j, T[:, j]) for j in range(T.shape[1])]
        for j, chances in zip(learned.columns, learned.cumulated, strict=True):
            columns[j] = NewColumn(j, draw_values(T[:, j], stratum, like(chances, T), u[:, j]))
        return Recoded(columns)


def _given(lines: list[list[float]], counts: Host, name: str) -> Host:
    """(strata, values, values) the chances that a recipe gives."""
    P = np.asarray(lines, dtype=float)
    values = counts.shape[1]
    if P.shape != (values, values):
        raise ParameterError(f"matrix: column {name!r} has {values} values, and the matrix is not {values} × {values}")
    if (P < 0).any() or not np.allclose(P.sum(axis=1), 1):
        raise ParameterError(f"matrix: column {name!r}: each line must be chances that add up to 1")
    return np.broadcast_to(P, (len(counts), values, values))
