"""Which release is named best, within which time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import gpuanon
from gpuanon.comparing.compare import Choosing, compare_files
from gpuanon.comparing.running import Job, _in_order
from gpuanon.comparing.trials import Trial, best_of
from gpuanon.engine.workers.processes import Ended, Processes
from gpuanon.errors import ParameterError
from gpuanon.recipe import Recipe

KEY = b"a key for tests, of sixteen bytes or more"
NAMES = ("information_loss", "marginals", "correlations")


def drawn(seed: int) -> list[Trial]:
    """Trials with random figures: rows kept, dropped, added, new; verdicts of all kinds; some refused."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(rng.integers(2, 9)):
        kind = rng.choice(["kept", "dropped", "only drops", "added", "new", "refused"])
        if kind == "refused":
            found.append(Trial(f"{number}", {}, refused="a limit"))
            continue
        gone = int(rng.integers(1, 900)) if kind in ("dropped", "only drops") else 0
        more = 1000 if kind == "new" else int(rng.integers(1, 90)) if kind == "added" else 0
        out = more if kind == "new" else 1000 - gone + more
        dropped = 1000 if kind == "new" else gone
        rows = {"rows_in": 1000, "rows_out": out, "rows_added": more, "rows_dropped": dropped}
        figures = {"marginals": rng.uniform(600, 1000), "correlations": rng.uniform(0, 0.2)}
        if kind != "new":
            figures["information_loss"] = 0.0 if kind == "only drops" else rng.uniform(1, 90)
        state = str(rng.choice(["good", "open", "bad"]))
        found.append(
            Trial(f"{number}", {}, figures, rows=rows, verdict={"state": state}, only_drops=kind == "only drops")
        )
    return found


@pytest.mark.parametrize("choose_by", [None, "marginals", "information_loss", "correlations", "mean-rank"])
def test_the_choice_is_fair_whatever_became_of_the_rows(choose_by):
    chosen = 0
    for seed in range(300):
        trials = drawn(seed)
        best = best_of(trials, NAMES, choose_by)
        if best is not None:
            chosen += 1
            assert best.refused is None
            assert best.state != "bad"
            if choose_by == "information_loss":
                assert best.rows["rows_dropped"] == 0
        # A method that only drops rows changes nothing, whether it is there or not.
        without = [trial for trial in trials if not trial.only_drops]
        if (other := best_of(without, NAMES, choose_by)) is not None:
            assert best is other
        if choose_by in (None, "marginals") and best is not None and not best.only_drops:
            able = [t for t in without if t.refused is None and t.state != "bad"]
            assert best.measured["marginals"] == max(t.measured["marginals"] for t in able)
    assert chosen > 100


def small_table(rows: int = 600) -> pa.Table:
    """Few values, so that classes exist; a fifth of the rows is alone on all columns."""
    rng = np.random.default_rng(3)
    age, zone = rng.integers(20, 60, rows), rng.choice(["a", "b", "c"], rows)
    return pa.table({"age": age, "zone": zone, "sex": rng.choice(["f", "m"], rows)})


COLUMNS = {name: {"role": "quasi"} for name in ("age", "zone", "sex")}


def rules(*masks: dict, **more) -> dict:
    return {"columns": COLUMNS, "mask": list(masks), **more}


def test_a_release_that_dropped_rows_is_not_the_best_by_a_loss_of_the_records_that_are_left():
    others = [rules({"method": "microaggregation", "k": 5}), rules({"method": "mondrian", "k": 5})]
    dropping = rules({"method": "suppress", "k": 5})
    for choose_by in (None, "information_loss"):
        few = gpuanon.compare(small_table(), others, measures=NAMES, rng=KEY, choose_by=choose_by)
        all_ = gpuanon.compare(small_table(), [dropping, *others], measures=NAMES, rng=KEY, choose_by=choose_by)
        lossless = all_.trials[0]
        assert lossless.only_drops
        assert lossless.kept < 0.95
        assert lossless.measured["information_loss"] == 0.0  # the best of all, of the records that are left
        assert few.best.name == all_.best.name
    assert not any(trial.only_drops for trial in all_.trials[1:])
    assert "only drop rows" in str(all_.notes)
    alone = gpuanon.compare(small_table(), [dropping], measures=NAMES, rng=KEY)
    assert alone.best is alone.trials[0]  # there is nothing else
    alone = gpuanon.compare(small_table(), [dropping], measures=NAMES, rng=KEY, choose_by="information_loss")
    assert alone.best is None


