"""Synthetic rows: rows are added to classes that are too small.

References
----------
.. [1] W. Fried, D. Vamvourellis, Towards minimizing statistical distortion introduced by de-identification methods:
   minimum numbers of rows with nulls as values and as wildcards (2.3), fills (3, 4).
.. [2] O. Angiuli, J. Waldo (2016), Statistical tradeoffs between generalization and suppression in the
   de-identification of large-scale data sets, COMPSAC: marginal and joint fills.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Facts, Records
from gpuanon.masking.operations.pad.calibration import ColumnTilt, KeptStatistics, Populations
from gpuanon.masking.operations.pad.fill_columns import Response
from gpuanon.masking.operations.pad.joint import ClassDonors
from gpuanon.masking.operations.pad.sequence import FillModel, Settings, fit_sequence
from gpuanon.masking.outcomes import AddedRows, ColumnValues, Filled, Moved, Sampled, Samples
from gpuanon.masking.person_blocks import persons_per_part
from gpuanon.numerics.compatible import covering_counts
from gpuanon.numerics.equal_rows import equal_rows

FillName: TypeAlias = Literal[
    "marginal", "marginal-mean", "joint", "joint-mean", "regression", "beta", "tree", "forest", "bagging", "boosting",
    "network", "hierarchical",
]  # fmt: skip

FillKind = Annotated[
    FillName,
    Field(
        description="how other columns of an added row are drawn: marginal = the value of a random row; marginal-mean ="
        " the mean of five; joint = of records of the nearest other classes, since a class below k would repeat itself;"
        " joint-mean = their mean and noise; regression ="
        " logistic, then probit–gamma; beta = logistic, then beta; tree, forest, bagging = records of the same leaf;"
        " boosting, network, hierarchical = records with a similar prediction"
    ),
]
Leaf = Annotated[int, Field(ge=5, description="records that share a leaf, at least")]
Depth = Annotated[int | None, Field(ge=1, le=64, description="of a tree, at most; none: no limit")]
Trees = Annotated[int, Field(ge=2, le=500, description="of a forest")]
SampleRows = Annotated[int, Field(ge=1000, description="records that models are fitted to, about")]


class Calibrate(BaseModel):
    """Statistics of the whole table that are to stay; draws are tilted as little as will do.

    means        : columns
    correlations : pairs of columns; means and variances of filled columns in them stay as well
    regressions  : "response ~ one + other": the coefficients of a linear regression, of a response that is filled.
                   If its mean or a correlation is named as well, the slopes stay and the intercept moves; if a
                   correlation with a predictor is, its variance moves

    What stays moves something else: where a column varies more in the release, the same correlation means a smaller
    slope.  The manifest says what moves (`slope_drift`, `mean_drift`), what it costs (`price_nats`) and whether all
    named statistics could be kept (`reached`, `largest_residual`); a column may have no room for all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    means: tuple[str, ...] = ()
    correlations: tuple[tuple[str, str], ...] = ()
    regressions: tuple[str, ...] = ()

    @field_validator("regressions")
    @classmethod
    def _formulas(cls, formulas: tuple[str, ...]) -> tuple[str, ...]:
        for formula in formulas:
            response, _, predictors = formula.partition("~")
            if not response.strip() or not all(name.strip() for name in predictors.split("+")):
                raise ValueError(f'a formula such as "cost ~ age + income" is needed, got {formula!r}')
        return formulas

    def by_number(self, columns: ColumnValues, known: int) -> KeptStatistics:
        """The same by the numbers of the columns, of which the first `known` are not filled."""

        def number(name: str) -> int:
            if name not in columns.names:
                raise ParameterError(f"calibrate: there is no column {name!r}")
            at = columns.names.index(name)
            if columns.levels[at] > 2:
                raise ParameterError(f"calibrate: column {name!r} has no mean: numbers, or two levels, are needed")
            return at

        models = []
        for formula in self.regressions:
            response, _, predictors = formula.partition("~")
            models.append((number(response.strip()), tuple(number(name.strip()) for name in predictors.split("+"))))
        found = KeptStatistics(
            tuple(map(number, self.means)), tuple((number(a), number(b)) for a, b in self.correlations), tuple(models)
        )
        fills = [*found.means, *map(max, found.correlations), *(response for response, _ in found.regressions)]
        if any(at < known for at in fills):
            raise ParameterError(
                "calibrate: a statistic of columns that are not filled cannot be kept",
                hint="each needs a column outside of the mask; the response of a regression must be one",
            )
        return found


