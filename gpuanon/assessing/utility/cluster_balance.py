"""Cluster analysis: does every cluster of both tables together hold its fair share of original records?

References
----------
.. [1] M.-J. Woo, J. P. Reiter, A. Oganian, A. F. Karr (2009), Global measures of data utility for microdata masked for
   disclosure limitation, J. Privacy and Confidentiality 1(1): the cluster analysis measure.
.. [2] D. Arthur, S. Vassilvitskii (2007), k-means++: the advantages of careful seeding, SODA: the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.columns import require_comparable
from gpuanon.assessing.figures import Distribution, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_MARKED, SHARE, Measure, Weights
from gpuanon.assessing.sampling_errors import pieces_of, with_error
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.kmeans import seeds
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


CLUSTERS = 20
CLUSTER_ROWS = 50_000
"""Rows of each table that are clustered at most; beyond, a repeatable random sample."""

_PUBLIC = Key(b"the clusters of a measure are no secret")


def cluster_balance(original: Array, release: Array, *, clusters: int = CLUSTERS, sampled: bool = False) -> Measured:
    """Mean squared difference between a cluster's share of original records and that of both tables together [1].

    ``U = (1/G) Σ_j w_j (n_jo / n_j − c)²`` over the G clusters that k-means finds in both tables together, n_jo of the
    n_j records of cluster j being original, and c the share of original records among all.  The weights w_j, which [1]
    leaves open, are 1; ``by_size`` has ``G n_j / N`` instead: 0 indistinguishable, c (1 − c) separable.

    Parameters
    ----------
    original, release : encoded matrices with the same columns, (n, d) and (m, d)
    clusters : G; fewer when there are fewer different records
    sampled : the tables are samples of larger ones: the error of the value is stated, as it is where a sample is taken
        here
    """
    require_comparable(original, release)
    if clusters < 1:
        raise ParameterError(f"clusters: a whole number from 1 up is allowed, got {clusters}")
    before, after = (
        table[like(sample_rows(len(table), CLUSTER_ROWS, "clusters"), table)] for table in (original, release)
    )
    squares, sizes = _balance(before, after, clusters)
    details: dict[str, Figure] = {
        "clusters": len(sizes),
        "by_size": float((sizes * squares).sum() / sizes.sum()),
        "share_original": len(before) / (len(before) + len(after)),
    }
    taken = max(len(original), len(release)) > CLUSTER_ROWS
    note = f"on a random sample of {len(before)} original and {len(after)} released rows" if taken else None
    measured = Measured(float(squares.mean()), details, note, parts=(Distribution.over("clusters", squares),))
    if not (taken or sampled):
        return measured
    pieces = zip(pieces_of(len(before)), pieces_of(len(after)), strict=True)
    refits = [
        _balance(before[like(own, before)], after[like(other, after)], clusters)[0].mean() for own, other in pieces
    ]
    return with_error(measured, refits, squares=True)


def _balance(before: Array, after: Array, clusters: int) -> tuple[Host, Host]:
    """(G,) squared difference of each cluster's share of original records from that of all, and (G,) records."""
    xp = namespace(before)
    X = xp.concatenate([before, after])
    G = min(clusters, int(equal_rows(X).max()) + 1)
    draws = _PUBLIC.draws(xp.arange(len(X), dtype=np.int64))
    labels, _ = rapids.kmeans(X, seeds(X[None], draws.uniform(G)[None])[0], iterations=100)
    own, sizes = (np.bincount(to_host(at), minlength=G) for at in (labels[: len(before)], labels))
    own, sizes = own[sizes > 0], sizes[sizes > 0]
    return (own / sizes - len(before) / len(X)) ** 2, sizes


def _cluster_balance(c: Comparison) -> Measured:
    return cluster_balance(*c.encoded, sampled=c.sampled)


CLUSTER_BALANCE = Measure(
    name="cluster_balance", label="are both tables found in the same places?",
    sentence="When similar records are put into groups, the share of originals in a group is off by this much,"
    " squared, on average.",
    summary="mean squared deviation of a cluster's share of original records",
    family="utility", range=SHARE, usual="at most 0.25 for tables of one size",
    unit="table", function=cluster_balance, compute=_cluster_balance, arrays="encoded",
    weights=Weights("ignored", "it counts records of both tables in clusters"), nulls=NULL_IS_MARKED, scaling="sample",
    source="Woo, Reiter, Oganian and Karr 2009", sees="together", long=1, openmp=True,
)  # fmt: skip
