"""Wasserstein distance of each column: how far values have to be moved to turn one distribution into the other.

References
----------
.. [1] L. N. Vaserstein (1969), Markov processes over denumerable products of spaces, Probl. Inf. Transm. 5(3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.assessing.columns import Names, column_names, fold, require_comparable
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.measure import FROM_0, NULL_IS_MARKED, Measure, Weights

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def wasserstein(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Largest ``∫ |F(x) − G(x)| dx`` of a feature of the encoded columns [1]; by column the largest of its features.

    F and G are the distribution functions of original (n, d) and release (m, d).  Features are in standard deviations
    of the original: a shift of all values by one of them is 1.

    Cost : O(d (n + m) log(n + m)).
    """
    require_comparable(original, release)
    xp = namespace(original)
    both = xp.sort(xp.concatenate([original, release]), axis=0)
    found = []
    for j in range(original.shape[1]):
        left, right = (
            xp.searchsorted(xp.sort(side[:, j]), both[:-1, j], side="right") / len(side) for side in (original, release)
        )
        found.append(float((xp.abs(left - right) * xp.diff(both[:, j])).sum()))
    distances = fold(np.array(found), column_names(names, original.shape[1]))
    return Measured(max(found), parts=(By("column", distances),))


def _wasserstein(c: Comparison) -> Measured:
    return wasserstein(*c.encoded, names=c.features)


WASSERSTEIN = Measure(
    name="wasserstein", label="how far values have to be moved",
    sentence="In the column that changed most, values would have to be moved by this many standard deviations on"
    " average to make the release's distribution the original's.",
    summary="largest Wasserstein distance of a column, in standard deviations",
    family="utility", range=FROM_0,
    usual="0 for a copy; 0.1 is a tenth of a standard deviation",
    unit="column", function=wasserstein, compute=_wasserstein, arrays="encoded",
    weights=Weights("ignored", "it is the distance of the records' values; ks and cdf_points take weights"),
    nulls=NULL_IS_MARKED, scaling="sample", source="Vaserstein 1969", sees="columns",
)  # fmt: skip
