"""`assess` with every measure that a table of numbers, its link and a reference give evidence for."""

from __future__ import annotations

import numpy as np
from bench_measures import mixed_table
from frame import Record, sizes

import gpuanon
from gpuanon.running.assess import Assessment


@sizes(20_000, full=(100_000,))
def test_assess(record: Record, rows: int) -> None:
    """Ten columns with noise in place of a mask, eight of them quasi-identifiers; a reference of half the rows."""
    rng = np.random.default_rng(0)
    original, reference = (mixed_table(n, 10, rng, numeric=True) for n in (rows, rows // 2))
    release, link = original.copy(), rng.permutation(rows)
    for name, values in original.items():
        release[name] = np.round(values + 0.3 * values.std() * rng.normal(size=rows), 4)
    release = release.iloc[link].reset_index(drop=True)
    roles = {name: {"role": "quasi" if at < 8 else "sensitive"} for at, name in enumerate(original)}
    recipe = {"columns": roles, "mask": [{"method": "svd-swap"}]}

    def quality(found: Assessment) -> dict[str, float]:
        """How many measures there are figures of, one of risk, and one of utility."""
        figures = {name: float(found.measured[name].value) for name in ("reidentification", "kernel_pca")}
        return {"measures": float(len(found.measured)), **figures}

    record(
        lambda: gpuanon.assess(original, release, recipe, reference=reference, link=link, backend="numpy"),
        group="assess: every measure",
        rows=rows,
        columns=10,
        rounds=1,
        quality=quality,
    )
