"""What an operation made, from the device to the host in one transfer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.masking.outcomes import Changed, Moved, NewColumn, Outcome

Host = np.ndarray[Any, Any]


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
