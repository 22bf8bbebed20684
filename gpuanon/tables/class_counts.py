"""Sizes of the classes of equal rows in a table that is larger than memory.

A row becomes 128 bits, and equal bits are counted.  Different rows share their bits with probability below
n² / 2^129 for n classes: 10⁻²¹ for a billion.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.tables.codes import distinct, lookup
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, plain, ticks

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]

_HELD = 40_000_000
"""Classes that are counted at once; a table that may have more is read several times."""
_PENDING = 1 << 22


def class_sizes(pieces: Callable[[], Iterable[Table]], rows: int, columns: Sequence[str], held: int = _HELD) -> Host:
    """(classes,) int64 rows of each class that is equal on `columns`.

    Parameters
    ----------
    pieces : gives the table, piece by piece, as often as it is asked
    rows   : of the table
    held   : classes that memory holds
    """
    rounds = max(1, -(-rows // held))
    return np.concatenate([_round(pieces(), columns, at, rounds) for at in range(rounds)])


def _round(pieces: Iterable[Table], columns: Sequence[str], at: int, rounds: int) -> Host:
    """Sizes of the classes whose bits fall to this round."""
    kept = np.empty((0, 2), np.uint64), np.empty(0, np.int64)
    waiting, pending = [kept], 0
    for table in pieces:
        bits = row_bits(table, columns)
        bits = bits[bits[:, 0] % np.uint64(rounds) == at]
        waiting.append(_counted(bits, np.ones(len(bits), np.int64)))
        pending += len(waiting[-1][1])
        if pending > max(_PENDING, len(waiting[0][1])):
            waiting, pending = [_merged(waiting)], 0
    return _merged(waiting)[1]


def _merged(counts: list[tuple[Host, Host]]) -> tuple[Host, Host]:
    """Counts of several pieces as those of one."""
    return _counted(np.concatenate([bits for bits, _ in counts]), np.concatenate([times for _, times in counts]))


def _counted(bits: Host, times: Host) -> tuple[Host, Host]:
    """Distinct bits, and the sum of the times of each."""
    if len(bits) == 0:
        return bits, times
    order = np.lexsort((bits[:, 1], bits[:, 0]))
    bits = bits[order]
    starts = np.flatnonzero(np.concatenate([[True], (bits[1:] != bits[:-1]).any(axis=1)]))
    return bits[starts], np.add.reduceat(times[order], starts)


def row_bits(table: Table, columns: Sequence[str]) -> Host:
    """(n, 2) uint64: equal for rows that are equal on `columns`, in whatever piece of the table they lie."""
    out = np.zeros((table.n_rows, 2), np.uint64)
    for number, name in enumerate(columns):
        words, missing = _words(table.arrow(name))
        for half in (0, 1):
            value = _mixed(words[:, half] + np.uint64((2 * number + half + 1) * 0x9E3779B97F4A7C15 % 2**64))
            value[missing] = np.uint64(0)
            out[:, half] = _mixed(out[:, half] * np.uint64(0xD6E8FEB86659FD93) + value + np.uint64(1))
    return out


def _words(column: pa.ChunkedArray) -> tuple[Host, Host]:
    """(n, 2) words that are equal for equal values, and (n,) whether a value is missing (null or NaN)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = np.asarray(pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy())
    kind = family(column.type)
    if kind == "time" or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        whole = ticks(plain(column)) if kind == "time" else column
        wide = pa.uint64() if pa.types.is_uint64(column.type) else pa.int64()
        numbers = pc.fill_null(whole.cast(wide), 0).to_numpy().view(np.uint64)
    elif pa.types.is_floating(column.type):
        numbers = (pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy() + 0.0).view(np.uint64)  # + 0.0: one zero
    else:
        levels = distinct([column])
        digests = [hashlib.blake2b(str(level).encode(), digest_size=16).digest() for level in levels.to_pylist()]
        known = np.frombuffer(b"".join(digests) or bytes(16), dtype=np.uint64).reshape(-1, 2)
        return known[np.maximum(lookup(column, levels), 0)], missing
    return np.repeat(numbers[:, None], 2, axis=1), missing


def _mixed(words: Host) -> Host:
    """Every bit of the result depends on every bit of the word (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))
