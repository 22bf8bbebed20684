"""HIPAA's safe harbor as a purpose, and households told by how values repeat."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gpuanon.cli.app import app
from gpuanon.proposing.findings import FEW_PEOPLE, examine
from gpuanon.proposing.purposes import purpose_of
from gpuanon.tables.table import Table

N = 1_500


def test_zip_codes_ages_and_dates_follow_the_rules(tmp_path):
    rng = np.random.default_rng(1)
    areas = ["10001", "10002", "03601", "03602", "94110", "94117", "60601"]
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 1500, N), unit="D")
    frame = pd.DataFrame({
        "patient_id": [f"P{at:06d}" for at in range(N)],
        "zip": rng.choice(areas, N),
        "age": rng.integers(60, 101, N),
        "admission": days.strftime("%Y-%m-%d"),
        "sex": rng.choice(["f", "m"], N),
        "cost": rng.gamma(2, 1000, N).round(2),
    })  # fmt: skip
    source, recipe, output = tmp_path / "in.csv", tmp_path / "r.toml", tmp_path / "out.csv"
    frame.to_csv(source, index=False)
    for command in (["init", str(source), "--for", "hipaa", "-o", str(recipe), "--yes", "--quiet"],
                    ["protect", str(source), str(recipe), "-o", str(output), "--quiet"]):  # fmt: skip
        run = CliRunner().invoke(app, command)
        assert run.exit_code == 0, run.output
    released = pd.read_csv(output, dtype=str)
    assert "patient_id" not in released
    assert set(released.zip) <= {"100**", "000**", "941**", "606**"}
    assert set(released.admission) <= {str(year) for year in range(2015, 2020)}
    ages = set(released.age)
    assert "> 89" in ages
    assert all(int(age) <= 89 for age in ages - {"> 89"})
    assert released.groupby(list(released)).size().min() >= 5
    assert len(FEW_PEOPLE) == 17


@pytest.mark.parametrize("kind", ["household", "person"])
def test_who_repeats_is_told_by_the_sex(kind):
    rng = np.random.default_rng(2)
    unit = np.repeat(np.arange(600), rng.integers(1, 5, 600))
    rows = len(unit)
    sex = rng.choice(["f", "m"], rows) if kind == "household" else rng.choice(["f", "m"], 600)[unit]
    frame = pd.DataFrame({
        "serial": unit + 70_000,
        "sex": sex,
        "age": rng.integers(0, 90, rows),
        "region": rng.integers(1, 9, 600)[unit],
        "rooms": rng.integers(1, 7, 600)[unit],
        "tenure": rng.choice(["own", "rent"], 600)[unit],
    }).sample(frac=1, random_state=0)  # fmt: skip
    found = examine(Table.of(frame), purpose_of(None))
    assert next(one.role for one in found.choices if one.name == "serial") == kind
