"""What a steward should look at before a release goes out: it is in the manifest and on the terminal.

Added rows copy values that occur: numbers are drawn between them, but text, and whole numbers beyond float64, can only
be copied.  So a value that occurs once is a record's; this is judged on the records, before any row is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.engine.run import Run
from gpuanon.engine.store import Part
from gpuanon.errors import GuaranteeError
from gpuanon.masking.filling import copied
from gpuanon.masking.view import sees_classes
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import ClassCounts
from gpuanon.tables.row_bits import bits_of, column_words, row_bits
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

SAMPLE_ROWS = 20_000
"""Rows on which columns are judged; a release part is a random sample of the release."""
MOST = 0.5
PAIRED_COLUMNS = 24
"""Pairs of at most so many columns are looked at."""
TOLD_PAIRS = 3
"""Pairs that are named, the worst first; the others are counted."""


class Minor(str):
    """A warning about the recipe, not about people: it leaves no verdict open."""

    __slots__ = ()


def identifying_columns(table: Table, columns: Sequence[str], persons: Host | None = None) -> tuple[str, ...]:
    """A warning for each released column that no mask changed and that, alone or in a pair, tells most people apart.

    table   : rows of the release in random order, of which the first `SAMPLE_ROWS` are looked at
    persons : (n,) whose row each is; None where each is a person's of its own
    """
    rows = table.select(columns).take(np.arange(min(table.n_rows, SAMPLE_ROWS)))
    if rows.n_rows < 2:
        return ()
    who = None if persons is None else persons[: rows.n_rows]
    words = column_words(rows, columns, stored=True)
    bits = {name: bits_of([found], rows.n_rows)[:, 0] for name, found in words.items()}
    alone = {name: _unique_share(found, who) for name, found in bits.items()}
    about = "of the rows" if rows.n_rows == table.n_rows else f"of a random sample of {rows.n_rows} rows"
    own = "of their own" if persons is None else "that only one person has"
    warnings = [
        f"column {name!r} is released unmasked, and {share:.0%} {about} have a value {own} there: whoever knows it"
        " finds the record"
        for name, share in alone.items()
        if share > MOST
    ]
    pairs: list[tuple[float, str]] = []
    harmless = [name for name, share in alone.items() if share <= MOST][:PAIRED_COLUMNS]
    for one, other in combinations(harmless, 2):
        share = _unique_share(bits[one] + bits[other], who)
        if share > MOST:
            text = f"columns {one!r} and {other!r} are released unmasked, and {share:.0%} {about} have a pair of values"
            pairs.append((share, f"{text} {own} there"))
    pairs.sort(key=lambda pair: -pair[0])
    warnings += [text for _, text in pairs[:TOLD_PAIRS]]
    if pairs[TOLD_PAIRS:]:
        warnings.append(f"{len(pairs) - TOLD_PAIRS} further pairs of unmasked columns tell most of the rows apart")
    return tuple(warnings)


def _unique_share(values: Host, persons: Host | None) -> float:
    """Share of the rows whose value no other row, or no other person, has."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if persons is not None:
        pairs = np.unique(np.stack([codes.reshape(-1), np.unique(persons, return_inverse=True)[1].reshape(-1)]), axis=1)
        counts = np.bincount(pairs[0])
    return float((counts[codes.reshape(-1)] == 1).mean())


def unused_hierarchies(recipe: Recipe, schema: Schema) -> tuple[str, ...]:
    """A warning for each hierarchy that no mask of the recipe works with."""
    used = {
        name
        for mask in recipe.mask
        if sees_classes(mask.combination())
        for name in schema.select(mask.combination().columns)
    }
    return tuple(
        Minor(f"column {column.name!r}: no mask uses its hierarchy, which is for methods on classes")
        for column in schema.columns
        if column.hierarchy is not None and column.name not in used
    )


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
