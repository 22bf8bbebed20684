"""What holds for every measure: a perfect copy and independent data give the known extremes."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import compute
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, QUASI, recipe, registry

ROWS = 400
WEIGHTED = COLUMNS | {"w": {"role": "weight"}, "family": {"role": "household"}}
NAMES = list(MEASURES)

# A copy: nothing is lost, and every unique record is found.
ON_A_COPY = {
    "reidentification": 1.0,
    "reidentification_by_class": 1.0,
    "prediction_distance": 0.0,
    "prediction_ambiguity": 0.0,
    "noise_stripping": 1.0,
    "synthetic_rows_auc": 0.5,
    "uniqueness": 1.0,
    "exact_copies": 1.0,
    "household_risk": 1.0,
    "suppression_reconstruction": 0.0,
    "linkage_probabilistic": 1.0,
    "singling_out": 1.0,
    "inference": 1.0,
    "membership": 1.0,
    "k_ambiguity": 1.0,
    "ct_isolation": 1.0,
    "interval_disclosure": 1.0,
    "closest_record": 1.0,
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
    "covariances": 0.0,
    "ft": 0.0,
    "g": 0.0,
    "mutual_information": 0.0,
    "cdf_points": 0.0,
    "mmd": 0.0,
    "model_efficacy": 0.0,
    "paired_means": 1.0,
    "distribution_fit": 0.0,
    "grouping_sensitivity": 0.0,
    "analysis": 0.0,
    "workload": 0.0,
}
OPTIONS = {
    "analysis": {"models": [{"formula": "cost ~ age + C(sex)"}, {"formula": "income ~ age"}]},
    "workload": {"workloads": [{"new": {"age": {"from": 60}}, "response": "cost", "columns": ["age", "sex"]}]},
}
NEED_OTHERS = ("reference_standard", "closest_record", "singling_out", "linkability", "inference", "membership")
# By declaration: what looks at columns together, or at records, is bad when columns are permuted independently.
WORSE_AFTER_SHUFFLING = {name for name in NAMES if MEASURES[name].sees in ("together", "records")}
KEPT_BY_SHUFFLING = {name for name in NAMES if MEASURES[name].sees == "columns"}


def weighted(table, least=1.0):
    """The table with weights from `least` to as far above their mean."""
    table = table.append_column("w", pa.array(np.linspace(least, 21.0 - least, table.num_rows)))
    return table.append_column("family", pa.array(np.arange(table.num_rows) // 3))


def comparison(release=None, least=1.0, **known):
    original = Table.of(weighted(registry(ROWS), least))
    released = Table.of(release) if release is not None else original
    schema = Schema.resolve(original, Recipe.load(recipe("permute", columns=WEIGHTED)).columns)
    return Comparison(original, released, schema, **known)


@pytest.fixture(scope="module")
def copy():
    reference = Table.of(weighted(registry(2 * ROWS))).take(np.arange(ROWS, 2 * ROWS))
    return compute(comparison(known_link=np.arange(ROWS), known_reference=reference), tuple(NAMES), OPTIONS)


@pytest.fixture(scope="module")
def shuffled():
    """Every column in a random order of its own: the margins are kept, everything between columns is lost.

    Weights are equal: a margin of a population is one of a column and the weights together.
    """
    rng = np.random.default_rng(3)
    table = weighted(registry(ROWS), least=10.5)
    columns = {name: table[name].take(pa.array(rng.permutation(ROWS))) for name in table.column_names}
    return compute(comparison(pa.table(columns), 10.5, known_link=np.arange(ROWS)), tuple(NAMES), OPTIONS)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("match_auc", "match_auc_joint")])
def test_every_measure_has_a_value_on_a_copy(copy, name):
    assert name in copy.measured, copy.failed.get(name)
    assert np.isfinite(copy.measured[name].value)


@pytest.mark.parametrize("name", ON_A_COPY)
def test_a_copy_gives_the_known_extreme(copy, name):
    assert copy.measured[name].value == pytest.approx(ON_A_COPY[name], abs=1e-9)


def test_a_copy_has_no_wrong_match_to_tell_apart(copy):
    assert "no wrong matches" in copy.failed["match_auc"]
    assert "no wrong matches" in copy.failed["match_auc_joint"]


def test_a_copy_fails_the_reference_standard(copy):
    assert copy.measured["reference_standard"].details["passes"] is False


@pytest.mark.parametrize("name", sorted(WORSE_AFTER_SHUFFLING))
def test_shuffled_columns_are_worse_than_a_copy(copy, shuffled, name):
    assert MEASURES[name].exceeds(shuffled.measured[name].value, copy.measured[name].value)


@pytest.mark.parametrize("name", sorted(KEPT_BY_SHUFFLING))
def test_shuffled_columns_keep_what_each_column_has_alone(copy, shuffled, name):
    assert shuffled.measured[name].value == pytest.approx(copy.measured[name].value, abs=1e-9)


@pytest.mark.parametrize("side", ["copy", "shuffled"])
@pytest.mark.parametrize("name", NAMES)
def test_a_value_lies_in_the_declared_range(request, side, name):
    found = request.getfixturevalue(side).measured.get(name)
    if found is None:
        undefined = {"copy": ("match_auc", "match_auc_joint"), "shuffled": NEED_OTHERS}
        assert name in undefined[side]
        return
    low, high = MEASURES[name].range
    assert low <= found.value <= high


@pytest.mark.parametrize("damage", ["constant", "times a billion", "rare levels dropped"])
def test_damage_is_seen_by_a_measure_of_utility_with_a_large_figure(copy, damage):
    """Large: on its own scale at least a third of the way to the worst, or a shift of a standard deviation."""
    table = weighted(registry(ROWS))
    age = table["age"].to_numpy().astype(np.int64)
    if damage == "rare levels dropped":
        regions = table["region"].to_pylist()
        common = max(set(regions), key=regions.count)
        kept = table.filter(pa.array([region == common for region in regions]))
        release, link = kept, np.flatnonzero([region == common for region in regions])
    else:
        new = np.full(ROWS, int(np.mean(age))) if damage == "constant" else age * 10**9
        release, link = table.set_column(table.column_names.index("age"), "age", pa.array(new)), np.arange(ROWS)
    names = [name for name in NAMES if MEASURES[name].family == "utility"]
    found = compute(comparison(release, known_link=link), names, OPTIONS).measured
    seen = []
    for name, figure in found.items():
        low, high = MEASURES[name].range
        worst = [figure.value, *([figure.worst[1]] if figure.worst is not None else [])]
        far = (high - low) / 3 if np.isfinite([low, high]).all() else 1.0
        best = copy.measured[name].value
        seen += [name] if any(abs(value - best) >= far for value in worst) else []
    assert len(seen) >= 2, seen


def test_shuffled_columns_hide_the_records(copy, shuffled):
    assert shuffled.measured["reidentification"].value < 0.1 * copy.measured["reidentification"].value
    assert shuffled.measured["prediction_distance"].value > 0.1


@pytest.mark.parametrize("side", ["copy", "shuffled"])
def test_every_measure_prints_itself_as_strict_json(side, request):
    text = json.dumps(request.getfixturevalue(side).to_json(), allow_nan=False)
    assert all(name in text for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_names_and_no_positions(shuffled, name):
    """No list of anonymous numbers but an interval's two ends, and no key or name that is a number of a feature."""
    if name not in shuffled.measured:
        assert name in NEED_OTHERS
        return
    found = shuffled.measured[name].to_json()
    found.pop("interval", None)
    for key, value in _flat(found):
        assert not (isinstance(value, list) and any(isinstance(one, (int, float)) for one in value)), key
        assert "column 1" not in str(key)


