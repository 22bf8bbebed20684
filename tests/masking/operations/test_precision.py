"""`precision = "single"`: the distribution functions of the Gaussian dither in float32, and nothing that groups see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import RecipeError
from gpuanon.masking.methods.distribution_preserving import DistributionPreserving
from gpuanon.masking.operations import dither
from gpuanon.masking.operations.dither import Dither, gaussian_dither
from gpuanon.numerics.cuts.median_blocks import blocks
from tests.cuda.fixtures import host, xp
from tests.support.groups import refine_briefly

__all__ = ["xp"]  # a fixture

KEY = Key(b"a key for the tests of precision")
LARGEST, MEAN = 1e-6, 1e-7
"""Allowed differences of u.  Found among 200 000 numbers on the host: 1.4e-7 and 1.3e-8."""


def table(n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(n, 5))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def uniform(xp: Any, n: int, precision: Any, alpha: float = 1 / 3) -> np.ndarray[Any, Any]:
    """u of a table in groups of about 10 rows."""
    X = xp.asarray(table(n))
    groups = blocks(X, Partition.whole(n, like=X), 10)
    u, _ = gaussian_dither(X, groups, KEY.draws(xp.arange(n), ""), alpha=alpha, precision=precision)
    assert u.dtype == np.float64
    return host(u)


@pytest.mark.parametrize("alpha", [1 / 3, 0.01])
def test_single_and_double_agree_on_either_device(xp: Any, alpha: float) -> None:
    n = 20_000 if xp is np else 200
    apart = np.abs(uniform(xp, n, "single", alpha) - uniform(xp, n, "double", alpha))
    assert 0 < apart.max() <= LARGEST  # it does something
    assert apart.mean() <= MEAN


def test_host_and_device_agree_in_single(xp: Any) -> None:
    apart = np.abs(uniform(xp, 200, "single") - uniform(np, 200, "single"))
    assert apart.max() <= LARGEST


def release(precision: str, backend: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Partition]:
    """A release, and the groups that its dither saw."""
    seen: list[Partition] = []

    def watched(T: Any, groups: Partition, *others: Any, **keywords: Any) -> Any:
        seen.append(Partition(host(groups.order), host(groups.starts)))
        return gaussian_dither(T, groups, *others, **keywords)

    monkeypatch.setattr(dither, "gaussian_dither", watched)
    data = pa.table({f"c{j}": column for j, column in enumerate(table(rows).T)})
    mask = {"method": "distribution-preserving", "k": 5, "precision": precision}
    columns: Any = {name: {"role": "quasi"} for name in data.column_names} | {"beside": {"role": "other"}}
    data = data.append_column("beside", pa.array(np.arange(rows) % 7))
    recipe: Any = {"columns": columns, "mask": [mask]}
    return gpuanon.protect(data, recipe, rng=7, backend=backend), seen[0]


def test_groups_never_depend_on_it(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, rows = ("numpy", 5000) if xp is np else ("cupy", 160)
    if xp is not np:  # the usual turns are too many to interpret
        refine_briefly(monkeypatch, turns=1, steps=6)
    found = {name: release(name, backend, rows, monkeypatch) for name in ("single", "double")}
    np.testing.assert_array_equal(found["single"][1].order, found["double"][1].order)
    np.testing.assert_array_equal(found["single"][1].starts, found["double"][1].starts)
    assert found["single"][0].manifest["mask"][0]["precision"] == "single"
    assert found["single"][0].manifest["guarantee"][0]["verified"] is True


@pytest.mark.parametrize("kind", ["cell", "merged-cell", "resample", "permute"])
def test_it_is_refused_where_nothing_is_computed_with_it(kind: str) -> None:
    with pytest.raises(ValidationError, match="precision: applies to the gaussian dither"):
        DistributionPreserving(k=5, dither=kind, precision="single")  # type: ignore[arg-type]
    if kind in ("cell", "merged-cell"):
        with pytest.raises(ValidationError, match="precision: applies to the gaussian dither"):
            Dither(kind=kind, precision="single")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="precision"):
        gpuanon.Recipe.load({"columns": {}, "mask": [{"method": "microaggregation", "k": 5, "precision": "single"}]})


@pytest.mark.slow
def test_what_single_precision_costs() -> None:
    """The figures of the README: differences of u, and the records that receive other values."""
    single, double = uniform(np, 40_000, "single"), uniform(np, 40_000, "double")
    apart = np.abs(single - double)
    print(f"largest {apart.max():.1e}, mean {apart.mean():.1e}")
    places = [np.ceil(u * 1280) for u in (single, double)]  # of a value among the records of a usual block
    moved = float((places[0] != places[1]).mean())
    print(f"another value in {moved:.1e} of the draws")
    assert apart.max() <= LARGEST
    assert moved < 1e-3
