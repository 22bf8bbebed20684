"""k-means, nearest neighbours and forests from the library of the array's own device: cuML or scikit-learn.

cuML imports without a GPU and does not fall back by itself, so it counts only when it has answered a small problem.
A device array never goes to the host behind the caller's back: without cuML these functions raise.
"""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.threads import thread_count
from gpuanon.errors import BackendError


def cuml_problem() -> str | None:
    """Why cuML cannot be used, or None when it answers."""
    return _problem(importlib.import_module("cupy"))


@functools.cache
def _problem(cupy: ModuleType) -> str | None:
    """Import, then cluster four numbers: only an answer counts."""
    try:
        cluster = importlib.import_module("cuml.cluster")
    except ImportError:
        return "cuML is not installed"
    try:
        X = cupy.arange(4, dtype=np.float32)[:, None] // 2 * 100
        labels = cluster.KMeans(n_clusters=2, init=X[::2], n_init=1, max_iter=10, output_type="cupy").fit(X).labels_
        if not bool((labels == cupy.arange(4) // 2).all()):
            return "cuML computes wrongly"
    except Exception as error:  # libraries and drivers fail in many ways, and any of them means: not usable
        return f"cuML does not answer ({type(error).__name__})"
    return None


def kmeans(X: Array, centres: Array, iterations: int = 300) -> tuple[Array, Array]:
    """Lloyd's k-means from given `centres` (q, d): (n,) labels and (q, d) centres, where `X` (n, d) lives."""
    cluster = _library("k-means", "cluster", X)
    options: dict[str, Any] = {"output_type": "cupy"} if on_device(X) else {}
    fitted = cluster.KMeans(n_clusters=len(centres), init=centres, n_init=1, max_iter=iterations, **options).fit(X)
    xp = namespace(X)
    return xp.asarray(fitted.labels_, dtype=np.int64), xp.asarray(fitted.cluster_centers_, dtype=X.dtype)


def neighbours(X: Array, Y: Array, k: int) -> Array:
    """(n, k) rows of `Y` nearest to each row of `X` by Euclidean distance, nearest first; equals in any order.

    Both libraries round while they search: measure the distances anew where a tie or a copy matters.
    """
    neighbors = _library("nearest neighbours", "neighbors", X)
    options: dict[str, Any] = {"output_type": "cupy"} if on_device(X) else {}
    found = neighbors.NearestNeighbors(n_neighbors=k, algorithm="brute", **options).fit(Y)
    return namespace(X).asarray(found.kneighbors(X, return_distance=False), dtype=np.int64)


def forest(X: Array, y: Array, new: Array, trees: int = 100, smallest: int = 10, depth: int = 16) -> Array:
    """(m,) float64 probability of class 1 for the rows of `new` (m, d), by a random forest fitted to `X` (n, d).

    Every tree sees all rows and chooses each split among √d random columns, so rows that occur once in either class
    have the probability ½ whatever the trees.  Fitted in float32 by either library; cuML splits at 128 quantiles.

    y : (n,) 0 or 1, both of which occur
    smallest, depth : rows of a leaf, at least, and splits above it, at most
    """
    ensemble = _library("forests", "ensemble", X)
    xp = namespace(X)
    # One stream: with several, a seed does not make cuML's trees repeatable.
    options: dict[str, Any] = {"output_type": "cupy", "n_streams": 1} if on_device(X) else {"n_jobs": thread_count()}
    model = ensemble.RandomForestClassifier(
        n_estimators=trees, max_depth=depth, min_samples_leaf=smallest, max_features="sqrt", bootstrap=False,
        random_state=0, **options,
    )  # fmt: skip
    model.fit(xp.ascontiguousarray(X, dtype=np.float32), y.astype(np.int32))
    if not on_device(X):
        model.set_params(n_jobs=1)  # several threads would add the trees up in any order
    shares = model.predict_proba(xp.ascontiguousarray(new, dtype=np.float32))
    return xp.asarray(shares, dtype=np.float64)[:, 1]


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
    return importlib.import_module(f"cuml.{module}")
