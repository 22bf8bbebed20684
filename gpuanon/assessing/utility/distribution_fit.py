"""Does a named distribution fit the release as well, or as badly, as it fits the original?

References
----------
.. [1] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9: the one-sample Kolmogorov–Smirnov test of
   both tables.
.. [2] M. A. Stephens (1974), EDF statistics for goodness of fit and some comparisons, JASA 69, 730–737.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.figures import By, Compared, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_LEFT_OUT, SHARE, Measure, Weights
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

Family = Literal["normal", "lognormal", "exponential", "uniform"]

_PARAMETERS = {"normal": 2, "lognormal": 2, "exponential": 1, "uniform": 2}


def distribution_fit(
    original: Host,
    release: Host,
    *,
    names: Sequence[str],
    distribution: Family = "normal",
    parameters: Mapping[str, Sequence[float]] | None = None,
) -> Measured:
    """Largest change, over columns, of the one-sample distance ``D = sup |F̂(x) − F(x)|`` from a named distribution.

    Parameters
    ----------
    original, release : (n, d) and (m, d) numbers, NaN for a missing value
    distribution : F: normal (mean, deviation), lognormal (mean and deviation of the logarithm), exponential (mean),
        uniform (low, high)
    parameters : those of F for the columns that are to be looked at; None: estimated from the original, all columns

    Each table has its distance and the 5 % critical value: of the exact distribution of D for given parameters; for
    estimated ones that of Stephens [2], because a distribution fitted to the sample is nearer to it.  Where parameters
    are given there is the exact p-value as well: that of the original is a test; the release consists of dependent
    records, and its p-value is a distance.
    """
    unknown = [name for name in parameters or {} if name not in names]
    if unknown:
        raise ParameterError(f"parameters: {', '.join(map(repr, unknown))}: no such column of numbers is compared")
    found: dict[str, float | None] = {}
    tables: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for number, name in enumerate(names):
        if parameters is not None and name not in parameters:
            continue
        sides = [side[:, number][~np.isnan(side[:, number])] for side in (original, release)]
        if min(map(len, sides)) < 2:
            continue
        given = None if parameters is None else tuple(parameters[name])
        cdf = _distribution(distribution, sides[0], given, name)
        if cdf is None:
            found[name] = None
            continue
        for table, values in zip(tables, sides, strict=True):
            table[name] = _fit(values, cdf, None if given is not None else distribution)
        found[name] = abs(tables[1][name]["distance"] - tables[0][name]["distance"])
    changes = [value for value in found.values() if value is not None]
    if not changes:
        raise InputError(f"distribution_fit: no column of numbers can be {distribution}")
    differ = sum(
        (tables[0][name]["distance"] > tables[0][name]["critical"])
        != (tables[1][name]["distance"] > tables[1][name]["critical"])
        for name in tables[0]
    )
    details: dict[str, Figure] = {
        "distribution": distribution,
        "parameters": "given" if parameters is not None else "estimated from the original",
        "columns_rejected_on_one_side_only": differ,
    }
    parts = (By("column", found), Compared("column", tables[0], tables[1]))
    note = None if parameters is None else "p of the original is a test; the release's records depend on it: a distance"
    return Measured(max(changes), details, note, parts=parts)


def _distribution(family: Family, values: Host, given: tuple[float, ...] | None, name: str) -> Any:
    """The distribution with parameters that are given, or the original's; None where it has none."""
    from scipy import stats

    if given is not None and len(given) != _PARAMETERS[family]:
        raise ParameterError(f"parameters.{name}: {family} has {_PARAMETERS[family]}, got {len(given)}")
    if family == "exponential":
        mean = given[0] if given is not None else float(values.mean())
        return stats.expon(scale=mean) if mean > 0 else None
    if family == "uniform":
        low, high = given if given is not None else (float(values.min()), float(values.max()))
        return stats.uniform(low, high - low) if high > low else None
    if family == "lognormal":
        if given is None and values.min() <= 0:
            return None
        centre, spread = given if given is not None else (float(np.log(values).mean()), float(np.log(values).std()))
        return stats.lognorm(s=spread, scale=np.exp(centre)) if spread > 0 else None
    centre, spread = given if given is not None else (float(values.mean()), float(values.std()))
    return stats.norm(centre, spread) if spread > 0 else None


def _fit(values: Host, distribution: Any, estimated: Family | None) -> dict[str, float | None]:
    """Distance of a sample from a distribution, the critical value, and p where no parameters were estimated."""
    from scipy.stats import kstwo

    ordered = np.sort(values)
    n = len(ordered)
    share = distribution.cdf(ordered)
    above = np.searchsorted(ordered, ordered, side="right") / n
    below = np.searchsorted(ordered, ordered, side="left") / n
    distance = float(max((above - share).max(), (share - below).max()))
    if estimated is not None:
        return {"distance": distance, "critical": critical_of_fitted(estimated, n), "p": None}
    return {"distance": distance, "critical": float(kstwo.isf(0.05, n)), "p": float(kstwo.sf(distance, n))}


def critical_of_fitted(family: Family, n: int) -> float:
    """5 % critical value of the distance of n values from the distribution that was fitted to them.

    Normal and exponential: Stephens [2].  Uniform: n − 2 values lie as in a known distribution between the extremes.
    """
    from scipy.stats import kstwo

    root = float(np.sqrt(n))
    if family == "exponential":
        return 1.094 / (root + 0.26 + 0.5 / root) + 0.2 / n
    if family == "uniform":
        return float(kstwo.isf(0.05, n - 2)) * (n - 2) / n + 1 / n if n > 2 else 1.0
    return 0.895 / (root - 0.01 + 0.85 / root)


def _distribution_fit(c: Comparison, **options: Any) -> Measured:
    """Of the columns of numbers."""
    chosen = [at for at, name in enumerate(c.columns) if c.schema[name].kind == "numeric"]
    before, after = (side[:, chosen] for side in c.values)
    return distribution_fit(before, after, names=[c.columns[at] for at in chosen], **options)


DISTRIBUTION_FIT = Measure(
    name="distribution_fit", label="does a column still follow its usual curve?",
    sentence="How well a column follows a named distribution, such as the bell curve, changed by this much for the"
    " column that changed most.",
    summary="largest change of a column's distance from a named distribution",
    family="utility", range=SHARE,
    usual="0: it fits as well as before",
    unit="column", function=distribution_fit, compute=_distribution_fit,
    options={"distribution": Family, "parameters": dict[str, list[float]]}, arrays="values",
    weights=Weights("ignored", "it is the distance of the records' values from a named distribution"),
    nulls=NULL_IS_LEFT_OUT, scaling="sample",
    host="distribution functions of SciPy",
    source="Kulik, lecture on utility and information loss", sees="columns",
)  # fmt: skip
