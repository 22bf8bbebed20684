"""Marginals: how far all tables of one, two and three columns of a release are those of the original.

The distance of two tables is their total variation, half the sum of the absolute differences of the shares of cells.
The score is 1000 · (1 − mean distance): 1000 is equal, 0 has no cell in common.  With two columns it is the K-marginal
score of NIST's challenges [1]_.  It means the same whether rows were kept, dropped, added or drawn anew: both sides are
shares, and the original's are those of all its rows.

References
----------
.. [1] C. Task, K. Bhagat, G. Howarth (2023), SDNist v2: deidentified data report tool, NIST.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import By, Measured, join
from gpuanon.assessing.measure import NULL_IS_A_VALUE, Measure, Weights
from gpuanon.assessing.utility.cell_counts import binned
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

WAYS = 3
MOST_TABLES = 400
"""Tables of each number of columns that are looked at; of more, as many at random."""
_DENSE = 1 << 22  # cells of a table that is counted in place


def marginals(
    original: Host,
    release: Host,
    *,
    names: Sequence[str],
    ways: int = WAYS,
    rng: np.random.Generator | None = None,
) -> Measured:
    """1000 · (1 − mean total variation) over the tables of 1 to `ways` columns; each number of columns counts alike.

    original, release : (n, d) codes of binned columns, equal where values fall in the same bin

    Cost : O(n) per table; at most `MOST_TABLES` tables of each number of columns.
    """
    d = original.shape[1]
    columns = [_numbered(original[:, at], release[:, at]) for at in range(d)]
    rng = np.random.default_rng(0) if rng is None else rng
    by_ways: dict[str, float] = {}
    by_column: dict[str, float | None] = {}
    sampled = False
    for size in range(1, min(ways, d) + 1):
        sets = _sets(d, size, rng)
        sampled |= len(sets) < comb(d, size)
        found = np.array(each(lambda names: _distance([columns[at] for at in names]), sets))
        by_ways[str(size)] = 1000 * (1 - float(found.mean()))
        if size == 1:
            by_column = {name: 1000 * (1 - float(value)) for name, value in zip(names, found, strict=True)}
    note = f"of more than {MOST_TABLES} tables of one size, as many at random" if sampled else None
    return Measured(
        float(np.mean(list(by_ways.values()))),
        {"by_ways": dict(by_ways)},
        parts=(By("column", by_column, "smallest"),),
        note=join(note),
    )


def _sets(d: int, size: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """All sets of so many columns, or a random choice of them."""
    if size == 1 or comb(d, size) <= MOST_TABLES:
        return list(combinations(range(d), size))
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < MOST_TABLES:
        chosen.add(tuple(sorted(rng.choice(d, size, replace=False).tolist())))
    return sorted(chosen)


def _numbered(before: Host, after: Host) -> tuple[Host, Host, int]:
    """The codes of a column of both tables, numbered from 0, and their number."""
    levels, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    codes = codes.reshape(-1).astype(np.int64)
    return codes[: len(before)], codes[len(before) :], len(levels)


def _distance(columns: Sequence[tuple[Host, Host, int]]) -> float:
    """Total variation between the tables of these columns."""
    before, after, levels = columns[0]
    for first, second, more in columns[1:]:
        before, after, levels = before * more + first, after * more + second, levels * more
    if levels > max(_DENSE, 4 * (len(before) + len(after))):
        before, after, levels = _numbered(before, after)
    counts = [np.bincount(side, minlength=levels) for side in (before, after)]
    shares = [count / count.sum() for count in counts]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def bins_for(rows: int) -> int:
    """Bins of a number: ten, and fewer where a table of three columns would have fewer than five rows in a cell."""
    return int(np.clip(round((rows / 5) ** (1 / 3)), 2, 10))


def _marginals(c: Comparison, ways: int = WAYS) -> Measured:
    """Of all columns that both tables have; numbers and dates of many values in bins of equal weight."""
    names = [name for name in c.shown if name in c.original.names and not c.is_nested(name)]
    before, after = c.codes_of(tuple(names))
    most = bins_for(c.original.n_rows)
    for at, name in enumerate(names):
        if c.is_number(name) and len(np.unique(before[:, at])) > most + 2:
            first, second = (floats(table.arrow(name))[:, None] for table in (c.original, c.points))
            first, second = binned(first, second, bins=most)
            before[:, at], after[:, at] = first[:, 0], second[:, 0]
    return marginals(before, after, names=names, ways=ways)


_OF_RECORDS = Weights("ignored", "a score of the records, as NIST's is; kl and jsd take weights")

MARGINALS = Measure(
    name="marginals", label="likeness of all small tables",
    sentence="How near the tables of all single columns, pairs and triples of columns are to the original's: 1000 is"
    " equal, whatever became of the rows.",
    summary="1000 · (1 − mean total variation) of all one-, two- and three-way tables of binned columns",
    family="utility", better="higher", range=(0.0, 1000.0), usual="above 900; a second sample has 900 to 980",
    unit="table", function=marginals, compute=_marginals, options={"ways": Annotated[int, Field(ge=1, le=3)]},
    arrays=None, weights=_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole", sees="together", long=1,
    host="counts of many small tables, by codes", source="Task et al. 2023 (two-way form)",
)  # fmt: skip
