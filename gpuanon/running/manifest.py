"""The manifest: what was done to a table, and nothing that undoes it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from gpuanon import __version__
from gpuanon.masking.methods.catalogue import AnyMask
from gpuanon.recipe import Recipe
from gpuanon.running.plan import Plan
from gpuanon.running.verify import Guarantee
from gpuanon.tables.schema import Schema


def describe(
    recipe: Recipe,
    schema: Schema,
    backend: str,
    rows_in: int,
    rows_out: int,
    masks: Sequence[tuple[AnyMask, Plan, int, int]],
    guarantees: Sequence[Guarantee],
) -> dict[str, Any]:
    """The manifest of a run.

    masks : each mask as it was applied, with its plan, the number of groups and the rows of the smallest
    """
    done = [
        {
            **mask.model_dump(mode="json", exclude_none=True),
            "columns": list(plan.columns),
            "groups_formed": groups,
            "smallest_group": smallest,
        }
        for mask, plan, groups, smallest in masks
    ]
    libraries = ("numpy", "scipy", "pyarrow")
    return {
        "gpuanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows_in": rows_in,
        "rows_out": rows_out,
        "rows_added": max(0, rows_out - rows_in),
        "rows_dropped": max(0, rows_in - rows_out),
        "columns": {column.name: {"role": column.role, "kind": column.kind} for column in schema.columns},
        "nulls": recipe.nulls,
        "limits": recipe.limits,
        "mask": done,
        "guarantee": overall(guarantees),
        "backend": backend,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in libraries}},
    }


def overall(guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """The guarantees as one object: every statement, and the smallest k where all of them have one."""
    ks = [guarantee.k for guarantee in guarantees]
    figures = guarantees[0].figures if len(guarantees) == 1 else {}
    return {
        "statement": "; ".join(guarantee.statement for guarantee in guarantees),
        "k": None if None in ks else min(k for k in ks if k is not None),
        "verified": all(guarantee.verified for guarantee in guarantees),
        **figures,
    }
