"""Rows that are moved whole: what a mask hides then is beside what they stand, and nothing else.

A permutation of records within groups hides whose sensitive values stand beside whose quasi-identifiers.  Where nothing
stands beside them, or what is to be hidden moves with them, the release holds the original records.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuanon.masking.methods.combination import Combination
from gpuanon.tables.schema import Schema

_REMEDY = (
    '; methods that make new values protect: microaggregation, or dither = "gaussian" with bins where a column is'
    " numeric"
)


def whole_row_faults(combinations: Sequence[Combination], schema: Schema) -> list[str]:
    """What is wrong with masks that move rows whole, one line for each set of columns that stays together.

    schema : of the released columns

    Columns stay together that every such mask moves together.  Columns that another mask changes do not count as those
    of an original record.  It is a fault if the others hold a whole record:

    - every released column is among those that stay together (a weight is not to be hidden), or
    - all quasi-identifiers that are to be masked are there, and a sensitive column with them
    """
    released = frozenset(column.name for column in schema.columns if column.role != "weight")
    pieces, moved, changed = [released], frozenset[str](), frozenset[str]()
    for combination in combinations:
        operation, chosen = combination.operation, frozenset(schema.select(combination.columns))
        if operation.moves_rows([schema[name].kind for name in chosen]):
            moved |= chosen
            pieces = [part for piece in pieces for part in (piece & chosen, piece - chosen) if part]
        else:
            changed |= {name for name in chosen if operation.changes(name)}
    quasi, sensitive = frozenset(schema.quasi), frozenset(schema.sensitive)
    masked = {name for name in quasi - changed if not schema[name].keep}
    faults = []
    for piece in pieces:
        original = piece - changed
        if not original & moved:
            continue
        names = ", ".join(repr(column.name) for column in schema.columns if column.name in original)
        if piece == released and (original == piece or original & quasi):
            faults.append(
                f"mask: {names} are moved together from record to record, and no released column stays behind: the"
                f" release would be the original records in another order{_REMEDY}"
            )
        elif masked and masked <= original and original & sensitive:
            faults.append(
                f"mask: {names} are moved together from record to record, sensitive values with all the"
                " quasi-identifiers that tell whose they are: the mask would hide nothing of them; leave sensitive"
                f' columns out of it (columns = "quasi"), or take another method{_REMEDY}'
            )
    return faults
