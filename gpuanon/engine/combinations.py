"""Which columns, alone and combined, tell the people of a table apart: records, persons or households."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.numerics.alone import alone_on_few, single_person
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import value_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.schema import Unit
from gpuanon.tables.table import Table

RISK_ROWS = 100_000
"""Rows on which a proposal counts combinations of columns; of a larger table those of random people."""


@dataclass(frozen=True)
class Risk:
    """What tells people apart on some columns of a table, as it is.

    rows     : that were looked at
    unit     : what a figure counts
    people   : so many there are in these rows
    columns  : of which the risk is
    smallest : people in the smallest class of all of them
    unique   : share of the people alone on all of them
    up_to    : share of the people that 1, 2, 3 of these single out
    sampled  : people who were compared with all others where sets were too many to be counted; 0: all were counted
    sets     : share of the people by the sets of columns that single out most by themselves, the worst first
    """

    rows: int
    unit: Unit
    people: int
    columns: tuple[str, ...]
    smallest: int
    unique: float
    up_to: tuple[float, ...]
    sampled: int
    sets: Mapping[str, float]

    @property
    def singled_out(self) -> float:
        """Share of the people whom at most three of the columns single out."""
        return self.up_to[-1] if self.up_to else 0.0

    def to_json(self) -> dict[str, Any]:
        """Strict JSON."""
        lists = {"columns": list(self.columns), "up_to": list(self.up_to)}
        return {**asdict(self), **lists, "singled_out": self.singled_out, "sets": dict(self.sets)}


def units_of(table: Table, column: str | None) -> Host | None:
    """(n,) whose record each is, by this column; None: each record is one's own."""
    return None if column is None else value_codes(table, [column])[:, 0]


def risk_of(
    table: Table,
    names: Sequence[str],
    column: str | None = None,
    unit: Unit = "record",
    *,
    rows: int | None = None,
    codes: Host | None = None,
) -> Risk | None:
    """The risk of these columns; None without any, or without rows.

    column : that says whose record each is; None: each is one's own
    rows   : of a larger table the records of random people, about so many; None: all
    codes  : (n, names) `value_codes`, where they are known
    """
    if not names or table.n_rows == 0:
        return None
    if rows is not None and table.n_rows > rows:
        table, codes = table.take(_rows_of_some(table, column, rows)), None
    codes = value_codes(table, names) if codes is None else codes
    who = units_of(table, column)
    found = alone_on_few(codes, who)
    classes = equal_rows(codes)
    alone = single_person(classes, int(classes.max()) + 1, who)
    held = classes if who is None else _pairs(classes, who)
    people_alone = int(alone.sum()) if who is None else len(np.unique(who[alone]))
    sets = {", ".join(names[at] for at in some): share for some, share in found.leading}
    return Risk(
        table.n_rows, unit, found.people, tuple(names), int(np.bincount(held).min()), people_alone / found.people,
        found.shares, found.sampled, sets,
    )  # fmt: skip


def _pairs(classes: Host, who: Host) -> Host:
    """The class of each person that has a record in it, once."""
    pairs = np.unique(classes * (int(who.max()) + 1) + who)
    return np.asarray(pairs // (int(who.max()) + 1))


def _rows_of_some(table: Table, column: str | None, rows: int) -> Host:
    """Rows at random, about so many; of a person all or none."""
    rng = np.random.default_rng(0)
    if column is None:
        return np.sort(rng.choice(table.n_rows, rows, replace=False))
    who = np.unique(row_bits(table, [column])[:, 0], return_inverse=True)[1].reshape(-1)
    return np.flatnonzero(rng.random(int(who.max()) + 1)[who] < rows / table.n_rows)


def risk_lines(risk: Risk) -> list[str]:
    """The risk in words."""
    steps = [
        f"{share:.1%} by {'one column' if at == 0 else f'at most {at + 1} columns'}"
        for at, share in enumerate(risk.up_to)
    ]
    of = f"{risk.rows:,} records" + ("" if risk.unit == "record" else f" of {risk.people:,} {risk.unit}s")
    by = f" (the largest sets by {risk.sampled} random {risk.unit}s)" if risk.sampled else ""
    lines = [
        f"Risk before masking ({of}): the smallest class of {', '.join(risk.columns)} has {risk.smallest};",
        f"{risk.unique:.1%} of the {risk.unit}s are alone in theirs.  Singled out{by}: {', '.join(steps)}.",
    ]
    worst = [f"{names} {share:.1%}" for names, share in list(risk.sets.items())[:5] if share >= 0.001]
    if worst:
        lines.append(f"The sets that single out most: {'; '.join(worst)}.")
    return lines
