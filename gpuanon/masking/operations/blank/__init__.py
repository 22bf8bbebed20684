"""Local suppression: single cells are blanked until the values left of each record are shared by k records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.partition import Partition, ranks_within
from gpuanon.arrays.rng import Draws
from gpuanon.errors import GuaranteeError, ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import SharedValues
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.blank.local_suppression import kept_cells, randomly_kept
from gpuanon.masking.operations.blank.local_suppression_programme import Lines
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.patterns import Patterns

Importance = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, eq=False, repr=False)
class BlankTable:
    """Combinations of codes of all cells.

    names  : of the columns
    orders : for each piece (p, c) random numbers of each combination
    """

    names: tuple[str, ...]
    pieces: tuple[Patterns, ...]
    orders: tuple[Host, ...]

    def merge(self, other: BlankTable) -> BlankTable:
        """The combinations of both; equal ones are put together later."""
        return replace(self, pieces=self.pieces + other.pieces, orders=self.orders + other.orders)


@dataclass(frozen=True, eq=False, repr=False)
class Blanks:
    """What is blanked.

    patterns : (b, c) combinations that lose cells
    starts   : (b + 1,) where their lines begin
    ends     : (lines,) cumulated numbers of records of the combination, line by line; each line keeps other cells
    keep     : (lines, c) the cells that they keep
    spare    : (s, c) combinations of which more than k records keep everything
    chance   : (s, c) chance that a cell of such a record is blanked besides, as cover
    """

    patterns: Host
    starts: Host
    ends: Host
    keep: Host
    spare: Host
    chance: Host


def plan_blanks(patterns: Patterns, lines: Lines, k: int, cover: float, rate: float = 0.0) -> Blanks:
    """What is blanked where these cells of the combinations are to be left.

    cover : expected number of further cells of the column that are blanked for each blanked cell, in records of
        combinations with more than k records
    rate  : share of the cells of such records that are blanked
    """
    there = patterns.codes >= 0
    lost = there[lines.of] & ~lines.keep
    loses = np.zeros(len(there), dtype=bool)
    loses[lines.of[lost.any(axis=1)]] = True
    spare = ~loses & (patterns.counts >= 2 * k) & there.all(axis=1)
    codes, counts = patterns.codes[spare], patterns.counts[spare]
    blanked = lost.T @ lines.counts
    share = (counts - k) / np.maximum(counts, 1)  # k records of each combination keep everything
    available = max(float(counts @ share), 1.0)
    chance = np.minimum(cover * blanked / available + rate, 1.0)
    ours = lines.take(np.flatnonzero(loses[lines.of]))
    number = np.cumsum(loses)[ours.of] - 1
    starts = np.searchsorted(number, np.arange(int(loses.sum()) + 1))
    running = np.cumsum(ours.counts)
    ends = running - np.concatenate([[0], running])[starts[number]]
    return Blanks(patterns.codes[loses], starts, ends, ours.keep, codes, share[:, None] * chance[None, :])


def blank_cells(codes: Array, blanks: Blanks, k: int, draws: Draws) -> Array:
    """(n, c) whether each cell of `codes` (n, c), which hold all records of their combinations, is blanked.

    Where records of a combination keep different cells, it is drawn which.  Cells that cover others are drawn by
    record; k records of each combination are spared.
    """
    xp = namespace(codes)
    out = xp.zeros(codes.shape, dtype=bool)
    at = _row_of(codes, blanks.patterns)
    rows = xp.flatnonzero(at >= 0)
    out[rows] = ~like(blanks.keep, codes)[_line_of(at[rows], blanks, rows, draws)] & (codes[rows] >= 0)
    if len(blanks.spare) and float(blanks.chance.max(initial=0.0)) > 0:
        at = _row_of(codes, blanks.spare)
        rows = xp.flatnonzero(at >= 0)
        numbers = draws.uniform(codes.shape[1] + 1)[rows]
        # The first k records of a combination, in a random order, keep everything.
        rank = ranks_within(numbers[:, -1], Partition.from_labels(at[rows]))
        out[rows] = (numbers[:, :-1] < like(blanks.chance, codes)[at[rows]]) & (rank >= k)[:, None]
    return out


def _line_of(at: Array, blanks: Blanks, rows: Array, draws: Draws) -> Array:
    """(r,) int64 the line of each of these rows, whose combinations are `at` (r,); records are divided at random."""
    most = int(np.diff(blanks.starts).max(initial=1))
    if most == 1:
        return at
    xp = namespace(at)
    both = like(np.concatenate([blanks.starts, blanks.ends]), at)  # one upload
    starts, ends = both[: len(blanks.starts)], both[len(blanks.starts) :]
    line = starts[:-1][at]
    rank = ranks_within(draws.child("line").uniform()[rows, 0], Partition.from_labels(at))
    last = starts[1:][at] - 1
    for _ in range(most - 1):
        line = xp.minimum(line + (rank >= ends[line]), last)
    return line


def _row_of(codes: Array, table: Host) -> Array:
    """(n,) int64 the line of `table` (g, c), whose lines differ, that each row equals; −1 for none."""
    xp = namespace(codes)
    if len(table) == 0 or len(codes) == 0:
        return xp.full(len(codes), -1, dtype=np.int64)
    labels = equal_rows(xp.concatenate([like(table, codes), codes]))
    line = xp.full(int(labels.max()) + 1, -1, dtype=np.int64)
    line[labels[: len(table)]] = xp.arange(len(table), dtype=np.int64)
    return line[labels[len(table) :]]


class _Blanking(Operation):
    """Operations that blank cells of records, and release all of them."""

    sees: ClassVar[Sight] = "classes"
    learns: ClassVar[bool] = True
    whole_table: ClassVar[bool] = True
    blanks: ClassVar[bool] = True

    k: int = Field(ge=2, description="records that share the values that are left of a record, at least")
    limit: float = Field(default=1.0, gt=0, le=1, description="share of the cells that may be blanked; else refused")

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        return (SharedValues(self.k, tuple(sets)),)

    def learn(self, T: Array, groups: Partition, records: Records) -> BlankTable:
        if records.classes is None:
            raise ParameterError(f"{self.use}: the rows must be seen as classes", hint='basis = { use = "codes" }')
        if records.person_numbers is not None:
            raise ParameterError(
                "blank: k counts records, and a column has the role person", hint="recode and suppress count persons"
            )
        found = Partition.from_labels(equal_rows(T))
        order = records.draws.child("order").uniform(T.shape[1])[found.order[found.starts[:-1]]]
        return BlankTable(records.classes.names, (Patterns.of(T),), (to_host(order),))

    def check_limit(self, patterns: Patterns, lines: Lines) -> None:
        """Refuse more blanked cells than the limit allows."""
        cells = lines.cost(patterns.codes, np.ones(patterns.codes.shape[1]))
        share = float(cells / max(patterns.counts.sum() * patterns.codes.shape[1], 1))
        if share > self.limit:
            raise GuaranteeError(
                f"{share:.2%} of the cells would be blanked, more than limit = {self.limit:g}; nothing was written",
                hint="a larger limit, a smaller k, or recode first",
            )

    def released(self, T: Array, blanked: Array) -> Recoded:
        """The rows without the blanked cells."""
        xp = namespace(T)
        codes = xp.where(blanked, -1, T)
        cells = int(to_host((blanked & (T >= 0)).sum()))
        columns = [NewColumn(j, xp.ascontiguousarray(codes[:, j])) for j in range(T.shape[1])]
        return Recoded(columns, facts={"cells_suppressed": cells})


class Blank(_Blanking):
    """The fewest cells, or the least important ones, are blanked until what is left of each record is shared by k.

    A pattern that blanks no more than it must tells something of what it blanks (the measure
    suppression_reconstruction): `cover` blanks cells of common records besides, at random, so that a missing value may
    be any.
    """

    use: Literal["blank"] = "blank"
    importance: dict[str, Importance] | None = Field(
        default=None, description="cost of a blanked cell of a column, by name; 1 for those not named"
    )
    cover: float = Field(
        default=0.0, ge=0, description="cells of common records that are blanked besides, for each that has to be"
    )

    def conclude(self, summary: BlankTable) -> Blanks:
        patterns, given = Patterns.merged(summary.pieces), self.importance or {}
        unknown = [name for name in given if name not in summary.names]
        if unknown:
            raise ParameterError("\n".join(f"importance: column {name!r} is not among the columns" for name in unknown))
        weights = [given.get(name, 1.0) for name in summary.names]
        lines = kept_cells(patterns.codes, patterns.counts, self.k, weights)
        self.check_limit(patterns, lines)
        return plan_blanks(patterns, lines, self.k, self.cover)

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        assert isinstance(records.learned, Blanks)
        return self.released(T, blank_cells(T, records.learned, self.k, records.draws.child("cover")))


class RandomBlank(_Blanking):
    """Cells are blanked at random until what is left of each record is shared by k.

    Records that too few share lose cells in a random order, and records of common combinations lose `rate` of theirs,
    so that a missing value says little of what it was.  It takes many cells.
    """

    use: Literal["random-blank"] = "random-blank"
    rate: float = Field(default=0.05, ge=0, lt=1, description="share of the cells of common records that are blanked")

    def conclude(self, summary: BlankTable) -> Blanks:
        codes = np.concatenate([piece.codes for piece in summary.pieces])
        counts = np.concatenate([piece.counts for piece in summary.pieces])
        first = Partition.from_labels(equal_rows(codes))
        patterns = Patterns.of(codes, counts)  # numbered as `first` is
        order = np.concatenate(summary.orders)[first.order[first.starts[:-1]]]
        lines = Lines.whole(patterns.counts, randomly_kept(patterns.codes, patterns.counts, self.k, order))
        self.check_limit(patterns, lines)
        return plan_blanks(patterns, lines, self.k, 0.0, self.rate)

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        assert isinstance(records.learned, Blanks)
        return self.released(T, blank_cells(T, records.learned, self.k, records.draws.child("cover")))
