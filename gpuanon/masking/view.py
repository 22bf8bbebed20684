"""The rows of a cell as the parts of a mask see them: as points, as classes, or as both, on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Backend, Host, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.contract import Groups, Sight
from gpuanon.masking.given import CellSummary, ClassInfo, Given, Records
from gpuanon.masking.methods.combination import Combination
from gpuanon.masking.person_blocks import People
from gpuanon.numerics.distance.distance import nearest
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from gpuanon.tables.codes import ColumnCodes, chunked, column_codes
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.hierarchy import Hierarchy
from gpuanon.tables.schema import Nulls, Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats


def strata_of(sensitive: Sensitive, count: int, least: int, draws: Draws) -> Partition:
    """Quantile strata of the first sensitive column whose values have an order.

    `count` strata whose sizes differ by one row at most, or as many as leave `least` rows in each.  Rows of equal
    response that do not fit one stratum are divided among neighbours at random.

    Cost : two sorts of n numbers.
    """
    xp = namespace(sensitive.codes)
    values = sensitive.codes[:, sensitive.ordered.index(True)]
    n = len(values)
    strata = max(1, min(count, n // least))
    at_random = xp.argsort(draws.keys(), kind="stable")
    order = at_random[xp.argsort(values[at_random], kind="stable")]
    return Partition(order, xp.arange(strata + 1, dtype=np.int64) * n // strata)


def form_inside(strata: Partition, form: Callable[[Array], Partition]) -> Partition:
    """The groups that `form` makes of the rows of each stratum, ascending; there are few strata."""
    xp = namespace(strata.order)
    labels = xp.empty(strata.n, dtype=np.int64)
    starts, groups = to_host(strata.starts), 0
    for low, high in pairwise(starts):
        rows = xp.sort(strata.order[int(low) : int(high)])
        formed = form(rows)
        labels[rows] = formed.labels() + groups
        groups += formed.parts
    return Partition.from_labels(labels)


@dataclass(frozen=True, repr=False)
class Scope:
    """Columns that share their groups: all of a mask's, or one of them.

    grouped     : what the groups see
    X           : what the basis sees; None when no part but the groups sees points
    codes       : what an operation on classes sees; None when it sees points
    categorical : for each column of `X` whether it stands for a category
    columns     : for each column of `X` its table column
    """

    draws: Draws
    grouped: Array
    X: Array | None
    codes: Array | None
    categorical: tuple[bool, ...]
    classes: ClassInfo | None
    weights: Array | None
    people: People | None = None
    sensitive: Sensitive | None = None
    given: Given | None = None
    columns: tuple[str, ...] = ()

    def strata(self, combination: Combination) -> Partition | None:
        """Quantile strata of the response, where the operation asks for some."""
        count, k = combination.operation.response_strata, combination.k
        if count is None or self.sensitive is None:
            return None
        return strata_of(self.sensitive, count, 2 * (k or 1), self.draws.child("strata"))

    def form(self, combination: Combination, groups: Groups, metric: Metric) -> Partition:
        """The groups, inside the strata: of persons, where rows seen as points have any; classes are of rows.

        Where rows are drawn by their weights, groups are united until each has enough of a weight above 0.
        """
        draws, strata = self.draws.child("groups"), self.strata(combination)
        if strata is not None:
            formed = form_inside(strata, lambda rows: groups.form(self.grouped[rows], draws.take(rows), metric))
        elif self.people is None or groups.sees == "classes":
            formed = groups.form(self.grouped, draws, metric)
        else:
            formed = self.people.form(groups, self.grouped, draws, metric)
        if combination.operation.by_weight and groups.sees == "points" and groups.least and self.weights is not None:
            persons = None if self.people is None else self.people.index
            formed = with_weight(formed, self.grouped, self.weights, groups.least, persons, strata)
        if groups.constraint is None:
            return formed
        assert self.X is not None
        assert self.sensitive is not None
        return groups.constrain(formed, self.X, self.sensitive)

    def learn(self, groups: Groups, metric: Metric) -> CellSummary:
        """What the groups learn of the rows, or of persons where there are any."""
        draws = self.draws.child("groups")
        if self.people is None:
            return groups.learn(self.grouped, draws)
        return groups.learn(self.people.points(self.grouped, metric), draws.take(self.people.first))

    def kept(self, groups: Groups, metric: Metric) -> Array:
        """(n,) whether each row is to be in a group; the rows of a person together."""
        if self.people is None:
            return groups.kept(self.grouped)
        return groups.kept(self.people.points(self.grouped, metric))[self.people.index]

    def coordinates(self, combination: Combination, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        """What the operation sees, and the inverse of its coordinates."""
        if combination.operation.sees == "classes":
            assert self.codes is not None
            return self.codes, lambda T: T
        assert self.X is not None
        return combination.basis.forward(self.X, groups)

    def records(self, combination: Combination, learned: CellSummary | None = None) -> Records:
        """What the operation may know besides."""
        plain = combination.basis.plain
        draws = self.draws.child("operation")
        persons = None if self.people is None else self.people.index
        categorical = self.categorical if plain else None
        numbers = None if self.people is None else self.people.numbers
        seen = (self.weights, categorical, self.classes, learned, persons, self.sensitive, numbers, self.given)
        return Records(draws, *seen, self.strata(combination), self.columns if plain else None)


@dataclass(frozen=True, repr=False)
class View:
    """The rows of a cell.

    X        : (n, d) the encoded columns, or None
    grouped  : what the groups see: `X`, with sensitive columns that take part in the grouping; Gower's columns; codes
    metric   : of `grouped`
    codes    : (n, columns) codes, or None
    values   : for each column of `codes` the values at each depth of its hierarchy
    features : for each column of `X` its table column, and whether it stands for a category
    weights  : (n,) sample weights, or None
    people   : whose rows they are; None where each row is a person of its own
    sensitive : the sensitive values of the rows, where a part has a constraint; else None
    given    : the columns that a conditional operation depends on, or None
    scratch  : memory of the host that was uploaded and is free for what is downloaded; None on the host
    """

    X: Array | None
    grouped: Array
    metric: Metric
    codes: Array | None
    classes: ClassInfo | None
    values: tuple[ColumnCodes, ...]
    features: tuple[tuple[str, bool], ...]
    weights: Array | None
    people: People | None = None
    sensitive: Sensitive | None = None
    given: Given | None = None
    scratch: Host | None = None

    def scopes(self, draws: Draws, per_column: bool) -> list[Scope]:
        """The whole, or each table column by itself with draws of its own."""
        if not per_column:
            categorical = tuple(flag for _, flag in self.features)
            seen = (self.grouped, self.X, self.codes, categorical, self.classes, self.weights)
            columns = tuple(column for column, _ in self.features)
            return [Scope(draws, *seen, self.people, self.sensitive, self.given, columns)]
        assert self.X is not None
        scopes = []
        for name in dict.fromkeys(column for column, _ in self.features):
            chosen = [at for at, (column, _) in enumerate(self.features) if column == name]
            place = slice(chosen[0], chosen[-1] + 1)  # the features of a column lie side by side
            X = namespace(self.X).ascontiguousarray(self.X[:, place])
            flags = tuple(self.features[at][1] for at in chosen)
            scopes.append(Scope(draws.child(name), X, X, None, flags, None, self.weights, self.people))
        return scopes


def wanted(combination: Combination) -> set[Sight]:
    """As what the parts of a mask see the rows."""
    sights: set[Sight] = {combination.groups.sees, combination.operation.sees}
    return sights - {"rows"}


def sees_classes(combination: Combination) -> bool:
    """Whether a part of the mask sees classes, and with them the hierarchies of columns."""
    return "classes" in wanted(combination)


def view_of(
    table: Table,
    schema: Schema,
    combination: Combination,
    encoding: Encoding | None,
    response: Host | None,
    hierarchies: Mapping[str, Hierarchy],
    columns: tuple[str, ...],
    nulls: Nulls,
    backend: Backend,
    levels: Mapping[str, Any] | None = None,
    grouping: Encoding | None = None,
) -> View:
    """Encode the rows of `table` and put them on the device.

    response : (n, s) sensitive columns that take part in the grouping, or None
    levels   : values of each column in the whole table, in their order, where codes are common to all cells
    grouping : of the columns that points are grouped by, where those are not the masked ones; or None
    """
    points, metric = None, EUCLIDEAN
    weights = None if schema.weight is None else floats(table.arrow(schema.weight))
    X = grouped = codes = classes = None
    values: tuple[ColumnCodes, ...] = ()
    by = None
    if encoding is not None:
        points, metric, width = _blocks(table, combination, encoding, response, weights)
        points = np.ascontiguousarray(points, dtype=backend.real)
        X, grouped, weights = _parted(backend.upload(points), metric, *width)
    elif weights is not None:
        weights = backend.upload(weights)
    if sees_classes(combination):
        known = levels or {}
        values = tuple(column_codes(table, schema, name, hierarchies.get(name), known.get(name)) for name in columns)
        codes, classes = _classes(values, columns, schema, nulls, backend, combination.operation.whole_table)
    if combination.by and sees_classes(combination):
        those = tuple(column_codes(table, schema, name) for name in combination.by)
        flags = np.stack([_flags(column) for column in those], axis=1)
        by = Given(*_classes(those, combination.by, schema, nulls, backend), flags)
    if grouping is not None:
        grouped = backend.upload(grouping.encode(table).astype(backend.real, copy=False))
    elif combination.groups.sees == "classes" or grouped is None:
        grouped = codes if by is None else by.codes
    features = () if encoding is None else encoding.columns_of_features
    given = by if combination.operation.conditional else None
    scratch = None if backend.name == "numpy" else points
    return View(X, grouped, metric, codes, classes, values, features, weights, given=given, scratch=scratch)


def _classes(
    values: tuple[ColumnCodes, ...],
    columns: tuple[str, ...],
    schema: Schema,
    nulls: Nulls,
    backend: Backend,
    shared: bool = False,
) -> tuple[Array, ClassInfo]:
    """(n, columns) codes on the device, and what is known of the columns; `shared`: their values' shares too."""
    codes = backend.upload(np.stack([column.codes for column in values], axis=1))
    ordered = tuple(schema[name].kind != "categorical" for name in columns)
    ancestors = tuple(backend.upload(column.ancestors) for column in values)
    shares = tuple(column.shares() for column in values) if shared else ()
    return codes, ClassInfo(columns, ordered, ancestors, nulls == "wildcard", shares, values)


