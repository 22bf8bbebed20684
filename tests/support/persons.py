"""Registries in which a person has several records, and masks for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.support.every import COLUMNS, recipe, registry

K = 4
PERSON = COLUMNS | {"mother": {"role": "person"}}
PROMISING = {
    "microaggregation": {"method": "microaggregation", "k": K, "block": 64},
    "microaggregation gower": {"method": "microaggregation", "k": K, "metric": "gower"},
    "microaggregation first-axis": {"method": "microaggregation", "k": K, "groups": "first-axis"},
    "mondrian": {"method": "mondrian", "k": K},
    "mondrian interval": {"method": "mondrian", "k": K, "release": "interval"},
    "suppress": {"method": "suppress", "k": K, "columns": ["sex", "education", "smoker"]},
    "synthetic-rows": {"method": "synthetic-rows", "k": K, "columns": ["sex", "education", "smoker"]},
    "recode": {"method": "recode", "levels": 1, "k": 2, "columns": ["education"]},
}
DRAWN = {
    dither: {"method": "distribution-preserving", "k": K, "dither": dither}
    for dither in ("permute", "resample", "gaussian")
}
FREE = {"noise": {"method": "noise"}, "svd-swap": {"method": "svd-swap", "tol": 0.5}, "copula": {"method": "copula"}}


def families(rows=300, size=3, seed=5):
    """A registry in which a mother has one to `size` records, in no order."""
    rng = np.random.default_rng(seed)
    mothers = np.repeat(np.arange(rows), rng.integers(1, size + 1, rows))[:rows]
    names = pa.array([f"mother {number:05d}" for number in rng.permutation(mothers)])
    return registry(rows).append_column("mother", names)


def rules(mask, columns=PERSON, **changes):
    return recipe(mask, columns=columns, **changes)
