"""Evidence that merges exactly over pieces of a table: what it is collected from, and moments of encoded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from typing import Literal, Protocol, TypeVar

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

Side = Literal["original", "release"]
T = TypeVar("T")


class MissingEvidence(InputError):
    """A measure needs something that was not given."""


class EvidenceSource(Protocol):
    """What evidence that merges over pieces is collected from: a `Comparison`, or tables larger than memory."""

    @property
    def schema(self) -> Schema:
        """What the columns of the original are."""

    @property
    def class_sizes(self) -> Array:
        """(classes,) released records of each class that is equal on the quasi-identifiers."""

    @property
    def class_sizes_by_column(self) -> Mapping[str, Array]:
        """For each quasi-identifier (classes,) released records of each of its values."""

    @property
    def population(self) -> float:
        """People that the released records stand for, by the sample weights."""

    @property
    def features(self) -> tuple[str, ...]:
        """The table column of each feature of the encoded pieces."""

    def encoded_pieces(self, side: Side) -> Iterator[Array]:
        """All rows, encoded as `Comparison.encoded`, a piece at a time."""

    def weight_pieces(self, side: Side) -> Iterator[Array] | None:
        """People that each row of the encoded pieces stands for; None unless both tables have a column of weights."""

    def table_pieces(self, side: Side) -> Iterator[Table]:
        """All rows as they are, a piece at a time."""

    def collect(self, evidence: Callable[[EvidenceSource], T]) -> T:
        """`evidence` of this source, collected once however many measures ask for it."""


def sampling_fraction(source: EvidenceSource) -> float | None:
    """Share of the population that the released records are, by the sample weights; None without any."""
    try:
        return min(1.0, int(source.class_sizes.sum()) / source.population)
    except MissingEvidence:
        return None


@dataclass(frozen=True, eq=False)
class TableMoments:
    """Of encoded rows, on the host.

    rows      : their number, or the sum of their weights
    mean      : (d,)
    products  : (d, d) sums of products about the means
    low, high : (d,) extremes
    """

    rows: float
    mean: Host
    products: Host
    low: Host
    high: Host

    @classmethod
    def of(cls, X: Array, weights: Array | None = None) -> TableMoments:
        """Of the rows of `X` (n, d), about their own means, so that a large mean costs no digits of the variance.

        weights : (n,) people that each row stands for; None for 1 each
        """
        if X.ndim != 2 or len(X) == 0:
            raise ParameterError("rows: original and release need at least one each")
        rows = len(X) if weights is None else float(weights.sum())
        mean = X.mean(axis=0) if weights is None else weights @ X / rows
        centred = X - mean
        products = (centred if weights is None else centred * weights[:, None]).T @ centred
        return cls(rows, *(to_host(a) for a in (mean, products, X.min(axis=0), X.max(axis=0))))

    @classmethod
    def over(cls, pieces: Iterable[Array], weights: Iterable[Array] | None = None) -> TableMoments:
        """Of all pieces together, one in memory at a time, with the weights of each."""
        weighted = zip(pieces, repeat(None) if weights is None else weights, strict=weights is not None)
        return reduce(cls.merge, (cls.of(piece, own) for piece, own in weighted if len(piece)))

    def merge(self, other: TableMoments) -> TableMoments:
        """Of the rows of both (Chan, Golub and LeVeque 1983)."""
        rows, shift = self.rows + other.rows, other.mean - self.mean
        return TableMoments(
            rows,
            self.mean + shift * (other.rows / rows),
            self.products + other.products + np.outer(shift, shift) * (self.rows * other.rows / rows),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def varies(self) -> Host:
        """(d,) whether a feature holds two different values: rounding may give a constant one a tiny variance."""
        return np.asarray(self.high > self.low)

    @property
    def variance(self) -> Host:
        """(d,) with divisor n; 0 for a constant feature."""
        return np.where(self.varies, np.diag(self.products) / self.rows, 0.0)

    @property
    def correlation(self) -> Host:
        """(d, d); NaN for a constant feature."""
        deviation = np.where(self.varies, np.sqrt(np.diag(self.products)), np.nan)
        return np.asarray(self.products / deviation[:, None] / deviation[None, :])


def moment_evidence(source: EvidenceSource) -> tuple[TableMoments, TableMoments, tuple[str, ...]]:
    """Moments of original and release, and the table column of each feature; merges over pieces."""
    before, after = (
        TableMoments.over(source.encoded_pieces(side), source.weight_pieces(side)) for side in ("original", "release")
    )
    return before, after, source.features
