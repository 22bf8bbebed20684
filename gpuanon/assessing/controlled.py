"""What attacks with a control want to know of a comparison: columns of original, release and control, alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.assessing.adjustable import Adjustable
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.options import WHOLE
from gpuanon.assessing.released import require_finite, require_values, types_of
from gpuanon.assessing.risk import inference as by_inference
from gpuanon.assessing.risk import membership as by_membership
from gpuanon.assessing.risk.linkability import TARGETS, linkability
from gpuanon.assessing.risk.singling_out import singling_out
from gpuanon.assessing.source import MissingEvidence
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

Host = np.ndarray[Any, Any]

NAMES = list[str]
SHARE = Annotated[float, Field(ge=0, le=1)]


def _tables(c: Comparison) -> tuple[Table, Table, Table]:
    """Original, release and control: of original and control one record per person, where persons are known."""
    return _one_each(c, c.original), c.points, _one_each(c, c.control_table)


def _targets(
    tables: tuple[Table, Table, Table], count: int, name: str
) -> tuple[tuple[Table, Table, Table], Host, Host]:
    """The tables with those people only who are attacked, of original and control, and their rows.

    The same as the attack would draw from all of them; so few are encoded.
    """
    original, release, control = tables
    own, others = (sample_rows(table.n_rows, count, name) for table in (original, control))
    return (original.take(own), release, control.take(others)), own, others


def _one_each(c: Comparison, table: Table) -> Table:
    person = c.schema.person
    if person is None or person.name not in table.names:
        return table
    return table.take(np.sort(np.unique(row_bits(table, [person.name])[:, 0], return_index=True)[1]))


def _values(c: Comparison, names: Sequence[str], tables: Sequence[Table]) -> tuple[list[Host], list[bool]]:
    """(n, names) numbers and dates as they are, common codes else, NaN for null; and which are codes."""
    for table in tables[1:]:
        require_values(table, types_of(c.original), names)
    coded = [c.schema[name].kind not in ("numeric", "date") for name in names]
    codes = level_codes(tables, [name for name, flag in zip(names, coded, strict=True) if flag])
    out = [np.empty((table.n_rows, len(names))) for table in tables]
    for side, found, table in zip(out, codes, tables, strict=True):
        side[:, coded] = np.where(found < 0, np.nan, found)
        for at, name in enumerate(names):
            if not coded[at]:
                side[:, at] = floats(table.arrow(name))
                require_finite(name, side[:, at])
    return out, coded


def _compared(c: Comparison, named: Sequence[str] | None, option: str, least: int = 1) -> tuple[str, ...]:
    """Columns that an option names, else all that are compared."""
    unknown = [name for name in named or () if name not in c.columns]
    if unknown:
        raise ParameterError(f"{option}: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    found = tuple(dict.fromkeys(named)) if named else c.columns
    if len(found) < least:
        raise MissingEvidence(f"needs {least} columns or more that are compared")
    return found


def _places(features: Sequence[str]) -> dict[str, list[int]]:
    """Features of each column."""
    out: dict[str, list[int]] = {}
    for at, name in enumerate(features):
        out.setdefault(name, []).append(at)
    return out


def _singling_out(c: Comparison, columns: NAMES | None = None, **options: Any) -> Measured:
    """`singling_out` of all compared columns, or of named ones."""
    names = _compared(c, columns, "columns")
    (before, after, control), coded = _values(c, names, _tables(c))
    return singling_out(before, after, control, categorical=coded, names=names, **options)


def _linkability(c: Comparison, first: NAMES | None = None, second: NAMES | None = None) -> Measured:
    """`linkability` of two named sets of columns; by default of two halves of the quasi-identifiers."""
    if (first is None) != (second is None):
        raise ParameterError("first, second: both are needed")
    if first is None or second is None:
        known = c.schema.quasi if len(c.schema.quasi) > 1 else _compared(c, None, "columns", 2)
        first, second = list(known[: -(len(known) // 2)]), list(known[-(len(known) // 2) :])
    names = _compared(c, [*first, *second], "first, second", 2)
    if set(first) & set(second):
        raise ParameterError("first, second: a column may stand on one side only")
    (before, after, control), features = c.points_alike(names, *_targets(_tables(c), TARGETS, "linkability")[0])
    places = _places(features)
    left, right = ([at for name in side for at in places[name]] for side in (first, second))
    return linkability(before, after, control, (left, right), columns=places, named=(first, second))


def _inference(
    c: Comparison, secrets: NAMES | None = None, known: NAMES | None = None, tolerance: float = by_inference.TOLERANCE
) -> Measured:
    """`inference` of named secrets from named columns.

    By default of the sensitive columns from the quasi-identifiers; without sensitive columns, of each column from all
    others.
    """
    chosen = _compared(c, secrets or c.schema.sensitive, "secrets")
    given = _compared(c, known, "known") if known else c.schema.quasi
    shared = tuple(name for name in given if name not in chosen)
    sets = [(chosen, shared)] if shared else [((name,), tuple(n for n in c.columns if n != name)) for name in chosen]
    tables, attacks = _tables(c), []
    for hidden, seen in sets:
        if not seen:
            raise MissingEvidence("needs a column that is known besides the secret one")
        values, coded = _values(c, hidden, tables)
        reach = [0.0 if flag else by_inference.reach_of(values[0][:, j], tolerance) for j, flag in enumerate(coded)]
        some, own, others = _targets(tables, by_inference.TARGETS, "inference")
        points, _ = c.points_alike(seen, *some)
        secret = _placed(c, [values[0][own], values[1], values[2][others]])
        attacks += by_inference.inferred((points[0], points[1], points[2]), secret, reach)
    return by_inference.inference_of(attacks, chosen)


def _placed(c: Comparison, values: Sequence[Host]) -> tuple[Array, Array, Array]:
    """Three arrays where the comparison has its arrays."""
    on_host = c.backend is None or c.backend.name == "numpy"
    first, second, third = values if on_host else [c.backend.upload(side) for side in values]  # type: ignore[union-attr]
    return first, second, third


def _membership(c: Comparison, columns: NAMES | None = None) -> Measured:
    """`membership` by all compared columns, or by named ones."""
    some = _targets(_tables(c), by_membership.TARGETS, "membership")[0]
    points, features = c.points_alike(_compared(c, columns, "columns"), *some)
    return by_membership.membership(*points, columns=_places(features))


SINGLING_OUT = Adjustable(_singling_out, {"columns": NAMES, "size": WHOLE, "attacks": WHOLE})
LINKABILITY = Adjustable(_linkability, {"first": NAMES, "second": NAMES})
INFERENCE = Adjustable(_inference, {"secrets": NAMES, "known": NAMES, "tolerance": SHARE})
MEMBERSHIP = Adjustable(_membership, {"columns": NAMES})
