"""Limits of the recipe: a release that exceeds one is not written."""

from __future__ import annotations

from collections.abc import Mapping

from gpuanon.arrays.backend import Backend, Host
from gpuanon.assessing.measure import Options
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import measure
from gpuanon.assessing.streams import Pieces
from gpuanon.errors import GuaranteeError
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table


def check_limits(
    original: Pieces,
    release: Pieces,
    schema: Schema,
    limits: Mapping[str, float],
    *,
    link: Host,
    reference: Table | None,
    backend: Backend,
    options: Options | None = None,
) -> dict[str, float]:
    """Measure what the recipe limits; a value that is worse, or that cannot be measured, refuses the release."""
    assessment = measure(
        original, release, schema, tuple(limits), link=link, reference=reference, backend=backend, options=options
    )
    unknown = [f"limits.{name}: could not be measured: {reason}" for name, reason in assessment.failed.items()]
    faults = []
    for name, figure in assessment.measured.items():
        if MEASURES[name].exceeds(figure.value, limits[name]):
            way = "at most" if MEASURES[name].better == "lower" else "at least"
            faults.append(f"limits.{name}: {way} {limits[name]:g} is allowed, the release has {figure.value:.4g}")
    if unknown or faults:
        hint = "a larger k, or another method, lowers the risk" if faults else "give what the measure needs, or drop it"
        raise GuaranteeError("\n".join([*unknown, *faults, "Nothing was written"]), hint=hint)
    return {name: figure.value for name, figure in assessment.measured.items()}