def test_marginals_of_a_release_that_dropped_rows_are_against_all_original_rows():
    table, recipe = small_table(), rules({"method": "suppress", "k": 3})
    (trial,) = gpuanon.compare(table, [recipe], rng=KEY).trials
    release = gpuanon.protect(table, recipe, rng=KEY).data.to_pandas()
    assert trial.rows["rows_dropped"] > 100
    for name in ("zone", "sex"):
        before, after = (one[name].value_counts(normalize=True) for one in (table.to_pandas(), release))
        distance = before.sub(after, fill_value=0).abs().sum() / 2
        assert distance > 0
        assert trial.details["marginals"]["by_column"][name] == pytest.approx(1000 * (1 - distance))


def test_a_bad_verdict_is_no_candidate_and_the_table_says_what_was_promised():
    table = small_table().append_column("cost", pa.array(np.random.default_rng(0).normal(size=600)))
    kept = COLUMNS | {"cost": {"role": "sensitive"}}
    masked = COLUMNS | {"cost": {"role": "quasi"}}
    both = [
        {"columns": kept, "mask": [{"method": "microaggregation", "k": 5}]},
        {"columns": masked, "mask": [{"method": "microaggregation", "k": 5}]},
    ]
    trials = gpuanon.compare(table, both, rng=KEY)
    told = trials.to_json()["trials"]
    assert [one["verdict"]["state"] for one in told] == ["bad", "good"]
    assert told[0]["singled_out"] == 1.0
    assert told[1]["singled_out"] == 0.0
    assert told[0]["measured"]["marginals"] > told[1]["measured"]["marginals"]
    assert trials.best is trials.trials[1]
    assert told[1]["kept"] == 1.0
    assert "shared by at least 5 released records" in told[1]["promise"]


def test_declared_analyses_are_measured():
    model = {"formula": "age ~ C(zone)", "family": "linear"}
    recipe = rules({"method": "microaggregation", "k": [3, 9]}, analysis=[model])
    trials = gpuanon.compare(small_table(), [recipe], measures=("marginals",), rng=KEY)
    assert all("analysis" in trial.measured for trial in trials.trials)


# -- Time ----------------------------------------------------------------------------------------------------------


def sleeps(item):
    if item == "dies":
        os._exit(9)
    time.sleep(item)
    return item


def fails(item):
    raise ValueError("no")


def test_processes_end_what_takes_too_long_and_go_on():
    with Processes(2) as run:
        assert run(sleeps, [0.0, 0.01]) == [0.0, 0.01]
        began = time.monotonic()
        found = run(sleeps, [60, 0.0, "dies", 0.1, 0.2], seconds=0.5, until=began + 30)
        assert found[1] == 0.0
        assert found[3:] == [0.1, 0.2]
        assert found[2] == Ended(found[2].seconds, by_us=False)
        assert isinstance(found[0], Ended)
        found = run(sleeps, [60, 60, 60], until=time.monotonic() + 0.5)
        assert [type(one) for one in found] == [Ended] * 3
        assert [one.seconds is None for one in found] == [False, False, True]
        with pytest.raises(ValueError, match="no"):
            run(fails, [1])
    assert time.monotonic() - began < 30


