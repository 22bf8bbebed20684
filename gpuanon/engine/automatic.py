"""Automatic parameters: chosen by a reference sample before anything is masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.compared_tables import aligned, require_columns, types_of
from gpuanon.assessing.risk.auto_target import auto_target
from gpuanon.errors import RecipeError
from gpuanon.masking.mask import Mask
from gpuanon.masking.mask_columns import needed_columns
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Nulls, Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table


def resolve(
    alternatives: Mapping[int, Any],
    sample: Rows,
    schema: Schema,
    nulls: Nulls,
    reference: Table | None,
    key: Key,
    stream: str,
    backend: Backend,
) -> Any:
    """The first of `alternatives` whose release predicts its subjects no better than `reference` does.

    sample : rows on which they are tried: all, or a random sample of a large table
    """
    if reference is None:
        raise RecipeError(
            'target: "auto" needs a reference sample',
            hint="--reference FILE: a second, non-overlapping sample of the same population; or give target a number",
        )
    first = next(iter(alternatives.values())).combination()
    summary = Summary.of(sample.table, schema, needed_columns(first, schema))
    columns = Mask.fit(first, summary, schema, nulls).columns
    encoding = Encoding.from_summary(summary.select(columns), schema, nulls, "indicator")
    require_columns(reference, columns)
    known = encoding.encode(aligned(reference, types_of(sample.table)))

    def release(size: int) -> Host:
        fitted = Mask.fit(alternatives[size].combination(), summary, schema, nulls)
        return encoding.encode(fitted.apply(sample, key, stream, backend).rows.table)

    choice = auto_target(encoding.encode(sample.table), known, release, list(alternatives))
    return alternatives[choice.target]
