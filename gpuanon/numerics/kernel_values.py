"""Kernels of two rows: their values, and products with them without an n × m matrix.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

_TILE = 1 << 18  # kernel values of a tile: they fit a core's cache
_TILES = 16  # tiles that one thread computes in the same memory
_ROWS = 128  # rows of X per thread block, as in products.cuh


@dataclass(frozen=True)
class Kernel:
    """A kernel of two rows.

    polynomial : (x·y + constant)^degree, the default of [1] is (x·y + 1)⁴
    rbf        : exp(−‖x − y‖² / 2 sigma²)
    exponential : exp(x·y / sigma²): all powers of x·y at once
    """

    kind: Literal["polynomial", "rbf", "exponential"] = "polynomial"
    degree: int = 4
    constant: float = 1.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("polynomial", "rbf", "exponential"):
            raise ParameterError(f"kernel: {self.kind!r} is not one of polynomial, rbf, exponential")
        if self.degree < 1:
            raise ParameterError(f"kernel degree: 1 or more is needed, got {self.degree}")
        if not self.sigma > 0:
            raise ParameterError("kernel sigma: a number above 0 is needed")

    @property
    def gamma(self) -> float:
        """1 / 2 sigma²."""
        return 0.5 / self.sigma**2


POLYNOMIAL = Kernel()


def kernel_matrix(X: Array, Y: Array, kernel: Kernel = POLYNOMIAL, *, out: Array | None = None) -> Array:
    """(n, m) kernel values of the rows of `X` (n, d) and `Y` (m, d), stored; for a tile, or for landmarks.

    out : where to store them; new memory, which costs more than the values of a tile, if it is None
    """
    xp = namespace(X)
    if kernel.kind == "polynomial":
        K = xp.matmul(X, Y.T, out=out)
        K += X.dtype.type(kernel.constant)
        return _power(K, kernel.degree)
    if kernel.kind == "exponential":
        _check_range(X, Y, kernel)
        K = xp.matmul(X, Y.T, out=out)
        K *= X.dtype.type(2 * kernel.gamma)
        return xp.exp(K, out=K)
    centre = Y.mean(axis=0)  # smaller numbers, less cancellation
    X, Y = X - centre, Y - centre
    scale = X.dtype.type(kernel.gamma)
    x, y = (X * X).sum(axis=1, keepdims=True), (Y * Y).sum(axis=1, keepdims=True)
    left = xp.concatenate([2 * scale * X, -scale * x, xp.full_like(x, -scale)], axis=1)
    right = xp.concatenate([Y, xp.ones_like(y), y], axis=1)
    K = xp.matmul(left, right.T, out=out)
    xp.minimum(K, 0, out=K)  # −γ‖x − y‖², which rounding may make positive
    return xp.exp(K, out=K)


def kernel_product(X: Array, Y: Array, W: Array, kernel: Kernel = POLYNOMIAL) -> Array:
    """(n, q) K(X, Y) W for weights `W` (m, q), without storing the kernel matrix.

    Cost : n · m · (d + q); memory O(n q).
    """
    if X.ndim != 2 or Y.ndim != 2 or W.ndim != 2 or X.shape[1] != Y.shape[1] or len(W) != len(Y):
        raise ParameterError(f"X, Y, W: (n, d), (m, d) and (m, q) are needed, got {X.shape}, {Y.shape}, {W.shape}")
    xp = namespace(X)
    real = np.float32 if X.dtype == Y.dtype == W.dtype == np.float32 else np.float64
    X, Y, W = (xp.ascontiguousarray(array, dtype=real) for array in (X, Y, W))
    out = xp.empty((len(X), W.shape[1]), dtype=real)
    if on_device(X):
        _product_cuda(X, Y, W, kernel, out)
        return out
    step = max(1, _TILE // max(1, len(Y)))

    def run(at: int) -> None:
        tile = np.empty((min(step, len(X) - at), len(Y)), dtype=X.dtype)
        for first in range(at, min(at + _TILES * step, len(X)), step):
            rows = slice(first, min(first + step, len(X)))
            np.matmul(kernel_matrix(X[rows], Y, kernel, out=tile[: rows.stop - first]), W, out=out[rows])

    with one_blas_thread():
        each(run, range(0, len(X), _TILES * step))
    return out


def _product_cuda(X: Array, Y: Array, W: Array, kernel: Kernel, out: Array) -> None:
    """The fused kernels."""
    (n, d), (m, q) = X.shape, W.shape
    columns = 16 if X.dtype == np.float32 else 8  # as in products.cuh
    shape: dict[str, Any] = {"over": (n, q), "each": (_ROWS, columns), "threads": _ROWS}
    if kernel.kind == "polynomial":
        launch("kernel_pca", "polynomial", X, Y, W, n, m, d, q, kernel.constant, kernel.degree, out, **shape)
        return
    # x·y = (‖x‖² + ‖y‖² − ‖x − y‖²) / 2: the exponential kernel is the rbf kernel with factors for either side
    xp, growth = namespace(X), X.dtype.type(kernel.gamma)
    if kernel.kind == "exponential":
        _check_range(X, Y, kernel)
        W = xp.ascontiguousarray(W * xp.exp(growth * (Y * Y).sum(axis=1, keepdims=True)))
    launch("kernel_pca", "rbf", X, Y, W, n, m, d, q, kernel.gamma, out, **shape)
    if kernel.kind == "exponential":
        out *= xp.exp(growth * (X * X).sum(axis=1, keepdims=True))


def _check_range(X: Array, Y: Array, kernel: Kernel) -> None:
    """Refuse rows so long that the exponential kernel, or a factor of it, leaves the range of its type."""
    most = 40.0 if X.dtype == np.float32 else 300.0
    longest = max((float((rows * rows).sum(axis=1).max()) for rows in (X, Y) if len(rows)), default=0.0)
    if not longest * kernel.gamma <= most:
        raise ParameterError("kernel: the exponential kernel of these rows is too large: a larger sigma is needed")


def _power(base: Array, degree: int) -> Array:
    """`base` to a whole power, by squaring, in place where possible."""
    result = None
    while True:
        if degree & 1:
            if result is None:
                result = base if degree == 1 else base.copy()
            else:
                namespace(base).multiply(result, base, out=result)
        degree >>= 1
        if not degree:
            return result
        base *= base


def mean_square(X: Array, kernel: Kernel) -> float:
    """The mean of k(x, x)."""
    if kernel.kind == "rbf":
        return 1.0
    squares = (X.astype(np.float64) ** 2).sum(axis=1)
    if kernel.kind == "exponential":
        return float(namespace(X).exp(2 * kernel.gamma * squares).mean())
    return float(((squares + kernel.constant) ** kernel.degree).mean())