def test_quick_methods_come_first_each_once_and_nothing_is_left_out_for_an_estimate():
    recipe = Recipe.load(rules({"method": "mondrian", "k": 5}))
    jobs = [Job(str(at), recipe, (family,)) for at, family in enumerate("aaabbbccc")]
    order = _in_order(jobs, {("a",): 2.0, ("b",): 90.0, ("c",): 1.0}, most=15.0)
    assert [jobs[at].family[0] for at in order] == list("cacacabbb")
    assert sorted(order) == list(range(9))
    assert _in_order(jobs, {}, most=15.0) == list(range(9))


def test_trials_that_are_not_done_in_time_are_named():
    recipe = rules({"method": "microaggregation", "k": [3, 4, 5]})
    trials = gpuanon.compare(small_table(), [recipe], measures=("marginals",), rng=KEY, seconds=1e-6)
    assert trials.trials == ()
    assert list(trials.left_out) == [f"recipe: k = {k}" for k in (3, 4, 5)]
    assert trials.to_json()["left_out"][0]["reason"] == "the time was over before it began"


def test_a_suggested_comparison_heeds_how_the_recipe_reads_a_csv(tmp_path):
    table = small_table(200)
    text = "\n".join("|".join(map(str, row.values())) for row in table.to_pylist())
    (tmp_path / "in.csv").write_text("age|zone|sex\n" + text + "\n")  # a separator that is not detected
    start = {"columns": COLUMNS, "csv": {"separator": "|", "nulls": ["N/A"]}, "limits": {"k_anonymity": 5}}
    (tmp_path / "start.json").write_text(json.dumps(start))
    how = Choosing(suggest=True, workers=0, seconds=4.0)
    found = compare_files(tmp_path / "in.csv", [tmp_path / "start.json"], how=how)
    assert found.columns == ("age", "zone", "sex")
    assert found.trials
    assert found.trials[0].recipe["csv"]["separator"] == "|"


@pytest.mark.parametrize(("text", "seconds"), [("2m", 120.0), ("30s", 30.0), ("1.5h", 5400.0), ("45", 45.0)])
def test_a_time_on_the_command_line(text, seconds):
    from gpuanon.cli.measuring import _seconds

    assert _seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "2 minutes", "-3", "0"])
def test_a_time_that_is_none(text):
    from gpuanon.cli.measuring import _seconds

    with pytest.raises(ParameterError, match="--time"):
        _seconds(text)


def test_a_comparison_ends_quickly_when_it_is_interrupted_and_its_journal_lies_beside_its_output(tmp_path):
    pyarrow.csv.write_csv(small_table(3000), tmp_path / "in.csv")
    recipe = rules({"method": "microaggregation", "k": list(range(3, 60))})
    (tmp_path / "grid.json").write_text(json.dumps(recipe))
    (tmp_path / "out").mkdir()
    command = ["-m", "gpuanon", "compare", "in.csv", "grid.json", "--report", "out/page.html", "--workers", "2"]
    run = subprocess.Popen([sys.executable, *command], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    journal = tmp_path / "out" / "page.html.journal"
    deadline = time.monotonic() + 60
    while not journal.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    began = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert time.monotonic() - began < 10
    assert "--resume goes on" in said
    assert "trial" in said or journal.exists()
    assert [path.name for path in tmp_path.iterdir()] != []
    assert not list(tmp_path.glob("*.journal"))


def test_how_far_a_comparison_is_stands_in_its_progress():
    from gpuanon.arrays import progress

    class Listener:
        said: ClassVar[list[str]] = []

        def __call__(self, stage, done):
            """Only words are looked at."""

        def note(self, stage, text):
            self.said.append(f"{stage}: {text}")

    with progress.listening(Listener()):
        recipe = rules({"method": "microaggregation", "k": [3, 4]})
        gpuanon.compare(small_table(100), [recipe], measures=("marginals",), rng=KEY)
    assert Listener.said[0].startswith("compare: trial 1 of 2, about ")
    assert Listener.said[1] == "compare: trial 2 of 2"
