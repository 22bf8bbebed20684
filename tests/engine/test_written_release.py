"""A release is checked on its file: one that was changed since, or that a writer changes, is counted again."""

from __future__ import annotations

import json
import secrets
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.engine import release as release_file
from gpuanon.errors import GuaranteeError

DATA = pa.table({"x": [float(i) for i in range(40)], "y": [float(i % 7) for i in range(40)]})
RECIPE: Any = {
    "columns": {"x": {"role": "quasi"}, "y": {"role": "quasi"}},
    "mask": [{"method": "microaggregation", "k": 4}],
}


@pytest.mark.parametrize("name", ["release.parquet", "release.arrow", "release.csv"])
def test_a_dataframe_that_was_changed_since_is_refused(tmp_path: Path, name: str) -> None:
    found = gpuanon.protect(DATA.to_pandas(), RECIPE, rng=1, backend="numpy")
    frame: pd.DataFrame = found.table.to_native()
    frame.loc[0, "x"] = 1234.5
    with pytest.raises(GuaranteeError, match="shared by 1 released records"):
        found.write(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_the_classes_of_a_file_with_the_same_values_are_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Path] = []
    true = release_file.smallest_classes
    monkeypatch.setattr(release_file, "smallest_classes", lambda *given: counted.append(given[1]) or true(*given))
    found = gpuanon.protect(DATA, RECIPE, rng=1, backend="numpy")
    manifests = [found.write(tmp_path / name) for name in ("release.parquet", "release.csv")]
    assert [path.name for path in counted] == ["release.csv"]
    assert manifests[0]["guarantee"] == manifests[1]["guarantee"]


SMALL = [7, np.random.default_rng(7), np.int64(2**40)]
LARGE = [None, Key.fresh(), secrets.randbits(128) | 1 << 127, np.random.default_rng(), b"0123456789abcdef"]


@pytest.mark.parametrize("at", range(len(SMALL) + len(LARGE)))
def test_a_release_under_a_small_seed_says_so(tmp_path: Path, at: int) -> None:
    small = at < len(SMALL)
    found = gpuanon.protect(DATA, RECIPE, rng=[*SMALL, *LARGE][at], backend="numpy")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        manifest = found.write(tmp_path / "release.parquet")
    assert any("small seed" in str(one.message) for one in said) == small
    for text in (
        manifest["warnings"],
        json.loads((tmp_path / "release.parquet.manifest.json").read_text())["warnings"],
    ):
        assert any("small seed" in line for line in text) == small
    assert str(2**40) not in (tmp_path / "release.parquet.manifest.json").read_text()
