"""k-means and forests by the library for the array's device: cuML or scikit-learn.

cuML imports without a GPU and does not fall back by itself, so it is used only after it has solved a small test
problem.  A device array is never copied to the host: without cuML these functions raise.

cuML (from 25.12 on) makes RMM the allocator of CuPy on import.  The allocator that was set before is restored:
the limit of CuPy's memory pool stays in force, and the free memory is known exactly.  Whoever wants RMM for everything
sets it before the first call.  cuML takes its own memory from RMM, so CuPy's pool returns its unused blocks before.
"""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.threads import thread_count
from gpuanon.errors import BackendError


def cuml_problem() -> str | None:
    """Why cuML cannot be used, or None."""
    return _problem(importlib.import_module("cupy"))


@functools.cache
def _problem(cupy: ModuleType) -> str | None:
    """Import cuML, and cluster four numbers as a test."""
    allocator = cupy.cuda.get_allocator()
    try:
        cluster = importlib.import_module("cuml.cluster")
    except ImportError:
        return "cuML is not installed"
    finally:
        if cupy.cuda.get_allocator() != allocator:
            cupy.cuda.set_allocator(allocator)
    try:
        X = cupy.arange(4, dtype=np.float32)[:, None] // 2 * 100
        labels = cluster.KMeans(n_clusters=2, init=X[::2], n_init=1, max_iter=10, output_type="cupy").fit(X).labels_
        if not bool((labels == cupy.arange(4) // 2).all()):
            return "cuML computes wrongly"
    except Exception as error:  # libraries and drivers fail in many ways; after any of them cuML is not usable
        return f"cuML does not answer ({type(error).__name__})"
    return None


def kmeans(X: Array, centres: Array, iterations: int = 300) -> tuple[Array, Array]:
    """Lloyd's k-means from given `centres` (q, d): (n,) labels and (q, d) centres, on the device of `X` (n, d)."""
    cluster = _library("k-means", "cluster", X)
    options: dict[str, Any] = {"output_type": "cupy"} if on_device(X) else {}
    fitted = cluster.KMeans(n_clusters=len(centres), init=centres, n_init=1, max_iter=iterations, **options).fit(X)
    xp = namespace(X)
    return xp.asarray(fitted.labels_, dtype=np.int64), xp.asarray(fitted.cluster_centers_, dtype=X.dtype)


def forest(X: Array, y: Array, new: Array, trees: int = 100, smallest: int = 10, depth: int = 16) -> Array:
    """(m,) float64 probability of class 1 for the rows of `new` (m, d), by a random forest fitted to `X` (n, d).

    Every tree is fitted to all rows and chooses each split among √d random columns, so a row that occurs once in each
    class has the probability ½ whatever the trees.  Both libraries fit in float32; cuML splits at 128 quantiles, which
    are all values of a column that has no more different ones.

    y : (n,) 0 or 1, both of which occur
    smallest, depth : least rows of a leaf, and most splits above it
    """
    ensemble = _library("forests", "ensemble", X)
    xp = namespace(X)
    # One stream: with several streams cuML's trees are not repeatable even with a seed.
    options: dict[str, Any] = {"output_type": "cupy", "n_streams": 1} if on_device(X) else {"n_jobs": thread_count()}
    model = ensemble.RandomForestClassifier(
        n_estimators=trees, max_depth=depth, min_samples_leaf=smallest, max_features="sqrt", bootstrap=False,
        random_state=0, **options,
    )  # fmt: skip
    model.fit(xp.ascontiguousarray(X, dtype=np.float32), y.astype(np.int32))
    if not on_device(X):
        model.set_params(n_jobs=1)  # several threads would sum over the trees in any order
    shares = model.predict_proba(xp.ascontiguousarray(new, dtype=np.float32))
    return xp.asarray(shares, dtype=np.float64)[:, 1]


@dataclass(frozen=True, eq=False, repr=False)
class RegressionForests:
    """Forests by the library for the device of their rows, one for each output."""

    models: tuple[Any, ...]

    def predict(self, X: Array) -> Array:
        """(m, o) float32 predictions for the rows of `X` (m, d), on their device."""
        xp = namespace(X)
        rows = xp.ascontiguousarray(X, dtype=np.float32)
        return xp.stack([xp.asarray(model.predict(rows), dtype=np.float32) for model in self.models], axis=1)


def regression_forests(
    X: Array, Y: Array, *, trees: int, smallest: int, depth: int | None, features: int | None, seed: int
) -> RegressionForests:
    """Random forests of bootstrapped trees, one for each column of `Y` (n, o), on the rows of `X` (n, d).

    smallest, depth : least rows of a leaf, and most splits above it (None: no limit on the host, 16 by cuML)
    features        : columns that a split chooses from; None for all
    """
    ensemble = _library("forests", "ensemble", X)
    xp = namespace(X)
    if on_device(X):
        # One stream: with several streams cuML's trees are not repeatable even with a seed.
        options: dict[str, Any] = {"output_type": "cupy", "n_streams": 1, "max_depth": 16 if depth is None else depth}
    else:
        options = {"n_jobs": thread_count(), "max_depth": depth}
    rows, models = xp.ascontiguousarray(X, dtype=np.float32), []
    for column in range(Y.shape[1]):
        model = ensemble.RandomForestRegressor(
            n_estimators=trees, min_samples_leaf=smallest, max_features=1.0 if features is None else features,
            bootstrap=True, random_state=(seed + column) % 2**31, **options,
        )  # fmt: skip
        model.fit(rows, xp.ascontiguousarray(Y[:, column], dtype=np.float32))
        models.append(model)
    return RegressionForests(tuple(models))


def _library(what: str, module: str, X: Array) -> ModuleType:
    """The module of cuML or scikit-learn that takes `X`."""
    if not on_device(X):
        return importlib.import_module(f"sklearn.{module}")
    problem = cuml_problem()
    if problem is not None:
        raise BackendError(
            f"{what} on a device: {problem}",
            hint="install gpuanon[rapids], or use --backend numpy",
        )
    sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    return importlib.import_module(f"cuml.{module}")