def _flags(column: ColumnCodes) -> Host:
    """(n,) int8: 1 for true, and for a number that is not 0; 0 for false and 0; −1 for nulls and what is neither."""
    known = family(column.values.type) in ("flag", "number")
    true = floats(chunked(column.values)) != 0 if known else np.full(len(column.values), -1)
    return np.asarray(np.append(true, -1).astype(np.int8)[column.codes])  # a null has the code −1


def _blocks(
    table: Table, combination: Combination, encoding: Encoding, response: Host | None, weights: Host | None
) -> tuple[Host, Metric, tuple[int, bool]]:
    """One matrix for one upload: the encoded columns, what else the groups see, the weights; and its layout."""
    blocks, metric = [encoding.encode(table)], EUCLIDEAN
    if combination.metric == "gower":
        gower, metric = encoding.gower(table)
        blocks.append(gower)
    elif response is not None:
        blocks.append(response)
    if weights is not None:
        blocks.append(weights[:, None])
    whole = blocks[0] if len(blocks) == 1 else np.hstack(blocks)
    return whole, metric, (blocks[0].shape[1], weights is not None)


def _parted(matrix: Array, metric: Metric, width: int, weighted: bool) -> tuple[Array, Array, Array | None]:
    """The encoded columns, what the groups see, and the weights, of the matrix that was uploaded."""
    xp = namespace(matrix)
    end = matrix.shape[1] - weighted
    X = xp.ascontiguousarray(matrix[:, :width])
    grouped = xp.ascontiguousarray(matrix[:, width:end] if metric is not EUCLIDEAN else matrix[:, :end])
    return X, grouped, matrix[:, -1] if weighted else None


