"""Refinement: exchange rows between neighbouring groups while that lowers the distortion."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from gpuanon.arrays.backend import Array
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.threads import each, thread_count
from gpuanon.groups.lockstep import Host, weighted
from gpuanon.numerics.distance import EUCLIDEAN, Metric

_CHUNK = 4096


def refine(X: Array, groups: Partition, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Swap rows between neighbouring groups of k rows while that lowers the distortion; sizes stay."""
    if metric.kind != "euclidean":
        return groups
    X = weighted(X, metric)
    tight = groups.sizes == k
    if tight.sum() < 2:
        return groups
    members = groups.order[np.repeat(tight, groups.sizes)].reshape(-1, k)
    with one_blas_thread():
        _refine(X, members, k)
    labels = groups.labels()
    labels[members] = np.flatnonzero(tight)[:, None]
    return Partition.from_labels(labels)


def _near_pairs(C: Host) -> tuple[Host, Host]:
    _, near = cKDTree(C).query(C, k=min(9, len(C)), workers=thread_count(), eps=1.0)
    a, b = np.repeat(np.arange(len(C)), near.shape[1]), near.ravel()
    low, high = np.minimum(a, b), np.maximum(a, b)
    key = np.unique((low * len(C) + high)[low != high])
    return key // len(C), key % len(C)


def _refine(X: Host, M: Host, k: int) -> None:
    d = X.shape[1]
    Y = np.empty((*M.shape, d + 2), X.dtype)
    Y[:, :, :d] = X[M]
    Y[:, :, d] = np.einsum("gwd,gwd->gw", Y[:, :, :d], Y[:, :, :d])
    Y[:, :, d + 1] = 1
    Yt = np.ascontiguousarray(Y.transpose(0, 2, 1))
    C = Y[:, :, :d].mean(1)
    share = 2.0 / k
    tolerance = 1e-7 * float(np.square(Y[:, :, :d] - C[:, None]).sum()) / len(M)
    for _ in range(6):
        pa, pb = _near_pairs(C)
        best, code = np.zeros(len(pa), X.dtype), np.zeros(len(pa), np.int64)
        todo = np.arange(len(pa))
        for _ in range(8):

            def run(at: int, todo: Host = todo, best: Host = best, code: Host = code) -> None:
                ids = todo[at : at + _CHUNK]
                w = 2 * (C[pb[ids]] - C[pa[ids]])
                V = Yt[pb[ids]]
                beta = np.matmul(w[:, None, :], V[:, :d])[:, 0] - share * V[:, d]
                V[:, :d] *= 2 * share
                V[:, :d] -= w[:, :, None]
                V[:, d], V[:, d + 1] = -share, beta
                change = np.matmul(Y[pa[ids]], V).reshape(len(ids), -1)
                code[ids] = change.argmin(1)
                best[ids] = change[np.arange(len(ids)), code[ids]]

            each(run, range(0, len(todo), _CHUNK))
            wanted = np.flatnonzero(best < -tolerance)
            if not len(wanted):
                break
            wanted = wanted[np.argsort(-best[wanted], kind="stable")]
            first = np.empty(len(M), np.int64)
            first[np.stack([pa[wanted], pb[wanted]], 1).ravel()] = np.repeat(wanted, 2)
            chosen = wanted[(first[pa[wanted]] == wanted) & (first[pb[wanted]] == wanted)]
            a, b, i, r = pa[chosen], pb[chosen], code[chosen] // k, code[chosen] % k
            M[a, i], M[b, r] = M[b, r], M[a, i]
            changed = np.zeros(len(M), bool)
            changed[a] = changed[b] = True
            Y[a, i], Y[b, r] = Y[b, r], Y[a, i]
            lines = np.flatnonzero(changed)
            Yt[lines] = Y[lines].transpose(0, 2, 1)
            C[lines] = Y[lines, :, :d].mean(1)
            todo = np.flatnonzero(changed[pa] | changed[pb])
