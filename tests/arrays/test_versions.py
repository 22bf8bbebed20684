"""Versions of installed libraries."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distributions, version

import pytest

from gpuanon.arrays.compiled import installed_version


def test_versions_are_those_of_the_metadata():
    names = {found.metadata["Name"] for found in distributions()}
    assert {name: installed_version(name) for name in names} == {name: version(name) for name in names}


def test_a_library_that_is_not_installed_is_not_found():
    with pytest.raises(PackageNotFoundError):
        installed_version("no-such-library")
