"""Measures that a recipe can adjust: a function of a comparison, and the types of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuanon.assessing.comparison import Comparison, MissingEvidence, Source
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.options import FRACTION, LEVEL, PERMUTATIONS, SET_SIZE, WAYS, WHOLE
from gpuanon.assessing.risk import population_uniqueness, suda2
from gpuanon.assessing.utility import cdf, mmd, model_efficacy, propensity


@dataclass(frozen=True)
class Adjustable:
    """A measure with options.

    function : from a comparison, and options by keyword, to the figure
    options  : type of each option that a recipe may set
    """

    function: Callable[..., Measured]
    options: Mapping[str, Any]

    def __call__(self, comparison: Comparison, **options: Any) -> Measured:
        return self.function(comparison, **options)


def tables(measure: Callable[..., Measured]) -> Adjustable:
    """A measure of contingency tables of all compared columns."""

    def computed(c: Comparison, **options: Any) -> Measured:
        return measure(*c.binned, names=c.columns, **options)

    return Adjustable(computed, WAYS)


def _pmse_cart(c: Comparison, **options: Any) -> Measured:
    """Of the propensity scores of a tree."""
    before, after = c.values
    return propensity.pmse_cart(before, after, categorical=c.categorical, **options)


def _mmd(c: Comparison, **options: Any) -> Measured:
    """Of all compared columns, encoded."""
    before, after = c.encoded
    return mmd.mmd(before, after, link=c.link_or_none, **options)


def _cdf_points(c: Comparison, **options: Any) -> Measured:
    """Of the columns of numbers and dates."""
    chosen = [at for at, name in enumerate(c.columns) if c.schema[name].kind in ("numeric", "date")]
    before, after = (side[:, chosen] for side in c.values)
    return cdf.cdf_points(before, after, names=[c.columns[at] for at in chosen], **options)


def _model_efficacy(c: Comparison, target: str | None = None) -> Measured:
    """For a named target, else the last sensitive column, else the last column."""
    named = target or (c.schema.sensitive or c.columns)[-1]
    codes = [c.schema[name].kind not in ("numeric", "date") for name in c.columns]
    before, after = c.values
    return model_efficacy.model_efficacy(
        before, after, names=c.columns, categorical=codes, target=named, link=c.link_or_none
    )


def _fraction(source: Source) -> float | None:
    """Sampling fraction by the sample weights; None without any."""
    try:
        return min(1.0, int(source.class_sizes.sum()) / source.population)
    except MissingEvidence:
        return None


def _suda2(c: Comparison, **options: Any) -> Measured:
    """Of the quasi-identifiers of the release."""
    return suda2.suda2(c.column_classes, names=c.schema.quasi, known=_fraction(c), **options)


def _population_uniqueness(c: Comparison, fraction: float | None = None) -> Measured:
    """With the sampling fraction of the recipe, else by the sample weights."""
    taken = fraction or _fraction(c)
    if taken is None:
        raise MissingEvidence(
            "needs the sampling fraction ([measures] population_uniqueness = { fraction = 0.01 }), or sample weights"
        )
    return population_uniqueness.population_uniqueness(c.class_sizes, taken)


SUDA2 = Adjustable(_suda2, {**FRACTION, "size": SET_SIZE})
POPULATION_UNIQUENESS = Adjustable(_population_uniqueness, FRACTION)
PMSE_CART = Adjustable(_pmse_cart, PERMUTATIONS)
MMD = Adjustable(_mmd, {**PERMUTATIONS, "features": WHOLE})
CDF_POINTS = Adjustable(_cdf_points, {**LEVEL, "at": dict[str, list[float]]})
MODEL_EFFICACY = Adjustable(_model_efficacy, {"target": str})
