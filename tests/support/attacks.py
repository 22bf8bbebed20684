"""Closed forms of attacks, for tests and studies."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.numerics.equal_rows import equal_rows


def permuted_probabilities(X: Array, groups: Partition) -> Host:
    """(n,) hit probability of each record, in expectation over all permutations inside the groups.

    Every value of the table is in the release, as often as in the table, so the ties of a record are its class, of
    n(x) records; its own release holds its value with probability n_ℓ(x) / n_ℓ, the value's share of its group ℓ:
    ``n_ℓ(x) / (n_ℓ n(x))``.
    """
    classes = equal_rows(to_host(X))
    labels = to_host(groups.labels())
    in_group = equal_rows(np.stack([labels, classes], axis=1))
    share = np.bincount(in_group)[in_group] / np.bincount(labels)[labels]
    return np.asarray(share / np.bincount(classes)[classes])


def class_means(X: Array, hits: Host) -> Host:
    """(classes,) mean of `hits` over the records of each equivalence class of `X`."""
    classes = equal_rows(to_host(X))
    return np.asarray(np.bincount(classes, hits) / np.bincount(classes))
