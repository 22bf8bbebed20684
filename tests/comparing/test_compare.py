"""Recipes side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.comparing.compare import compare, compare_files
from gpuanon.comparing.grid import grid
from gpuanon.comparing.running import Journal
from gpuanon.comparing.trials import Trial, Trials
from gpuanon.errors import OutputError, ParameterError, RecipeError
from gpuanon.recipe import Recipe
from tests.support.every import COLUMNS, HIERARCHIES, QUASI, recipe, registry

KEY = b"a key for tests, of sixteen bytes or more"
MEASURES = ("reidentification", "information_loss")


def test_a_grid_has_every_combination_and_leaves_lists_that_are_values():
    mask = {"method": "microaggregation", "k": [3, 5], "groups": ["mdav", "k-member"], "columns": ["age", "income"]}
    points = list(grid(recipe(mask)))
    assert [p.chosen for p in points] == [{"k": k, "groups": g} for k in (3, 5) for g in ("mdav", "k-member")]
    assert all(point.data["mask"][0]["columns"] == ["age", "income"] for point in points)
    assert points[0].name == "recipe: k = 3, groups = mdav"


def test_a_larger_k_loses_more_and_finds_fewer():
    trials = gpuanon.compare(
        registry(200), [recipe({"method": "microaggregation", "k": [3, 20]})], measures=MEASURES, rng=KEY
    )
    small, large = trials.trials
    assert small.measured["information_loss"] < large.measured["information_loss"]
    assert small.measured["reidentification"] > large.measured["reidentification"]
    assert trials.best is small


def test_the_best_is_among_those_that_keep_their_limits():
    rules = recipe({"method": "microaggregation", "k": [3, 20]}, limits={"k_anonymity": 10})
    trials = gpuanon.compare(registry(200), [rules], measures=MEASURES, rng=KEY)
    assert "limits.k_anonymity" in trials.trials[0].refused
    assert trials.best is trials.trials[1]
    assert json.loads(json.dumps(trials.to_json()))["best"] == "recipe: k = 20"


def test_a_fault_at_any_point_of_the_grid_is_named_before_anything_is_masked():
    with pytest.raises(RecipeError, match=r"mask\.0\.k: .*got 1"):
        gpuanon.compare(registry(50), [recipe({"method": "microaggregation", "k": [3, 1]})], rng=KEY)


def test_a_misspelt_column_is_a_fault_of_the_recipe_and_no_refused_release():
    wrong = recipe("microaggregation", columns={**COLUMNS, "agee": {"role": "quasi"}})
    with pytest.raises(RecipeError, match="'agee': not in the table; did you mean 'age'"):
        gpuanon.compare(registry(60), [recipe("microaggregation"), wrong], measures=MEASURES, rng=KEY)


def test_recipes_are_measured_on_the_union_of_their_quasi_identifiers():
    few = {**COLUMNS, "income": {"role": "other"}, "cost": {"role": "identifier"}}
    recipes = [recipe("microaggregation", columns=few), recipe("microaggregation")]
    trials = gpuanon.compare(registry(150), recipes, measures=("reidentification", "records_changed"), rng=KEY)
    assert trials.columns == QUASI
    assert not any(trial.failed for trial in trials.trials)
    # Income is left as it is by the first recipe, and found by it.
    first, second = (trial.measured for trial in trials.trials)
    assert first["reidentification"] > second["reidentification"]
    alone = gpuanon.compare(registry(150), recipes[:1], measures=("reidentification",), rng=KEY)
    assert alone.trials[0].measured["reidentification"] < first["reidentification"]
    assert trials.to_json()["quasi"] == list(QUASI)


def test_no_best_is_named_without_the_measure_that_decides():
    rules = [recipe({"method": "microaggregation", "k": [3, 5]})]
    trials = gpuanon.compare(registry(60), rules, measures=("k_anonymity",), rng=KEY)
    assert trials.best is not None  # marginals are always measured
    wide = registry(300)
    wide = wide.append_column("code", pa.array([f"c{row}" for row in range(300)]))
    columns = {**COLUMNS, "code": {"role": "sensitive"}}
    measures = ("k_anonymity", "means")
    trials = gpuanon.compare(
        wide, [recipe("microaggregation", columns=columns)], measures=measures, rng=KEY, choose_by="means"
    )
    assert trials.best is None
    assert "'code'" in trials.trials[0].failed["means"]
    assert json.loads(json.dumps(trials.to_json(), allow_nan=False))["best"] is None


def test_limits_that_no_release_keeps_leave_no_best():
    rules = recipe({"method": "microaggregation", "k": [3, 5]}, limits={"k_anonymity": 40})
    trials = gpuanon.compare(registry(60), [rules], measures=MEASURES, rng=KEY)
    assert all("limits.k_anonymity" in trial.refused for trial in trials.trials)
    assert trials.best is None


@pytest.mark.parametrize("values", [{"k": []}, {"k": [4, 5], "block": []}])
def test_an_empty_grid_is_refused(tmp_path, values):
    rules = recipe({"method": "microaggregation"} | values)
    with pytest.raises(RecipeError, match=r"recipe: mask\.0\.(k|block): a grid needs values, got none"):
        gpuanon.compare(registry(60), [rules])
    (tmp_path / "one.json").write_text(json.dumps(rules))
    pq.write_table(registry(60), tmp_path / "table.parquet")
    with pytest.raises(RecipeError, match="a grid needs values"):
        compare_files(tmp_path / "table.parquet", [tmp_path / "one.json"])


def test_no_recipe_at_all_is_refused():
    with pytest.raises(ParameterError, match="at least one"):
        gpuanon.compare(registry(60), [])


def test_a_hierarchy_is_found_beside_the_recipe_of_a_grid(tmp_path):
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "age.csv").write_bytes((HIERARCHIES / "age.csv").read_bytes())
    rules = recipe({"method": "recode", "levels": {"age": 2}, "columns": ["age"]})
    columns = {n: {k: v for k, v in spec.items() if k != "hierarchy"} for n, spec in rules["columns"].items()}
    columns["age"] |= {"hierarchy": "age.csv"}
    (folder / "one.json").write_text(json.dumps(rules | {"columns": columns}))
    found = gpuanon.compare(registry(60), [folder / "one.json"], measures=("k_anonymity",), rng=1, backend="numpy")
    assert found.trials[0].refused is None


def test_the_best_by_another_measure_and_by_mean_rank():
    rules = [recipe({"method": "microaggregation", "k": [3, 10]}), recipe({"method": "svd-swap"})]
    names = (*MEASURES, "correlations", "histogram_intersection")
    first = gpuanon.compare(registry(150), rules, measures=names, rng=KEY)
    assert first.rule == "the highest marginals"
    assert first.best.measured["marginals"] == max(trial.measured["marginals"] for trial in first.trials)
    other = gpuanon.compare(registry(150), rules, measures=names, rng=KEY, choose_by="histogram_intersection")
    values = [trial.measured["histogram_intersection"] for trial in other.trials]
    assert other.best.measured["histogram_intersection"] == max(values)
    assert "highest histogram_intersection" in other.rule
    ranked = gpuanon.compare(registry(150), rules, measures=names, rng=KEY, choose_by="mean-rank")
    assert ranked.rule == "the best mean rank over correlations, histogram_intersection"
    assert ranked.best is ranked.trials[_best_mean_rank(ranked)]
    with pytest.raises(ParameterError, match="'ks' is not among"):
        gpuanon.compare(registry(60), rules, measures=names, rng=KEY, choose_by="ks")


def _best_mean_rank(trials):
    ranks = []
    for name, sign in (("correlations", 1), ("histogram_intersection", -1)):
        values = [sign * trial.measured[name] for trial in trials.trials]
        ranks.append([sum(other < value for other in values) for value in values])
    totals = [sum(column) for column in zip(*ranks, strict=True)]
    return totals.index(min(totals))


def test_the_front_holds_what_no_other_beats_in_both():
    points = [(0.1, 5.0), (0.2, 3.0), (0.3, 4.0), (0.4, 1.0), (0.1, 6.0)]
    trials = tuple(
        Trial(str(n), {}, {"reidentification": risk, "information_loss": loss}) for n, (risk, loss) in enumerate(points)
    )
    found = Trials(trials, None, decides="information_loss", against="reidentification")
    assert found.front == (0, 1, 3)
    assert found.to_json()["front"] == ["0", "1", "3"]


def test_further_limits_hold_for_every_recipe():
    rules = recipe({"method": "microaggregation", "k": [3, 20]})
    trials = gpuanon.compare(registry(200), [rules], measures=MEASURES, rng=KEY, limits={"k_anonymity": 10})
    assert "limits.k_anonymity" in trials.trials[0].refused
    assert trials.best.recipe["limits"] == {"k_anonymity": 10}


@pytest.mark.parametrize("name", ["best.toml", "best.json"])
def test_the_recipe_of_the_best_can_be_run(tmp_path, name):
    rules = recipe({"method": "microaggregation", "k": [3, 20]}, limits={"k_anonymity": 10})
    trials = gpuanon.compare(registry(200), [rules], measures=MEASURES, rng=KEY)
    trials.write_best(tmp_path / name)
    assert Recipe.load(tmp_path / name) == Recipe.load(trials.best.recipe)
    release = gpuanon.protect(registry(200), tmp_path / name, rng=KEY)
    assert release.manifest["quasi"]["smallest_class"] >= 20
    with pytest.raises(OutputError, match="exists"):
        trials.write_best(tmp_path / name)
    (tmp_path / name).write_text("somebody's own")
    with pytest.raises(OutputError, match="not written by gpuanon"):
        trials.write_best(tmp_path / name, force=True)


def test_a_recipe_as_text_is_read_as_it_was(tmp_path):
    from gpuanon.comparing.trials import recipe_text

    columns = {'odd "name" \\ = [x]': {"role": "quasi"}, "ü b": {"role": "quasi"}, "w": {"role": "weight"}}
    data = {"nulls": "category", "columns": columns, "mask": [{"method": "microaggregation", "k": 3}],
            "limits": {"reidentification": 0.1, "k_anonymity": 3},
            "measures": {"vw": {"cuts": {"ü b": [1.5, 2]}, "ways": "all"}},
            "analysis": [{"formula": "w ~ `ü b`", "family": "gamma"}]}  # fmt: skip
    (tmp_path / "r.toml").write_text(recipe_text(data, tmp_path / "r.toml"), encoding="utf-8")
    assert Recipe.load(tmp_path / "r.toml") == Recipe.load(data)


@pytest.mark.slow
def test_a_suggested_grid_has_methods_that_suit_the_table():
    columns = {name: {"role": "quasi"} for name in ("age", "income", "sex")}
    start = {"columns": columns, "others": "drop", "limits": {"k_anonymity": 4}}
    trials = gpuanon.compare(registry(200), [{**start, "mask": []}], measures=MEASURES, rng=KEY, suggest=True)
    methods = {trial.recipe["mask"][0]["method"] for trial in trials.trials}
    assert {"microaggregation", "mondrian", "svd-swap"} <= methods
    assert "suppress" not in methods  # nearly every record is alone in its class
    assert trials.best is not None
    assert all(trial.recipe["limits"] == {"k_anonymity": 4} for trial in trials.trials)
    few = registry(300).select(["sex", "region"])
    alone = gpuanon.compare(few, [], measures=("k_anonymity", "records_changed"), rng=KEY, suggest=True)
    assert "suppress" in {trial.recipe["mask"][0]["method"] for trial in alone.trials}


def timeless(trials):
    """What was found, without the time that it took."""
    found = trials.to_json()
    for trial in found["trials"]:
        trial.pop("seconds")
    return found


def test_a_method_that_fails_does_not_sink_the_others(monkeypatch):
    from gpuanon.comparing import running

    protect = running.protect

    def fails_at_five(table, rules, **options):
        if rules.mask[0].k == 5:
            raise ValueError("somebody's cell")
        return protect(table, rules, **options)

    monkeypatch.setattr(running, "protect", fails_at_five)
    trials = gpuanon.compare(
        registry(80), [recipe({"method": "microaggregation", "k": [3, 5]})], measures=MEASURES, rng=KEY
    )
    assert trials.best is trials.trials[0]
    assert "internal error: ValueError" in trials.trials[1].refused
    assert "cell" not in trials.trials[1].refused


class Stopped(Exception):
    """Stands for a kill."""


def test_an_interrupted_comparison_goes_on_where_it_was(tmp_path, monkeypatch):
    from gpuanon.comparing import running as comparing

    rules = [recipe({"method": "microaggregation", "k": [3, 5, 10, 20]})]
    whole = gpuanon.compare(registry(120), rules, measures=MEASURES, rng=KEY)
    path, run, calls = tmp_path / "journal", comparing.run_trial, []

    def stops_at_the_third(setting, point):
        calls.append(point)
        if len(calls) == 3:
            raise Stopped
        return run(setting, point)

    monkeypatch.setattr(comparing, "run_trial", stops_at_the_third)
    with pytest.raises(Stopped) as stopped:
        compare(registry(120), rules, measures=MEASURES, rng=KEY, journal=Journal(path))
    assert stopped.value.__notes__ == [f"2 finished trials are in {path}; --resume goes on"]
    with path.open("a") as file:
        file.write('{"job": "torn')  # a line that a kill left unfinished
    with pytest.raises(OutputError, match="--resume continues it"):
        Journal(path)
    again = compare(registry(120), rules, measures=MEASURES, rng=KEY, journal=Journal(path, resume=True))
    assert len(calls) == 5  # two were done, one was stopped, two were left
    assert timeless(again) == timeless(whole)
    # Another key, table or measure is another trial.
    compare(registry(120), rules, measures=MEASURES, rng=KEY + b"!", journal=Journal(path, resume=True))
    assert len(calls) == 9
    text = path.read_text()
    assert KEY.decode() not in text


def test_what_is_no_journal_is_not_replaced(tmp_path):
    (tmp_path / "notes").write_text("somebody's notes")
    for how in ({}, {"resume": True}, {"force": True}):
        with pytest.raises(OutputError, match="no journal"):
            Journal(tmp_path / "notes", **how)


@pytest.mark.slow
def test_several_processes_find_what_one_finds():
    rules = [recipe({"method": "microaggregation", "k": [3, 5]}, limits={"k_anonymity": 4})]
    one = gpuanon.compare(registry(150), rules, measures=MEASURES, rng=KEY)
    two = gpuanon.compare(registry(150), rules, measures=MEASURES, rng=KEY, workers=2)
    assert timeless(two) == timeless(one)


def test_refused_releases_are_listed_by_their_reason_and_names_are_whole(capsys, monkeypatch):
    from rich.console import Console

    from gpuanon.cli import printing

    monkeypatch.setattr(printing, "out", Console(width=80))
    kept = Trial(
        "microaggregation: k = 3",
        {},
        {"information_loss": 0.28125},
        rows={"rows_in": 2000, "rows_out": 1500, "rows_added": 0, "rows_dropped": 500},
        k=3,
        promise="…",
    )
    why = "limits.k_anonymity: 1\nNothing was written"
    lost = [Trial(f"svd-swap {number}", {}, refused=why) for number in (1, 2)]
    printing.print_trials(Trials((kept, *lost), kept, rule="the lowest information_loss"))
    shown = " ".join(capsys.readouterr().out.split())
    assert "microaggregation: k = 3 ← 75% k = 3 – 0.281" in shown
    assert "Refused: svd-swap 1; svd-swap 2 limits.k_anonymity: 1 Best:" in shown


def test_a_process_of_a_comparison_keeps_to_its_share_of_the_cores():
    """Also in libraries that are loaded after it has begun."""
    code = (
        "import os; from gpuanon.engine.workers.processes import _begin; _begin(1, os.getppid());"
        "import scipy.linalg, sklearn.utils, threadpoolctl;"
        "print(sorted({one['num_threads'] for one in threadpoolctl.threadpool_info()}))"
    )
    given = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=given, check=True)
    assert done.stdout.strip() == "[1]"


def test_a_comparison_in_which_nothing_was_done_leaves_no_journal(tmp_path):
    path = tmp_path / "journal"
    wrong = recipe("microaggregation", columns={**COLUMNS, "agee": {"role": "quasi"}})
    with pytest.raises(RecipeError):
        compare(registry(60), [wrong], measures=MEASURES, rng=KEY, journal=Journal(path))
    assert not path.exists()
    path.write_text(Journal.HEAD)
    Journal(path, force=True)
    assert not path.exists()


def test_a_journal_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(OutputError, match="journal: cannot be written"):
        Journal(tmp_path / "no folder" / "journal").once("digest", dict)


@pytest.mark.parametrize("role", ["dropped", "identifier"])
def test_a_column_that_one_recipe_does_not_release_is_in_no_comparison(role):
    few = {**COLUMNS, "income": {"role": role}}
    recipes = [recipe("microaggregation"), recipe("microaggregation", columns=few)]
    trials = gpuanon.compare(registry(150), recipes, measures=("reidentification",), rng=KEY)
    assert trials.columns == tuple(name for name in QUASI if name != "income")
    assert not any(trial.failed or trial.refused for trial in trials.trials)


def test_one_recipe_is_no_list_of_recipes():
    for one in ("recipe.toml", recipe("microaggregation")):
        with pytest.raises(ParameterError, match="a list of recipes is allowed"):
            gpuanon.compare(registry(60), one, measures=MEASURES)


def test_a_comparison_prints_a_line_for_each_release():
    rules = [recipe({"method": "microaggregation", "k": [3, 5]})]
    trials = gpuanon.compare(
        registry(60), rules, measures=("reidentification", "means"), rng=KEY, limits={"k_anonymity": 4}
    )
    head, first, second = repr(trials).splitlines()
    assert head == "Comparison of 2 releases"
    assert first.endswith("k = 3: refused")
    assert "k = 5: reidentification 0." in second
    assert second.endswith("(best)")
