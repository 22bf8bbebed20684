"""Which columns, alone and combined, tell the records of a table apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuanon.assessing.risk.suda2 import uniques
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.table import Table

RISK_ROWS = 100_000
"""Rows on which combinations of columns are counted; of a larger table a random sample."""
RISK_COLUMNS = 10
"""Columns whose small sets are counted: those with most different values."""


@dataclass(frozen=True)
class Risk:
    """What tells people apart on some columns of a table, as it is.

    rows     : that were looked at; a random sample of a larger table
    columns  : of which the risk is
    smallest : records of the smallest class of all of them
    unique   : share of records alone on all of them
    combined : those of them whose small sets were counted
    up_to    : share of records that 1, 2, 3 of these single out
    sets     : share of the records by the smallest sets of columns that single them out, the worst first
    """

    rows: int
    columns: tuple[str, ...]
    smallest: int
    unique: float
    combined: tuple[str, ...]
    up_to: tuple[float, ...]
    sets: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Strict JSON."""
        lists = {"columns": list(self.columns), "combined": list(self.combined), "up_to": list(self.up_to)}
        return {**asdict(self), **lists, "sets": dict(self.sets)}


def risk_of(table: Table, names: Sequence[str]) -> Risk | None:
    """The risk of these columns; None without any, or without rows."""
    if not names or table.n_rows == 0:
        return None
    rows = table.select(names)
    if table.n_rows > RISK_ROWS:
        rows = rows.take(np.sort(np.random.default_rng(0).choice(table.n_rows, RISK_ROWS, replace=False)))
    (codes,) = level_codes([rows], names)
    sizes, combined = np.bincount(equal_rows(codes)), list(names)
    if len(names) > RISK_COLUMNS:
        most = np.sort(np.argsort(-codes.max(axis=0), kind="stable")[:RISK_COLUMNS])  # codes are ranks of values
        codes, combined = codes[:, most], [names[at] for at in most]
    found = uniques(codes, combined)
    up_to = tuple(float(count) / found.rows for count in found.records)
    alone = float((sizes == 1).sum()) / found.rows
    return Risk(found.rows, tuple(names), int(sizes.min()), alone, tuple(combined), up_to, found.leading)


def risk_lines(risk: Risk) -> list[str]:
    """The risk in words."""
    of = f"{risk.rows:,} records" if risk.rows else "records"
    steps = [
        f"{share:.1%} by {'one column' if at == 0 else f'at most {at + 1} columns'}"
        for at, share in enumerate(risk.up_to)
    ]
    fewer = len(risk.combined) < len(risk.columns)
    among = f", among the {len(risk.combined)} columns with most values" if fewer else ""
    lines = [
        f"Risk before masking ({of}): the smallest class of {', '.join(risk.columns)} has {risk.smallest};",
        f"{risk.unique:.1%} of the records are alone in theirs.  Singled out{among}: {', '.join(steps)}.",
    ]
    worst = [f"{names} {share:.1%}" for names, share in list(risk.sets.items())[:5] if share >= 0.001]
    if worst:
        lines.append(f"The smallest sets that single out most: {'; '.join(worst)}.")
    return lines