def _flat(figure):
    for key, value in figure.items():
        yield key, value
        if isinstance(value, dict):
            yield from _flat(value)


QUASI_SENSITIVE = tuple(name for name in WEIGHTED if WEIGHTED[name]["role"] in ("quasi", "sensitive"))
SENSITIVE = tuple(name for name in WEIGHTED if WEIGHTED[name]["role"] == "sensitive")
BY_COLUMN = {
    "uniqueness": QUASI,
    "suda2": QUASI,
    "l_diversity": SENSITIVE,
    "t_closeness": SENSITIVE,
    "attribute_disclosure": SENSITIVE,
    **dict.fromkeys(("mse", "r2", "il1s", "information_loss", "histogram_intersection"), QUASI),
    **dict.fromkeys(("records_changed", "means", "variances", "mean_bias", "ks"), QUASI_SENSITIVE),
    **dict.fromkeys(("confidence_overlap", "estimator_mse"), QUASI_SENSITIVE),
    "regression_drift": tuple(name for name in QUASI_SENSITIVE if name != "cost"),  # cost is the response
}
BY_PAIR = (
    "covariances",
    "ft",
    "g",
    "mutual_information",
    "correlations",
    "rank_correlations",
    "correlation_bias",
    "kl",
    "jsd",
    "vw",
    "cell_ks",
)


