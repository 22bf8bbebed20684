"""Partitioned ICA swapping and its relatives, from table to release: structure kept, records not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.ks_distance import ks_distance
from gpuanon.assessing.risk.prediction import predict
from gpuanon.assessing.risk.reference_standard import verdict
from gpuanon.masking.bases.linear import Ica, Svd
from gpuanon.masking.contract import Basis, Groups, Operation
from gpuanon.masking.given import Records
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.operations.swap import Swap, TreeSwap
from gpuanon.numerics.kernel_components import KernelPCA
from gpuanon.numerics.svd import principal_axes

PICA = Ica(per_group=True)


def release(
    X: np.ndarray, groups: Groups | Partition, basis: Basis, operation: Operation, name: str = ""
) -> np.ndarray:
    draws = Key(b"partitioned ica tests").draws(np.arange(len(X)), name)
    parts = groups if isinstance(groups, Partition) else groups.form(X, draws.child("groups"))
    T, back = basis.forward(X, parts)
    return back(operation.apply(T, parts, Records(draws)).values)


def rings(n: int, seed: int = 0) -> np.ndarray:
    """Points near three rings in different planes of five dimensions: no linear method can keep that."""
    rng = np.random.default_rng(seed)
    ring, angle = rng.integers(0, 3, n), rng.uniform(0, 2 * np.pi, n)
    X = 0.08 * rng.normal(size=(n, 5))
    rows = np.arange(n)
    X[rows, ring] += np.cos(angle)
    X[rows, ring + 1] += np.sin(angle)
    X[:, 4] += 2 * ring
    return X


def distance(original: np.ndarray, table: np.ndarray) -> float:
    """Mean KS distance along ten kernel principal components."""
    pca = KernelPCA.fit(original, share=1.0, components=10)
    a, b = pca.project(original), pca.project(table)
    return float(np.mean([ks_distance(a[:, j], b[:, j]) for j in range(10)]))


def test_partitioned_swapping_keeps_what_whole_swapping_loses():
    X = rings(1500)
    whole = distance(X, release(X, Whole(), Svd(), Swap(tol=0.05)))
    pica = distance(X, release(X, Spectral(target=100), PICA, Swap()))
    random = distance(
        X, release(X, Partition.from_labels(np.random.default_rng(1).integers(0, 15, 1500)), PICA, Swap())
    )
    independent = distance(X, rings(1500, seed=2))
    assert pica < 0.5 * whole
    assert pica < 0.5 * random, "the clusters earn their place"
    assert pica < 2 * independent


def test_no_record_survives_and_no_group_leaks():
    X = rings(1500)
    table = release(X, Spectral(target=100), PICA, Swap())
    nearest = predict(X, table, k=5).distance
    reference = predict(X, rings(1500, seed=3), k=5).distance
    assert (nearest > 0).all()
    assert np.median(nearest) > 0.5 * np.median(reference)
    own = np.sqrt(((X - table) ** 2).mean(axis=1))
    assert (own <= nearest * (1 + 1e-12)).mean() < 0.05, "the nearest released record is hardly ever one's own"


@pytest.mark.parametrize("operation", [Swap(), Swap(orthonormal=True), TreeSwap()], ids=["swap", "orthonormal", "tree"])
def test_means_are_kept_in_every_group(operation):
    X = rings(700)
    draws = Key(b"partitioned ica tests").draws(np.arange(700), "")
    parts = Spectral(target=80).form(X, draws.child("groups"))
    for basis in (PICA, Svd(per_group=True)):
        table = release(X, parts, basis, operation)
        for part in range(parts.parts):
            rows = parts.order[parts.starts[part] : parts.starts[part + 1]]
            np.testing.assert_allclose(table[rows].mean(axis=0), X[rows].mean(axis=0), atol=1e-10)


def test_the_same_key_gives_the_same_release_and_another_does_not():
    X = rings(400)
    first, again, other = (release(X, Spectral(target=60), PICA, Swap(), name) for name in ("a", "a", "b"))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


@pytest.mark.data
def test_nhanes_clusters_are_rank_deficient_and_privacy_grows_with_the_target(data_folder: Path):
    import pandas as pd

    file = data_folder / "nhanes" / "nhanes_1999_2004_complete.csv"
    if not file.exists():
        pytest.skip(f"{file.name} is not in the folder of public reference files")
    raw = pd.read_csv(file)
    positive = raw[["age", "bmi", "waist", "sbp", "albumin", "alp", "bun", "creat", "glucose", "uap", "hdl", "totchol"]]
    levels = pd.get_dummies(raw[["gender", "education", "ethnicity"]].astype(str)).to_numpy() * 2.0 - 1
    logs = np.log(positive.to_numpy())
    table = np.column_stack([levels, (logs - logs.mean(axis=0)) / logs.std(axis=0)])
    order = np.random.default_rng(0).permutation(len(table))
    X, reference = table[order[:2000]], table[order[2000:4000]]
    under_reference = predict(X, reference)
    excess = {}
    for target in (100, 300):
        draws = Key(b"partitioned ica tests").draws(np.arange(2000), "nhanes")
        parts = Spectral(target=target).form(X, draws)
        rank = (principal_axes(X, parts).s > 0).sum(axis=1)
        assert rank.max() <= X.shape[1] - 3, "each category's indicators add up to a constant"
        raw_release = release(X, parts, PICA, Swap(), "nhanes")
        binary = np.where(raw_release[:, :11] > 0, 1.0, -1.0)
        decoded = np.column_stack([binary, raw_release[:, 11:]])
        excess[target] = verdict(predict(X, decoded), under_reference).excess["distance"]
    assert excess[300] < excess[100]
