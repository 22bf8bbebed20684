"""``target = "auto"``: the size of the groups is settled by a reference sample before anything is masked."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Draws
from gpuanon.assessing.risk.auto_target import auto_target
from gpuanon.errors import RecipeError
from gpuanon.masking.methods.catalogue import AnyMask
from gpuanon.recipe import NullPolicy
from gpuanon.running.plan import Plan, chosen_columns
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

CANDIDATES = (50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 650, 800, 1000, 1500, 2000, 3000, 5000)


def is_open(mask: AnyMask) -> bool:
    """Whether the mask waits for its target."""
    return getattr(mask, "target", None) == "auto"


def settled(
    mask: AnyMask,
    table: Table,
    schema: Schema,
    nulls: NullPolicy,
    reference: Table | None,
    draws: Draws,
    backend: Backend,
) -> AnyMask:
    """The mask with the smallest target whose release predicts its subjects no better than `reference` does."""
    if not is_open(mask):
        return mask
    if reference is None:
        raise RecipeError(
            'target: "auto" needs a reference sample',
            hint="--reference FILE: a second, non-overlapping sample of the same population; or give target a number",
        )
    columns = chosen_columns(with_target(mask, CANDIDATES[0]).combination(), schema)
    encoding = Encoding.fit(table, schema, columns, nulls=nulls, categories="indicator")
    candidates = [size for size in CANDIDATES if size <= table.n_rows // 2] or [max(2, table.n_rows // 2)]

    def release(target: int) -> np.ndarray[Any, Any]:
        plan = Plan.fit(with_target(mask, target).combination(), table, schema, nulls)
        return encoding.encode(plan.apply(table, draws, backend).table)

    choice = auto_target(encoding.encode(table), encoding.encode(reference), release, candidates)
    return with_target(mask, choice.target)


def with_target(mask: AnyMask, target: int) -> AnyMask:
    """The mask with this target."""
    return mask.model_copy(update={"target": target})
