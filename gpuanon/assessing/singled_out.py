"""Measures of who is singled out, in the release and in the population, of a comparison."""

from __future__ import annotations

from typing import Any

from gpuanon.assessing.adjustable import Adjustable
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.options import FRACTION, SET_SIZE
from gpuanon.assessing.risk import population_uniqueness, suda2
from gpuanon.assessing.source import MissingEvidence, Source


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
