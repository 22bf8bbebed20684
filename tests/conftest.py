"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gpuanon.arrays import compiled

settings.register_profile(
    "gpuanon", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gpuanon")


@pytest.fixture(autouse=True)
def _note_compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Append the tests that reach compiled functions to the file that GPUANON_TESTS_COMPILED names.

    ``make test-plain`` runs those, and only those, again without compiled functions.
    """
    path = os.environ.get("GPUANON_TESTS_COMPILED")
    if path is None:
        yield
        return
    reached, works = [], compiled._works
    monkeypatch.setattr(compiled, "_works", lambda: reached.append(1) or works())  # type: ignore[func-returns-value]
    yield
    if reached:
        with open(request.config.rootpath / path, "a") as file:  # a test may have changed the folder
            file.write(f"{request.node.nodeid}\n")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public reference files."""
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        pytest.skip("GPUANON_DATA does not name the folder of public reference files")
    return Path(folder)
