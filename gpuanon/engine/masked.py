"""The one orchestration: from an input to a release that lies in its store, checked and within its limits.

A table in memory, files larger than memory and the workers of a cluster all go this way.  What varies are arguments:
the input, the store, the workers and the rows of a cell.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.compiled import installed_version
from gpuanon.arrays.rng import Key
from gpuanon.engine.inputs import Input
from gpuanon.engine.pipeline import protect_parts
from gpuanon.engine.run import Done, Run, Step
from gpuanon.engine.store import Store
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.masking.claims import Counted
from gpuanon.recipe import Recipe
from gpuanon.tables.row_bits import keyed_rows, with_keyed_rows
from gpuanon.tables.table import Table
from gpuanon.version import __version__

if TYPE_CHECKING:
    from gpuanon.assessing.streams import Pieces
    from gpuanon.report import Paper
    from gpuanon.report.contents import Contents


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
        **({"purpose": recipe.purpose} if recipe.purpose else {}),
        "nulls": recipe.nulls,
        "limits": recipe.limits,
        **({"accept": recipe.accept} if recipe.accept else {}),
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


Give: TypeAlias = Callable[[], Iterable[Table]]
"""Gives the pieces of a table, as often as it is asked."""


@dataclass(frozen=True, repr=False)
class Masked:
    """A release in its store: checked, within its limits, not yet written.

    manifest  : what was done
    original  : gives the rows as masks saw them
    released  : gives the released rows
    origins   : for each part of the release, the record that each row stands for, −1 for an added row
    reference : the reference sample that was given, with the columns that masks saw
    guessable : whether the key follows from a number that anybody can try
    """

    manifest: dict[str, Any]
    done: Done
    original: Give
    released: Give
    origins: tuple[Host, ...]
    reference: Table | None
    guessable: bool = False

    @property
    def link(self) -> Host:
        """For each released row the row number of its original, −1 for an added row."""
        return self.origins[0] if len(self.origins) == 1 else np.concatenate(self.origins)

    @property
    def pieces(self) -> tuple[Pieces, Pieces]:
        """Original and release as measures take them."""
        # Measures are imported where they are used: a small table is masked sooner than they load.
        from gpuanon.assessing.streams import Pieces

        return Pieces(self.original, self.done.rows[0]), Pieces(self.released, self.done.rows[1])

    def contents(self, manifest: Mapping[str, Any], papers: Sequence[Paper] = ()) -> Contents:
        """The report of the release, measured against its original.

        manifest : as it is written
        papers   : the files of the run
        """
        from gpuanon.report.contents import reporter

        return reporter(*self.pieces, self.done.schema, self.link, self.reference, papers)(manifest)


def mask_input(
    given: Input,
    recipe: Recipe,
    *,
    key: Key,
    backend: Backend,
    store: Store,
    workers: Workers = in_turn,
    cell_rows: int | None = None,
    reference: Table | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> Masked:
    """Mask the input as the recipe says, verify its claims and measure its limits.

    Parameters
    ----------
    store : where rows lie between the steps
    workers : who does the tasks
    cell_rows : rows that are masked together, about; None for all
    reference : a second, non-overlapping sample of the population
    log : is given a line after each stage

    Raises
    ------
    GuaranteeError
        When the release would not keep its guarantee or exceeds one of the recipe's limits.
    """

    def keyed(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return workers(partial(with_keyed_rows, key, task), items)

    with keyed_rows(key):
        parts, head, seen = given.prepared(recipe, store, keyed)
        sample = seen.same_columns(reference)
        run = Run(seen.recipe, key, backend, store, keyed, cell_rows, log)
        done = protect_parts(run, parts, head, sample)
    manifest = describe(run.recipe, backend.name, done)
    manifest |= {"warnings": [*manifest["warnings"], *given.notes], **seen.facts}
    found = Masked(
        manifest,
        done,
        lambda: (part.read().table for part in parts),
        lambda: (store.released(at) for at in range(done.parts)),
        tuple(store.origin(at) for at in range(done.parts)),
        sample,
        key.guessable,
    )
    if run.recipe.limits:
        manifest["measured"] = _measured_limits(run, found)
    manifest["verdict"] = _verdict(run, found)
    return found


def _verdict(run: Run, masked: Masked) -> dict[str, Any]:
    """Whether people are safe in the release."""
    from gpuanon.engine.verdict import judged  # loads measures

    return judged(
        *masked.pieces, masked.done.schema, masked.manifest, link=masked.link, reference=masked.reference,
        backend=run.backend, accept=run.recipe.accept,
    )  # fmt: skip


def _measured_limits(run: Run, masked: Masked) -> dict[str, float]:
    """What the recipe's limits were measured to be; a release that exceeds one is refused."""
    from gpuanon.engine.assess import check_limits  # loads measures

    with progress.stage("limits"):
        return check_limits(
            *masked.pieces, masked.done.schema, run.recipe.limits, link=masked.link, reference=masked.reference,
            backend=run.backend, options=run.recipe.options,
        )  # fmt: skip
