"""One mask of a recipe, fitted to a table and applied to rows: what every engine runs.

A plan is fitted once, on the whole table (or on merged summaries of its parts), and applied to all rows at once or
to the rows of each partition.  The encoded columns go to the device in one matrix, and what changed comes back in one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, Backend, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import BackendError, RecipeError
from gpuanon.masking.contract import Changed, Moved, Outcome, Records
from gpuanon.masking.methods.combination import Combination
from gpuanon.numerics.distance import EUCLIDEAN, Metric
from gpuanon.recipe import NullPolicy
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats


@dataclass(frozen=True)
class Masked:
    """What a mask did to some rows.

    table    : the rows, in their order, with the masked columns replaced
    groups   : number of groups; of all columns together where each has groups of its own
    smallest : rows of the smallest group
    source   : for masks that move whole rows, the row that each row's values came from; else None
    labels   : with `source`, each row's group
    """

    table: Table
    groups: int
    smallest: int
    source: np.ndarray[Any, Any] | None = None
    labels: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """A mask fitted to a table.

    columns  : the columns that it changes
    encoding : of those columns
    response : of the sensitive columns that take part in the grouping, or None
    weight   : name of the column of sample weights, or None
    """

    combination: Combination
    columns: tuple[str, ...]
    encoding: Encoding
    response: Encoding | None
    weight: str | None

    @classmethod
    def fit(cls, combination: Combination, table: Table, schema: Schema, nulls: NullPolicy) -> Plan:
        """Choose the columns and fit their encodings to a whole table."""
        return cls.from_summary(
            combination, Summary.of(table, schema, needed_columns(combination, schema)), schema, nulls
        )

    @classmethod
    def from_summary(cls, combination: Combination, summary: Summary, schema: Schema, nulls: NullPolicy) -> Plan:
        """The same from the merged summaries of a table's parts, which hold at least `needed_columns`."""
        columns = chosen_columns(combination, schema)
        apart = tuple(name for name in needed_columns(combination, schema) if name not in columns)
        spectral = combination.basis.use not in ("identity", "normal-scores")
        masked, response = (
            Summary(summary.rows, {name: summary.columns[name] for name in names}) for names in (columns, apart)
        )
        return cls(
            combination,
            columns,
            Encoding.from_summary(masked, schema, nulls, "indicator" if spectral else "balanced"),
            Encoding.from_summary(response, schema, "indicator") if apart else None,
            schema.weight,
        )

    def view(self, table: Table) -> np.ndarray[Any, Any]:
        """(n, d) the encoded rows as the groups see them, on the host."""
        X = self.encoding.encode(table)
        return X if self.response is None else np.hstack([X, self._response(table)])

    def _response(self, table: Table) -> np.ndarray[Any, Any]:
        """The sensitive columns that take part in the grouping, scaled by their weight in it."""
        assert self.response is not None
        return np.asarray(self.response.encode(table) * np.sqrt(self.combination.response_weight))

    def apply(self, table: Table, draws: Draws, backend: Backend) -> Masked:
        """Mask the rows of `table`; `draws` are theirs."""
        require_backend(self.combination, backend)
        with progress.stage("encode"):
            X, view, weights, metric = self._upload(table, backend)
        if self.combination.groups.per_column:
            return self._column_by_column(table, X, draws, weights)
        groups = self.combination.groups.form(view, draws.child("groups"), metric)
        with progress.stage("mask"):
            T, back = self.combination.basis.forward(X, groups)
            records = Records(draws.child("operation"), weights, self._categorical(T))
            outcome = self.combination.operation.apply(T, groups, records)
        with progress.stage("decode"):
            return self._decoded(table, groups, outcome, back)

    def _column_by_column(self, table: Table, X: Array, draws: Draws, weights: Array | None) -> Masked:
        """Mask each table column inside groups of its own; the values are downloaded together, when all are done."""
        xp, features = namespace(X), self.encoding.features
        masked, groups, smallest = xp.empty_like(X), 0, table.n_rows
        with progress.stage("mask"):
            for done, name in enumerate(self.columns, 1):
                chosen = [at for at, feature in enumerate(features) if feature.column == name]
                place = slice(chosen[0], chosen[-1] + 1)  # the features of a column lie side by side
                T, its = xp.ascontiguousarray(X[:, place]), draws.child(name)
                with progress.stage(""):  # the columns are what is reported
                    formed = self.combination.groups.form(T, its.child("groups"))
                categorical = tuple(feature.kind != "value" for feature in features[place])
                records = Records(its.child("operation"), weights, categorical)
                outcome = self.combination.operation.apply(T, formed, records)
                assert isinstance(outcome, Changed)
                masked[:, place] = outcome.values
                groups, smallest = groups + formed.parts, min(smallest, int(formed.sizes.min()))
                progress.report(0.99 * done / len(self.columns))
        with progress.stage("decode"):
            values = to_host(masked).astype(np.float64, copy=False)
            return Masked(table.replace(self.encoding.decode(values, table)), groups, smallest)

    def _upload(self, table: Table, backend: Backend) -> tuple[Array, Array, Array | None, Metric]:
        """The encoded columns, the view of them that the groups measure, the weights and the metric."""
        blocks = [self.encoding.encode(table)]
        metric = EUCLIDEAN
        if self.combination.metric == "gower":
            gower, metric = self.encoding.gower(table)
            blocks.append(gower)
        elif self.response is not None:
            blocks.append(self._response(table))
        if self.weight is not None:
            blocks.append(floats(table.arrow(self.weight))[:, None])
        whole = blocks[0] if len(blocks) == 1 else np.hstack(blocks)
        matrix = backend.upload(np.ascontiguousarray(whole, dtype=backend.real))
        xp = namespace(matrix)
        d, end = blocks[0].shape[1], matrix.shape[1] - (self.weight is not None)
        X = xp.ascontiguousarray(matrix[:, :d])
        view = xp.ascontiguousarray(matrix[:, d:end] if metric is not EUCLIDEAN else matrix[:, :end])
        return X, view, matrix[:, -1] if self.weight is not None else None, metric

    def _categorical(self, T: Array) -> tuple[bool, ...] | None:
        """Which coordinates stand for categories: known only while they are the encoded columns themselves."""
        if self.combination.basis.use != "identity":
            return None
        return tuple(feature.kind != "value" for feature in self.encoding.features)

    def _decoded(self, table: Table, groups: Partition, outcome: Outcome, back: Any) -> Masked:
        """Download what changed, once, and put it into the table."""
        smallest = int(groups.sizes.min())
        if isinstance(outcome, Moved):
            both = to_host(namespace(outcome.source).stack([outcome.source, groups.labels()]))
            moved = table.take(both[0])
            released = table.replace({name: moved.series(name) for name in self.columns})
            return Masked(released, groups.parts, smallest, both[0], both[1])
        assert isinstance(outcome, Changed)
        values = to_host(back(outcome.values)).astype(np.float64, copy=False)
        return Masked(table.replace(self.encoding.decode(values, table)), groups.parts, smallest)


def require_backend(combination: Combination, backend: Backend) -> None:
    """Refuse groups that are written for the CPU where a device was chosen: nothing falls back in silence."""
    if combination.groups.host_only and backend.name != "numpy":
        raise BackendError(
            f"groups: {combination.groups.use!r} runs on the CPU only, and the backend is {backend.name}",
            hint="--backend numpy",
        )


def needed_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The columns that a mask has to know: those that it changes, and sensitive ones that take part in its grouping."""
    columns = chosen_columns(combination, schema)
    return columns + tuple(name for name in schema.sensitive if combination.response_weight and name not in columns)


def chosen_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The columns that a mask changes."""
    chosen = schema.select(combination.columns)
    if schema.weight in chosen:
        raise RecipeError(f"mask: columns: {schema.weight!r} is the weight and is not masked")
    if not chosen:
        raise RecipeError(
            "mask: columns: no column is chosen",
            hint='give at least one column role = "quasi", or name the mask\'s columns',
        )
    return chosen
