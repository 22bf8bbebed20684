"""Check types and values of columns; messages contain counts of rows, never a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.values import family, floats, null_mask, plain, value_type

if TYPE_CHECKING:
    import pyarrow as pa


_ALLOWED = {
    "number": ("numeric", "ordinal", "categorical"),
    "flag": ("categorical", "ordinal", "numeric"),
    "time": ("date", "ordinal", "categorical"),
    "text": ("categorical", "ordinal"),
    "levels": ("categorical", "ordinal"),
    "nothing": ("categorical", "ordinal", "numeric", "date"),
}
_HOLDS = {
    "number": "numbers",
    "flag": "true and false",
    "time": "dates or times",
    "text": "text",
    "levels": "categories",
    "nothing": "only nulls",
}


def kind_fault(name: str, role: str, kind: str | None, transform: str, holds: str) -> str | None:
    """Why a column of the family `holds` cannot have this role, kind or transform; or None."""
    if holds == "other":
        if role in ("quasi", "sensitive", "weight") or kind is not None:
            return (
                f"column {name!r}: its type (lists, structures, binary) cannot be masked\n"
                "Hint: role identifier drops it, role other keeps it as it is"
            )
        return None
    if role == "weight" and holds != "number":
        return f"column {name!r}: a weight must be a number, the column holds {_HOLDS[holds]}"
    if kind not in _ALLOWED[holds]:
        allowed = ", ".join(_ALLOWED[holds])
        return f"column {name!r}: kind {kind} does not fit, the column holds {_HOLDS[holds]}; allowed: {allowed}"
    if transform != "none" and kind != "numeric":
        return f"column {name!r}: transform {transform} is for numeric columns, this one is {kind}"
    return None


def value_faults(
    name: str,
    role: str,
    transform: str,
    levels: Sequence[Any] | None,
    column: pa.ChunkedArray,
    missing: Sequence[str] = (),
) -> list[str]:
    """Problems with the values of a column that is to be masked or used as a weight."""
    faults = _missing_faults(name, missing, column)
    if role in ("person", "household"):
        empty = int(null_mask(column).sum())
        return [f"column {name!r}: a {role} must not be null, {empty} rows are"] if empty else []
    if levels is not None:
        faults += _level_faults(name, levels, column)
    elif family(column.type) in ("number", "flag"):  # a flag may be masked as the numbers 0 and 1
        faults += number_faults(name, transform, floats(column))
    if role == "weight":
        faults += _weight_faults(name, column)
    return faults


def _missing_faults(name: str, words: Sequence[str], column: pa.ChunkedArray) -> list[str]:
    """Values that stand for none, and were not read so: only a CSV is read with words for missing values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not words or family(column.type) not in ("number", "text", "levels"):
        return []
    texts = [one for word in words for one in (word, f"{word}.0")]
    found = pc.sum(pc.is_in(plain(column).cast(pa.string()), value_set=arrow_array(texts, pa.string()))).as_py() or 0
    if not found:
        return []
    return [f"column {name!r}: {found} rows hold what is called missing\nHint: make them null; a CSV is read so"]


def number_faults(name: str, transform: str, values: Host) -> list[str]:
    """Infinite values, and values outside of the transform's domain."""
    faults = []
    infinite = int(np.isinf(values).sum())
    if infinite:
        faults.append(
            f"column {name!r}: {infinite} rows hold an infinite value\nHint: replace them by nulls or by a limit"
        )
    bound = {"log": 0.0, "log1p": -1.0}.get(transform)
    if bound is not None:
        outside = int((values <= bound).sum())
        if outside:
            hint = "\nHint: log1p takes zeros" if transform == "log" and not (values < 0).any() else ""
            faults.append(
                f"column {name!r}: transform {transform} needs values above {bound:g}, {outside} rows are not{hint}"
            )
    return faults


def _level_faults(name: str, levels: Sequence[Any], column: pa.ChunkedArray) -> list[str]:
    """Levels that are not of the column's type or occur twice, and values that are not among them."""
    import pyarrow as pa

    from gpuanon.tables.values import lookup

    if len(set(levels)) < len(levels):
        return [f"column {name!r}: levels: one occurs twice"]
    try:
        known = arrow_array(levels).cast(value_type(column.type))
    except (pa.ArrowException, TypeError, ValueError):
        return [f"column {name!r}: levels: not of the column's type, {value_type(column.type)}"]
    outside = int(((lookup(column, known) < 0) & ~null_mask(column)).sum())
    return [f"column {name!r}: levels: {outside} rows hold a value that is not named there"] if outside else []


def _weight_faults(name: str, column: pa.ChunkedArray) -> list[str]:
    """Weights that are null or negative."""
    values = floats(column)
    missing, negative = int(np.isnan(values).sum()), int((values < 0).sum())
    faults = [f"column {name!r}: a weight must not be null, {missing} rows are"] if missing else []
    return faults + ([f"column {name!r}: a weight must not be negative, {negative} rows are"] if negative else [])
