"""The engine for a table that fits in memory: mask, verify, shuffle."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon import __version__
from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.comparison import Comparison
from gpuanon.engine.plan import Masked, Plan
from gpuanon.engine.release import Release
from gpuanon.errors import InputError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.verify import Guarantee, check_limits, verify


def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    *,
    rng: Key | bytes | int | np.random.Generator | None = None,
    backend: BackendName = "auto",
    reference: Any = None,
) -> Release:
    """Mask a table as a recipe says, and verify what the recipe promises.

    Parameters
    ----------
    data : any dataframe that narwhals reads, or `Table`
    recipe : a `Recipe`, the same structure as a mapping, or the path of a recipe file
    rng : the secret of the draws; None takes a fresh one from the operating system.  The same secret, table and
        recipe give the same release, whatever the backend, the batch size or the number of threads.
    backend : ``"auto"``, ``"numpy"`` or ``"cupy"``; an explicit one runs there or fails
    reference : a second, non-overlapping sample of the same population, for limits on measures that need one

    Returns
    -------
    Release
        Its `.data` is the same kind of dataframe as `data`, rows in random order, identifiers gone.

    Raises
    ------
    GuaranteeError
        When the release would not keep its guarantee or exceeds one of the recipe's limits.
    """
    began = time.perf_counter()
    recipe = Recipe.load(recipe)
    chosen = choose(backend)
    original = data if isinstance(data, Table) else Table.of(data)
    schema = Schema.resolve(original, recipe.columns)
    if original.n_rows == 0:
        raise InputError("the table has no rows", hint="there is nothing to mask")
    key = as_key(rng)
    table, steps = original.drop(schema.identifiers), []
    for number, mask in enumerate(recipe.mask):
        plan = Plan.fit(mask.combination(), table, schema, recipe.nulls)
        draws = key.draws(chosen.xp.arange(table.n_rows, dtype=np.int64), f"mask.{number}")
        masked = plan.apply(table, draws, chosen)
        steps.append((plan, table, masked))
        table = masked.table
    with progress.stage("verify"):
        guarantees = _verified(steps, table)
    order = release_order(key, np.arange(table.n_rows, dtype=np.int64))
    released = table.take(order)
    manifest = _manifest(recipe, schema, chosen, original, released, guarantees, steps)
    if recipe.limits:
        with progress.stage("limits"):
            sample = reference if reference is None or isinstance(reference, Table) else Table.of(reference)
            manifest["measured"] = check_limits(Comparison(original, released, schema, order, sample), recipe.limits)
    manifest["seconds"] = round(time.perf_counter() - began, 3)
    return Release(released, manifest, order)


def as_key(rng: Key | bytes | int | np.random.Generator | None) -> Key:
    """The key that `rng` stands for."""
    if rng is None:
        return Key.fresh()
    if isinstance(rng, Key):
        return rng
    if isinstance(rng, bytes):
        return Key(rng)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        return Key(np.random.default_rng(int(rng)).bytes(32))
    if isinstance(rng, np.random.Generator):
        return Key(rng.bytes(32))
    raise ParameterError(
        f"rng: None, a Key, bytes, an integer or a numpy Generator is allowed, got {type(rng).__name__}"
    )


def release_order(key: Key, records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A random order of the rows: their order in the table is a link back."""
    words = key.draws(records, "row order").words(2).astype(np.uint64)
    return np.argsort((words[:, 0] << np.uint64(32)) | words[:, 1], kind="stable")


def _verified(steps: list[tuple[Plan, Table, Masked]], release: Table) -> list[Guarantee]:
    """The guarantees that stand: those of masks whose columns no later mask has changed."""
    guarantees = []
    for number, (plan, before, masked) in enumerate(steps):
        later = {name for after, _, _ in steps[number + 1 :] for name in after.columns}
        if not later & set(plan.columns):
            guarantees.append(verify(plan, before, masked, release))
    return guarantees


def overall(guarantees: list[Guarantee]) -> dict[str, Any]:
    """The guarantees as one object: every statement, and the smallest k where all of them have one."""
    ks = [guarantee.k for guarantee in guarantees]
    figures = guarantees[0].figures if len(guarantees) == 1 else {}
    return {
        "statement": "; ".join(guarantee.statement for guarantee in guarantees),
        "k": None if None in ks else min(k for k in ks if k is not None),
        "verified": all(guarantee.verified for guarantee in guarantees),
        **figures,
    }


def _manifest(
    recipe: Recipe,
    schema: Schema,
    backend: Backend,
    original: Table,
    released: Table,
    guarantees: list[Guarantee],
    steps: list[tuple[Plan, Table, Masked]],
) -> dict[str, Any]:
    """What was done, and nothing that undoes it."""
    masks = [
        {
            **mask.model_dump(mode="json", exclude_none=True),
            "columns": list(plan.columns),
            "groups_formed": masked.groups,
            "smallest_group": masked.smallest,
        }
        for mask, (plan, _, masked) in zip(recipe.mask, steps, strict=True)
    ]
    return {
        "gpuanon": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows_in": original.n_rows,
        "rows_out": released.n_rows,
        "rows_added": 0,
        "rows_dropped": original.n_rows - released.n_rows,
        "columns": {column.name: {"role": column.role, "kind": column.kind} for column in schema.columns},
        "nulls": recipe.nulls,
        "limits": recipe.limits,
        "mask": masks,
        "guarantee": overall(guarantees),
        "backend": backend.name,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "pyarrow")},
        },
    }
