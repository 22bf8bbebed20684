"""Transition matrices for post-randomisation.

References
----------
.. [1] J. Gouweleeuw, P. Kooiman, L. Willenborg, P.-P. de Wolf (1998), Post randomisation for statistical disclosure
   control: theory and implementation, J. Off. Stat. 14(4): invariant matrices by a second stage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace

Host = np.ndarray[Any, Any]


def spread(counts: Host, stay: float) -> Host:
    """(strata, values, values) chances: a value stays with `stay`, else it is drawn by how often each occurs.

    Invariant: t P = stay t + (1 − stay) t = t, t the counts.

    counts : (strata, values) records of each value; values that do not occur in a stratum are not drawn there
    """
    total = counts.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, counts / np.maximum(total, 1), 1 / max(counts.shape[1], 1))
    return np.asarray(stay * np.eye(counts.shape[1]) + (1 - stay) * shares[:, None, :])


def invariant(P: Host, counts: Host) -> Host:
    """(strata, values, values) `P` followed by a second stage that restores the expected counts of the values [1].

    With t the counts, Q_ji = t_i P_ij / Σ_m t_m P_mj draws the value i that may have become j; R = P Q has t R = t.
    A value that does not occur stays as it is.
    """
    joint = counts[:, :, None] * P  # t_i P_ij
    total = joint.sum(axis=1)
    back = np.swapaxes(joint, 1, 2) / np.where(total > 0, total, 1)[:, :, None]
    identity = np.eye(counts.shape[1])
    back = np.where((total > 0)[:, :, None], back, identity)
    return np.where((counts > 0)[:, :, None], P @ back, identity)


def draw_values(codes: Array, stratum: Array, cumulated: Array, u: Array) -> Array:
    """(n,) the value that each of the `codes` (n,) becomes; nulls (−1) stay null.

    cumulated : (strata, values, values) cumulated chances of the new value
    u         : (n,) uniform numbers

    Cost : a binary search per row.
    """
    xp = namespace(codes)
    values = cumulated.shape[2]
    if values == 0:
        return codes
    own = xp.maximum(codes, 0)
    low, high = xp.zeros(len(codes), dtype=np.int64), xp.full(len(codes), values - 1, dtype=np.int64)
    for _ in range(max(values - 1, 1).bit_length()):
        middle = (low + high) // 2
        beyond = u >= cumulated[stratum, own, middle]
        low, high = xp.where(beyond & (low < high), middle + 1, low), xp.where(beyond, high, middle)
    return xp.where(codes < 0, -1, low)
