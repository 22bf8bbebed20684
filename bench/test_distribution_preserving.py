"""Distribution-preserving releases on the encoded registry: clustering, dither, and its risk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frame import Record, encoded_registry, sizes, ways

from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.reidentification import reidentification
from gpuanon.masking.given import Records
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.operations.dither import Dither


@pytest.mark.parametrize("stage", ["clusters", "dither"])
@sizes(62_500, 125_000, full=(250_000, 500_000, 1_000_000))
@ways("numpy", "compiled")
def test_gaussian_release(record: Record, stage: str, rows: int, way: str) -> None:
    """k-member clusters of ten, then the Gaussian dither."""
    X = encoded_registry(rows)
    draws = Key(b"a benchmark's key is no secret").draws(np.arange(rows))
    form = lambda: KMember(k=10).form(X, draws.child("groups"))
    work: Any = form
    quality = None
    if stage == "dither":
        groups = form()
        work = lambda: Dither().apply(X, groups, Records(draws.child("dither")))

        def quality(outcome: Any) -> dict[str, float]:
            risk = reidentification(X, X[outcome.source], np.arange(rows))
            return {"reidentified %": 100 * risk.value}

    record(work, group=f"Gaussian release: {stage}", rows=rows, columns=5, rounds=1, quality=quality)
