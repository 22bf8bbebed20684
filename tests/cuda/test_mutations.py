"""Mutation tests: kernels broken on purpose, each of which a check must detect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.cli.doctor.device_checks import CHECKS
from gpuanon.errors import BackendError
from tests.cuda.floors import FLOORS
from tests.cuda.huge import PROBLEMS
from tests.cuda.mutations import MUTATIONS, Mutation
from tests.cuda.support import nvrtc, one_lane
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.interpreter import Module

BY_NAME = {check.name: check for check in CHECKS}
LIMIT = 3_000_000

TILED = {
    mutation.name: mutation
    for mutation in MUTATIONS
    if mutation.file in ("distance", "affinity", "kernel_pca") and mutation.noticed_by not in PROBLEMS
}
FIRST = (  # a barrier, a stride and a guard, in the files that compile fastest
    replace(TILED["tile read before it is complete"], file="affinity", noticed_by="affinities"),
    replace(TILED["tile with a wrong stride"], file="kernel_pca", noticed_by="kernel projections"),
    TILED.pop("degrees of rows of the next part"),
)
UNSEEN = {"tile loads one row too many", "stretch runs past the last row"}
"""What layer 8 cannot notice: reads outside of an array, of numbers that are not used.  The interpreter does."""


@pytest.fixture
def forget_compiled_kernels() -> Iterator[None]:
    """Compiled kernels are cached by file name: broken ones must be removed."""
    for cached in (kernels._kernel, kernels._module):
        cached.cache_clear()
    yield
    for cached in (kernels._kernel, kernels._module):
        cached.cache_clear()


class FastModule:
    """The kernels of a text in layer 8, launched like a `Module`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def launch(self, name: str, grid: int, block: int, args: Any, shared: int = 0) -> None:
        one_lane.launch(self._text, {"REAL": "float"}, name, (grid,), (block,), args, shared)


def interpreted(text: str) -> Module:
    return Module.from_source(text, "float")


def outcome(
    name: str, file: str, text: str, monkeypatch: pytest.MonkeyPatch, module: Any = interpreted, **device: Any
) -> str | None:
    """The fault that a problem finds in a kernel file with this text, or None.

    module, device : what executes the kernels of a text, and the options of the stand-in
    """
    problems = PROBLEMS | FLOORS
    if name in problems:
        try:
            problems[name](lambda asked: module(text if asked == file else kernels.source(asked)))
        except AssertionError as fault:
            return type(fault).__name__
        return None
    true = kernels.source
    monkeypatch.setattr(kernels, "source", lambda asked: text if asked == file else true(asked))
    check = BY_NAME[name]
    try:
        with fake_cupy(**device or {"races": True, "limit": LIMIT}) as cp:
            found = check.run(cp, np.float32)
    except (AssertionError, BackendError, IndexError) as fault:
        return type(fault).__name__
    difference = check.difference(found, check.expected(np.float32), np.float32)
    return f"differs by {difference:.1e}" if difference > check.allowed(np.float32) else None


@pytest.mark.slow  # a hundred kernels, some seconds each
@pytest.mark.usefixtures("forget_compiled_kernels")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.file}: {mutation.name}")
def test_a_broken_kernel_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = mutation.apply(kernels.source(mutation.file))
    Module.from_source(broken, "float")  # it must compile: a syntax error would prove nothing
    assert outcome(mutation.noticed_by, mutation.file, broken, monkeypatch) is not None


@pytest.mark.skipif(one_lane.MISSING is not None, reason=str(one_lane.MISSING))
@pytest.mark.usefixtures("forget_compiled_kernels")
@pytest.mark.parametrize(
    "mutation",
    [*FIRST, *(pytest.param(mutation, marks=pytest.mark.slow) for mutation in TILED.values())],
    ids=lambda mutation: f"{mutation.file}: {mutation.name}",
)
def test_broken_tiles_are_noticed_by_the_layer_for_large_problems(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = mutation.apply(kernels.source(mutation.file))
    fault = outcome(mutation.noticed_by, mutation.file, broken, monkeypatch, FastModule, one_lane=True)
    assert (fault is None) == (mutation.name in UNSEEN)


def test_every_kernel_file_has_a_mutation() -> None:
    assert {mutation.file for mutation in MUTATIONS} == {path.stem for path in nvrtc.kernel_files()}
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 20


def test_a_mutation_that_no_longer_applies_is_an_error() -> None:
    with pytest.raises(LookupError, match="stands 0 times"):
        Mutation("", "random", "no such text", "", "").apply(kernels.source("random"))
    with pytest.raises(LookupError, match="stands 3 times"):
        Mutation("", "x", "a", "b", "").apply("a a a")
    assert Mutation("", "x", "a", "b", "", 1, 3).apply("a a a") == "a b a"
