"""A sensitive column in the whole table: its values in their order, and how many rows have each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.schema import Column
from gpuanon.tables.summaries import LevelSummary
from gpuanon.tables.table import Table
from gpuanon.tables.values import lookup

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class SensitiveColumn:
    """Values of a column and their frequencies.

    ordered : whether the order of the values means something
    values  : the distinct values in their order
    nulls   : whether a null occurs; it is a value then, before all others
    counts  : (levels,) int64 rows of each value in the whole table
    """

    name: str
    ordered: bool
    values: pa.Array
    nulls: bool
    counts: Host

    @classmethod
    def of(cls, column: Column, summary: LevelSummary) -> SensitiveColumn:
        """From the summary of the whole table; levels that the schema orders have its order."""
        import pyarrow as pa

        values, counts = summary.levels, summary.counts
        if column.levels is not None and not pa.types.is_null(values.type):
            order = lookup(pa.chunked_array([arrow_array(column.levels).cast(values.type)]), values)
            order = order[order >= 0]
            values, counts = values.take(arrow_array(order)), counts[order]
        nulls = summary.nulls > 0
        counts = np.concatenate([[summary.nulls], counts]) if nulls else counts
        return cls(column.name, column.kind != "categorical", values, nulls, np.asarray(counts, dtype=np.int64))

    def codes(self, table: Table) -> Host:
        """(n,) int64 position of each row's value in `counts`."""
        found = lookup(table.arrow(self.name), self.values)
        return found + 1 if self.nulls else np.maximum(found, 0)
