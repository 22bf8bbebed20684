"""Values put in the order of a guide: exact columns, new combinations.

The guide, correlated normal columns, says which row receives which value.  Columns with ties are normal variables seen
coarsely, whose correlations are corrected by what ties take from them (see `gpuanon.numerics.copula`).  Unordered
categories are put into an order first.

References
----------
.. [1] K. Muralidhar, R. Sarathy (2006), Data shuffling: a new masking approach for numerical data, Manage. Sci. 52(5).
.. [2] R. L. Iman, W. J. Conover (1982), A distribution-free approach to inducing rank correlation among input
   variables, Commun. Stat. B 11(3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, like, namespace
from gpuanon.arrays.partition import Partition, segment_covariances, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.random_ranks import (
    in_rank_order,
    mid_scores,
    normal_quantiles,
    special_functions,
    uniform_scores,
)
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.copula import ScoreSums
from gpuanon.numerics.svd import principal_axes

_SWEEPS = 2


def scaled_codes(codes: Array, ordered: Sequence[bool]) -> Array:
    """(n, c) codes in which the levels of unordered columns of more than two ascend along the main axis of the others.

    The axis is the first principal component of the normal scores of all other columns; a level lies at the mean of its
    rows there.  What levels have to do with the other columns beyond this one order is not seen by ranks.  Without any
    other column, or in ties, levels stay in the order of their codes.
    """
    xp = namespace(codes)
    if not len(codes):
        return codes
    many = [j for j, flag in enumerate(ordered) if not flag and int(codes[:, j].max()) > 1]
    others = [j for j in range(codes.shape[1]) if j not in many]
    if not many or not others:
        return codes
    whole = Partition.whole(len(codes), like=codes)
    Z = mid_scores(xp.ascontiguousarray(codes[:, others]))
    main = Z @ principal_axes(Z, whole).V[0, :, 0]
    out = codes.copy()
    for j in many:
        levels = Partition.from_labels(codes[:, j])
        means = segment_means(main[:, None], levels)[:, 0]
        place = xp.empty(levels.parts, dtype=np.int64)
        place[xp.argsort(means, kind="stable")] = xp.arange(levels.parts, dtype=np.int64)
        out[:, j] = place[levels.labels()]
    return out


def latent_correlations(codes: Array) -> Host:
    """(c, c) correlations of the normal variables behind the columns, ties corrected; positive semidefinite."""
    R = ScoreSums.of(mid_scores(codes)).correlations()
    values, vectors = np.linalg.eigh(R)
    R = (vectors * np.maximum(values, 0.0)) @ vectors.T
    scale = np.sqrt(np.maximum(np.diag(R), 1e-12))
    return np.asarray(R / np.outer(scale, scale))


def symmetric_root(R: Host, power: float = 0.5) -> Host:
    """(c, c) the symmetric square root of `R`, or another power; eigenvalues below 1e-10 of the largest count as 0."""
    values, vectors = np.linalg.eigh(0.5 * (R + R.T))
    kept = values > 1e-10 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray((vectors * np.where(kept, np.where(kept, values, 1.0) ** power, 0.0)) @ vectors.T)


def latent_scores(codes: Array, R: Host, draws: Draws) -> Array:
    """(n, c) the normal variables behind the codes: each lies in the interval of its code's ranks.

    Columns without ties have their normal scores.  Where inside the interval of a coarser code a row lies is drawn
    from the normal distribution given the other columns under the correlations `R`, cut to the interval (two sweeps of
    a Gibbs sampler).  So the variables correlate about as `R` says; with ties in random order they would do so less.

    Cost : one sort of n numbers for each column, and two for one with ties.
    """
    n, c = codes.shape
    whole = Partition.whole(n, like=codes)
    Z = normal_quantiles(uniform_scores(codes, whole, draws))
    coarse = [j for j in range(c) if n and int(codes[:, j].max()) - int(codes[:, j].min()) + 1 < n]
    for sweep in range(_SWEEPS if c > 1 else 0):
        for j in coarse:
            others = [i for i in range(c) if i != j]
            B = symmetric_root(R[np.ix_(others, others)], -1.0) @ R[others, j]
            error = float(np.sqrt(max(0.0, 1.0 - R[others, j] @ B)))
            u = draws.child(f"{sweep}.{j}").uniform(1)[:, 0]
            Z[:, j] = _cut_normal(Z[:, others] @ like(B, Z), max(error, 1e-3), codes[:, j], u)
    return Z


def _cut_normal(means: Array, deviation: float, codes: Array, u: Array) -> Array:
    """(n,) normal numbers, each inside the interval of normal scores that the rows of its code have."""
    xp, special = namespace(codes), special_functions(codes)
    ordered = xp.sort(codes)
    low, high = (xp.searchsorted(ordered, codes, side=side) / len(codes) for side in ("left", "right"))
    begin = special.ndtr((special.ndtri(low) - means) / deviation)
    end = special.ndtr((special.ndtri(high) - means) / deviation)
    found = means + deviation * special.ndtri(xp.clip(begin + u * (end - begin), 1e-15, 1.0 - 1e-15))
    return xp.clip(found, special.ndtri(xp.maximum(low, 1e-9)), special.ndtri(xp.minimum(high, 1.0 - 1e-9)))


def noisy_guide(codes: Array, draws: Draws, b: float) -> Array:
    """(n, c) ``(z + r) / √(1 + b)``: normal scores of the codes, ties at random, with noise r ~ N(0, b R).

    R are the correlations of the columns.  Each column of the guide is standard normal again (Lasko 2007, eq. 2.5–2.6).
    """
    R = latent_correlations(codes)
    Z = latent_scores(codes, R, draws.child("ties"))
    noise = draws.child("noise").normal(codes.shape[1]) @ like(symmetric_root(R), Z)
    return (Z + b**0.5 * noise) / (1.0 + b) ** 0.5


def drawn_guide(codes: Array, given: Array, draws: Draws) -> Array:
    """(n, c) new normal columns, correlated with each other and with the `given` columns (n, s) as the codes are.

    ``y = z_S B + e`` with ``B = R_SS⁻¹ R_SX`` and ``e ~ N(0, R_XX − R_XS B)`` [Muralidhar and Sarathy 2006]: given what
    is not masked, y is independent of the codes.
    """
    xp = namespace(codes)
    s = given.shape[1]
    R = latent_correlations(xp.concatenate([given, codes], axis=1))
    B = symmetric_root(R[:s, :s], -1.0) @ R[:s, s:]
    noise = draws.child("sample").normal(codes.shape[1])
    guide = noise @ like(symmetric_root(R[s:, s:] - R[s:, :s] @ B), noise)
    if s:
        guide = guide + latent_scores(given, R[:s, :s], draws.child("ties")) @ like(B, noise)
    return guide


def hypercube_guide(codes: Array, draws: Draws) -> Array:
    """(n, c) ``S = R Σ_R^-½ Σ_A^½`` of random permutations R of n normal scores (Lasko 2007, eq. 2.12).

    The correlations of the guide are those of the codes to rounding, not only up to sampling error.
    """
    xp = namespace(codes)
    n, c = codes.shape
    whole = Partition.whole(n, like=codes)
    Z = normal_quantiles(uniform_scores(xp.zeros((n, c), dtype=np.int64), whole, draws.child("permutations")))
    own = segment_covariances(Z, whole)[0]
    values, vectors = xp.linalg.eigh(own)
    kept = values > 1e-10
    whitening = (vectors * xp.where(kept, 1.0 / xp.sqrt(xp.where(kept, values, 1.0)), 0.0)) @ vectors.T
    return Z @ (whitening @ like(symmetric_root(latent_correlations(codes)), Z))


class _Guided(Operation):
    """Codes of each column in the order of a guide, whose columns are correlated as they are."""

    sees: ClassVar[Sight] = "classes"

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        if groups.parts > 1:
            raise ParameterError(
                f"ranks: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
            )
        if records.classes is None:
            raise ParameterError("ranks: the rows must be seen as classes", hint='basis = { use = "codes" }')
        xp = namespace(T)
        given = xp.empty((len(T), 0), dtype=np.int64) if records.given is None else records.given.codes
        flags = () if records.given is None else records.given.classes.ordered
        seen = scaled_codes(xp.concatenate([given, T], axis=1), (*flags, *records.classes.ordered))
        own, given = xp.ascontiguousarray(seen[:, given.shape[1] :]), seen[:, : given.shape[1]]
        # Equal codes are interchangeable: the order of the scaled codes says which row has which place, and the codes
        # in that order are what is given away.
        guide = self.guide(own, given, records)
        placed = in_rank_order(own, guide, groups)
        columns = []
        for j in range(T.shape[1]):
            levels = xp.empty(int(own[:, j].max()) + 2, dtype=np.int64)
            levels[own[:, j] + 1] = T[:, j]
            columns.append(NewColumn(j, levels[placed[:, j] + 1]))
        return self.released(columns, T)

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        """(n, c) columns whose order the codes (n, c) take; `given` (n, s) are other columns, as codes."""
        raise NotImplementedError

    def released(self, columns: list[NewColumn], T: Array) -> Recoded:
        """The outcome."""
        return Recoded(columns)


class RankMatch(_Guided):
    """Each column keeps its values, in the order of new normal scores: data shuffling [1].

    The scores are correlated with each other, and with the columns of the mask's `by`, as those of the table are.
    """

    conditional: ClassVar[bool] = True

    use: Literal["rank-match"] = "rank-match"

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return drawn_guide(codes, given, records.draws.child("rank-match"))


class RankNoise(_Guided):
    """Each column keeps its values, in the order of its own normal scores with correlated noise.

    Categories are pseudo-uniform inside their levels (Lasko 2007, eq. 2.5–2.7).
    """

    use: Literal["rank-noise"] = "rank-noise"
    b: float = Field(default=0.1, gt=0, description="variance of the noise, as a share of the scores'")

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return noisy_guide(codes, records.draws.child("rank-noise"), self.b)


class LatinHypercube(_Guided):
    """New rows: each column's values once each, permuted so that rank correlations are those of the table [2]."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["latin-hypercube"] = "latin-hypercube"

    def guide(self, codes: Array, given: Array, records: Records) -> Array:
        return hypercube_guide(codes, records.draws.child("latin-hypercube"))

    def released(self, columns: list[NewColumn], T: Array) -> Recoded:
        rows = namespace(T).arange(len(T), dtype=np.int64)
        return Recoded(columns, rows=rows, added=len(T))
