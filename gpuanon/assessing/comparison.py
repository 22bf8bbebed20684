"""An original and its release, side by side, as the measures see them.

Tables become arrays here, once, with the encoding of the original; the measures themselves are functions of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Host, namespace, to_host
from gpuanon.assessing.compared_tables import (
    ComparedTables,
    as_text,
    class_columns,
    class_columns_by_name,
    recoded,
    require_finite,
    require_values,
)
from gpuanon.assessing.evidence import EvidenceSource, MissingEvidence, Side
from gpuanon.assessing.risk.k_anonymity import sizes_of
from gpuanon.assessing.risk.prediction import CANDIDATES, Prediction, predict, scale_of, scaled
from gpuanon.assessing.risk.reidentification import Hits, attacked
from gpuanon.assessing.shared_arrays import lock_of, made_once
from gpuanon.assessing.utility.cell_counts import Counted, binned, tables
from gpuanon.assessing.utility.propensity.scores import Fitted, fitted
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import level_codes, value_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats, null_mask, value_type

T = TypeVar("T")


def placed(make: Callable[[Any], T]) -> made_once[T]:
    """A cached property whose arrays are made on the host once, and uploaded where the comparison has a device."""
    name = make.__name__

    def get(self: Comparison) -> T:
        if self.backend is None or self.backend.name == "numpy":
            return make(self)
        found: Any = getattr(self.host, name)
        upload = self.backend.upload
        if found is not None:
            found = tuple(map(upload, found)) if isinstance(found, tuple) else upload(found)
        placed_here: T = found
        return placed_here

    get.__doc__ = make.__doc__
    return made_once(get)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ComparedTables):
    """Original and release as arrays, each made once, on the host or on a device."""

    @made_once
    def host(self) -> Comparison:
        """The same with arrays on the host, for measures that are written for it."""
        on_host = self.backend is None or self.backend.name == "numpy"
        return self if on_host else replace(self, backend=None)

    @made_once
    def _collected(self) -> dict[Any, Any]:
        return {}

    def collect(self, evidence: Callable[[EvidenceSource], T]) -> T:
        """See `EvidenceSource`."""
        with lock_of(self, f"evidence {id(evidence)}"):
            if evidence not in self._collected:
                self._collected[evidence] = evidence(self)
        found: T = self._collected[evidence]
        return found

    @placed
    def link(self) -> Array:
        """The link, for measures that cannot do without."""
        if self.known_link is None:
            raise MissingEvidence("needs the private link between release and original (--link)")
        return self.known_link

    @property
    def link_or_none(self) -> Array | None:
        """The link where it is known."""
        return None if self.known_link is None else self.link

    @property
    def link_of_pairs(self) -> Array | None:
        """The link where it is known and a released row has an original; None: there are no pairs to exchange."""
        link = self.link_or_none
        return link if link is not None and bool((link >= 0).any()) else None

    @made_once
    def persons(self) -> Host | None:
        """(n,) whose record each original is, where the table says so; None: each record is a person's of its own."""
        column = self.schema.unit_column
        if column is None or column.name not in self.original.names:
            return None
        return np.unique(row_bits(self.original, [column.name])[:, 0], return_inverse=True)[1].reshape(-1)

    @made_once
    def released_persons(self) -> Host | None:
        """(m,) whose row each released one is: the numbers of `persons`, a number of its own for an added row.

        None where each row is a person's of its own, or where nothing tells whose it is.
        """
        if self.persons is None or self.known_link is None:
            return None
        numbers = int(self.persons.max(initial=-1)) + 1 + np.arange(self.release.n_rows)
        return np.where(self.known_link >= 0, self.persons[np.maximum(self.known_link, 0)], numbers)

    @property
    def all_new(self) -> bool:
        """Whether no released row stands for an original."""
        return self.known_link is not None and not bool((self.known_link >= 0).any())

    @made_once
    def shown(self) -> tuple[str, ...]:
        """Every column of the release that an intruder can compare: all but pseudonyms."""
        column = self.schema.unit_column
        return tuple(name for name in self.release.names if column is None or name != column.name)

    def rows_alike(self, *tables: Table) -> tuple[Host, ...]:
        """Codes of the rows of tables, equal for equal rows, on all columns that original and release have."""
        names = [name for name in self.shown if name in self.original.names]
        labels = recoded(self.points, self._types, names)
        texts = [as_text(table, labels) for table in tables]
        if all(len({table.arrow(name).type for table in texts}) == 1 for name in names):
            return tuple(row_bits(table, names).view(np.int64) for table in texts)
        return tuple(level_codes(texts, names))

    def released_codes(self) -> Host:
        """(m, shown) codes of the released columns, equal for equal values, of whatever type."""
        return value_codes(self.release, self.shown)

    def is_nested(self, name: str) -> bool:
        """Whether a column holds lists, structures or the like."""
        return any(family(value_type(table.arrow(name).type)) == "other" for table in (self.original, self.points))

    def is_number(self, name: str) -> bool:
        """Whether original and release have numbers or times in a column."""
        types = [value_type(table.arrow(name).type) for table in (self.original, self.points)]
        return all(family(one) in ("number", "time") for one in types)

    @placed
    def quasi(self) -> tuple[Array, Array]:
        """The quasi-identifiers of original and release, encoded and standardised alike."""
        return self._quasi_encoding.encode(self.original), self._quasi_encoding.encode(self.points)

    def points_alike(self, columns: tuple[str, ...], *tables: Table) -> tuple[list[Array], tuple[str, ...]]:
        """These columns of the tables as points, encoded as the quasi-identifiers are; and each feature's column."""
        encoding = self._fit(columns, "balanced")
        found = [encoding.encode(table) for table in tables]
        names = tuple(feature.column for feature in encoding.features)
        if self.backend is None or self.backend.name == "numpy":
            return found, names
        return [self.backend.upload(points) for points in found], names

    def with_released(self, rows: Host) -> Comparison:
        """The same originals, and these released rows alone, which ascend; on the host, without the link."""
        return replace(self.host, release=self.release.take(rows), known_link=None)

    @placed
    def quasi_codes(self) -> tuple[Array, Array]:
        """Equal codes for equal values: the quasi-identifiers of original and release, intervals at midpoints."""
        at = [self.columns.index(name) for name in self._need_quasi()]
        before, after = self.host.codes
        together = at == list(range(at[0], at[-1] + 1))  # adjacent columns are not copied
        chosen: Any = slice(at[0], at[-1] + 1) if together else at
        return before[:, chosen], after[:, chosen]

    @placed
    def classes(self) -> Array:
        """(m, 2) equal for equal released quasi-identifiers, both ends of an interval: what makes up a class.

        Equal as `gpuanon.tables.class_counts` has it, so that a class in memory is one in pieces.
        """
        self._need_quasi()
        return row_bits(self.release, class_columns(self.release.names, self.schema), stored=True).view(np.int64)

    @made_once
    def class_sizes(self) -> Array:
        """See `EvidenceSource`."""
        return self._sizes(self.classes)

    def _sizes(self, codes: Array) -> Array:
        """(classes,) people of each class of equal codes: persons, where it is known whose row each is."""
        if self.released_persons is None:
            return sizes_of(codes)
        labels = to_host(equal_rows(codes))
        pairs = equal_rows(np.stack([labels, self.released_persons], axis=1))
        first = np.unique(pairs, return_index=True)[1]
        return namespace(codes).asarray(np.bincount(labels[first]))

    @placed
    def column_classes(self) -> Array:
        """(m, quasi) equal for equal released values of a quasi-identifier, both ends of an interval; null is −1."""
        self._need_quasi()
        names = class_columns_by_name(self.release.names, self.schema)
        out = np.empty((self.release.n_rows, len(names)), dtype=np.int64)
        for at, columns in enumerate(names.values()):
            out[:, at] = equal_rows(row_bits(self.release, columns, stored=True).view(np.int64))
            out[np.logical_and.reduce([null_mask(self.release.arrow(column)) for column in columns]), at] = -1
        return out

    @made_once
    def class_sizes_by_column(self) -> Mapping[str, Array]:
        """See `EvidenceSource`."""
        codes = self.column_classes + 1  # a null is a value here, as it is in a class
        return {name: self._sizes(codes[:, at : at + 1]) for at, name in enumerate(self.schema.quasi)}

    @made_once
    def population(self) -> float:
        """See `EvidenceSource`."""
        return float(self.release_weights.sum())

    @placed
    def codes(self) -> tuple[Array, Array]:
        """Equal codes for equal values, all compared columns."""
        return self.codes_of(self.columns)

    @placed
    def sensitive_codes(self) -> Array:
        """Equal codes for equal values: the sensitive columns of the release."""
        if not self.schema.sensitive:
            raise MissingEvidence("needs columns of role sensitive")
        return level_codes([self.points], self.schema.sensitive)[0]

    @placed
    def release_weights(self) -> Array:
        """People that each released record stands for."""
        if self.schema.weight is None or self.schema.weight not in self.release.names:
            raise MissingEvidence("needs a column of role weight")
        return floats(self.release.arrow(self.schema.weight))

    @placed
    def weights(self) -> tuple[Array, Array] | None:
        """People that each record of original and release stands for; None unless both have the column."""
        return self.weights_or_none

    @placed
    def values(self) -> tuple[Array, Array]:
        """Every compared column: numbers as they are (NaN for null), codes of categories and ordered levels."""
        numeric = [name for name in self.columns if self.schema[name].kind in ("numeric", "date")]
        require_values(self.points, self._types, numeric)
        coded = [at for at, name in enumerate(self.columns) if name not in numeric]
        codes = self.codes_of(tuple(self.columns[at] for at in coded))
        before, after = (np.empty((table.n_rows, len(self.columns))) for table in (self.original, self.points))
        before[:, coded], after[:, coded] = codes
        for at, name in enumerate(self.columns):
            if name in numeric:
                before[:, at], after[:, at] = (floats(table.arrow(name)) for table in (self.original, self.points))
                require_finite(name, after[:, at])
        return before, after

    @placed
    def binned(self) -> tuple[Array, Array]:
        """Every compared column as codes of at most a few levels: numbers in ten quantile bins of the original."""
        return self._in_bins(None)

    @property
    def binned_by_weight(self) -> tuple[Array, Array]:
        """`binned`, where both tables have weights in bins of equal weight."""
        return self.binned if self.weights is None else self._weighted_bins

    @placed
    def _weighted_bins(self) -> tuple[Array, Array]:
        assert self.weights is not None
        return self._in_bins(self.weights[0])

    def _in_bins(self, weights: Array | None) -> tuple[Array, Array]:
        """Numbers in ten bins, equal in the original by these weights; codes as they are."""
        before, after = (np.empty(values.shape, dtype=np.int32) for values in self.values)
        numeric = [at for at, name in enumerate(self.columns) if self.schema[name].kind in ("numeric", "date")]
        coded = [at for at in range(len(self.columns)) if at not in numeric]
        for out, values in zip((before, after), self.values, strict=True):
            out[:, coded] = values[:, coded]
        first, second = (values[:, numeric] for values in self.values)
        before[:, numeric], after[:, numeric] = binned(first, second, weights=weights)
        return before, after

    @made_once
    def logit_fit(self) -> Fitted:
        """The logit that tells released records from original ones, all compared columns: shared by three measures."""
        return fitted(*self.values, "logit", self.categorical, sampled=self.sampled)

    @made_once
    def two_way_tables(self) -> Counted:
        """The two-way tables of `binned`: shared by measures of contingency tables."""
        return list(tables(*self.binned, 2))

    @property
    def weighted_tables(self) -> Counted:
        """The two-way tables of `binned_by_weight`, which hold sums of weights where both tables have them."""
        return self.two_way_tables if self.weights is None else self._weighted_tables

    @made_once
    def _weighted_tables(self) -> Counted:
        return list(tables(*self.binned_by_weight, 2, self.weights))

    @placed
    def encoded(self) -> tuple[Array, Array]:
        """Every compared column, encoded and standardised alike."""
        return self._encoding.encode(self.original), self._encoding.encode(self.points)

    @placed
    def encoded_reference(self) -> Array | None:
        """Every compared column of the reference sample, encoded alike; None where there is none."""
        known = self.known_reference
        return None if known is None else self._encoding.encode(known)

    def encoded_pieces(self, side: Side) -> Iterator[Array]:
        """See `EvidenceSource`: one piece."""
        yield self.encoded[0 if side == "original" else 1]

    def weight_pieces(self, side: Side) -> Iterator[Array] | None:
        """See `EvidenceSource`."""
        return None if self.weights is None else iter([self.weights[0 if side == "original" else 1]])

    @made_once
    def prediction(self) -> Prediction:
        """How well the release predicts each original record: shared by three measures."""
        found = predict(*self.standardised)
        return replace(found, originals=self.summary.rows) if self.sampled and self.summary is not None else found

    @property
    def prediction_or_none(self) -> Prediction | None:
        """`prediction`, whose search serves other measures too; None where fewer records than it needs are released."""
        return self.prediction if self.release.n_rows >= CANDIDATES else None

    @made_once
    def _scale(self) -> tuple[Array, Array] | None:
        """Mean and deviation of `quasi` in the original; None where it is standardised already."""
        return scale_of(self.quasi[0])

    @made_once
    def standardised(self) -> tuple[Array, Array]:
        """`quasi`, each feature with mean 0 and deviation 1 in the original; `quasi` itself where it is so already."""
        before, after = self.quasi
        return (before, after) if self._scale is None else (scaled(before, self._scale), scaled(after, self._scale))

    @made_once
    def standardised_reference(self) -> Array:
        """The quasi-identifiers of the reference sample, as `standardised`."""
        if self.reference_table is None:
            raise MissingEvidence("needs a reference sample of the same population (--reference)")
        points = (self.backend or HOST).upload(self.host._quasi_encoding.encode(self.reference_table))
        return points if self._scale is None else scaled(points, self._scale)

    @made_once
    def hits(self) -> Hits:
        """The reidentification attack, by the search of `prediction` where both measure the same distances."""
        shared = self.prediction_or_none if self._scale is None else None
        return attacked(*self.quasi, self.link, persons=self.persons, prediction=shared)


def only(source: Any, names: Sequence[str]) -> Comparison:
    """The comparison of these columns alone: a column that compares by equality only is then no obstacle."""
    if not isinstance(source, Comparison):
        raise InputError("named columns need all rows at once: not measured on a table larger than memory")
    unknown = [name for name in names if name not in source.original.names or name not in source.points.names]
    if unknown:
        raise ParameterError(f"there is no column {', '.join(map(repr, unknown))} in both tables")
    columns = tuple(source.schema[name].model_copy(update={"role": "sensitive", "transform": "none"}) for name in names)
    schema = source.schema.model_copy(update={"columns": columns})
    before, after = (Table.of(table.select(names).to_native()) for table in (source.original, source.points))
    return replace(source.host, original=before, release=after, schema=schema, summary=None)


def numbers_of(source: Any, names: Sequence[str]) -> tuple[Host, Host]:
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
