"""What attacks on single records want to know of a comparison: quasi-identifiers as numbers and as points."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import to_host
from gpuanon.assessing.adjustable import Adjustable
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.named import only
from gpuanon.assessing.options import WHOLE
from gpuanon.assessing.risk.closest_record import closest_record
from gpuanon.assessing.risk.ct_isolation import ct_isolation
from gpuanon.assessing.risk.interval_disclosure import interval_disclosure
from gpuanon.assessing.risk.linkage import linkage_probabilistic
from gpuanon.assessing.risk.linkage.candidate_pairs import Side, blocking_weights
from gpuanon.assessing.risk.match_auc_joint import match_auc_joint
from gpuanon.assessing.risk.prediction import prediction_uncertainty
from gpuanon.assessing.source import MissingEvidence
from gpuanon.errors import ParameterError

Host = np.ndarray[Any, Any]

ABOVE_1 = Annotated[float, Field(gt=1, allow_inf_nan=False)]
ABOVE_0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
FROM_0 = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _quasi_values(c: Comparison, codes: list[bool], rows: Host | None = None) -> tuple[Host, Host]:
    """The quasi-identifiers of original and release, or of these released rows: numbers as they are, codes else."""
    chosen = c if rows is None else c.with_released(rows)
    # Of a comparison that nobody else has: its arrays may be written to.
    before, after = (np.asarray(to_host(side), dtype=np.float64) for side in only(chosen, c.schema.quasi).values)
    for side in (before, after):
        side[:, codes] = np.where(side[:, codes] < 0, np.nan, side[:, codes])
    return before, after


def _linkage(c: Comparison, block: list[str] | None = None, **options: Any) -> Measured:
    """`linkage_probabilistic` of the quasi-identifiers; columns of blocking by name."""
    link, named = c.link, block or []
    if not c.schema.quasi:
        raise MissingEvidence("needs columns of role quasi")
    codes = [c.schema[name].kind not in ("numeric", "date") for name in c.schema.quasi]
    unknown = [name for name in named if name not in c.schema.quasi]
    if unknown:
        raise ParameterError(f"block: {', '.join(map(repr, unknown))}: there is no such quasi-identifier")
    points = [to_host(side) for side in c.standardised]
    values = _quasi_values(c, codes) if named else (None, None)
    return linkage_probabilistic(
        Side(points[0], values[0]),
        Side(points[1], values[1]),
        link,
        read=None if named else lambda rows: _quasi_values(c, codes, rows),
        categorical=codes,
        names=c.schema.quasi,
        block=[name in named for name in c.schema.quasi],
        metric_weights=blocking_weights(c.quasi_features, named),
        **options,
    )


def _isolation(source: Comparison, **options: Any) -> Measured:
    """`ct_isolation` on the quasi-identifiers; `c` is one of its options."""
    reference = None if source.reference_table is None else source.standardised_reference
    return ct_isolation(*source.standardised, reference, **options)


def _intervals(c: Comparison, **options: Any) -> Measured:
    """`interval_disclosure` of the quasi-identifiers that are numbers or dates."""
    link = c.link
    numbers = [name for name in c.schema.quasi if c.schema[name].kind in ("numeric", "date")]
    if not numbers:
        raise MissingEvidence("needs columns of role quasi that are numbers")
    return interval_disclosure(*only(c, numbers).values, link, names=numbers, **options)


def _uncertainty(c: Comparison, **options: Any) -> Measured:
    """`prediction_uncertainty` on the quasi-identifiers, with the importance of columns by name."""
    return prediction_uncertainty(*c.standardised, prediction=c.prediction, names=c.quasi_features, **options)


def joint(c: Comparison) -> Measured:
    """`match_auc_joint` on the quasi-identifiers."""
    return match_auc_joint(*c.standardised, c.link, prediction=c.prediction)


def closest(c: Comparison) -> Measured:
    """`closest_record` on the quasi-identifiers."""
    return closest_record(*c.standardised, c.standardised_reference)


LINKAGE = Adjustable(_linkage, {"tolerances": list[FROM_0], "candidates": WHOLE, "block": list[str]})
ISOLATION = Adjustable(_isolation, {"c": ABOVE_1, "t": WHOLE})
INTERVALS = Adjustable(_intervals, {"width": ABOVE_0})
UNCERTAINTY = Adjustable(_uncertainty, {"weights": dict[str, FROM_0]})
