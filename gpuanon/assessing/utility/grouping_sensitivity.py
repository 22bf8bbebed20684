"""What the choice of bins does to a figure of contingency tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.assessing.figures import By, Figure, Measured
from gpuanon.assessing.measure import NAMES, NULL_IS_A_VALUE, USED, WHOLE, Measure
from gpuanon.assessing.utility.cell_counts import tables
from gpuanon.assessing.utility.contingency import grouped, jensen_shannon

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

SENSITIVITY_BINS = (2, 5, 10, 20, 50)


def grouping_sensitivity(c: Comparison, *, ways: int = 1, columns: Sequence[str] | None = None) -> Measured:
    """How far the Jensen–Shannon divergence depends on the number of bins: its largest less its smallest mean value.

    A table of one cell says that nothing was lost, one with a cell for each record that everything was: a figure of
    contingency tables is to be read with its grouping.
    """
    found: dict[str, float | None] = {}
    for bins in SENSITIVITY_BINS:
        before, after, _ = grouped(c, columns, bins, weighted=True)
        found[f"{bins} bins"] = float(
            np.mean([jensen_shannon(old, new) for _, old, new in tables(before, after, ways, c.weights)])
        )
    values = [value for value in found.values() if value is not None]
    details: dict[str, Figure] = {"ways": ways, "smallest": min(values), "largest": max(values)}
    return Measured(max(values) - min(values), details, parts=(By("grouping", found),))


GROUPING_SENSITIVITY = Measure(
    name="grouping_sensitivity", label="how far the figures of tables depend on the bins",
    sentence="Between coarse and fine bins the difference of tables varies by this much: a large figure says that"
    " `jsd` and its like depend on the grouping.",
    summary="how far a divergence of tables depends on the number of bins",
    family="utility", range=(0.0, log(2)),
    usual="0: the bins do not matter",
    unit="column", function=grouping_sensitivity,
    compute=grouping_sensitivity, options={"ways": WHOLE, "columns": NAMES}, arrays="values", weights=USED,
    nulls=NULL_IS_A_VALUE, scaling="sample", source="Kulik, lecture on utility and information loss",
    sees="columns", long=0.7,
)  # fmt: skip
