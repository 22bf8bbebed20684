"""Kernel principal components of a table, and projections of new rows, without an n × m kernel matrix.

Exact up to a few thousand rows; beyond, by Nyström's method: rows are described by their kernel values with m
landmarks, ``φ(x) = K_mm^{-1/2} k(x)``, and the components are those of φ over a sample of the rows.  Either way
the rows are centred in feature space, and a projection is ``K(x, landmarks) W − b``.

References
----------
.. [1] B. Schölkopf, A. Smola, K.-R. Müller (1998), Nonlinear component analysis as a kernel eigenvalue problem,
   Neural Computation 10(5).
.. [2] C. K. I. Williams, M. Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS 13.
.. [3] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device, to_host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.numerics.kernel_values import POLYNOMIAL, Kernel, kernel_matrix, kernel_product, mean_square

EXACT_ROWS = 3000
"""Up to this many rows the components are exact."""

LANDMARKS = 1000

_SAMPLE = 32  # rows of the sample per landmark; the components are those of the sample
_STRIP = 64  # columns of a trapezoid that are multiplied at a time
_PHI, _PART = 1 << 9, 1 << 12  # rows whose φ is held at a time, and of whose φ a thread sums the products
_NOTHING = 1e-12  # eigenvalues below this share of the largest are rounding errors
_FEW = 10  # if fewer than a tenth of the components are needed, an iterative solver finds only these
_SMALL = 200


@dataclass(frozen=True, eq=False)
class KernelPCA:
    """Kernel principal components; see `fit`.

    kernel    : the kernel
    landmarks : (m, d) the rows whose kernel values express the components
    weights   : (m, c) and offset (c,): a projection is ``K(x, landmarks) weights − offset``
    variances : (c,) of the projections of the fitted rows, descending
    share     : share of the variance that the components explain
    captured  : share of the variance in the span of the landmarks (1 when exact)
    total     : variance of all components; None if `variances` has all of them
    """

    kernel: Kernel
    landmarks: Array
    weights: Array
    offset: Array
    variances: Host
    share: float
    captured: float
    total: float | None = None

    @classmethod
    def fit(
        cls,
        X: Array,
        kernel: Kernel = POLYNOMIAL,
        *,
        share: float = 0.99,
        components: int | None = None,
        landmarks: int = LANDMARKS,
        exact_rows: int = EXACT_ROWS,
    ) -> KernelPCA:
        """Fit the components of the rows of `X` (n, d) that explain `share` of the variance, at most `components`.

        Tables of more than `exact_rows` rows use `landmarks` evenly spaced rows (Nyström).  The sign of a component is
        such that its largest weight is positive.
        """
        if not 0 < share <= 1:
            raise ParameterError(f"share: a number above 0 and up to 1 is allowed, got {share}")
        if len(X) < 2:
            raise ParameterError(f"X: two rows or more are needed, got {len(X)}")
        if len(X) <= exact_rows:
            found = _exact(X, kernel, components)
        else:
            found = _nystrom(X, kernel, min(landmarks, len(X)), components)
        return found.cut(share, components)

    def project(self, X: Array) -> Array:
        """(n, c) coordinates of the rows of `X` along the components."""
        out = kernel_product(X, self.landmarks, self.weights, self.kernel)
        out -= self.offset
        return out

    def cut(self, share: float, components: int | None) -> KernelPCA:
        """The first components that explain `share` of the variance, at most `components`, with normalised signs."""
        xp = namespace(self.weights)
        total = float(self.variances.sum()) if self.total is None else self.total
        running = np.cumsum(self.variances) / total if total > 0 else np.ones(1)
        count = int(np.searchsorted(running, share * (1 - 1e-12))) + 1
        count = min(count, len(self.variances), count if components is None else components)
        weights = self.weights[:, :count]
        largest = xp.take_along_axis(weights, xp.abs(weights).argmax(axis=0)[None, :], axis=0)[0]
        sign = xp.where(largest < 0, -1.0, 1.0).astype(weights.dtype)
        return KernelPCA(
            self.kernel,
            self.landmarks,
            weights * sign,
            self.offset[:count] * sign,
            self.variances[:count],
            float(running[count - 1]),
            self.captured,
            total,
        )


def _exact(X: Array, kernel: Kernel, components: int | None = None) -> KernelPCA:
    """Components of a small table: eigenvectors of the centred kernel matrix (section 3 of [1])."""
    xp = namespace(X)
    n = len(X)
    K = kernel_matrix(X.astype(np.float64), X.astype(np.float64), kernel)
    means = K.mean(axis=0)
    K -= means[:, None] + means[None, :] - means.mean()
    total = float(xp.trace(K)) / n
    values, vectors = _leading(K, n if components is None else components)
    real = int((values > _NOTHING * xp.maximum(values[0], 0)).sum())
    values, vectors = values[: max(1, real)], vectors[:, : max(1, real)]
    weights = vectors / xp.sqrt(xp.where(values > 0, values, 1))
    # Centring a new row's kernel values k: (k − mean k − means + mean) weights, and the columns of weights sum to 0.
    weights -= weights.mean(axis=0)
    variances = np.maximum(to_host(values), 0) / n
    offset = (means @ weights).astype(X.dtype)
    return KernelPCA(
        kernel, X, weights.astype(X.dtype), offset, variances, 1.0, 1.0, max(total, float(variances.sum()))
    )


def _leading(K: Array, count: int) -> tuple[Array, Array]:
    """The largest eigenvalues of a symmetric matrix, descending, and their vectors; at least `count` of them."""
    if on_device(K) or len(K) <= _SMALL or count * _FEW >= len(K):
        values, vectors = namespace(K).linalg.eigh(K)
        return values[::-1], vectors[:, ::-1]
    from scipy.sparse.linalg import eigsh

    start = np.cos(np.arange(len(K), dtype=np.float64) ** 2)  # a fixed start, so that results are repeatable
    values, vectors = eigsh(K, count, which="LA", v0=start)
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def _nystrom(X: Array, kernel: Kernel, landmarks: int, components: int | None = None) -> KernelPCA:
    """Components in the span of the landmarks: all, or at least so many of the largest."""
    xp = namespace(X)
    L = X[_spread(len(X), landmarks, X)].astype(np.float64)
    values, vectors = xp.linalg.eigh(kernel_matrix(L, L, kernel))
    keep = int((values > _NOTHING * values[-1]).sum())
    whitening = vectors[:, -keep:] / xp.sqrt(values[-keep:])  # φ(x) = K(x, L) whitening
    if not on_device(X):  # turned in φ's space, which changes no component, so that half of the whitening is 0
        whitening = np.ascontiguousarray(cast(Host, np.linalg.qr(whitening.T, mode="r")).T)
    sample = X[_spread(len(X), _SAMPLE * landmarks, X)]
    mean, covariance = _moments(sample.astype(np.float64), L, whitening, kernel)
    spanned = float(xp.trace(covariance))
    variances, axes = _leading(covariance, keep if components is None else components)
    real = max(1, int((variances > _NOTHING * xp.maximum(variances[0], 0)).sum()))
    weights = (whitening @ axes[:, :real]).astype(X.dtype)
    total = mean_square(sample, kernel) - float((mean * mean).sum())
    captured = min(1.0, spanned / total) if total > 0 else 1.0
    spread, offset = np.maximum(to_host(variances[:real]), 0), (mean @ axes[:, :real]).astype(X.dtype)
    return KernelPCA(kernel, L.astype(X.dtype), weights, offset, spread, 1.0, captured, max(spanned, spread.sum()))


def _moments(X: Array, L: Array, W: Array, kernel: Kernel) -> tuple[Array, Array]:
    """Mean (q,) and covariance (q, q) of φ = K(X, L) W over the rows of `X`; on the host `W` is lower trapezoidal.

    On the host φ is never stored as a whole: its moments are those of tiles, around the φ of one landmark, so that
    little cancels.  Cost: n · m · (d + q), half of it for each of the two products; memory O(n / 4096 · q²).
    """
    if on_device(X):
        phi = kernel_product(X, L, W, kernel)
        mean = phi.mean(axis=0)
        phi -= mean
        return mean, phi.T @ phi / len(phi)
    centre = (kernel_matrix(L[:1], L, kernel) @ W)[0]

    def part(at: int) -> tuple[Host, Host]:
        rows = X[at : at + _PART]
        tile, place = np.empty((_PHI, len(L))), np.empty((_PHI, len(centre)))
        total, squares = np.zeros(len(centre)), np.zeros((len(centre), len(centre)))
        for first in range(0, len(rows), _PHI):
            some = rows[first : first + _PHI]
            K = kernel_matrix(some, L, kernel, out=tile[: len(some)])
            phi = _times_trapezoid(K, W, place[: len(some)])
            phi -= centre
            total += phi.sum(axis=0)
            squares += phi.T @ phi
        return total, squares

    with one_blas_thread():
        sums = each(part, range(0, len(X), _PART))
    apart, squares = (sum(side[1:], start=side[0]) / len(X) for side in zip(*sums, strict=True))
    return centre + apart, squares - np.outer(apart, apart)


def _times_trapezoid(K: Host, W: Host, out: Host) -> Host:
    """(n, q) K W for a lower trapezoidal `W` (m, q), in little more than half the products.

    Not BLAS's own triangular product, which SciPy calls without releasing the interpreter lock.
    """
    for first in range(0, W.shape[1], _STRIP):
        strip = slice(first, first + _STRIP)
        np.matmul(K[:, first:], W[first:, strip], out=out[:, strip])
    return out


def _spread(n: int, count: int, reference: Array) -> Array:
    """`count` of `n` rows, evenly spaced."""
    rows = np.arange(n) if count >= n else (np.arange(count) * n + n // 2) // count
    return like(rows, reference)
