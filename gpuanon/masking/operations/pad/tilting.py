"""Calibration: draws are tilted as little as will do, so that named statistics of the whole table stay.

References
----------
.. [1] J. Hainmueller (2012), Entropy balancing for causal effects, Polit. Anal. 20(1).
.. [2] G. W. Imbens, R. H. Spady, P. Johnson (1998), Information theoretic approaches to inference in moment condition
   models, Econometrica 66(2): exponential tilting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host

_RIDGE = 1e-6
_STEPS = 60
_LARGEST = 20.0  # of a multiplier: what a tilt to the edge of the candidates needs


@dataclass(frozen=True, eq=False, repr=False)
class Tilt:
    """Multipliers of an exponential tilt, and what it costs.

    multipliers : (p,)
    price       : mean Kullback–Leibler divergence of a row's tilted draw from its own distribution, in nats
    left        : (p,) difference of the tilted mean of each moment from its target
    """

    multipliers: Host
    price: float
    left: Host


def tilt(G: Host, target: Host) -> Tilt:
    """The multipliers λ for which the mean over rows of E_λ[g] is `target`.

    Each of n rows has c candidates, equally likely, with the moments ``G[row, candidate]``.  A candidate's tilted
    probability is proportional to exp(λ·g): among all distributions that meet the target this has the least divergence
    from the draws as they are.  λ minimises the convex dual ``mean log mean exp(λ·g) − λ·target`` (Newton's method with
    step halving and a small ridge); a target that no tilt reaches is approached, and `left` says how far it is.

    Parameters
    ----------
    G      : (n, c, p)
    target : (p,)

    Cost : O(n c p²) per step.
    """
    scale = G.reshape(-1, G.shape[2]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    H, wanted = G / scale, target / scale
    multipliers = np.zeros(H.shape[2])
    value, slope, curve, price = _dual(H, wanted, multipliers)
    for _ in range(_STEPS):
        step = np.linalg.solve(curve + _RIDGE * np.eye(len(slope)), slope)
        size = 1.0
        while size > 1e-6:
            tried = np.clip(multipliers - size * step, -_LARGEST, _LARGEST)
            found = _dual(H, wanted, tried)
            if found[0] < value:
                break
            size /= 2
        else:
            break
        multipliers, (value, slope, curve, price) = tried, found
        if np.abs(slope).max() < 1e-7:
            break
    left = (slope - _RIDGE * multipliers) * scale
    return Tilt(multipliers / scale, price, left)


def choose(G: Host, multipliers: Host, u: Host) -> Host:
    """(n,) the candidate of each row, drawn with tilted probabilities by `u` (n,).  G : (n, c, p)."""
    running = np.cumsum(_weights(G @ multipliers), axis=1)
    return np.asarray(np.minimum((u[:, None] > running).sum(axis=1), G.shape[1] - 1))


def _weights(scores: Host) -> Host:
    """(n, c) probabilities in proportion to exp(scores)."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _dual(H: Host, target: Host, multipliers: Host) -> tuple[float, Host, Host, float]:
    """Value, gradient and Hessian of the dual, and the divergence of the tilt."""
    scores = H @ multipliers
    top = scores.max(axis=1, keepdims=True)
    log_mean = (top + np.log(np.exp(scores - top).mean(axis=1, keepdims=True)))[:, 0]
    W = _weights(scores)
    means = np.einsum("nc,ncp->np", W, H)
    value = float(log_mean.mean() - multipliers @ target + _RIDGE * (multipliers @ multipliers) / 2)
    second = np.einsum("nc,ncp,ncq->pq", W, H, H, optimize=True) / len(H)
    curve = second - means.T @ means / len(H)
    slope = means.mean(axis=0) - target + _RIDGE * multipliers
    price = float((means @ multipliers - log_mean).mean())
    return value, slope, curve, price
