"""Values that added rows cannot imitate: they are copies of those that occur, so one that occurs once is a record's.

Numbers are drawn between those that occur; text, and whole numbers beyond float64, can only be copied.  Judged on the
records, before any row is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpuanon.engine.run import Run
from gpuanon.engine.store import Part
from gpuanon.errors import GuaranteeError
from gpuanon.masking.filling import copied
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import ClassCounts
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.schema import Schema

ALONE = 0.01
"""Share of the records with a value of their own, in a column that can only be copied, up to which rows are added."""

COUNTED = 1_000_000
"""Values of a column that are counted: of a longer column a share, every row of a value or none."""


def imitated_columns(recipe: Recipe, schema: Schema) -> tuple[str, ...]:
    """The released columns that rows are added with, and that no mask changes.

    schema : of the released columns
    """
    combinations = [mask.combination() for mask in recipe.mask]
    if not any(one.operation.rows == "added" for one in combinations):
        return ()
    masked = {name for one in combinations for name in schema.select(one.columns)}
    return tuple(column.name for column in schema.columns if column.name not in masked)


def check_imitation(run: Run, parts: Sequence[Part], schema: Schema, rows: int) -> tuple[str, ...]:
    """Refuse to add rows beside columns that tell records from them; a warning where a few records are told."""
    names = imitated_columns(run.recipe, schema)
    if not names:
        return ()
    share = (0, -(-rows // COUNTED))
    found = run.stage("imitation", partial(values_alone, schema=schema, names=names, share=share), parts)
    warnings, told = [], []
    for at, name in enumerate(names):
        if not any(part[at][0] for part in found):
            continue
        sizes = ClassCounts.merged([part[at][1] for part in found]).sizes
        alone = int((sizes == 1).sum()) / max(int(sizes.sum()), 1)
        if alone > ALONE:
            told.append(f"{name!r} ({alone:.0%} of the records)")
        elif alone > 0:
            warnings.append(
                f"column {name!r} is released unmasked, and {alone:.2%} of the records have a value of their own there:"
                " added rows copy values, so these rows are known to be records"
            )
    if told:
        raise GuaranteeError(
            f"rows are added, and values that one record alone has tell the records from them: {', '.join(told)};"
            " text, and whole numbers beyond 2^53, can only be copied into added rows; nothing was written",
            hint='drop such columns (role = "dropped"), or mask them',
        )
    return tuple(warnings)


def values_alone(
    part: Part, schema: Schema, names: tuple[str, ...], share: tuple[int, int]
) -> tuple[tuple[bool, ClassCounts], ...]:
    """For each column whether it can only be copied, and how often its values occur in a part."""
    table = part.read(names).table
    return tuple(
        (copied(schema[name], table.arrow(name)), ClassCounts.of(row_bits(table, [name]), share)) for name in names
    )