_CALIBRATED_ROWS = 100_000
"""Added rows that a calibration is solved on, about."""

_REACHED = 0.01
"""Residual of a calibration, in deviations of the column, up to which it is said to be reached."""


def short_classes(codes: Array, groups: Partition, k: int, persons: Array | None = None) -> tuple[Partition, Array]:
    """The classes of `codes` (n, columns), and (g,) the fewest rows that each needs to have k.

    A class is a set of equal rows of one group; a null is a value.  Classes follow each other as `equal_rows` numbers
    them.

    persons : (n,) whose rows they are, numbered from 0: then persons are counted, and an added row is one of its own

    Cost : one sort of n numbers.
    """
    found = Partition.from_labels(equal_rows(codes, groups.labels()))
    return found, namespace(codes).maximum(k - persons_per_part(found, persons), 0)


def short_maximal_classes(codes: Array, k: int) -> tuple[Partition, Array]:
    """The classes when a null matches every value, and (g,) how many rows each needs, so that k have all its values.

    Only maximal classes need rows: those whose values no other class has together with more.  A class that is not
    maximal is covered by one that is.  This is the minimum if only combinations that occur may be added [1].

    Cost : that of `covering_counts`.
    """
    xp = namespace(codes)
    found = Partition.from_labels(equal_rows(codes))
    covering = covering_counts(codes[found.order[found.starts[:-1]]], found.sizes)
    return found, xp.where(covering == found.sizes, xp.maximum(k - found.sizes, 0), 0)


def certificate(codes: Array, classes: Partition, missing: Array, k: int, names: Sequence[str]) -> Facts:
    """Which classes receive rows, and how many: counts for the manifest, and no value of a record.

    rows_synthetic           : rows added
    classes, classes_padded  : all, and those that receive rows
    padded_by                : of these, how many receive 1, 2, … rows
    rows_where_null          : rows added to classes, by the columns that are null there
    classes_below_k_as_values : classes with fewer than k rows after that, when a null is a value
    """
    xp = namespace(codes)
    chosen = xp.flatnonzero(missing > 0)
    nulls = codes[classes.order[classes.starts[chosen]]] < 0
    # Below: columns that are null, 62 at most, as the bits of one number; one download for all.
    bits = (nulls[:, :62].astype(np.int64) << xp.arange(min(nulls.shape[1], 62), dtype=np.int64)).sum(axis=1)
    wanted, masks = to_host(xp.stack([missing[chosen].astype(np.int64), bits.astype(np.int64)]))
    amounts, counts = np.unique(wanted, return_counts=True)
    patterns, place = np.unique(masks, return_inverse=True)
    rows = np.bincount(place.reshape(-1), wanted, minlength=len(patterns)).astype(np.int64)
    where = {
        ", ".join(name for at, name in enumerate(names[:62]) if pattern >> at & 1) or "none": int(count)
        for pattern, count in zip(patterns.tolist(), rows, strict=True)
    }
    return {
        "rows_synthetic": int(wanted.sum()),
        "classes": classes.parts,
        "classes_padded": len(wanted),
        "padded_by": {str(amount): int(count) for amount, count in zip(amounts.tolist(), counts, strict=True)},
        "rows_where_null": where,
        "classes_below_k_as_values": int((classes.sizes + missing < k).sum()),
    }


def parents_of(classes: Partition, missing: Array) -> Array:
    """(m,) members of the classes, in turn, as many as are `missing` (g,) from each."""
    xp = namespace(missing)
    ends = xp.cumsum(missing)
    number = xp.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    owner = xp.searchsorted(ends, number, side="right")
    nth = number - (ends - missing)[owner]
    return classes.order[classes.starts[owner] + nth % classes.sizes[owner]]


