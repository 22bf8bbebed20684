"""What a steward should look at before a release goes out: it is in the manifest and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.masking.view import sees_classes
from gpuanon.recipe import Recipe
from gpuanon.tables.row_bits import bits_of, column_words
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

SAMPLE_ROWS = 20_000
"""Rows on which columns are judged; a release part is a random sample of the release."""
MOST = 0.5
PAIRED_COLUMNS = 24
"""Pairs of at most so many columns are looked at."""


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
    harmless = [name for name, share in alone.items() if share <= MOST][:PAIRED_COLUMNS]
    for one, other in combinations(harmless, 2):
        share = _unique_share(bits[one] + bits[other], who)
        if share > MOST:
            warnings.append(
                f"columns {one!r} and {other!r} are released unmasked, and {share:.0%} {about} have a pair of values"
                f" {own} there"
            )
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
        f"column {column.name!r}: no mask uses its hierarchy, which is for methods on classes"
        for column in schema.columns
        if column.hierarchy is not None and column.name not in used
    )
