"""The engine for a table that fits in memory: mask, verify, shuffle."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.assessing.comparison import Comparison
from gpuanon.errors import InputError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.running.auto_target import settled
from gpuanon.running.manifest import describe
from gpuanon.running.plan import Masked, Plan
from gpuanon.running.release import Release
from gpuanon.running.verify import Guarantee, check_limits, verify
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table


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
    table, masks = original.drop(schema.identifiers), []
    steps: list[tuple[Plan, Table, Masked]] = []
    sample = None if reference is None else Table.of(reference)
    for number, open_mask in enumerate(recipe.mask):
        draws = key.draws(chosen.xp.arange(table.n_rows, dtype=np.int64), f"mask.{number}")
        mask = settled(open_mask, table, schema, recipe.nulls, sample, draws, chosen)
        masks.append(mask)
        plan = Plan.fit(mask.combination(), table, schema, recipe.nulls)
        masked = plan.apply(table, draws, chosen)
        steps.append((plan, table, masked))
        table = masked.table
    with progress.stage("verify"):
        guarantees = _verified(steps, table)
    order = release_order(key, np.arange(table.n_rows, dtype=np.int64))
    released = table.take(order)
    done = [(mask, plan, masked.groups, masked.smallest) for mask, (plan, _, masked) in zip(masks, steps, strict=True)]
    manifest = describe(recipe, schema, chosen.name, original.n_rows, released.n_rows, done, guarantees)
    if recipe.limits:
        with progress.stage("limits"):
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
    columns = [plan.columns for plan, _, _ in steps]
    standing = [step for number, step in enumerate(steps) if not changed_later(columns, number)]
    return [verify(plan, before, masked, release) for plan, before, masked in standing]


def changed_later(columns: Sequence[tuple[str, ...]], number: int) -> bool:
    """Whether a mask after mask `number` changes one of its columns; `columns` are those of each mask."""
    return any(set(columns[number]) & set(later) for later in columns[number + 1 :])