class Pad(Operation):
    """Rows are added to classes with fewer than k records, equal to them on the columns of the mask.

    With wildcards rows are added to maximal classes only: at least k released rows then have all values of each.  The
    other columns of an added row are drawn one after the other, each from a model of the whole table given the columns
    of the mask and those drawn before.  Models are fitted and drawn from on the CPU; on a device, forests of the fills
    forest and bagging are cuML's (see `fill_models.device_forests`), or the run is refused.
    """

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "added"

    use: Literal["pad"] = "pad"
    k: int = Field(ge=2, description="records of a class, at least")
    fill: FillKind = "tree"
    leaf: Leaf = 50
    depth: Depth = None
    trees: Trees = 25
    sample: SampleRows = 500_000
    calibrate: Calibrate | None = Field(default=None, description="statistics of the whole table that are to stay")

    @model_validator(mode="after")
    def _calibrated_models(self) -> Self:
        if self.calibrate is not None and self.fill in ("joint", "joint-mean"):
            raise ValueError("calibrate: draws from the nearest classes are not tilted; another fill is needed")
        return self

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        return (EqualRecords(self.k, tuple(sets)),)

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        xp = namespace(T)
        classes = records.classes
        if classes is not None and classes.wildcard:
            found, missing = short_maximal_classes(T, self.k)
        else:
            found, missing = short_classes(T, groups, self.k, records.persons)
        parents = parents_of(found, missing)
        source = xp.concatenate([xp.arange(len(T), dtype=np.int64), parents])
        names = () if classes is None else classes.names
        facts = certificate(T, found, missing, self.k, names)
        return Moved(source, rows=source, added=len(parents), facts=facts)

    @property
    def samples(self) -> Samples:
        return Samples(self.sample, _CALIBRATED_ROWS if self.calibrate is not None else 0)

    def fit(self, sampled: Sampled) -> FillModel | None:
        if self.fill == "joint" or self.fill == "joint-mean":
            return None
        records, known = sampled.records, sampled.known
        settings = Settings(self.fill, self.leaf, self.depth, self.trees, sampled.backend)
        if self.calibrate is None:
            return fit_sequence(records.values, records.levels, known, settings, sampled.draws)
        named, whole = self.calibrate.by_number(records, known), None
        if sampled.added is not None:
            unknown = np.full((len(sampled.added.values), len(records.names) - known), np.nan)
            added = np.column_stack([sampled.added.values, unknown])
            whole = Populations(records.values, added, sampled.rows, sampled.rows_added)
        return fit_sequence(records.values, records.levels, known, settings, sampled.draws, named, whole)

    def filled(self, model: FillModel | None, added: AddedRows) -> Sequence[Filled]:
        if model is not None:
            return [Filled(values) for values in model.draw(added.known.values, added.draws).T]
        donors, cell = ClassDonors.of(added.codes, added.parents, self.k, added.persons), added.cell()
        u = added.draws.uniform(len(added.names))
        found = []
        move = added.draws.child("smooth").uniform(len(added.names))
        for at, levels in enumerate(cell.levels):
            values, rows = cell.values[:, at], donors.rows(u[:, at])
            if levels:
                found.append(Filled(donors=rows))
            elif self.fill == "joint-mean":
                found.append(Filled(donors.means(values, u[:, at])))
            else:
                found.append(Filled(Response(values).smoothed(values[rows], move[:, at])))
        return found

    def report(self, model: FillModel | None, names: Sequence[str]) -> Mapping[str, Any]:
        if model is None:
            return {}
        where = {"fill_models": "cuML, on the device" if model.on_device else "on the CPU"}
        if self.calibrate is None:
            return where
        prices = {
            names[model.known + column]: _price(tilted, names)
            for column, tilted in zip(model.order, model.tilts, strict=True)
            if tilted is not None and len(tilted.tilt.multipliers)
        }
        return {**where, "calibration": prices}


def _price(tilted: ColumnTilt, names: Sequence[str]) -> Mapping[str, Any]:
    """What the calibration of one column costs, and what moves because of what stays.

    price_nats       : mean divergence of a row's tilted draw from its own distribution
    largest_residual : of the equations that keep the named statistics, in deviations of the column
    reached          : whether all of them are met
    slope_drift      : relative change of the slope on a column whose correlation is kept, as its deviation changes
    mean_drift       : change of the mean where a whole regression is kept, as the means of the predictors change
    """
    residual = float(np.abs(tilted.tilt.left).max(initial=0.0))
    found: dict[str, Any] = {
        "price_nats": round(tilted.tilt.price, 6),
        "largest_residual": round(residual, 6),
        "reached": residual <= _REACHED,
    }
    if tilted.slopes:
        found["slope_drift"] = {names[column]: round(change, 4) for column, change in tilted.slopes}
    if tilted.regression is not None and not tilted.regression.free:
        found["mean_drift"] = float(f"{tilted.mean_drift:.4g}")
    return found
