"""Rows drawn with replacement inside groups."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.dither.empirical import quantile_place, running_weights


def resample(groups: Partition, draws: Draws, weights: Array | None = None) -> Array:
    """(n,) for each row a row of its own group, drawn with replacement in proportion to `weights`.

    Guarantee : the expected (weighted) distribution of the drawn rows is that of the table (Lemma 1 of [1]), and
        a drawn value belongs to a member of the record's own group.
    Weights   : (n,) at least 0, or None for all 1; a group whose weights are all 0 is drawn from evenly.
    Draws     : one uniform number a record, inverted over the members in ascending order of row.

    References
    ----------
    .. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, section 3.2.1.
    """
    check_weights(weights)
    labels = groups.labels()
    running = None if weights is None else running_weights(weights[groups.order], groups)
    u = draws.uniform(1)[:, 0]
    return groups.order[quantile_place(u, groups.starts[labels], groups.starts[labels + 1], running)]


def check_weights(weights: Array | None) -> None:
    """Refuse negative and missing weights."""
    if weights is not None and not bool((namespace(weights).isfinite(weights) & (weights >= 0)).all()):
        raise ParameterError("weights: finite numbers of at least 0 are allowed")
