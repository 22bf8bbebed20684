"""Attacks with a control: brute force from the definitions, extremes, intervals, the command line, limits."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import gpuanon
from gpuanon.assessing.risk.controlled_attacks import Attack
from gpuanon.assessing.risk.inference import inference
from gpuanon.assessing.risk.linkability import linkability
from gpuanon.assessing.risk.membership import membership
from gpuanon.assessing.risk.singling_out import Ordered, Predicates, _exactly_one, singling_out
from gpuanon.cli.app import app
from gpuanon.errors import GuaranteeError, InputError, ParameterError
from tests.support.every import recipe, registry

NAMES = ("singling_out", "linkability", "inference", "membership")


def beside(measured, name):
    return next(one.value for one in measured.beside if one.name == name)


def nearest_rows(x, Y):
    """Released rows at the smallest distance."""
    distance = ((Y - x) ** 2).sum(axis=1)
    return np.flatnonzero(distance <= distance.min() * (1 + 1e-12))


def small(seed, n=40, d=4):
    """Original, release and control with many ties."""
    rng = np.random.default_rng(seed)
    X, C = rng.integers(0, 4, size=(2, n, d)).astype(float)
    return X, X[rng.permutation(n)[: n - 5]] + rng.integers(0, 2, size=(n - 5, d)), C


def test_the_risk_is_the_excess_over_the_control():
    attack = Attack(0.7, 0.4, 0.1, 1000, 1000)
    assert attack.risk == pytest.approx(0.5)
    assert attack.interval().low < 0.5 < attack.interval().high
    assert attack.interval(5).low < attack.interval().low, "the largest of five is less certain"
    assert Attack(0.3, 0.4, 0.1, 1000, 1000).risk == 0
    assert Attack(1.0, 0.4, 0.1, 1000, 1000).risk == 1
    assert Attack(1.0, 1.0, 0.1, 10, 10).risk is None


@pytest.mark.parametrize(
    ("own", "control", "n", "c"), [(0.5, 0.3, 500, 500), (0.95, 0.2, 300, 60), (0.1, 0.05, 200, 400)]
)
def test_the_interval_of_the_risk_covers_it(own, control, n, c):
    """4000 repetitions: the error of a coverage of 0.95 is 0.0034."""
    rng = np.random.default_rng(1)
    truth, held = (own - control) / (1 - control), 0
    for a, b in zip(rng.binomial(n, own, 4000), rng.binomial(c, control, 4000), strict=True):
        found = Attack(a / n, b / c, 0.0, n, c).interval()
        held += found.low <= truth <= found.high
    assert 0.935 <= held / 4000 <= 0.98


@pytest.mark.parametrize("seed", range(4))
def test_linkability_from_its_definition(seed):
    X, Y, C = small(seed)

    def share(rows):
        hits = []
        for x in rows:
            first, second = (set(nearest_rows(x[at], Y[:, at])) for at in (slice(0, 1), slice(1, 4)))
            hits.append(len(first & second) / (len(first) * len(second)))
        return np.mean(hits)

    found = linkability(X, Y, C, ([0], [1, 2, 3]), columns={"a": [0], "b": [1], "c": [2, 3]})
    own, control = share(X), share(C)
    assert beside(found, "success") == pytest.approx(own)
    assert beside(found, "control") == pytest.approx(control)
    assert found.value == pytest.approx(max(0.0, (own - control) / (1 - control)))
    assert found.to_json()["by_column"]["a"] == pytest.approx(found.value)
    assert set(found.to_json()["by_column"]) == {"a", "b", "c"}


@pytest.mark.parametrize("seed", range(4))
def test_inference_from_its_definition(seed):
    rng = np.random.default_rng(seed)
    X, Y, C = small(seed)
    S, R, T = (rng.integers(0, 3, size=(len(side), 2)).astype(float) for side in (X, Y, C))
    S[:5, 0] = R[:4, 0] = T[:6, 0] = np.nan

    def share(rows, secrets, j, off):
        def right(s, r):
            return bool(np.isnan(s) and np.isnan(r)) or abs(s - r) <= off

        pairs = zip(rows, secrets[:, j], strict=True)
        return np.mean([np.mean([right(s, R[at, j]) for at in nearest_rows(x, Y)]) for x, s in pairs])

    found = inference((X, Y, C), (S, R, T), [0.0, 1.0], names=["a", "b"])
    risks = {}
    for j, (name, off) in enumerate((("a", 0.0), ("b", 1.0))):
        own, control = share(X, S, j, off), share(C, T, j, off)
        assert found.details["success_by_column"][name] == pytest.approx(own)
        assert found.details["control_by_column"][name] == pytest.approx(control)
        risks[name] = max(0.0, (own - control) / (1 - control))
    assert found.to_json()["by_column"] == pytest.approx(risks)
    assert found.value == pytest.approx(max(risks.values()))
    any_record = np.mean([np.mean([abs(s - r) <= 1 for r in R[:, 1]]) for s in S[:, 1]])
    assert found.details["naive_by_column"]["b"] == pytest.approx(any_record)


def test_predicates_hold_for_as_many_records_as_pandas_finds():
    rng = np.random.default_rng(5)
    V = rng.integers(0, 6, size=(300, 3)).astype(float)
    columns = np.array([[0, 1], [1, 2], [0, 2]])
    low, high = (
        np.array([[2.0, -1e300], [3.0, 3.0], [-1e300, 5.0]]),
        np.array([[np.inf, 4.0], [3.0, 3.0], [1.0, np.inf]]),
    )
    frame = pd.DataFrame(V, columns=["a", "b", "c"])
    expected = [len(frame.query(text)) for text in ("a >= 2 and b <= 4", "b == 3 and c == 3", "a <= 1 and c >= 5")]
    assert Predicates(columns, low, high).counts(Ordered.of(V)).tolist() == expected


def test_singling_out_by_one_column_from_its_definition():
    rng = np.random.default_rng(6)
    X, Y, C = (np.column_stack([rng.integers(0, 80, 60), rng.integers(0, 60, 60)]).astype(float) for _ in range(3))
    X[0, 0] = Y[1, 0] = np.nan
    found = singling_out(X, Y, C, categorical=[False, True], names=["number", "code"], attacks=200)
    tests = {"number": [], "code": []}
    for j, name in enumerate(tests):
        values, counts = np.unique(Y[:, j], return_counts=True, equal_nan=True)
        for v in values[counts == 1]:
            tests[name].append((lambda x: np.isnan(x)) if np.isnan(v) else (lambda x, v=v: x == v))
    there = Y[:, 0][~np.isnan(Y[:, 0])]
    for v, test in ((there.min(), lambda x: x <= there.min()), (there.max(), lambda x: x >= there.max())):
        tests["number"] += [test] * int((there == v).sum() == 1)
    success, control = (
        np.mean([test(side[:, j]).sum() == 1 for j, name in enumerate(tests) for test in tests[name]])
        for side in (X, C)
    )
    assert found.details["success_by_kind"]["one column"] == pytest.approx(success)
    assert found.details["control_by_kind"]["one column"] == pytest.approx(control)
    assert found.details["predicates"]["one column"] == sum(map(len, tests.values()))


def test_thinning_is_the_mean_over_all_samples():
    meets = np.array([True, True, False, False, False, True])
    for s in (1, 2, 4):
        naive = np.mean([meets[list(rows)].sum() == 1 for rows in combinations(range(6), s)])
        assert _exactly_one(np.array([3]), 6, s)[0] == pytest.approx(naive)


@pytest.mark.parametrize("seed", range(3))
def test_membership_is_the_area_of_the_distances(seed):
    rng = np.random.default_rng(seed)
    X, C = rng.normal(size=(2, 80, 3))
    Y = X[:60] + rng.normal(size=(60, 3)) * 0.3
    near = [[np.sqrt(((Y - x) ** 2).sum(axis=1)).min() for x in side] for side in (X, C)]
    labels, scores = np.repeat([1, 0], 80), -np.concatenate(near)
    found = membership(X, Y, C, columns={"a": [0], "b": [1, 2]}).to_json()
    assert found["by_attack"]["distance"] == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert found["value"] == max(found["by_attack"].values())
    own = [[np.abs(Y[:, 0] - x[0]).min() for x in side] for side in (X, C)]
    assert found["by_column"]["a"] == pytest.approx(roc_auc_score(labels, -np.concatenate(own)), abs=1e-9)


def test_calibration_finds_members_that_density_hides():
    """Members of a sparse region are far from everybody, and still nearer to their own record than to others."""
    rng = np.random.default_rng(8)

    def people(n):
        return np.concatenate([rng.normal(size=(n, 3)) * 0.05, rng.normal(size=(n, 3)) * 20])

    X, C = people(400), people(400)
    Y = X * (1 + 0.01 * rng.normal(size=X.shape))
    found = membership(X, Y, C).to_json()["by_attack"]
    assert found["calibrated"] > found["distance"] + 0.05


def tables(seed, n=600):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(3, n, 4))


def attacks(X, Y, C):
    split = ([0, 1], [2, 3])
    secret = tuple(np.round(side[:, 3:]) for side in (X, Y, C))
    return {
        "singling_out": singling_out(X, Y, C, categorical=[False] * 4),
        "linkability": linkability(X, Y, C, split),
        "inference": inference((X[:, :3], Y[:, :3], C[:, :3]), secret, [0.0]),
        "membership": membership(X, Y, C),
    }


def test_a_copy_is_at_the_maximum_and_an_independent_sample_at_the_baseline():
    X, Y, C = tables(9)
    for name, found in attacks(X, X, C).items():
        assert found.value == 1, name
    for name, found in attacks(X, Y, C).items():
        base = 0.5 if name == "membership" else 0.0
        assert found.interval.low <= base <= found.interval.high, name
        assert found.value < base + 0.12, name


@pytest.mark.parametrize("rows", [200, 1500])
def test_a_control_of_another_size_leaves_the_extremes(rows):
    rng = np.random.default_rng(10)
    X, Y = rng.normal(size=(2, 600, 4))
    C = rng.normal(size=(rows, 4))
    assert singling_out(X, X, C, categorical=[False] * 4).value == pytest.approx(1)
    fresh = singling_out(X, Y, C, categorical=[False] * 4)
    assert fresh.interval.low == 0
    assert abs(beside(fresh, "success") - beside(fresh, "control")) < 0.1


def test_k_equal_records_give_no_predicate_and_hide_each_other():
    X, _, C = tables(11)
    Y = np.repeat(X[::5].round(1), 5, axis=0)
    found = singling_out(X, Y, C, categorical=[False] * 4)
    assert found.value == 0
    assert "no predicate" in found.note
    assert linkability(X, Y, C, ([0, 1], [2, 3])).value < 1 / 5


def test_figures_do_not_depend_on_the_order_of_the_release():
    X, Y, C = small(12, n=60)
    order = np.random.default_rng(12).permutation(len(Y))
    for attack in (
        lambda Y: linkability(X, Y, C, ([0, 1], [2, 3])),
        lambda Y: inference((X[:, :3], Y[:, :3], C[:, :3]), (X[:, 3:], Y[:, 3:], C[:, 3:]), [0.0]),
        lambda Y: membership(X, Y, C),
    ):
        assert attack(Y).value == pytest.approx(attack(Y[order]).value)


def test_what_cannot_be_attacked_is_refused():
    X, Y, C = tables(13, 30)
    with pytest.raises(ParameterError, match="at least one record"):
        linkability(X, Y[:0], C, ([0], [1]))
    with pytest.raises(ParameterError, match="either side"):
        linkability(X, Y, C, ([0], []))
    with pytest.raises(ParameterError, match="control needs two"):
        membership(X, Y, C[:1])
    constant = tuple(np.ones((30, 1)) for _ in range(3))
    with pytest.raises(InputError, match="not defined"):
        inference((X, Y, C), constant, [0.0])


@pytest.fixture(scope="module")
def people():
    both = registry(360)
    return both.slice(0, 120), both.slice(120, 120), both.slice(240, 120)


def test_options_name_columns(people):
    original, control, release = people
    rules = recipe("permute") | {
        "measures": {
            "singling_out": {"columns": ["age", "income"], "size": 2, "attacks": 50},
            "linkability": {"first": ["age"], "second": ["income", "cost"]},
            "inference": {"secrets": ["income"], "known": ["age", "cost"], "tolerance": 0.1},
            "membership": {"columns": ["income"]},
        }
    }
    found = gpuanon.assess(original, release, rules, control=control, measures=NAMES)
    assert found.failed == {}
    by_column = {name: set(found.measured[name].to_json()["by_column"]) for name in NAMES}
    assert by_column["singling_out"] == {"age", "income"}
    assert by_column["linkability"] == {"age", "income", "cost"}
    assert by_column["inference"] == by_column["membership"] == {"income"}
    assert found.measured["linkability"].details["second"] == ["income", "cost"]
    for wrong in ({"linkability": {"first": ["age"]}}, {"linkability": {"first": ["age"], "second": ["age"]}},
                  {"inference": {"secrets": ["nobody"]}}):  # fmt: skip
        name = next(iter(wrong))
        rules["measures"] = wrong
        assert name in gpuanon.assess(original, release, rules, control=control, measures=[name]).failed


def test_without_other_people_the_attacks_say_what_they_need(people):
    original, _, release = people
    found = gpuanon.assess(original, release, recipe("permute"), measures=NAMES)
    assert all("--control" in found.failed[name] for name in NAMES)


def test_the_control_of_the_command_line_comes_before_the_reference(people, tmp_path):
    original, control, release = people
    for name, table in (("original", original), ("control", control), ("release", release)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("permute")))
    line = [
        "assess",
        "original.parquet",
        "release.parquet",
        "--recipe",
        "recipe.json",
        "--measures",
        "membership",
        "--json",
    ]
    line = [str(tmp_path / word) if "." in word else word for word in line]
    files = {name: str(tmp_path / f"{name}.parquet") for name in ("control", "original")}
    runs = [
        CliRunner().invoke(app, [*line, *extra], catch_exceptions=False)
        for extra in (
            ["--control", files["control"]],
            ["--reference", files["control"]],
            ["--reference", files["original"], "--control", files["control"]],
        )
    ]
    figures = [json.loads(run.stdout)["risk"]["membership"] for run in runs]
    assert figures[0] == figures[1] == figures[2]


@pytest.mark.parametrize("name", NAMES)
def test_attacks_with_a_control_are_limits(people, name):
    original, control, _ = people
    rules = recipe("microaggregation")

    def run(limit):
        return gpuanon.protect(original, rules | {"limits": {name: limit}}, rng=1, backend="numpy", reference=control)

    assert name in run(1.0).manifest["measured"]
    with pytest.raises(GuaranteeError, match=f"limits.{name}: at most .* allowed"):
        run(-1e-9)


def test_a_person_is_attacked_once():
    """Records of one person are no independent attacks."""
    both = registry(300).append_column("who", [list(range(150)) * 2])
    others = registry(340).slice(300).append_column("who", [[at // 2 for at in range(40)]])
    rules = recipe("permute")
    rules = rules | {"columns": rules["columns"] | {"who": {"role": "person"}}}
    found = gpuanon.assess(both, both, rules, control=others, measures=("inference",))
    assert found.measured["inference"].details["records"] == 150
    assert found.measured["inference"].details["control_records"] == 20
