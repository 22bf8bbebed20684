"""Kernel principal components of a table, and the projection of any rows on them.

Up to `EXACT_ROWS` rows the centred kernel matrix is decomposed as it is.  Beyond, `landmarks` rows stand for all
(Nyström): a row x becomes the features ``k(x, Z) U Λ^{-1/2}`` of the landmarks' kernel ``K_ZZ = U Λ Uᵀ``, whose
principal components are found in one pass over at most `MOMENT_ROWS` random rows: the components are directions along
which tables are compared, and all rows are compared along them.  Memory O(n · components), no n × n matrix.

References
----------
.. [1] B. Schölkopf, A. Smola, K.-R. Müller (1998), Nonlinear component analysis as a kernel eigenvalue problem.
.. [2] C. Williams, M. Seeger (2001), Using the Nyström method to speed up kernel machines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, on_device, to_host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

Floats = np.ndarray[Any, Any]

EXACT_ROWS = 3000
MOMENT_ROWS = 100_000
_ROWS = 1 << 12
_CELLS = 1 << 18  # of a block of kernel values that stays in a core's cache
_DROP = 1e-12
_SMALL = 200


@dataclass(frozen=True)
class Kernel:
    """``(xᵀy + 1)^degree``, or ``exp(−‖x − y‖² / 2σ²)``."""

    kind: Literal["polynomial", "rbf"] = "polynomial"
    degree: int = 4
    sigma: float = 1.0

    def __call__(self, X: Array, Y: Array) -> Array:
        """(n, m) kernel of the rows of `X` (n, d) and `Y` (m, d)."""
        xp = namespace(X)
        products = X @ Y.T
        if self.kind == "polynomial":
            products += 1.0
            return _power(products, self.degree)
        products *= -2.0
        products += (X * X).sum(axis=1)[:, None]
        products += (Y * Y).sum(axis=1)
        return xp.exp(xp.maximum(products, 0.0) * (-0.5 / self.sigma**2))

    def diagonal(self, X: Array) -> Array:
        """(n,) kernel of each row with itself."""
        xp = namespace(X)
        return ((X * X).sum(axis=1) + 1.0) ** self.degree if self.kind == "polynomial" else xp.ones(len(X))


@dataclass(frozen=True, eq=False)
class Components:
    """Kernel principal components.

    scores    : (n, c) of the rows they were found in
    variances : (c,) of the scores (divisor n; by landmarks: of a sample of them), descending
    total     : variance of the rows in kernel space, all components together
    landmarks : rows that stand for all, or None when the components are exact
    """

    scores: Array
    variances: Floats
    total: float
    landmarks: int | None
    _kernel: Kernel
    _rows: Array
    _weights: Array
    _offset: Array

    @property
    def cumulative(self) -> Floats:
        """(c,) share of the total variance up to each component."""
        return np.cumsum(self.variances) / self.total if self.total > 0 else np.ones(len(self.variances))

    def first(self, count: int) -> Components:
        """The `count` leading components of these."""
        return replace(
            self,
            scores=self.scores[:, :count],
            variances=self.variances[:count],
            _weights=self._weights[:, :count],
            _offset=self._offset[:count],
        )

    def project(self, X: Array) -> Array:
        """(m, c) scores of other rows ``Σ_j w_ij k(A_j, x)``, centred like those of the original."""
        return _blockwise(X, self._rows, self._kernel, self._weights) - self._offset


def kernel_components(
    X: Array, kernel: Kernel, most: int, landmarks: int = 1000, exact: int = EXACT_ROWS
) -> Components:
    """The `most` leading kernel principal components of the rows of `X` (n, d)."""
    if len(X) < 2 or most < 1:
        raise ParameterError("kernel components: at least two rows and one component are needed")
    if len(X) <= exact:
        return _exact(X, kernel, most)
    return _nystroem(X, kernel, most, min(landmarks, len(X)))


def _exact(X: Array, kernel: Kernel, most: int) -> Components:
    """Eigenvectors of the centred kernel matrix."""
    xp = namespace(X)
    n = len(X)
    K = kernel(X, X)
    means = K.mean(axis=0)
    centred = K - means - means[:, None] + means.mean()
    values, vectors = _leading(centred, min(most, n - 1))
    kept = values > _DROP * max(float(values[0]), np.finfo(np.float64).tiny)
    values, vectors = values[kept], vectors[:, like(kept, X)]
    scale = like(np.sqrt(values), X)
    weights = vectors / scale
    # Σ_j w_j (k(a_j, x) − mean_j' …): the weights sum to zero, so only the training means remain.
    offset = (means[:, None] * weights).sum(axis=0)
    total = float(xp.trace(centred)) / n
    return Components(vectors * scale, values / n, total, None, kernel, X, weights, offset)


def _nystroem(X: Array, kernel: Kernel, most: int, landmarks: int) -> Components:
    """Principal components of the landmarks' features over all rows."""
    xp = namespace(X)
    n = len(X)
    Z = X[like(sample_rows(n, landmarks, "landmarks"), X)]
    values, U = xp.linalg.eigh(kernel(Z, Z))
    kept = values > 1e-10 * values.max()
    root = U[:, kept] / xp.sqrt(values[kept])
    some_rows = X[like(sample_rows(n, MOMENT_ROWS, "moments"), X)]
    products, sums = _moments(some_rows, Z, kernel)
    mean = sums / len(some_rows)
    covariance = root.T @ (products / len(some_rows) - mean[:, None] * mean) @ root
    variances, V = _leading(covariance, min(most, covariance.shape[0]))
    some = variances > _DROP * max(float(variances[0]), np.finfo(np.float64).tiny)
    weights = root @ V[:, like(some, X)]
    offset = mean @ weights
    total = float(kernel.diagonal(some_rows).mean()) - float((root.T @ mean) @ (root.T @ mean))
    scores = _blockwise(X, Z, kernel, weights) - offset
    return Components(scores, variances[some], total, len(Z), kernel, Z, weights, offset)


