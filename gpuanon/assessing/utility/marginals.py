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
from typing import Any

import numpy as np

from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import By, Measured, join

Host = np.ndarray[Any, Any]

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
    weights: tuple[Host, Host] | None = None,
    rng: np.random.Generator | None = None,
) -> Measured:
    """1000 · (1 − mean total variation) over the tables of 1 to `ways` columns; each number of columns counts alike.

    original, release : (n, d) codes of binned columns, equal where values fall in the same bin
    weights : people that each row stands for; None for 1 each

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
        found = np.array(each(lambda names: _distance([columns[at] for at in names], weights), sets))
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


def _distance(columns: Sequence[tuple[Host, Host, int]], weights: tuple[Host, Host] | None) -> float:
    """Total variation between the tables of these columns."""
    before, after, levels = columns[0]
    for first, second, more in columns[1:]:
        before, after, levels = before * more + first, after * more + second, levels * more
    if levels > max(_DENSE, 4 * (len(before) + len(after))):
        before, after, levels = _numbered(before, after)
    own = (None, None) if weights is None else weights
    counts = [np.bincount(side, own[at], minlength=levels) for at, side in enumerate((before, after))]
    shares = [count / count.sum() for count in counts]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
