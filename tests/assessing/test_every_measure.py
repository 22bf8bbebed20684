"""What holds for every measure: a perfect copy and independent data give the known extremes."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import MEASURES, by_name
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.running.assess import compute
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, recipe, registry

ROWS = 400
WEIGHTED = COLUMNS | {"w": {"role": "weight"}}
NAMES = [measure.name for measure in MEASURES]

# A copy: nothing is lost, and every unique record is found.
ON_A_COPY = {
    "reidentification": 1.0,
    "reidentification_by_class": 1.0,
    "prediction_distance": 0.0,
    "prediction_ambiguity": 0.0,
    "noise_stripping": 1.0,
    "uniqueness": 1.0,
    "k_anonymity": 1.0,
    "l_diversity": 1.0,
    "r2": 1.0,
    "histogram_intersection": 1.0,
    "confidence_overlap": 1.0,
    "records_changed": 0.0,
    "means": 0.0,
    "variances": 0.0,
    "correlations": 0.0,
    "rank_correlations": 0.0,
    "mean_bias": 0.0,
    "correlation_bias": 0.0,
    "mse": 0.0,
    "il1s": 0.0,
    "information_loss": 0.0,
    "ks": 0.0,
    "kl": 0.0,
    "jsd": 0.0,
    "vw": 0.0,
    "cell_ks": 0.0,
    "kernel_pca": 0.0,
    "regression_drift": 0.0,
    "propensity_ks": 0.0,
    "propensity_wilcoxon": 0.0,
    "pmse_logit": 0.0,
    "pmse_cart": 0.0,
    "pmse_forest": 0.0,
    "cluster_balance": 0.0,
}
# Everything in one class, far from where it was: nobody is found, everything is lost.
WORSE_AFTER_SHUFFLING = {
    "records_changed",
    "correlations",
    "rank_correlations",
    "correlation_bias",
    "mse",
    "il1s",
    "information_loss",
    "kl",
    "jsd",
    "vw",
    "cell_ks",
    "kernel_pca",
    "pmse_forest",
    "cluster_balance",
    "regression_drift",
}


def weighted(table):
    return table.append_column("w", pa.array(np.linspace(1.0, 20.0, table.num_rows)))


def comparison(release=None, **known):
    original = Table.of(weighted(registry(ROWS)))
    released = Table.of(release) if release is not None else original
    schema = Schema.resolve(original, Recipe.load(recipe("permute", columns=WEIGHTED)).columns)
    return Comparison(original, released, schema, **known)


@pytest.fixture(scope="module")
def copy():
    reference = Table.of(weighted(registry(2 * ROWS))).take(np.arange(ROWS, 2 * ROWS))
    return compute(comparison(known_link=np.arange(ROWS), known_reference=reference), tuple(NAMES))


@pytest.fixture(scope="module")
def shuffled():
    """Every column in a random order of its own: the margins are kept, everything between columns is lost."""
    rng = np.random.default_rng(3)
    table = weighted(registry(ROWS))
    columns = {name: table[name].take(pa.array(rng.permutation(ROWS))) for name in table.column_names}
    return compute(comparison(pa.table(columns), known_link=np.arange(ROWS)), tuple(NAMES))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("match_auc",)])
def test_every_measure_has_a_value_on_a_copy(copy, name):
    assert name in copy.measured, copy.failed.get(name)
    assert np.isfinite(copy.measured[name].value)


@pytest.mark.parametrize("name", ON_A_COPY)
def test_a_copy_gives_the_known_extreme(copy, name):
    assert copy.measured[name].value == pytest.approx(ON_A_COPY[name], abs=1e-9)


def test_a_copy_has_no_wrong_match_to_tell_apart(copy):
    assert "no wrong matches" in copy.failed["match_auc"]


def test_a_copy_fails_the_reference_standard(copy):
    assert copy.measured["reference_standard"].details["passes"] is False


@pytest.mark.parametrize("name", sorted(WORSE_AFTER_SHUFFLING))
def test_shuffled_columns_are_worse_than_a_copy(copy, shuffled, name):
    assert by_name()[name].exceeds(shuffled.measured[name].value, copy.measured[name].value)


@pytest.mark.parametrize("name", ["means", "variances", "mean_bias", "ks"])
def test_shuffled_columns_keep_what_each_column_has_alone(shuffled, name):
    assert shuffled.measured[name].value == pytest.approx(0.0, abs=1e-9)


def test_shuffled_columns_hide_the_records(copy, shuffled):
    assert shuffled.measured["reidentification"].value < 0.1 * copy.measured["reidentification"].value
    assert shuffled.measured["prediction_distance"].value > 0.1


def test_every_measure_prints_itself_as_json(copy):
    text = json.dumps(copy.to_json(), allow_nan=False)
    assert all(name in text for name in NAMES)


@pytest.mark.parametrize("needs", ["reidentification", "reference_standard", "records_changed", "individual_risk"])
def test_what_is_missing_is_named_and_the_rest_goes_on(needs):
    original = registry(60)
    result = gpuanon.assess(original, original, recipe("permute"), measures=(needs, "k_anonymity"))
    assert "needs" in result.failed[needs]
    assert result.measured["k_anonymity"].value == 1


@pytest.mark.parametrize("fault", ["column", "length", "range"])
def test_tables_that_cannot_be_compared_are_refused(fault):
    original = registry(60)
    release = original.drop_columns(["age"]) if fault == "column" else original
    link = {"column": np.arange(60), "length": np.arange(59), "range": np.arange(1, 61)}[fault]
    with pytest.raises(GpuanonError, match={"column": "'age'", "length": "60 rows", "range": "outside"}[fault]):
        gpuanon.assess(original, release, recipe("permute"), link=link)
