"""The manifest: what was done to a table, and nothing that undoes it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from gpuanon.arrays.compiled import installed_version
from gpuanon.engine.run import Done, Step
from gpuanon.masking.claims import Counted
from gpuanon.recipe import Recipe
from gpuanon.version import __version__


def describe(recipe: Recipe, backend: str, done: Done) -> dict[str, Any]:
    """The manifest of a run."""
    masks = [
        {
            **step.mask.model_dump(mode="json", exclude_none=True),
            "columns": list(step.fitted.columns),
            "groups_formed": step.result.groups,
            **_smallest(step),
            **step.result.facts,
            **step.report,
        }
        for step in done.steps
    ]
    rows_in, rows_out = done.rows
    libraries = _libraries()
    released = done.steps[-1].fitted.released_schema
    return {
        "gpuanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows_in": rows_in,
        "rows_out": rows_out,
        "rows_added": done.added,
        "rows_dropped": rows_in - (rows_out - done.added),
        "columns": {column.name: {"role": column.role, "kind": column.kind} for column in done.schema.columns},
        "readings": {column.name: column.reading for column in released.columns if column.reading != "same"},
        "nulls": recipe.nulls,
        "limits": recipe.limits,
        **({"measures": recipe.options} if recipe.options else {}),
        "mask": masks,
        **conclude(done, done.smallest),
        "warnings": list(done.warnings),
        "backend": backend,
        "versions": {"python": platform.python_version(), **libraries},
    }


@lru_cache(maxsize=1)
def _libraries() -> dict[str, str]:
    """The versions of libraries that a release may depend on: reading them takes milliseconds."""
    return {name: installed_version(name) for name in ("numpy", "scipy", "pyarrow")}


def _smallest(step: Step) -> dict[str, int]:
    """The size of the smallest group; classes are those of the original, which the mask has yet to make common."""
    return {"smallest_class_before" if step.fitted.finds_classes else "smallest_group": step.result.smallest}


def conclude(done: Done, smallest: Mapping[Counted, int]) -> dict[str, Any]:
    """The guarantees and the headline, with the smallest classes of a table or file."""
    return {
        "guarantee": [guarantee.to_json() for guarantee in done.conclude(smallest)],
        "quasi": {
            "columns": list(done.schema.quasi),
            "kept": [name for name in done.schema.quasi if done.schema[name].keep],
            "smallest_class": smallest[done.quasi] if done.quasi else None,
            "unit": done.schema.unit,
        },
    }
