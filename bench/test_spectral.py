"""Spectral methods: seconds of groups, basis, operation and inverse together, with their utility."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frame import Host, Record, mixed_columns, sizes, ways
from spectral_reference import with_scikit_learn

from gpuanon.arrays.rng import Key
from gpuanon.assessing.ks_distance import ks_distance
from gpuanon.masking.bases.linear import Ica, Identity, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.given import Records
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.swap import Swap, TreeSwap

METHODS: dict[str, tuple[Groups, Basis, Operation]] = {
    "svd-swap": (Whole(), Svd(), Swap(tol=0.05)),
    "svd-swap, orthonormal": (Whole(), Svd(), Swap(tol=0.05, orthonormal=True)),
    "spectral-rhs": (MedianCuts(k=5, on="svd"), Identity(), Centroid()),
    "mondrian": (MedianCuts(k=5), Identity(), Centroid()),
    "pica": (Spectral(target=200), Ica(per_group=True), Swap()),
    "clustered-swap": (Spectral(target=300), Ica(per_group=True, marginals=True), Swap(orthonormal=True)),
    "clustered tree swap": (Spectral(target=250), Svd(per_group=True, marginals=True), TreeSwap()),
}


def release(X: Host, method: str) -> Any:
    """The released coordinates before decoding."""
    draws = Key(b"a benchmark's key is no secret").draws(np.arange(len(X)))
    groups, basis, operation = METHODS[method]
    formed = groups.form(X, draws.child("groups"))
    T, inverse = basis.forward(X, formed)
    outcome = operation.apply(T, formed, Records(draws.child("operation")))
    return inverse(outcome.values)  # type: ignore[union-attr]


def utility(X: Host, released: Host) -> dict[str, float]:
    """Largest change of a correlation, and the mean KS distance of the columns that are no categories."""
    change = np.abs(np.corrcoef(released.T) - np.corrcoef(X.T)).max()
    marginal = np.mean([ks_distance(X[:, j], released[:, j]) for j in range(10, X.shape[1])])
    return {"change of correlation": float(change), "KS": float(marginal)}


@pytest.mark.parametrize("method", list(METHODS))
@sizes(20_000, full=(100_000, 1_000_000))
def test_spectral_methods(record: Record, method: str, rows: int) -> None:
    """28 columns."""
    X = mixed_columns(rows)
    record(
        lambda: release(X, method),
        group=f"spectral: {method}",
        rows=rows,
        columns=28,
        rounds=1,
        warm=rows < 50_000,
        quality=lambda released: utility(X, released),
    )


@sizes(5_000)
@pytest.mark.filterwarnings("ignore")
@ways("scikit-learn", "numpy", "compiled")
def test_pica_against_scikit_learn(record: Record, rows: int, way: str) -> None:
    """Spectral clusters of about 200 rows, ICA in each, components swapped."""
    X = mixed_columns(rows)
    work = (lambda: with_scikit_learn(X)) if way == "scikit-learn" else (lambda: release(X, "pica"))
    quality = lambda released: utility(X, released)
    name = "spectral: PICA against SpectralClustering and FastICA"
    record(work, group=name, rows=rows, columns=28, rounds=1, warm=way != "scikit-learn", quality=quality)
