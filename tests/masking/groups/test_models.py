"""Groupings by their names in recipes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import GpuanonError
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.groups.fuzzy import Fuzzy
from gpuanon.masking.groups.kmember import KMember, kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.mdav.mdav_models import Mdav
from gpuanon.masking.groups.plain_groups import BlocksOfRows, Whole
from gpuanon.masking.groups.refine.refine import refinement_of
from gpuanon.masking.groups.spanning_tree import SpanningTree
from gpuanon.masking.groups.univariate import FirstAxis, OptimalUnivariate, Univariate
from gpuanon.masking.methods.microaggregation import Microaggregation
from tests.support.groups import census, information_loss

ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyGroups)


def form(model: Any, X: Any) -> Partition:
    return model.form(X, Key(bytes(16)).draws(np.arange(len(X))))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ({"use": "whole"}, Whole()),
        ({"use": "blocks", "size": 100}, BlocksOfRows(size=100)),
        ({"use": "k-member", "k": 5}, KMember(k=5)),
        ({"use": "mdav", "k": 3, "block": 0, "refine": False}, Mdav(k=3, block=0, refine=False)),
        ({"use": "spanning-tree", "k": 3}, SpanningTree(k=3)),
        ({"use": "fuzzy", "k": 3, "fuzziness": 1.5}, Fuzzy(k=3, fuzziness=1.5)),
        ({"use": "first-axis", "k": 3}, FirstAxis(k=3)),
        ({"use": "univariate", "k": 3}, Univariate(k=3)),
        ({"use": "optimal-univariate", "k": 3}, OptimalUnivariate(k=3)),
    ],
)
def test_names_select_models_that_survive_json(text: dict[str, Any], model: Any) -> None:
    assert ADAPTER.validate_python(text) == model
    assert ADAPTER.validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("bad", [{"use": "k-member", "k": 1}, {"use": "mdav"}, {"use": "mdav", "k": 3, "blok": 1}])
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(bad)


def test_whole_and_blocks_form_groups_as_documented() -> None:
    X = np.random.default_rng(0).standard_normal((103, 2))
    assert form(Whole(), X).parts == 1
    assert sorted(form(BlocksOfRows(size=25), X).sizes.tolist()) == [20, 20, 21, 21, 21]


@pytest.mark.parametrize(("model", "function"), [(KMember, kmember), (Mdav, mdav)])
def test_block_zero_without_refinement_is_the_published_algorithm(model: Any, function: Any) -> None:
    X = np.random.default_rng(1).standard_normal((300, 3))
    np.testing.assert_array_equal(
        form(model(k=4, block=0, refine=False), X).order, function(X, Partition.whole(300), 4).order
    )


@pytest.mark.parametrize("model", [KMember, Mdav, SpanningTree, Fuzzy, FirstAxis])
@pytest.mark.parametrize("k", [2, 7, 40])
def test_defaults_give_groups_of_k_to_2k_less_one(model: Any, k: int) -> None:
    X = np.random.default_rng(2).standard_normal((999, 3))
    groups = form(model(k=k), X)
    assert groups.sizes.min() >= k
    assert groups.sizes.max() < 2 * k
    assert sorted(groups.order.tolist()) == list(range(999))


@pytest.mark.parametrize("model", [KMember, Mdav])
def test_fewer_rows_than_k_are_refused(model: Any) -> None:
    with pytest.raises(GpuanonError, match="at least 10 rows"):
        form(model(k=10), np.zeros((9, 2)))


@pytest.mark.parametrize("model", [KMember, Mdav])
def test_one_group_when_there_are_fewer_than_2k_rows(model: Any) -> None:
    assert form(model(k=10), np.random.default_rng(3).standard_normal((19, 2))).parts == 1


@pytest.mark.parametrize("model", [Univariate, OptimalUnivariate])
def test_univariate_groupings_are_those_of_each_column(model: Any) -> None:
    assert model.per_column
    assert form(model(k=5), np.random.default_rng(4).standard_normal((50, 1))).sizes.min() >= 5


@pytest.mark.parametrize("model", [FirstAxis, SpanningTree])
def test_refinement_lowers_the_distortion(model: Any) -> None:
    X = np.random.default_rng(5).standard_normal((400, 3))
    assert information_loss(X, form(model(k=4), X)) < 0.95 * information_loss(X, form(model(k=4, refine=False), X))


@pytest.mark.parametrize("model", [Fuzzy, SpanningTree])
def test_quadratic_memory_is_refused(model: Any) -> None:
    X = np.random.default_rng(6).standard_normal((70_000, 1))
    with pytest.raises(GpuanonError, match=r"block: [\s\S]*allowed[\s\S]*Hint: block = 1024"):
        form(model(k=5, block=0), X)


def test_more_effort_gives_better_groups():
    X = np.random.default_rng(3).standard_normal((1200, 4))
    fast, normal = (information_loss(X, form(KMember(k=5, effort=effort), X)) for effort in ("fast", "normal"))
    assert normal < fast < 1.05 * normal


def test_seconds_of_effort_are_turns_and_not_a_clock(monkeypatch):
    few, more = (refinement_of(seconds, 20_000, 5, 8) for seconds in (0.1, 1.0))
    assert few.turns * 9 <= more.turns <= few.turns * 11
    assert refinement_of(1.0, 40_000, 5, 8).turns == pytest.approx(more.turns / 2, abs=1)
    assert refinement_of(1.0, 20_000, 10, 8).turns < more.turns > refinement_of(1.0, 20_000, 5, 16).turns
    assert refinement_of(1e-9, 10**8, 5, 8).turns == 2
    assert refinement_of(86_400, 3, 5, 8).turns == refinement_of("best", 3, 5, 8).turns  # a tiny table needs no more
    X = np.random.default_rng(3).standard_normal((1200, 4))
    loss = [information_loss(X, form(KMember(k=5, effort=effort), X)) for effort in ("normal", 0.3)]
    assert loss[1] < loss[0]
    patient = form(KMember(k=5, effort=0.3), X).labels()
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    np.testing.assert_array_equal(form(KMember(k=5, effort=0.3), X).labels(), patient)


@pytest.mark.parametrize("wrong", [0, -1, "slow", "30", True, float("inf"), 1e9])
def test_other_efforts_are_refused(wrong):
    with pytest.raises(ValidationError, match="effort"):
        KMember(k=5, effort=wrong)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("k", "known"), [(3, 4.709), (5, 7.321), (10, 11.481)])
def test_the_best_groups_of_the_census_are_near_the_best_known(k, known, data_folder):
    X = census(data_folder)
    assert information_loss(X, form(KMember(k=k, block=0, effort="best"), X)) < 1.02 * known


def test_the_fast_effort_has_larger_blocks_unless_others_are_asked_for():
    assert KMember(k=5).block == KMember(k=5, effort="best").block == 1024
    assert KMember(k=5, effort="fast").block == Mdav(k=5, effort="fast").block == 2048
    assert KMember(k=5, effort="fast", block=0).block == 0
    assert KMember(k=5, effort="fast", block=1024).block == 1024
    assert Microaggregation(k=5, effort="fast").combination().groups.block == 2048
    assert Microaggregation(k=5, effort="fast", block=64).combination().groups.block == 64
    assert Microaggregation(k=5, effort="fast", groups="k-ward").combination().groups.block == 128


def test_an_effort_that_would_do_nothing_is_refused():
    with pytest.raises(ValidationError, match="applies to groups that are refined"):
        Mdav(k=3, refine=False, effort="best")
