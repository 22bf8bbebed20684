"""What `assess` of tables in pieces holds for each row: counted in bytes of NumPy arrays, not timed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import measure
from gpuanon.assessing.streams import Pieces
from gpuanon.recipe import Recipe
from gpuanon.tables import class_counts
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

PIECE, COLUMNS = 10_000, 6
RECIPE = Recipe.load(
    {
        "columns": {f"x{j}": {"role": "quasi" if j < COLUMNS - 1 else "sensitive"} for j in range(COLUMNS)},
        "mask": [{"method": "svd-swap"}],
    }
)


def pieces(rows: int, noise: float) -> Pieces:
    """The same rows whenever they are asked for, made anew: none are held."""

    def give() -> Iterator[Table]:
        for at in range(rows // PIECE):
            rng = np.random.default_rng(at)
            X = rng.normal(size=(PIECE, COLUMNS))
            X += noise * rng.normal(size=X.shape)
            yield Table.of(pa.table({f"x{j}": np.round(X[:, j], 2) for j in range(COLUMNS)}))  # few values by column

    return Pieces(give, rows)


def peak(rows: int, names: list[str]) -> int:
    """Bytes at the peak, of arrays that NumPy allocated."""
    original, release = pieces(rows, 0.0), pieces(rows, 0.3)
    schema, link = Schema.resolve(original.first, RECIPE.columns, RECIPE.others), np.arange(rows)
    tracemalloc.start()
    found = measure(original, release, schema, names, link=link, sample_rows=500)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not found.failed
    return most


@pytest.mark.parametrize(("scaling", "least", "bound"), [("merged", 5, 60), ("queries", 6, 150)])
def test_bytes_per_row(monkeypatch: pytest.MonkeyPatch, scaling: str, least: int, bound: int) -> None:
    """Classes are 24 bytes per row, twice where they are merged; points are 8 bytes per value, and where each stands.

    The attack that turns the points holds them once more, and one with ten known pairs some of them.
    """
    monkeypatch.setattr(class_counts, "_MERGED", 4096)  # as small against the rows as it is where they are many
    monkeypatch.setattr(class_counts, "_PENDING", 20_000)
    names = [one.name for one in MEASURES.values() if one.scaling == scaling and one.name not in NEED]
    assert len(names) >= least
    few, many = 20_000, 100_000
    peak(PIECE, names)  # modules that are imported are no rows
    assert (peak(many, names) - peak(few, names)) / (many - few) < bound


NEED = {"reference_standard", "population_uniqueness"}  # a reference, weights
NEED |= {"linkage_probabilistic"}  # holds a number of pairs that does not depend on the rows, and is more than these
