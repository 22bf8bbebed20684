"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "gpuanon", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gpuanon")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of public reference files."""
    folder = os.environ.get("GPUANON_DATA")
    if folder is None:
        pytest.skip("GPUANON_DATA does not name the folder of public reference files")
    return Path(folder)