@pytest.mark.parametrize("name", BY_COLUMN)
def test_a_measure_of_columns_names_every_column_and_the_worst(shuffled, name):
    found = shuffled.measured[name].to_json()
    assert set(found["by_column"]) == set(BY_COLUMN[name])
    assert found["worst"] in BY_COLUMN[name]


@pytest.mark.parametrize("name", BY_PAIR)
def test_a_measure_of_pairs_names_every_pair_and_the_worst(shuffled, name):
    found = shuffled.measured[name].to_json()
    named = {frozenset((first, second)) for first, others in found["by_pair"].items() for second in others}
    assert {frozenset(pair) for pair in combinations(QUASI_SENSITIVE, 2)} <= named
    assert set(found["worst"]) <= set(QUASI_SENSITIVE)


@pytest.mark.parametrize("name", [name for name in NAMES if MEASURES[name].family == "risk"])
def test_a_measure_of_risk_has_a_distribution_or_parts(copy, shuffled, name):
    figure = shuffled.measured.get(name) or copy.measured[name]
    assert figure.parts or figure.beside or figure.details


def test_attacks_have_a_baseline_and_an_interval(shuffled):
    assert shuffled.measured["reidentification"].interval is not None
    for name in ("reidentification", "reidentification_by_class", "noise_stripping", "match_auc"):
        assert shuffled.measured[name].beside
    for name in ("linkage_probabilistic", "ct_isolation", "interval_disclosure", "match_auc_joint"):
        assert shuffled.measured[name].beside
        assert shuffled.measured[name].interval is not None


@pytest.mark.parametrize("destroyed", ["constant", "times a billion"])
def test_a_destroyed_column_shows_beside_medians_that_hide_it(destroyed):
    table = weighted(registry(ROWS))
    income = table["income"].to_numpy()
    income = np.full(ROWS, np.nanmean(income)) if destroyed == "constant" else income * 1e9
    release = table.set_column(table.column_names.index("income"), "income", pa.array(income))
    names = ("means", "variances", "correlations", "r2", "mse", "information_loss", "confidence_overlap")
    found = compute(comparison(release, known_link=np.arange(ROWS)), names).measured
    assert set(found) == set(names)
    assert found["means"].value == found["variances"].value == 0  # the medians do not see it
    for name in set(names) - ({"means"} if destroyed == "constant" else {"correlations"}):
        assert "income" in found[name].worst[0], name
    if destroyed == "constant":
        assert found["variances"].worst[1] == pytest.approx(1)
        assert "constant in the release: income" in found["correlations"].note
        assert found["correlations"].worst[1] > 0.2
    else:
        assert found["means"].worst[1] > 10


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
    with pytest.raises(
        GpuanonError, match={"column": "'age'", "length": "the release 60", "range": "does not have"}[fault]
    ):
        gpuanon.assess(original, release, recipe("permute"), link=link)
