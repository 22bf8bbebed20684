"""The doctor's checks of methods and measures, on the stand-in: all of them pass, and a difference is noticed."""

from __future__ import annotations

import pytest

from gpuanon.cli.doctor import full_checks
from gpuanon.masking.methods import METHODS
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.groups import refine_briefly


@pytest.fixture(autouse=True)
def brief_refinement(monkeypatch: pytest.MonkeyPatch) -> None:
    refine_briefly(monkeypatch, turns=1, steps=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", full_checks.MASKS)
def test_a_method_is_the_same_on_both(name: str) -> None:
    with fake_cupy():
        found = full_checks.compared_method(full_checks.MASKS[name], 120)
    assert found["passed"], found
    assert set(found["seconds"]) == {"cupy", "numpy"}


@pytest.mark.slow
def test_measures_are_the_same_on_both() -> None:
    with fake_cupy():
        found = full_checks.compared_measures(60)
    assert found["passed"], found
    assert found["measures"] > 30


def test_a_difference_is_noticed() -> None:
    data = full_checks.table(200)
    rows = data.take([*range(1, 200), 0])
    assert full_checks._same_rows(data, data) == 1.0
    assert full_checks._same_rows(rows, data) < 0.05
    assert full_checks._same_rows(data.slice(1), data) == 0.0
    text = data.set_column(4, "sex", rows["sex"])
    assert 0.3 < full_checks._same_rows(text, data) < 0.7


def test_every_mask_is_a_method_of_the_catalogue() -> None:
    assert {mask["method"] for mask in full_checks.MASKS.values()} <= set(METHODS)
