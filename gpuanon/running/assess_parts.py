"""Assess a release that is larger than memory, piece by piece.

Classes, means, variances and correlations are measured on all rows.  Distances between distributions are measured on a
random sample of the rows, and say so.  What a sample would get wrong is not measured: a class, or the nearest record,
is another one among fewer rows, and an interval is wider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.rng import Key
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.measures import by_name
from gpuanon.assessing.risk.k_anonymity import alone_of, smallest_of
from gpuanon.assessing.utility.differences import by_column, by_pair
from gpuanon.errors import GpuanonError, InputError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.running.assess import DEPENDENT, Assessment, compute
from gpuanon.tables.class_counts import class_sizes
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table

Host = np.ndarray[Any, Any]
Pieces = Callable[[], Iterable[Table]]
"""Gives a table piece by piece, as often as it is asked."""

SAMPLE_ROWS = 200_000
_PUBLIC = Key(b"the sample of a measure is no secret")
_SAMPLED = (
    "rank_correlations", "correlation_bias", "ks", "kl", "jsd", "cell_ks", "histogram_intersection",
    "pmse_logit", "pmse_cart", "pmse_forest", "propensity_ks", "propensity_wilcoxon", "cluster_balance", "kernel_pca",
)  # fmt: skip
"""Measures whose value does not depend on the number of rows, but for sampling error."""


def assess_parts(
    original: Pieces,
    release: Pieces,
    recipe: Recipe,
    *,
    measures: tuple[str, ...] | None = None,
    sample_rows: int = SAMPLE_ROWS,
) -> Assessment:
    """Measure the risk and the utility of a release that is larger than memory.

    Parameters
    ----------
    original, release : the tables, piece by piece
    recipe : says what each column is
    measures : names; None for all of them
    sample_rows : rows of each table, about, on which distances between distributions are measured
    """
    names = tuple(by_name()) if measures is None else tuple(measures)
    unknown = [name for name in names if name not in by_name()]
    if unknown:
        raise ParameterError(f"measures: there is no {', '.join(map(repr, unknown))}")
    if sample_rows < 100:
        raise ParameterError(f"sample_rows: 100 or more are allowed, got {sample_rows}")
    with progress.stage("count"):
        rows = tuple(sum(piece.n_rows for piece in pieces()) for pieces in (original, release))
    if min(rows) == 0:
        raise InputError("original and release need at least one row each")
    schema = Schema.infer(next(iter(original())).take(np.empty(0, np.int64)), recipe.columns)
    samples = [
        _sample(pieces, count, sample_rows, name)
        for pieces, count, name in zip((original, release), rows, ("original", "release"), strict=True)
    ]
    comparison = Comparison(samples[0], samples[1], schema)
    measured, failed = _exact(original, release, rows[1], schema, comparison.columns, names)
    sampled = compute(comparison, tuple(name for name in names if name in _SAMPLED))
    note = f"on a random sample of {len(samples[0])} of {rows[0]} original and {len(samples[1])} of {rows[1]} rows"
    for name, figure in sampled.measured.items():
        measured[name] = replace(figure, note=note if figure.note is None else f"{note}; {figure.note}")
    failed |= sampled.failed
    reason = "needs all rows at once, and a sample would mislead: not measured on a table larger than memory"
    failed |= {name: reason for name in names if name not in measured and name not in failed}
    exact = [name for name in names if name in measured and name not in sampled.measured]
    notes = (DEPENDENT, f"larger than memory: {', '.join(exact) or 'nothing'} on all rows, the rest {note}")
    return Assessment(measured, failed, notes)


def _sample(pieces: Pieces, rows: int, wanted: int, name: str) -> Table:
    """A random sample of the rows, the same every time: each row is drawn by its number."""
    found: list[Table] = []
    first = 0
    for piece in pieces():
        numbers = np.arange(first, first + piece.n_rows, dtype=np.int64)
        chosen = _PUBLIC.draws(numbers, name).uniform()[:, 0] < wanted / rows
        found.append(piece.take(np.flatnonzero(chosen)))
        first += piece.n_rows
    import pyarrow as pa

    return Table.of(pa.concat_tables([piece.to_arrow() for piece in found]))


def _exact(
    original: Pieces, release: Pieces, rows: int, schema: Schema, columns: tuple[str, ...], names: tuple[str, ...]
) -> tuple[dict[str, Measured], dict[str, str]]:
    """What is measured on all rows, and why something could not be."""
    measured: dict[str, Measured] = {}
    failed: dict[str, str] = {}

    def attempt(group: Mapping[str, Callable[[Any], Measured]], prepared: Callable[[], Any]) -> None:
        wanted = [name for name in names if name in group]
        try:
            evidence = prepared() if wanted else None
        except GpuanonError as error:
            failed.update(dict.fromkeys(wanted, str(error)))
            return
        for name in wanted:
            try:
                measured[name] = group[name](evidence)
            except GpuanonError as error:
                failed[name] = str(error)

    def classes() -> Host:
        if not schema.quasi:
            raise InputError("needs columns of role quasi")
        with progress.stage("classes"):
            return class_sizes(release, rows, schema.quasi)

    def moments() -> tuple[Moments, Moments]:
        with progress.stage("moments"):
            summary = Summary.merged([Summary.of(piece, schema, columns) for piece in original()])
            encoding = Encoding.from_summary(summary, schema, "indicator", "indicator")
            return Moments.of(original(), encoding), Moments.of(release(), encoding)

    attempt({"k_anonymity": smallest_of, "uniqueness": alone_of}, classes)
    attempt(_FROM_MOMENTS, moments)
    return measured, failed


@dataclass(frozen=True)
class Moments:
    """Of encoded rows: their number, means (d,), mean products about the means (d, d), and extremes (d,)."""

    rows: int
    mean: Host
    covariance: Host
    varies: Host

    @classmethod
    def of(cls, pieces: Iterable[Table], encoding: Encoding) -> Moments:
        """Encoded columns are centred and scaled already, so plain sums lose nothing."""
        rows, total, products, low, high = 0, 0.0, 0.0, np.inf, -np.inf
        for piece in pieces:
            X = encoding.encode(piece)
            rows, total, products = rows + len(X), total + X.sum(axis=0), products + X.T @ X
            low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
        mean = np.asarray(total / rows)
        return cls(rows, mean, np.asarray(products / rows - np.outer(mean, mean)), np.asarray(high > low))

    @property
    def variance(self) -> Host:
        """(d,) with divisor n."""
        return np.where(self.varies, np.clip(np.diag(self.covariance), 0, None), 0.0)

    @property
    def correlation(self) -> Host:
        """(d, d); NaN for a constant column."""
        deviation = np.where(self.varies, np.sqrt(self.variance), np.nan)
        return np.asarray(self.covariance / deviation[:, None] / deviation[None, :])


def _means(both: tuple[Moments, Moments]) -> Measured:
    return by_column(np.abs(both[1].mean - both[0].mean), np.sqrt(both[0].variance), "means")


def _variances(both: tuple[Moments, Moments]) -> Measured:
    return by_column(np.abs(both[1].variance - both[0].variance), both[0].variance, "variances")


def _correlations(both: tuple[Moments, Moments]) -> Measured:
    return by_pair(both[0].correlation, both[1].correlation, "correlations")


def _mean_bias(both: tuple[Moments, Moments]) -> Measured:
    bias = both[1].mean - both[0].mean
    return Measured(float(np.abs(bias).mean()), {"columns": [float(value) for value in bias]})


_FROM_MOMENTS: Mapping[str, Callable[[Any], Measured]] = {
    "means": _means,
    "variances": _variances,
    "correlations": _correlations,
    "mean_bias": _mean_bias,
}
