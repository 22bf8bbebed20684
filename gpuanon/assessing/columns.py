"""Columns of two encoded tables: checked and paired, and figures of features folded to columns of the table.

An encoded category has several features and one name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host
from gpuanon.assessing.figures import join
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

Names = Sequence[str] | None
"""The table column of each feature; None where a caller has no names."""


def column_names(names: Names, features: int) -> tuple[str, ...]:
    """The table column of each feature; "column 1", "column 2" … without names."""
    if names is None:
        return tuple(f"column {number + 1}" for number in range(features))
    if len(names) != features:
        raise ParameterError(f"names: one per feature is needed ({features}), got {len(names)}")
    return tuple(names)


def fold(values: Host, names: Sequence[str], how: Callable[[Host], Any] = np.max) -> dict[str, float | None]:
    """One figure per table column from `values` (features,): `how` over its features, NaN left out; None if all are."""
    values = np.asarray(values, dtype=np.float64)
    out: dict[str, float | None] = {}
    for name, rows in places(names).items():
        own = values[rows]
        own = own[~np.isnan(own)]
        out[name] = float(how(own)) if len(own) else None
    return out


def fold_pairs(values: Host, names: Sequence[str]) -> dict[tuple[str, str], float | None]:
    """The largest of `values` (features, features), above the diagonal, per pair of table columns; NaN is left out."""
    columns = list(dict.fromkeys(names))
    at = np.array([columns.index(name) for name in names])
    first, second = np.triu_indices(len(names), 1)
    low, high = np.minimum(at[first], at[second]), np.maximum(at[first], at[second])
    largest = np.full((len(columns), len(columns)), np.nan)
    np.fmax.at(largest, (low, high), np.asarray(values)[first, second])
    seen = np.zeros(largest.shape, dtype=bool)
    seen[low, high] = True
    return {
        (columns[i], columns[j]): None if np.isnan(largest[i, j]) else float(largest[i, j])
        for i, j in np.argwhere(seen)
    }


def largest_absolute(values: Host) -> float:
    """The value that is farthest from 0, with its sign."""
    return float(values[np.argmax(np.abs(values))])


def places(names: Sequence[str]) -> Mapping[str, list[int]]:
    """The features of each table column, in the order of the columns."""
    found: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        found.setdefault(name, []).append(number)
    return found


def named(names: Sequence[str], flags: Host) -> list[str]:
    """The table columns all of whose features are flagged."""
    return [name for name, rows in places(names).items() if bool(np.asarray(flags)[rows].all())]


def constant_note(names: Sequence[str], before: Host, after: Host | None = None) -> str | None:
    """Which columns are constant in the original, and so left out, and which became constant in the release.

    before, after : (features,) whether each varies in the original, and in the release
    """
    still = named(names, ~before)
    lost = [] if after is None else [name for name in named(names, ~after) if name not in still]
    return join(
        f"constant in the original and left out: {', '.join(still)}" if still else None,
        f"constant in the release: {', '.join(lost)}" if lost else None,
    )


def require_comparable(original: Array, release: Array) -> None:
    """Both tables need the same columns and at least one row."""
    if original.ndim != 2 or release.ndim != 2 or original.shape[1] != release.shape[1]:
        raise ParameterError("columns: original and release need the same ones")
    if len(original) == 0 or len(release) == 0:
        raise ParameterError("rows: original and release need at least one each")


def sampled_pairs(original: Host, release: Host, link: Host, rows: int) -> tuple[Host, Host, Host]:
    """At most `rows` originals, each with one released record of its own, and their link."""
    known = np.flatnonzero(link >= 0)
    mates, first = np.unique(link[known], return_index=True)
    if not len(mates):
        raise ParameterError("link: no released record has an original")
    chosen = sample_rows(len(mates), rows, "pairs")
    return original[mates[chosen]], release[known[first[chosen]]], np.arange(len(chosen), dtype=np.int64)
