"""A run: what its steps share, and what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Key
from gpuanon.engine.store import Remembers, Store
from gpuanon.engine.tasks import CellResult
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.errors import GuaranteeError
from gpuanon.masking.claims import Claim, Counted, Guarantee, no_promise
from gpuanon.masking.mask import Mask
from gpuanon.masking.methods import AnyMask
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema


@dataclass(frozen=True)
class Step:
    """A mask that was applied.

    mask    : as the recipe has it, automatic parameters chosen
    fitted  : to the table
    result  : what all cells report
    changed : columns that later masks change
    report  : what was learned of the table, for the manifest
    """

    mask: AnyMask
    fitted: Mask
    result: CellResult
    changed: frozenset[str]
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that last."""
        return self.fitted.lasting_claims(self.changed)

    @property
    def added_rows(self) -> bool:
        """Whether it added rows to the records that it was given."""
        rows = self.result.evidence[0].sums
        return self.fitted.combination.operation.rows == "added" and rows["rows_out"] > rows["rows_in"]

    @property
    def promises_nothing(self) -> bool:
        """Whether it claims nothing of columns that it was the last to change."""
        return not self.fitted.claims and self.changed.isdisjoint(self.fitted.columns)


@dataclass(frozen=True)
class Done:
    """What a run leaves in its store.

    schema   : of the input
    rows     : of the input and of the release
    added    : released rows that stand for no record
    parts    : number of release parts
    smallest : rows of the smallest class of whatever the claims and the headline speak of, as it lies in the store
    quasi    : classes of all quasi-identifiers as they are released; None without any
    warnings : what the steward should look at
    """

    schema: Schema
    rows: tuple[int, int]
    added: int
    parts: int
    steps: tuple[Step, ...]
    smallest: Mapping[Counted, int]
    quasi: Counted | None
    warnings: tuple[str, ...] = ()

    def on_file(self, found: Mapping[Counted, int]) -> dict[Counted, int]:
        """The smallest classes of a file.

        Persons are not in the file: they were counted in the store, on the values that the file holds.  The records
        of the same classes were counted in both; fewer in the file, and the classes are not the same.
        """
        for classes in self.smallest:
            if classes.unit != "record" and found[classes.of_records] < self.smallest[classes.of_records]:
                raise GuaranteeError("the classes of the file are smaller than those that were checked")
        return {classes: found.get(classes, count) for classes, count in self.smallest.items()}

    def conclude(self, smallest: Mapping[Counted, int]) -> tuple[Guarantee, ...]:
        """The guarantees that last, judged by the smallest classes of a table or file; refuses by `GuaranteeError`."""
        found: list[Guarantee] = []
        for step in self.steps:
            evidence = step.result.evidence[1:]
            found += [claim.conclude(its, smallest) for claim, its in zip(step.claims, evidence, strict=True)]
            if step.promises_nothing:
                found.append(no_promise(step.fitted.columns))
        return tuple(found)


@dataclass(frozen=True)
class Run:
    """What all steps of a run share.

    cell_rows : rows of a cell, about; None for one cell
    log       : is given, after each stage, its speed and the bytes that it wrote
    """

    recipe: Recipe
    key: Key
    backend: Backend
    store: Store
    workers: Workers = in_turn
    cell_rows: int | None = None
    log: Callable[[str], None] = lambda text: None

    def stage(
        self, name: str, task: Callable[[Any], Any], items: Sequence[Any], written: Sequence[str] = ()
    ) -> list[Any]:
        """Do `task` for every item, each once however often the run is resumed; results in order.

        written : names under which the tasks put rows, whose sizes are logged
        """
        began = time.perf_counter()
        with progress.stage(name.split("-")[0]):
            names = [f"{name}-{number:05d}" for number in range(len(items))]
            results = self.workers(partial(once, self.store, task), list(zip(names, items, strict=True)))
        moved = self.store.size(written)
        size = f", {moved / 1e6:,.1f} MB written" if moved else ""
        self.log(f"{name}: {len(items)} tasks, {time.perf_counter() - began:.1f} s{size}")
        return results


def once(store: Remembers, task: Callable[[Any], Any], item: tuple[str, Any]) -> Any:
    """One task of a stage, under its name, unless it is done."""
    return store.once(item[0], partial(task, item[1]))
