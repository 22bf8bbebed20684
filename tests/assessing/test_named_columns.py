"""Bias of named columns: in their own units, whatever became of the other columns."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import gpuanon
from tests.support.every import COLUMNS, kept_but, registry

OPTIONS = {
    "mean_bias": {"columns": ["cost", "visits"]},
    "correlation_bias": {"pair": ["cost", "visits"]},
    "regression_drift": {"response": "cost", "predictors": ["visits", "bmi"]},
}
MEASURES = tuple(OPTIONS)


def rules(mask, **options):
    columns = COLUMNS | {"visits": {"role": "sensitive"}, "bmi": {"role": "other"}}
    names = mask.get("columns", "quasi")
    chosen = {"columns": kept_but(names, columns), "others": "drop", "nulls": "category", "mask": [mask]}
    return chosen | {"measures": OPTIONS | options}


def test_named_statistics_are_those_of_pandas_and_statsmodels():
    before = registry(300)
    after = before.slice(40, 200)
    found = gpuanon.assess(before, after, rules({"method": "suppress", "k": 2}), measures=MEASURES).measured
    one, two = before.to_pandas(), after.to_pandas()
    change = found["mean_bias"].details["change_by_column"]
    assert change["cost"] == pytest.approx(two.cost.mean() - one.cost.mean())
    assert found["mean_bias"].value == pytest.approx(np.mean(np.abs(list(change.values()))))
    drift = found["correlation_bias"]
    assert drift.details["change"] == pytest.approx(two.cost.corr(two.visits) - one.cost.corr(one.visits))
    fits = [sm.OLS(t.cost, sm.add_constant(t[["visits", "bmi"]].astype(float))).fit() for t in (one, two)]
    details = found["regression_drift"].details
    for side, fit in zip(("original", "release"), fits, strict=True):
        assert details[side]["visits"]["p"] == pytest.approx(fit.pvalues["visits"], abs=1e-9)
    assert details["response"] == "cost"


def test_one_comparison_of_suppression_recoding_microaggregation_and_synthetic_rows():
    columns = ["age", "sex", "education"]
    recipes = [
        rules({"method": "suppress", "k": 3, "columns": columns}),
        {
            **rules({"method": "suppress", "k": 3, "columns": columns}),
            "mask": [
                {"method": "recode", "levels": {"age": 1, "education": 1}, "columns": ["age", "education"]},
                {"method": "suppress", "k": 3, "columns": columns},
            ],
        },
        rules({"method": "microaggregation", "k": 3, "columns": columns}),
        rules({"method": "synthetic-rows", "k": 3, "columns": columns}),
    ]
    found = gpuanon.compare(registry(400), recipes, measures=MEASURES, rng=7)
    dropped, recoded, kept, added = found.trials
    assert all(trial.refused is None and set(trial.measured) >= set(MEASURES) for trial in found.trials)
    assert dropped.rows["rows_dropped"] > recoded.rows["rows_dropped"] > 0
    assert kept.rows == {"rows_in": 400, "rows_out": 400, "rows_added": 0, "rows_dropped": 0}
    assert added.rows["rows_added"] > 0
    assert kept.measured["correlation_bias"] == pytest.approx(0, abs=1e-12)  # neither column was masked
    assert {"coefficient", "standard_error", "p"} == set(added.details["regression_drift"]["release"]["bmi"])
    assert "intervals_overlap" in added.details["regression_drift"]
    assert found.to_json()["trials"][3]["rows"] == dict(added.rows)


@pytest.mark.parametrize(
    ("measure", "options", "fault"),
    [
        ("mean_bias", {"columns": ["diagnosis"]}, "more than two levels"),
        ("correlation_bias", {"pair": ["cost"]}, "two columns"),
        ("mean_bias", {"columns": ["nothing"]}, "no column 'nothing'"),
        ("regression_drift", {"response": "cost"}, "both are needed"),
    ],
)
def test_bad_names_are_told(measure, options, fault):
    chosen = rules({"method": "suppress", "k": 2}, **{measure: options})
    found = gpuanon.assess(registry(60), registry(60), chosen, measures=[measure])
    assert fault in found.failed[measure]
