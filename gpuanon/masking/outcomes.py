"""What an operation returns: moved rows, new coordinates or new columns, and rows that it added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Backend, Host, namespace, on_device, to_host
from gpuanon.arrays.rng import Draws
from gpuanon.masking.given import Facts


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """What an operation releases.

    rows  : (m,) the row that each released row stands for, or from whose class it was made; None for all, in order
    added : number of released rows, the last ones, that stand for no record.  Columns that the mask does not release
            are filled in them by `Operation.filled` where it declares `samples`, else by values of random rows, column
            by column (the marginal distribution)
    facts : counts for the manifest (rows added, cells suppressed …), by name, in groups or not; those of several cells
            are added up
    minima : counts for the claims, of which the smallest of all cells stands
    """

    rows: Array | None = None
    added: int = 0
    facts: Facts = field(default_factory=dict)
    minima: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """Sizes of the random samples of whole rows that an operation needs before it fills added rows.

    records : number of records, about
    added   : number of rows that will be added, about; 0 for none
    """

    records: int
    added: int = 0


@dataclass(frozen=True, repr=False)
class ColumnValues:
    """Columns of some rows as numbers, on the host.

    names  : of the columns
    values : (n, columns) float64: numbers as they are, levels as codes from 0; NaN is a null, or a level that none of
             the sampled records has
    levels : for each column the number of its levels; 0 for numbers
    """

    names: tuple[str, ...]
    values: Array
    levels: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Sampled:
    """What an operation learns its fill from: random samples of the whole table, on the host.

    records : sampled records: the columns of the mask first, then those that are filled
    known   : number of columns of the mask
    added   : sampled rows that are going to be added: the columns of the mask; None where they were not asked for
    rows    : number of all records, rows_added : of all added rows
    draws   : of the rows in `added`
    backend : of the run, for models that run on a device
    """

    records: ColumnValues
    known: int
    added: ColumnValues | None
    rows: int
    rows_added: int
    draws: Draws
    backend: Backend


@dataclass(frozen=True, repr=False)
class AddedRows:
    """Added rows whose other columns are to be filled, on the host.

    known   : the columns of the mask
    names   : of the columns to be filled
    parents : (m,) row of the cell beside which each was made
    codes   : (n, columns) codes of the mask's columns in the rows of the cell
    cell    : gives the columns to be filled in the rows of the cell
    draws   : of the added rows
    persons : (n,) whose rows those of the cell are, or None
    """

    known: ColumnValues
    names: tuple[str, ...]
    parents: Array
    codes: Array
    cell: Callable[[], ColumnValues]
    draws: Draws
    persons: Array | None = None


@dataclass(frozen=True, repr=False)
class Filled:
    """A column of added rows: drawn numbers or codes of levels (NaN is a null), or the values of rows of the cell.

    values : (m,) float64; numbers are put on the lattice of the column: its type, its decimals, its range
    donors : (m,) rows of the cell
    """

    values: Array | None = None
    donors: Array | None = None


@dataclass(frozen=True, repr=False)
class Moved(Outcome):
    """Each released row receives, whole, the values of the row `source[i]`: nothing is decoded or rounded."""

    source: Array


@dataclass(frozen=True, repr=False)
class Changed(Outcome):
    """New coordinates, (m, c): they are mapped back through the basis and decoded."""

    values: Array


@dataclass(frozen=True, repr=False)
class NewColumn:
    """One column to be released, as codes.

    column  : position of the column in the view that it is made from
    codes   : (m,) codes of values at `depth`, or rows of `members`
    depth   : of the hierarchy; 0 for the column's own values; None: codes number the nodes of all depths, those of
              depth 0 first
    members : (sets, values) bool: each code means a set of values; None: each code means one value
    between : (m,) float64 from 0 to below 1: how far from its code to the next one a number or a time lies, which is
              then put on the column's lattice; None: each has the value of its code.  On the host
    """

    column: int
    codes: Array
    depth: int | None = 0
    members: Array | None = None
    between: Any = None


@dataclass(frozen=True, repr=False)
class Recoded(Outcome):
    """New columns in place of those of the view: one or two (low, high) for each, as `Operation.reading` declares."""

    columns: Sequence[NewColumn]


@dataclass(frozen=True, repr=False)
class Downloaded:
    """The arrays of an outcome on the host.

    values : (m, d) new coordinates; those of a device lie column by column, in memory of their own
    """

    rows: Host | None
    source: Host | None
    values: Host
    labels: Host | None


def download(outcome: Outcome, labels: Array | None, scratch: Host | None = None) -> Downloaded:
    """Everything that has one value or one line per row, in one transfer.

    scratch : memory of the host that new coordinates may be copied to, or None: fresh memory costs more than the copy
    """
    whole: dict[str, Array] = {}
    if outcome.rows is not None:
        whole["rows"] = outcome.rows
    if isinstance(outcome, Moved) and outcome.source is not outcome.rows:
        whole["source"] = outcome.source
    if labels is not None:
        whole["labels"] = labels
    values: Host = np.empty((0, 0))
    if isinstance(outcome, Changed):
        values, whole = _values_with(outcome.values, whole, scratch)
    elif whole:
        xp = namespace(next(iter(whole.values())))
        ends = np.cumsum([len(array) for array in whole.values()])
        parts = np.split(to_host(xp.concatenate(list(whole.values()))), ends[:-1])
        whole = dict(zip(whole, parts, strict=True))
    rows = whole.get("rows")
    source = whole.get("source", rows if isinstance(outcome, Moved) else None)
    return Downloaded(rows, source, values, whole.get("labels"))


def _values_with(values: Array, beside: dict[str, Array], scratch: Host | None) -> tuple[Host, dict[str, Host]]:
    """New coordinates, and whole numbers beside them (exact in float64), in one transfer where lengths allow it.

    A device transposes them before: they are decoded column by column.
    """
    if not on_device(values):
        return to_host(values).astype(np.float64, copy=False), {name: to_host(array) for name, array in beside.items()}
    xp = namespace(values)
    fitting = {name: array for name, array in beside.items() if len(array) == len(values)}
    columns = [values.T, *(array[None].astype(values.dtype) for array in fitting.values())]
    made = xp.concatenate(columns, axis=0)
    room = None
    if scratch is not None and scratch.dtype == made.dtype and scratch.size >= made.size:
        room = scratch.reshape(-1)[: made.size].reshape(made.shape)
    whole = xp.asnumpy(made, out=room).astype(np.float64, copy=False)
    got = {name: whole[values.shape[1] + at].astype(np.int64) for at, name in enumerate(fitting)}
    got |= {name: to_host(array) for name, array in beside.items() if name not in fitting}
    return whole[: values.shape[1]].T, {name: got[name] for name in beside}


def codes_on_host(columns: Sequence[NewColumn]) -> list[NewColumn]:
    """The codes of all new columns, in one transfer; sets of values are few and come one by one."""
    xp = namespace(columns[0].codes)
    if xp is np:
        return list(columns)
    codes = to_host(xp.stack([column.codes for column in columns]))
    return [replace(column, codes=own) for column, own in zip(columns, codes, strict=True)]