def _leading(S: Array, count: int) -> tuple[Floats, Array]:
    """The largest eigenvalues (on the host, descending, not negative) and their vectors; largest entries positive."""
    if on_device(S):
        values, vectors = namespace(S).linalg.eigh(S)
        values, vectors = values[-count:], vectors[:, -count:]
    elif count < len(S) // 10 and len(S) > _SMALL:
        from scipy.sparse.linalg import eigsh

        start = np.cos(np.arange(len(S), dtype=np.float64) ** 2)  # any start will do, if it is always the same
        values, vectors = eigsh(S, count, which="LA", v0=start)
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    else:
        from scipy.linalg import eigh

        values, vectors = eigh(S, subset_by_index=[len(S) - count, len(S) - 1])
    xp = namespace(S)
    vectors = vectors[:, ::-1]
    largest = xp.take_along_axis(vectors, xp.abs(vectors).argmax(axis=0)[None], axis=0)
    return np.maximum(to_host(values)[::-1], 0.0), vectors * xp.where(largest < 0, -1.0, 1.0)


def _moments(X: Array, Z: Array, kernel: Kernel) -> tuple[Array, Array]:
    """Σ k kᵀ (m, m) and Σ k (m,) over the rows, k = kernel of a row with the landmarks; summed in a fixed order."""

    def block(at: int) -> tuple[Array, Array]:
        K = kernel(X[at : at + _ROWS], Z)
        return K.T @ K, K.sum(axis=0)

    xp = namespace(X)
    products, sums = xp.zeros((len(Z), len(Z))), xp.zeros(len(Z))
    starts = range(0, len(X), _ROWS)
    with one_blas_thread():
        for at in range(0, len(starts), 8):  # a few blocks at a time: their sums must not pile up
            for part, total in each(block, starts[at : at + 8]):
                products += part
                sums += total
    return products, sums


def _blockwise(X: Array, Z: Array, kernel: Kernel, weights: Array) -> Array:
    """(n, c) kernel of the rows with `Z`, times weights, block by block."""
    out = namespace(X).empty((len(X), weights.shape[1]))

    rows = max(64, _CELLS // len(Z))

    def block(at: int) -> None:
        out[at : at + rows] = kernel(X[at : at + rows], Z) @ weights

    with one_blas_thread():
        each(block, range(0, len(X), rows))
    return out


def _power(K: Array, degree: int) -> Array:
    """K^degree by squaring, in the place of K: a few products instead of a general power."""
    xp = namespace(K)
    result = None
    while degree > 1:
        if degree & 1:
            result = K.copy() if result is None else xp.multiply(result, K, out=result)
        xp.multiply(K, K, out=K)
        degree >>= 1
    return K if result is None else xp.multiply(result, K, out=result)
