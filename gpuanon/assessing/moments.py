"""Means, variances and correlations of encoded rows as evidence that merges exactly over pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import repeat

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.source import EvidenceSource
from gpuanon.errors import ParameterError


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
