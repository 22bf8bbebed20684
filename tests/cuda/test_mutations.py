"""Mutation tests: kernels broken on purpose, each of which a check must detect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.errors import BackendError
from gpuanon.faces.device_checks import CHECKS
from tests.cuda.floors import FLOORS
from tests.cuda.huge import PROBLEMS
from tests.cuda.mutations import MUTATIONS, Mutation
from tests.cuda.support import nvrtc
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.interpreter import Module

pytestmark = pytest.mark.slow  # a hundred kernels, some seconds each

BY_NAME = {check.name: check for check in CHECKS}
LIMIT = 3_000_000


@pytest.fixture
def forget_compiled_kernels() -> Iterator[None]:
    """Compiled kernels are cached by file name: broken ones must be removed."""
    for cached in (kernels._kernel, kernels._module):
        cached.cache_clear()
    yield
    for cached in (kernels._kernel, kernels._module):
        cached.cache_clear()


def outcome(name: str, file: str, text: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The fault that a problem finds in a kernel file with this text, or None."""
    problems = PROBLEMS | FLOORS
    if name in problems:
        try:
            problems[name](lambda asked: Module.from_source(text if asked == file else kernels.source(asked), "float"))
        except AssertionError as fault:
            return type(fault).__name__
        return None
    true = kernels.source
    monkeypatch.setattr(kernels, "source", lambda asked: text if asked == file else true(asked))
    check = BY_NAME[name]
    try:
        with fake_cupy(races=True, limit=LIMIT) as cp:
            found = check.run(cp, np.float32)
    except (AssertionError, BackendError, IndexError) as fault:
        return type(fault).__name__
    difference = check.difference(found, check.expected(np.float32), np.float32)
    return f"differs by {difference:.1e}" if difference > check.allowed(np.float32) else None


@pytest.mark.usefixtures("forget_compiled_kernels")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.file}: {mutation.name}")
def test_a_broken_kernel_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = mutation.apply(kernels.source(mutation.file))
    Module.from_source(broken, "float")  # it must compile: a syntax error would prove nothing
    assert outcome(mutation.noticed_by, mutation.file, broken, monkeypatch) is not None


def test_every_kernel_file_has_a_mutation() -> None:
    assert {mutation.file for mutation in MUTATIONS} == {path.stem for path in nvrtc.kernel_files()}
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 20


def test_a_mutation_that_no_longer_applies_is_an_error() -> None:
    with pytest.raises(LookupError, match="stands 0 times"):
        Mutation("", "random", "no such text", "", "").apply(kernels.source("random"))
    with pytest.raises(LookupError, match="stands 3 times"):
        Mutation("", "x", "a", "b", "").apply("a a a")
    assert Mutation("", "x", "a", "b", "", 1, 3).apply("a a a") == "a b a"
