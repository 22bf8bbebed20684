"""The whole of `protect` on the stand-in for CuPy, for every method: the same release as NumPy's, the table uploaded
once and the result downloaded once, and nothing else but scalars copied."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import gpuanon
from gpuanon.errors import BackendError
from gpuanon.recipe import Recipe
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.every import MASKS, recipe, registry
from tests.support.same_release import assert_same_release

ON_THE_CPU_ONLY = {name for name in MASKS if Recipe.load(recipe(name)).mask[0].combination().groups.host_only}


def rows_for(name: str) -> int:
    """Few rows, because kernels are interpreted; cutting every column at once needs more."""
    return 300 if name == "rhs" else 160


@pytest.fixture
def brief_refinement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short turn on either device: the usual ones are too many to interpret."""
    module = sys.modules["gpuanon.masking.groups.refine"]
    monkeypatch.setattr(module, "_STEPS", 6)
    monkeypatch.setattr(module, "_usual_turns", lambda groups: 1)


@pytest.mark.usefixtures("brief_refinement")
@pytest.mark.parametrize("name", [name for name in MASKS if name not in ON_THE_CPU_ONLY])
def test_every_method_runs_on_the_device_with_one_upload_and_one_download(name: str) -> None:
    data: Any = registry(rows_for(name))
    expected = gpuanon.protect(data, recipe(name), rng=7, backend="numpy")
    with fake_cupy() as cp:
        found = gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
        uploads, downloads = cp.transfers.uploads, cp.transfers.downloads
    assert found.manifest["backend"] == "cupy"
    assert_same_release(found.data, expected.data)
    assert len(uploads) == 1, uploads
    assert len(downloads) == 1, downloads


def test_these_run_on_the_cpu_only() -> None:
    assert {MASKS[name]["groups"] for name in ON_THE_CPU_ONLY} == {"fuzzy", "spanning-tree"}


@pytest.mark.parametrize("name", sorted(ON_THE_CPU_ONLY))
def test_what_runs_on_the_cpu_only_is_refused_before_anything_is_copied(name: str) -> None:
    with fake_cupy() as cp:
        with pytest.raises(BackendError, match=r"runs on the CPU only, and the backend is cupy\nHint: --backend numpy"):
            gpuanon.protect(registry(40), recipe(name), rng=7, backend="cupy")
        assert not cp.transfers.uploads
        assert not cp.transfers.downloads
