"""Rows drawn column after column, and drawn again where they are copies or impossible.

A row that equals a unique record is kept as often as a model without that record would have made it (leave one out):
a record is then reproduced about as often as a person of whom the model knows nothing.  To refuse every copy would
tell who is in the table: those whose records never occur.

What is drawn again begins with the column that gives the record away most; the columns before it stay.  Whole rows that
are refused would take their common values with them: unusual people would become fewer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws
from gpuanon.masking.operations.column_chain.conditional import Conditional
from gpuanon.masking.operations.column_chain.rules import StructuralZeros
from gpuanon.numerics.equal_rows import equal_rows

ROUNDS = 50
"""Times that a row is drawn again, at most; what it is then stays, and is counted."""
_WHOLE_ROWS = 10
"""Rounds after which whole rows are drawn again."""
TRIES = 20
"""Times that a column is drawn again which contradicts those before it, at most."""


def draw_rows(
    chain: Sequence[Conditional],
    beside: Host,
    records: Host,
    draws: Draws,
    even: bool,
    zeros: StructuralZeros | None = None,
) -> tuple[Host, int]:
    """(n, columns) codes of new rows, and how many of them are still to be drawn again after the last round.

    chain    : the columns in the order in which they are drawn
    beside   : (n, g) the first columns of the new rows, which stay as they are
    records  : (r, columns) codes of the records
    even     : see `pick_records`; of rows that are drawn again it is not asked
    zeros    : which codes exclude each other.  A column that contradicts those before it is drawn again from its leaf
               by itself, the whole row if that does not help: rows that were refused whole would take their other
               values with them

    Draws : words of the rows, in each round a stream of its own.
    Cost  : that of finding leaves, and one sort of the records for each round.
    """
    n = len(beside)
    out = np.full((n, records.shape[1]), -1, dtype=np.int64)
    given = beside.shape[1]
    out[:, :given] = beside
    unique = unique_rows(records)
    rows, start = np.arange(n), np.zeros(n, dtype=np.int64)
    for number in range(ROUNDS):
        own = draws.take(rows).child(f"round.{number}")
        codes, leaves, impossible = _pass(chain, out[rows], given, start, own, even and number == 0, zeros)
        out[rows] = codes
        chance, weakest = chance_to_keep(chain, codes, leaves, unique)
        again = impossible | (own.child("keep").uniform(1)[:, 0] >= chance)
        start = np.where(impossible | (number >= _WHOLE_ROWS), 0, weakest)[again]
        rows = rows[again]
        if not len(rows):
            break
    return out, len(rows)


def _pass(
    chain: Sequence[Conditional],
    rows: Host,
    given: int,
    start: Host,
    draws: Draws,
    even: bool,
    zeros: StructuralZeros | None,
) -> tuple[Host, Host, Host]:
    """The rows with their columns drawn, the leaf (m, chain) that each was drawn from, and whether a row is impossible.

    start : (m,) the first step of the chain that is drawn; what the steps before gave stays
    """
    rows, leaves = rows.copy(), np.empty((len(rows), len(chain)), dtype=np.int64)
    known, impossible = list(range(given)), np.zeros(len(rows), dtype=bool)
    for at, step in enumerate(chain):
        leaves[:, at] = step.find(list(rows.T))
        own = draws.child(str(step.column))
        drawn = step.draw(leaves[:, at], own.uniform(1)[:, 0], even)
        rows[:, step.column] = np.where(start <= at, drawn, rows[:, step.column])
        if zeros is not None:
            clash = np.flatnonzero(zeros.contradicts(rows, step.column, known))
            for number in range(TRIES):
                if not len(clash):
                    break
                u = own.take(clash).child(f"try.{number}").uniform(1)[:, 0]
                rows[clash, step.column] = step.draw(leaves[clash, at], u, False)
                clash = clash[zeros.contradicts(rows[clash], step.column, known)]
            impossible[clash] = True
        known.append(step.column)
    return rows, leaves, impossible


def unique_rows(records: Host) -> Host:
    """The records, (u, columns), that no other equals."""
    classes = equal_rows(np.ascontiguousarray(records))
    return np.asarray(records[np.bincount(classes)[classes] == 1])


def chance_to_keep(chain: Sequence[Conditional], codes: Host, leaves: Host, unique: Host) -> tuple[Host, Host]:
    """(m,) probability that a drawn row stays: 1 unless it equals a unique record; and its weakest step.

    Else the product over the columns of what `Conditional.kept_without_one` says: a row that equals the record was
    drawn from the leaves in which that record is.  The weakest step is the one of the smallest factor, the last of
    several.
    """
    classes = equal_rows(np.ascontiguousarray(np.concatenate([unique, codes])))
    known = np.zeros(int(classes.max(initial=-1)) + 1, dtype=bool)
    known[classes[: len(unique)]] = True
    copies = np.flatnonzero(known[classes[len(unique) :]])
    factors = [step.kept_without_one(leaves[copies, at], codes[copies, step.column]) for at, step in enumerate(chain)]
    chance, weakest = np.ones(len(codes)), np.zeros(len(codes), dtype=np.int64)
    if len(copies) and factors:
        chance[copies] = np.prod(factors, axis=0)
        weakest[copies] = len(factors) - 1 - np.argmin(factors[::-1], axis=0)
    return chance, weakest
