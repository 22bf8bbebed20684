"""Bias of statistics of named columns: what a release does to one mean, one correlation or one regression.

Named columns are compared by themselves, so that another column that compares by equality only (a level of a hierarchy)
is no obstacle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import to_host
from gpuanon.assessing.adjustable import Adjustable
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.moments import Moments
from gpuanon.assessing.utility import bias
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.table import Table

Floats = np.ndarray[Any, Any]
Whole: TypeAlias = Callable[[Any], Measured]
"""The measure of all columns."""


def only(source: Any, names: Sequence[str]) -> Comparison:
    """The comparison of these columns alone."""
    if not isinstance(source, Comparison):
        raise InputError("named columns need all rows at once: not measured on a table larger than memory")
    unknown = [name for name in names if name not in source.original.names or name not in source.points.names]
    if unknown:
        raise ParameterError(f"there is no column {', '.join(map(repr, unknown))} in both tables")
    columns = tuple(source.schema[name].model_copy(update={"role": "sensitive", "transform": "none"}) for name in names)
    schema = source.schema.model_copy(update={"columns": columns})
    before, after = (Table.of(table.select(names).to_native()) for table in (source.original, source.points))
    return replace(source.host, original=before, release=after, schema=schema, summary=None)


def _numbers(source: Any, names: Sequence[str]) -> tuple[Floats, Floats]:
    """The named columns as numbers, in their own units; categories of two levels as 0 and 1."""
    chosen = only(source, names)
    for name in names:
        at = chosen.columns.index(name)
        if chosen.categorical[at] and max(codes[:, at].max(initial=0) for codes in chosen.codes) > 1:
            raise InputError(f"column {name!r}: a category of more than two levels has no mean")
    order = [chosen.columns.index(name) for name in names]
    found = []
    for side in chosen.values:
        values = np.array(to_host(side), dtype=np.float64)[:, order]
        flags = np.array(chosen.categorical)[order]
        values[:, flags] = np.where(values[:, flags] < 0, np.nan, values[:, flags])
        found.append(values)
    return found[0], found[1]


def _means(values: Floats, weights: Floats | None) -> Floats:
    """(d,) mean of the known values of each column, with the weights of their rows."""
    if weights is None:
        return np.asarray(np.nanmean(values, axis=0))
    known = ~np.isnan(values)
    return np.asarray((weights @ np.where(known, values, 0.0)) / (weights @ known))


def mean_bias(source: Any, whole: Whole, columns: list[str] | None = None) -> Measured:
    """Mean absolute change of the means of the named columns, in their own units; of all columns without names."""
    if columns is None:
        return whole(source)
    before, after = _numbers(source, columns)
    own = source.weights_or_none or (None, None)
    change = _means(after, own[1]) - _means(before, own[0])
    signed = {name: float(value) for name, value in zip(columns, change, strict=True)}
    sizes = {name: abs(value) for name, value in signed.items()}
    return Measured(float(np.abs(change).mean()), {"change_by_column": dict(signed)}, parts=(By("column", sizes),))


def correlation_bias(source: Any, whole: Whole, pair: list[str] | None = None) -> Measured:
    """Absolute change of the correlation of a named pair of columns; of all pairs without a name."""
    if pair is None:
        return whole(source)
    if len(pair) != 2:
        raise ParameterError(f"pair: two columns are needed, got {len(pair)}")
    found = []
    for values, own in zip(_numbers(source, pair), source.weights_or_none or (None, None), strict=True):
        known = ~np.isnan(values).any(axis=1)
        complete = values[known]
        if len(complete) < 2 or not (complete.std(axis=0) > 0).all():
            raise InputError("correlation_bias: not defined, a column of the pair is constant")
        found.append(float(Moments.of(complete, None if own is None else own[known]).correlation[0, 1]))
    details = {"original": found[0], "release": found[1], "change": found[1] - found[0]}
    return Measured(abs(found[1] - found[0]), {**details, "pair": list(pair)})


def regression_drift(
    source: Any,
    whole: Whole,
    response: str | None = None,
    predictors: list[str] | None = None,
) -> Measured:
    """`bias.regression_drift` of a named response on named predictors; without names, of the last column on all."""
    if response is None and predictors is None:
        return whole(source)
    if response is None or not predictors:
        raise ParameterError("response, predictors: both are needed")
    chosen = only(source, [*(name for name in predictors if name != response), response])
    at = chosen.features.index(response)
    return bias.regression_drift(*chosen.encoded, response=at, names=chosen.features)


def adjusted(function: Callable[..., Measured], whole: Whole, options: dict[str, Any]) -> Adjustable:
    """A measure that takes names of columns as options, and is `whole` without them."""
    return Adjustable(lambda source, **given: function(source, whole, **given), options)
