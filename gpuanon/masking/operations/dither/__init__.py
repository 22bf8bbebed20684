"""Gaussian dither: a noisy copy of the group's centre, carried back to the table's own distribution.

Steps (figure 1 and section 3.2.2 of [1]): x̃ is drawn from a normal distribution round the centre of the record's
group, u = F(x̃) under the mixture of all groups of the record's block, x̂ = F⁻¹(u) under the block's records.

Blocks are unions of groups that lie together.  Inside each the distribution is kept, so it is kept over all of them;
they bring the cost from n²/k down to n times the groups of a block.  A block of few groups hides less: with one group
the dither *is* resampling.

What the release is, for privacy: every column after a column with (nearly) all values distinct is conditioned on a
single record, so without `bins` a released row is a copy of some real record's quasi-identifiers, though not its own.
With `bins` it is put together from values of several records.

.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.arrays.device_memory import free_bytes, pieces_of_parts
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup, DrawnFromMixture
from gpuanon.masking.constraints import Sensitive
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.cell_dithers import bin_codes, cell_dither, sample_inside
from gpuanon.masking.operations.dither.empirical import check_weights, conditional_inverse
from gpuanon.masking.operations.dither.mixture import group_means, group_mixture, log_weights_of
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs
from gpuanon.masking.outcomes import Changed, Moved, Outcome
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.tables.schema import Kind

ColumnOrder: TypeAlias = Literal["auto", "fewest", "response", "given"] | tuple[int, ...]

Precision: TypeAlias = Literal["double", "single"]

_HOST_BYTES = 1 << 28  # of the mixtures that are made at once on the host
ALPHA = 1 / 3  # variance that is added to each column
GROUPS_IN_BLOCK = 128
COARSE_BINS = 10  # with strata of the response: bins of a column hold values of every stratum
COARSE = 20  # conditioned on a column with at most this many values, many records remain


def gaussian_dither(
    T: Array,
    groups: Partition,
    draws: Draws,
    *,
    alpha: float = ALPHA,
    block: int | None = None,
    weights: Array | None = None,
    strata: Partition | None = None,
    precision: Precision = "double",
) -> tuple[Array, Partition]:
    """Uniform numbers u = F(x̃) of dithered records, and the blocks under whose mixtures they are uniform.

    Parameters
    ----------
    T : (n, d) coordinates, in the order of conditioning
    groups : the clusters, each with its normal distribution N(x̄, Σ + alpha · I)
    draws : d normal numbers per record
    alpha : added variance; 0 only where no group's covariance is singular
    block : about the rows of a block; None for `GROUPS_IN_BLOCK` groups of mean size, 0 for the whole table
    weights : (n,) at least 0, or None for all 1; the weighted distribution is kept
    strata : unions of groups that no block crosses; None: the whole table
    precision : of u; noise and mixtures are computed in the type of `T`

    Returns
    -------
    u : (n, d), row i for record i
    within : partition of the rows into blocks, each a union of groups
    """
    check_weights(weights)
    xp = namespace(T)
    means, totals = group_means(T, groups, weights)
    parts = _blocks_of_groups(means, groups, block, strata)
    top = log_weights_of(totals, groups).max()
    labels = groups.labels()
    within = Partition.from_labels(parts.labels()[labels])
    place = xp.empty_like(parts.order)
    place[parts.order] = xp.arange(groups.parts, dtype=np.int64)
    real = np.float32 if precision == "single" else T.dtype
    u = xp.empty_like(T)
    for some in _ranges_of_blocks(within, parts, T):
        rows = within.order[some.rows]
        X, mine = T[rows], place[labels[rows]] - some.groups.start
        chosen = None if weights is None else weights[rows]
        mixture = group_mixture(X, Partition.from_labels(mine), alpha, chosen)
        noisy = mixture.draw(mine, draws.take(rows))
        mixture, component_starts = mixture.merged(some.parts, top)
        starts = within.starts[some.blocks.start : some.blocks.stop + 1] - some.rows.start
        given = (noisy, mixture.means, mixture.whitening, mixture.log_weights)
        noisy, means, whitening, log_weights = (array.astype(real, copy=False) for array in given)
        u[rows] = conditional_cdfs(noisy, starts, means, whitening, log_weights, component_starts)
    return u, within


@dataclass(frozen=True)
class _Some:
    """Some of the blocks, with their groups (places in the order of `parts`) and their rows (places of `within`)."""

    blocks: slice
    groups: slice
    rows: slice
    parts: Partition


def _ranges_of_blocks(within: Partition, parts: Partition, T: Array) -> list[_Some]:
    """Ranges of blocks whose mixtures fit the device, or take `_HOST_BYTES` on the host.

    within : blocks of rows;  parts : the same blocks as parts of the groups
    """
    d, size, xp = T.shape[1], T.dtype.itemsize, namespace(T)
    # Per group: products, covariances, factors, inverses, what is compared to merge them, and copies of the latter.
    per_group, per_row = 12 * (d * d + d) * size, 9 * d * size + 64
    groups, rows = to_host(parts.starts), to_host(within.starts)
    needs = per_row * rows + per_group * groups
    if not on_device(T):
        budget: int | None = max(_HOST_BYTES, int(np.diff(needs).max(initial=0)))
    else:  # all at once where they fit
        budget = int(needs[-1]) if needs[-1] < free_bytes() // 2 else None
    out = []
    for some in pieces_of_parts(needs, 1, budget=budget):
        first, last = int(groups[some.start]), int(groups[some.stop])
        starts = parts.starts[some.start : some.stop + 1] - first
        place = slice(int(rows[some.start]), int(rows[some.stop]))
        out.append(_Some(some, slice(first, last), place, _in_order(xp, starts, last - first)))
    return out


def _in_order(xp: ModuleType, starts: Array, count: int) -> Partition:
    """Parts of consecutive items."""
    return Partition(xp.arange(count, dtype=np.int64), starts)


def _blocks_of_groups(centres: Array, groups: Partition, block: int | None, strata: Partition | None) -> Partition:
    """Unite groups whose centres lie together, inside a stratum, into blocks of about `block` rows."""
    whole = Partition.whole(groups.parts, like=centres)
    if strata is not None:
        whole = Partition.from_labels(strata.labels()[groups.order[groups.starts[:-1]]])
    if block == 0:
        return whole
    size = GROUPS_IN_BLOCK if block is None else max(1, block * groups.parts // groups.n)
    return blocks(centres, whole, size)


def column_order(
    T: Array, order: ColumnOrder, bins: int | None = None, sensitive: Sensitive | None = None
) -> list[int]:
    """The columns of `T` in the order of conditioning.

    ``"fewest"`` puts columns with few distinct values first (ties: as they come).  Conditioning on a column with
    many distinct values leaves few records, and what is drawn for the columns after it then has little to do with
    the record's own values; a column of few values leaves many.

    ``"response"`` puts the column first that tells most of the sensitive columns (`association`), because the first
    column keeps its tie to the record best; columns of more than `COARSE` values, unless there are `bins`, come last.

    ``"auto"`` is ``"response"`` where sensitive columns are known, else ``"fewest"``.
    """
    d = T.shape[1]
    if order == "auto":
        order = "fewest" if sensitive is None else "response"
    if order == "given":
        return list(range(d))
    if isinstance(order, str):
        xp = namespace(T)
        distinct = each(lambda j: min(len(xp.unique(T[:, j])), bins or len(T)), range(d))
        if order == "fewest":
            return sorted(range(d), key=distinct.__getitem__)
        if sensitive is None:
            raise ParameterError('order: "response" needs sensitive columns, and this mask is not given any')
        explained = association(T, sensitive)
        return sorted(range(d), key=lambda j: (bins is None and distinct[j] > COARSE, -explained[j]))
    if sorted(order) != list(range(d)):
        raise ParameterError(f"order: each of the columns 0 to {d - 1} is allowed once, got {list(order)}")
    return list(order)


def association(T: Array, sensitive: Sensitive) -> list[float]:
    """The largest share of a sensitive column's variance that each column of `T` explains.

    The correlation ratio η² of the ranks of an ordered sensitive column, Goodman and Kruskal's τ of an unordered one,
    over the column's values, or `COARSE` quantile bins of them.  Rounded, so that equal shares are equal on any device.

    Cost : one sort per column and a few passes per pair of columns.
    """
    codes = bin_codes(T, Partition.whole(len(T), like=T), COARSE)
    columns = list(zip(sensitive.codes.T, sensitive.ordered, strict=True))

    def most_explained(j: int) -> float:
        return round(max(_explained(codes[:, j], values, ordered) for values, ordered in columns), 9)

    return each(most_explained, range(T.shape[1]))


def _explained(codes: Array, values: Array, ordered: bool) -> float:
    """Share of the variance of `values` between the classes of equal `codes`; 0 where there is no variance."""
    xp, n, classes = namespace(codes), len(codes), Partition.from_labels(codes)
    if ordered:
        sums = segment_sums(values, classes).astype(np.float64)  # of whole numbers: exact in any order
        between, nothing = (sums**2 / classes.sizes).sum(), sums.sum() ** 2 / n
        total = (values.astype(np.float64) ** 2).sum()
    else:
        levels = int(values.max()) + 1
        joint = xp.bincount(classes.labels() * levels + values, minlength=classes.parts * levels).reshape(-1, levels)
        between, total = ((joint.astype(np.float64) ** 2).sum(axis=1) / classes.sizes).sum(), n
        nothing = (joint.sum(axis=0).astype(np.float64) ** 2).sum() / n
    spread = float(total - nothing)
    return float(between - nothing) / spread if spread > 1e-9 * float(total) else 0.0


def check_gaussian(kind: str, **given: object) -> None:
    """Refuse settings of the Gaussian dither where no noise is drawn: they would do nothing."""
    defaults = {"alpha": ALPHA, "block": None, "bins": None, "precision": "double"}
    for name, value in given.items():
        if value != defaults[name] and kind != "gaussian":
            raise ValueError(f"{name}: applies to the gaussian dither, got {kind}, which draws whole records")


def check_strata(kind: str, bins: int | None) -> None:
    """Refuse strata where a released value would tell the stratum, and with it the response."""
    if kind != "gaussian":
        raise ValueError(f"strata: apply to the gaussian dither, got {kind}")
    if bins is None or bins > COARSE_BINS:
        raise ValueError(
            f"strata: need bins, {COARSE_BINS} at most: a finer value occurs in one stratum only, and who knows it"
            " would know the response"
        )


class Dither(Operation):
    """Noise round the group's centre, then Rosenblatt's transformation back to the distribution of the table.

    gaussian    : normal noise; a record may receive values from anywhere in its block
    cell        : noise inside the cells of the group's own values; the same as resample (Theorem 1)
    merged-cell : one column only; neighbouring cells that belong to one group are one cell (Corollary 1)
    """

    by_weight: ClassVar[bool] = True

    use: Literal["dither"] = "dither"
    kind: Literal["gaussian", "cell", "merged-cell"] = "gaussian"
    alpha: float = Field(
        default=ALPHA, ge=0, description="gaussian: variance added to each column (columns have variance 1)"
    )
    block: int | None = Field(
        default=None,
        ge=0,
        description=f"gaussian: rows of a block; none: {GROUPS_IN_BLOCK} groups (it grows with k); 0: the whole table",
    )
    order: ColumnOrder = Field(
        default="auto",
        description="columns in the order of conditioning: fewest distinct values first, those that tell most of the"
        " sensitive columns first (response), as given, or a list; auto: response where there are sensitive columns",
    )
    bins: int | None = Field(
        default=None,
        ge=2,
        description="gaussian: cut columns with more distinct values than this into quantile bins and sample inside "
        "the bin, so that a released row is not a copy of a real one",
    )
    strata: int | None = Field(
        default=None,
        ge=2,
        le=100,
        description="gaussian: quantile strata of the sensitive column (the first with an order); groups and mixtures "
        f"stay inside a stratum, values are drawn from bins of the whole table; needs bins, at most {COARSE_BINS}",
    )
    precision: Precision = Field(
        default="double",
        description="gaussian: of the distribution functions by which values are drawn; single is for GPUs with little"
        " float64.  Groups never depend on it",
    )

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        check_gaussian(self.kind, alpha=self.alpha, block=self.block, bins=self.bins, precision=self.precision)
        if self.strata is not None:
            check_strata(self.kind, self.bins)
        return self

    @property
    def response_strata(self) -> int | None:
        return self.strata

    @property
    def asks_sensitive(self) -> bool:
        return self.strata is not None or self.order == "response"

    @property
    def heeds_sensitive(self) -> bool:
        return self.asks_sensitive or (self.kind == "gaussian" and self.order == "auto")

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        """Cell dithers stay among the members of the record's own group."""
        claim = DrawnFromMixture if self.kind == "gaussian" else DrawnFromGroup
        return () if k is None else (claim(k, tuple(sets)),)

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        """With bins, numbers are drawn inside them column by column; categories stay together."""
        return self.bins is None or not any(kind in ("numeric", "date") for kind in kinds)

    def apply(self, T: Array, groups: Partition, records: Records) -> Outcome:
        columns = column_order(T, self.order, self.bins, records.sensitive)
        X = namespace(T).ascontiguousarray(T[:, columns])
        if self.kind != "gaussian":
            return Moved(cell_dither(X, groups, records.draws, records.weights, merged=self.kind == "merged-cell"))
        u, within = gaussian_dither(
            X, groups, records.draws.child("noise"), alpha=self.alpha, block=self.block, weights=records.weights,
            strata=records.strata, precision=self.precision,
        )  # fmt: skip
        first = within.labels()[groups.order[groups.starts[:-1]]]  # the block of each group
        minima = {"groups_in_block": int(namespace(T).bincount(first).min())}
        if self.bins is None:
            return Moved(conditional_inverse(u, X, within, records.weights), minima=minima)
        pooled = within if records.strata is None else Partition.whole(len(X), like=X)
        codes = bin_codes(X, pooled, self.bins)
        source = conditional_inverse(u, codes, within, records.weights)
        sampled = sample_inside(X, codes, source, pooled, records.draws.child("inside"), records.weights)
        return Changed(sampled[:, list(np.argsort(columns))], minima=minima)