def with_weight(
    groups: Partition, X: Array, weights: Array, k: int, persons: Array | None, strata: Partition | None
) -> Partition:
    """Unite each group of fewer than `k` records of a weight above 0 with the nearest group that has as many.

    persons : (n,) whose rows they are: then k counts persons; or None
    strata  : unions of groups that a united group does not cross; None for one
    Ties    : the group of the lowest number.  A stratum without any such group stays as it is, and the claim fails.
    """
    xp = namespace(X)
    labels, positive = groups.labels(), weights > 0
    if bool(positive.all()):
        return groups
    drawn = labels[positive]
    if persons is not None:  # each person of a group once
        drawn = xp.unique(xp.stack([labels, persons])[:, positive], axis=1)[0]
    enough = to_host(xp.bincount(drawn, minlength=groups.parts)) >= k
    first = to_host(groups.order[groups.starts[:-1]])
    stratum = np.zeros(groups.parts, dtype=np.int64) if strata is None else to_host(strata.labels())[first]
    means = segment_means(X, groups)
    united = np.arange(groups.parts)
    for own in np.unique(stratum[~enough]):
        few, many = (np.flatnonzero((stratum == own) & chosen) for chosen in (~enough, enough))
        if len(many):
            united[few] = many[to_host(nearest(means[xp.asarray(few)], means[xp.asarray(many)])[1])]
    return Partition.from_labels(xp.asarray(united)[labels])
