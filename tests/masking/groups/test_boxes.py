"""Boxes for statistics: the parts together, on both backends, with dismissal and diversity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter, ValidationError

import gpuanon
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima
from gpuanon.arrays.rng import Key
from gpuanon.assessing.intervals.interval_statistics import IntervalBoxes as Ranges
from gpuanon.engine.checking import checked
from gpuanon.errors import GpuanonError, GuaranteeError, ParameterError, RecipeError
from gpuanon.masking import mask as masking
from gpuanon.masking.constraints import separated_values
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.groups.boxes import BoxGroups, box_improvement
from gpuanon.masking.groups.boxes.box_cuts import box_cuts, whole_coordinates
from gpuanon.masking.groups.median_cuts import widest_cuts
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]

KEY = Key(b"boxes tests, sixteen or more bytes")


def normals(n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    X = np.random.default_rng(seed).normal(size=(n, 2)) @ np.array([[1.0, 0.5], [0.0, 0.9]])
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def draws(n: int) -> Any:
    return KEY.draws(np.arange(n))


def ranges(X: np.ndarray[Any, Any], groups: Partition) -> Ranges:
    return Ranges.of(segment_minima(X, groups), segment_maxima(X, groups), groups.sizes)


def wide(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


@pytest.mark.parametrize("statistic", ["mean", "variance", "covariance", "correlation"])
def test_ranges_are_much_narrower_than_mondrians(statistic: str) -> None:
    X = normals(2000)
    ours = ranges(X, BoxGroups(k=5, statistic=statistic, sweeps=8).form(X, draws(2000)))
    theirs = ranges(X, widest_cuts(X / np.ptp(X, axis=0), Partition.whole(2000), 5))
    arguments = (0,) if statistic in ("mean", "variance") else (0, 1)
    assert wide(getattr(ours, statistic)(*arguments)) < 0.75 * wide(getattr(theirs, statistic)(*arguments))


def test_boxes_are_best_for_the_statistic_that_was_asked_for() -> None:
    X = normals(2000, seed=1)
    of_mean, of_variance = (
        ranges(X, BoxGroups(k=5, statistic=s, sweeps=8).form(X, draws(2000))) for s in ("mean", "variance")
    )
    assert wide(of_mean.mean(0)) + wide(of_mean.mean(1)) < wide(of_variance.mean(0)) + wide(of_variance.mean(1))
    assert wide(of_variance.variance(0)) < wide(of_mean.variance(0))


def test_a_column_that_no_statistic_names_is_not_cut() -> None:
    X = normals(500)
    groups = BoxGroups(k=5, statistic="variance(0)", improve=False).form(X, draws(500))
    ends = np.sort(np.stack([segment_minima(X[:, :1], groups), segment_maxima(X[:, :1], groups)], axis=2)[:, 0], axis=0)
    assert (ends[1:, 0] >= ends[:-1, 1]).mean() > 0.9  # nearly all are slabs of the column that counts


def levels_beside(n: int, levels: int, seed: int = 3) -> np.ndarray[Any, Any]:
    """Two numbers and a column for each value of a category."""
    of = np.random.default_rng(seed).integers(0, levels, n)
    return np.column_stack([normals(n), np.eye(levels)[of]])


def test_both_backends_give_the_same_boxes_of_many_columns(xp: Any) -> None:
    X = levels_beside(80, 20)
    part = BoxGroups(k=4, sweeps=2).informed(tuple((str(j), j > 1) for j in range(22)))
    expected = part.form(X, draws(80))
    found = part.form(xp.asarray(X), KEY.draws(xp.arange(80)))
    assert np.array_equal(host(found.labels()), expected.labels())


@pytest.mark.parametrize("levels", [10, 50, 200])
def test_what_is_weighed_for_a_pair_of_boxes_does_not_grow_with_the_columns_cubed(monkeypatch, levels) -> None:
    weighed: list[int] = []
    true = box_improvement.Faces.swapped

    def watched(self, other, cost):
        found = true(self, other, cost)
        weighed.append(found[0].size * len(self.z))
        return found

    monkeypatch.setattr(box_improvement.Faces, "swapped", watched)
    X = levels_beside(120, levels)
    part = BoxGroups(k=5, sweeps=1).informed(tuple((str(j), j > 1) for j in range(X.shape[1])))
    groups = part.form(X, draws(120))
    assert groups.sizes.min() >= 5
    assert 0 < max(weighed) <= 4 * 12**3
    x, cost = whole_coordinates(X), part._cost(X)
    start = box_cuts(x, cost, Partition.whole(120, X), 5)
    assert cost.of_groups(x, groups).sum() < cost.of_groups(x, start).sum()


@pytest.mark.parametrize("n", [40, 133])
@pytest.mark.parametrize("statistic", ["covariance", "correlation"])
def test_both_backends_give_the_same_boxes(xp: Any, n: int, statistic: str) -> None:
    X = np.round(normals(n), 1)
    part = BoxGroups(k=4, statistic=statistic, sweeps=2)
    expected = part.form(X, draws(n))
    found = part.form(xp.asarray(X), KEY.draws(xp.arange(n)))
    assert np.array_equal(host(found.labels()), expected.labels())


def test_both_backends_dismiss_the_same_records(xp: Any) -> None:
    X = normals(300)
    part = BoxGroups(k=4, dismiss=True, dismiss_most=0.2)
    assert np.array_equal(host(part.kept(xp.asarray(X))), part.kept(X))


def test_dismissed_records_are_those_that_need_large_boxes() -> None:
    X = normals(1000)
    X[:20] *= 6  # far from all others
    kept = BoxGroups(k=5, statistic="mean", dismiss=True, dismiss_most=0.05).kept(X)
    assert 0.95 <= kept.mean() < 1
    assert kept[:20].sum() <= 2


def test_every_box_holds_values_that_are_far_enough_apart() -> None:
    X = normals(800)
    groups = BoxGroups(k=4, statistic="mean", diversity=3, epsilon=0.1).form(X, draws(800))
    for j in range(2):
        for part in np.split(groups.order, groups.starts[1:-1]):
            last, count = -np.inf, 0
            for value in np.sort(X[part, j]):
                if value >= last + 0.1:
                    last, count = value, count + 1
            assert count >= 3
    assert groups.parts > 30


def test_separated_values_are_counted_as_a_greedy_choice_does() -> None:
    rng = np.random.default_rng(3)
    values, labels = np.round(rng.random(200), 2), rng.integers(0, 20, size=200)
    groups = Partition.from_labels(labels)
    expected = []
    for part in np.split(groups.order, groups.starts[1:-1]):
        last, count = -np.inf, 0
        for value in np.sort(values[part]):
            if value >= last + 0.1:
                last, count = value, count + 1
        expected.append(min(count, 4))
    assert separated_values(values, groups, 0.1, 4).tolist() == expected


@pytest.mark.parametrize(
    "fault",
    [
        {"statistic": "median"},
        {"statistic": "covariance(age)"},
        {"statistic": "regression"},
        {"statistic": {"mean": -1.0}},
        {"epsilon": 0.1},
        {"epsilon": {"age": 0.0}, "diversity": 2},
        {"sweeps": 0},
    ],
)
def test_what_cannot_be_meant_is_refused(fault: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, GpuanonError)):
        TypeAdapter(AnyGroups).validate_python({"use": "boxes", "k": 3, **fault})


def table(n: int = 400) -> pa.Table:
    X = normals(n, seed=2)
    return pa.table({"age": np.round(40 + 10 * X[:, 0]), "income": np.round(1000 * (20 + 5 * X[:, 1]))})


def recipe(**changes: Any) -> dict[str, Any]:
    columns = {"age": {"role": "quasi"}, "income": {"role": "quasi"}}
    return {"columns": columns, "mask": [{"method": "optimal-boxes", "k": 5, **changes}]}


def test_a_release_gives_ranges_in_which_the_original_lies() -> None:
    original = table()
    release = gpuanon.protect(original, recipe(), rng=KEY, backend="numpy")
    assert release.manifest["rows_dropped"] == 0
    found = gpuanon.intervals(release.data, ["mean", "variance", "sd", "covariance", "correlation"])
    X = np.stack([original["age"].to_numpy(), original["income"].to_numpy()], axis=1)
    truth = {
        "mean(age)": X[:, 0].mean(),
        "variance(income)": X[:, 1].var(),
        "sd(age)": X[:, 0].std(),
        "covariance(age, income)": np.cov(X.T, bias=True)[0, 1],
        "correlation(age, income)": np.corrcoef(X.T)[0, 1],
    }
    for name, value in truth.items():
        low, high = found[name]
        assert low < value < high


def test_with_dismissal_the_ranges_are_those_of_the_released_records() -> None:
    original = table()
    release = gpuanon.protect(original, recipe(dismiss=True), rng=KEY, backend="numpy")
    kept = np.sort(release.link)
    manifest = release.manifest
    assert manifest["rows_dropped"] == 400 - len(kept) == manifest["mask"][0]["rows_dismissed"]
    assert 0 < manifest["rows_dropped"] <= 20 + 5
    low, high = gpuanon.intervals(release.data, "mean(income)")["mean(income)"]
    assert low < original["income"].to_numpy()[kept].mean() < high


def test_the_claim_of_diverse_boxes_fails_for_boxes_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = recipe(diversity=3, epsilon={"age": 0.2})
    guarantees = gpuanon.protect(table(), wanted, rng=KEY, backend="numpy").manifest["guarantee"]
    assert [guarantee["verified"] for guarantee in guarantees] == [True, True]
    assert guarantees[1]["fewest_separated_values"] == 3
    monkeypatch.setattr(BoxGroups, "_united", lambda self, X, groups: groups)
    monkeypatch.setattr(BoxGroups, "_floors", lambda self, X, x: None)
    with pytest.raises(GuaranteeError, match="differ enough"):
        gpuanon.protect(table(), wanted, rng=KEY, backend="numpy")


def test_a_diversity_that_the_whole_table_has_not_is_refused() -> None:
    with pytest.raises(GuaranteeError, match="epsilon"):
        gpuanon.protect(table(), recipe(diversity=5, epsilon={"age": 3.0}), rng=KEY, backend="numpy")


@pytest.mark.parametrize("change", [{"statistic": "mean(height)"}, {"diversity": 2, "epsilon": {"height": 1.0}}])
def test_columns_that_are_not_there_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="height"):
        gpuanon.protect(table(), recipe(**change), rng=KEY, backend="numpy")


def test_rows_that_the_groups_leave_out_are_followed_into_the_trace() -> None:
    trace = masking.Trace(1, 2, np.array([1, 0]), np.array([0, 0]), np.array([0, 1]))
    more = trace.of_more(4, np.array([1, 3]), None)
    assert more.rows.tolist() == [3, 1]
    assert more.source is not None
    assert more.source.tolist() == [1, 3]
    assert more.labels is not None
    assert more.labels.tolist() == [-1, 0, -1, 0]


@pytest.mark.parametrize(("release", "columns"), [("midpoint", ["age", "income"]), ("centroid", ["age", "income"])])
def test_boxes_are_released_as_points_too(release: str, columns: list[str]) -> None:
    found = gpuanon.protect(table(), recipe(release=release), rng=KEY, backend="numpy").data
    assert found.column_names == columns
    assert found.to_pandas().groupby(columns).size().min() >= 5


def heavy(n: int = 1000) -> pa.Table:
    """Columns of heavy tails, of which few records carry most of the variance."""
    X = np.abs(np.random.default_rng(4).standard_t(2.1, (n, 2)))
    return pa.table({"age": X[:, 0], "income": X[:, 1] + X[:, 0]})


def test_by_default_the_ranges_hold_the_statistics_of_a_table_of_heavy_tails(tmp_path: Any) -> None:
    original = heavy()
    X = np.stack([original["age"].to_numpy(), original["income"].to_numpy()], axis=1)
    truth = {
        "mean(age)": X[:, 0].mean(),
        "variance(income)": X[:, 1].var(),
        "covariance(age, income)": np.cov(X.T, bias=True)[0, 1],
    }
    found = gpuanon.intervals(gpuanon.protect(original, recipe(), rng=KEY, backend="numpy").data, list(truth))
    assert all(found[name][0] <= value <= found[name][1] for name, value in truth.items())
    dismissed = gpuanon.protect(original, recipe(dismiss=True), rng=KEY, backend="numpy")
    found = gpuanon.intervals(dismissed.data, list(truth))
    assert not all(found[name][0] <= value <= found[name][1] for name, value in truth.items())
    assert any("dropped" in note for note in found.notes)


def test_check_says_which_share_of_a_trial_is_dropped(tmp_path: Any) -> None:
    pq.write_table(heavy(), tmp_path / "table.parquet")
    columns = '[columns]\nage = { role = "quasi" }\nincome = { role = "quasi" }\n'
    for dismiss in ("true", "false"):
        mask = f'[[mask]]\nmethod = "optimal-boxes"\nk = 5\ndismiss = {dismiss}\n'
        (tmp_path / "recipe.toml").write_text(columns + mask)
        lines = checked(tmp_path / "recipe.toml", tmp_path / "table.parquet").lines()
        assert any(line.startswith("dropped: ") for line in lines) == (dismiss == "true")


def test_a_share_that_is_dismissed_at_most_is_refused_where_none_is() -> None:
    with pytest.raises(RecipeError, match="dismiss_most"):
        gpuanon.protect(table(), recipe(dismiss_most=0.2), rng=KEY, backend="numpy")


def test_a_person_is_dismissed_with_all_records() -> None:
    once = table(200)
    twice = pa.concat_tables([once, once]).append_column("who", pa.array(np.tile(np.arange(200), 2)))
    rules = recipe(dismiss=True, dismiss_most=0.2)
    rules["columns"] = rules["columns"] | {"who": {"role": "person"}}
    release = gpuanon.protect(twice, rules, rng=KEY, backend="numpy")
    persons, counts = np.unique(release.link % 200, return_counts=True)
    assert (counts == 2).all()
    assert 160 <= len(persons) < 200
    assert release.manifest["guarantee"][0]["smallest_class"] >= 5


def test_a_mask_without_numbers_is_refused() -> None:
    table = pa.table({"sex": ["f", "m"] * 20, "region": ["a", "b", "c", "d"] * 10})
    recipe = {
        "columns": {name: {"role": "quasi"} for name in ("sex", "region")},
        "mask": [{"method": "optimal-boxes", "k": 3}],
    }
    with pytest.raises(ParameterError, match="numeric columns"):
        gpuanon.protect(table, recipe, rng=KEY, backend="numpy")
