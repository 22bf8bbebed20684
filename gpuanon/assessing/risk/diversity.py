"""ℓ-diversity and t-closeness: what membership of a class of equal records gives away about a sensitive column.

References
----------
.. [1] A. Machanavajjhala, D. Kifer, J. Gehrke, M. Venkitasubramaniam (2007), l-Diversity, ACM TKDD 1(1).
.. [2] N. Li, T. Li, S. Venkatasubramanian (2007), t-Closeness, ICDE '07: earth mover's distance, equal and ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import By, Figure, Measured
from gpuanon.assessing.measure import (
    FROM_0,
    NULL_IS_A_VALUE,
    NULL_IS_LEFT_OUT,
    QUASI_SENSITIVE,
    RISK_OF_RECORDS,
    SHARE,
    Measure,
)
from gpuanon.errors import ParameterError
from gpuanon.numerics.closeness import equal_distance, ordered_distance, pairs
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def l_diversity(quasi: Array, sensitive: Array, *, names: Names = None) -> Measured:
    """Fewest different sensitive values in a class of records that are equal on the quasi-identifiers.

    quasi, sensitive : (n, d) and (n, s) codes of the released records, equal where values are equal; below 0: missing

    A missing value is none of the values: a class without any has 0.  By sensitive column (`names`); beside it entropy
    ℓ-diversity, exp of the smallest entropy, and the share of the commonest value at its largest, both among the
    records with a value.
    """
    classes, columns = _checked(quasi, sensitive)
    xp = namespace(classes)
    counts = int(classes.max()) + 1
    distinct: dict[str, float | None] = {}
    entropies: dict[str, Figure] = {}
    commonest: dict[str, Figure] = {}
    for at, (name, values) in enumerate(zip(column_names(names, len(columns)), columns, strict=True)):
        known = xp.flatnonzero(sensitive[:, at] >= 0)
        if not len(known):
            distinct[name], entropies[name], commonest[name] = 0, 1.0, None
            continue
        of_class, _, count = pairs(classes[known], values[known])
        share = count / xp.bincount(classes[known], minlength=counts)[of_class]
        distinct[name] = int(xp.bincount(of_class, minlength=counts).min())
        there = xp.unique(of_class, return_inverse=True)[1].reshape(-1)  # classes with a value, without gaps
        entropy = segment_sums(-share * xp.log(share), Partition.from_labels(there))
        entropies[name] = float(np.exp(float(entropy.min())))
        commonest[name] = float(share.max())
    details: dict[str, Figure] = {
        "classes": counts,
        "entropy_by_column": entropies,
        "commonest_share_by_column": commonest,
    }
    part = By("column", distinct, "smallest")
    return Measured(min(value for value in distinct.values() if value is not None), details, parts=(part,))


def t_closeness(
    quasi: Array, sensitive: Array, *, ordered: Sequence[bool] | None = None, names: Names = None
) -> Measured:
    """Largest earth mover's distance of a class's sensitive values from those of the whole release, 0 to 1.

    ordered : one flag per sensitive column: distance of ranks for ordered values (codes ascend with them), equal
              distance between all values otherwise
    """
    classes, columns = _checked(quasi, sensitive)
    flags = (False,) * len(columns) if ordered is None else tuple(ordered)
    if len(flags) != len(columns):
        raise ParameterError(f"ordered: one flag per sensitive column is needed ({len(columns)}), got {len(flags)}")
    largest = [
        float((ordered_distance if flag else equal_distance)(classes, values, namespace(values).bincount(values)).max())
        for flag, values in zip(flags, columns, strict=True)
    ]
    part = By("column", dict(zip(column_names(names, len(columns)), largest, strict=True)))
    return Measured(max(largest), {"classes": int(classes.max()) + 1}, parts=(part,))


def _checked(quasi: Array, sensitive: Array) -> tuple[Array, list[Array]]:
    """Class of each record, and codes from 0 up of each sensitive column."""
    if sensitive.ndim != 2 or sensitive.shape[1] == 0:
        raise ParameterError("sensitive: at least one column is needed")
    if len(quasi) != len(sensitive) or len(quasi) == 0:
        raise ParameterError("rows: quasi-identifiers and sensitive columns need the same ones, at least one")
    xp = namespace(sensitive)
    columns = [xp.unique(sensitive[:, j], return_inverse=True)[1].reshape(-1) for j in range(sensitive.shape[1])]
    return equal_rows(quasi), columns


def _l_diversity(c: Comparison) -> Measured:
    return l_diversity(c.classes, c.sensitive_codes, names=c.schema.sensitive)


def _t_closeness(c: Comparison) -> Measured:
    return t_closeness(c.classes, c.sensitive_codes, ordered=c.sensitive_ordered, names=c.schema.sensitive)


L_DIVERSITY = Measure(
    name="l_diversity", label="fewest sensitive values in a group",
    sentence="Somebody who finds a person's group of look-alikes still has at least this many sensitive values to"
    " choose from.",
    summary="fewest different sensitive values in a class",
    family="risk", better="higher", range=FROM_0,
    usual="1: everybody in some class with a known sensitive value has the same; 0: nobody there has one",
    unit="class",
    records="the values of a class are those of its records",
    applies=QUASI_SENSITIVE, function=l_diversity, compute=_l_diversity, arrays="classes",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_LEFT_OUT, scaling="whole", source="Machanavajjhala et al. 2007",
)  # fmt: skip
T_CLOSENESS = Measure(
    name="t_closeness", label="how unusual a group's sensitive values are",
    sentence="In the group that differs most, the sensitive values are this far from those of the whole release: 0"
    " alike, 1 as different as can be.",
    summary="largest distance of a class's sensitive values from the table's",
    family="risk", range=SHARE,
    usual="0: groups are like the whole; 1: as different as can be",
    unit="class",
    records="shares of values are those of records",
    applies=QUASI_SENSITIVE, function=t_closeness,
    compute=_t_closeness, arrays="classes", weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole",
    source="Li, Li and Venkatasubramanian 2007",
)  # fmt: skip
