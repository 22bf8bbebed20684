"""Measures on device arrays: the same figures as on the host, without a copy of the table to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import gpuanon
from gpuanon.arrays.backend import Backend
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured
from gpuanon.assessing.ks_distance import ks_distance, ks_excess
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES, catalogue
from gpuanon.assessing.risk.auto_target import auto_target
from gpuanon.assessing.risk.match_auc import match_auc
from gpuanon.assessing.risk.noise_stripping import noise_stripping
from gpuanon.assessing.risk.prediction import prediction_ambiguity, prediction_distance, prediction_uncertainty
from gpuanon.assessing.risk.reference_standard import reference_standard
from gpuanon.assessing.run import compute
from gpuanon.assessing.utility.bias import correlation_bias, mean_bias
from gpuanon.assessing.utility.cell_counts import binned
from gpuanon.assessing.utility.contingency import jsd
from gpuanon.assessing.utility.differences import correlations, means, rank_correlations, variances
from gpuanon.assessing.utility.information_loss import il1s, information_loss, mse, r2, records_changed
from gpuanon.assessing.utility.kernel_pca import kernel_pca
from gpuanon.assessing.utility.ks import ks
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, recipe, registry

ROWS = 48

OF_TWO: dict[str, Callable[[Any, Any], Measured]] = {
    "prediction_distance": prediction_distance,
    "prediction_ambiguity": prediction_ambiguity,
    "prediction_uncertainty": prediction_uncertainty,
    "match_auc": lambda X, Y: match_auc(X, Y, _link(X)),
    "noise_stripping": lambda X, Y: noise_stripping(X, Y, _link(X), components=2),
    "means": means,
    "variances": variances,
    "correlations": correlations,
    "rank_correlations": rank_correlations,
    "records_changed": records_changed,
    "mse": mse,
    "r2": r2,
    "il1s": lambda X, Y: il1s(X, Y, link=_link(X)),
    "information_loss": information_loss,
    "ks": ks,
    "mean_bias": mean_bias,
    "correlation_bias": correlation_bias,
    "jsd": lambda X, Y: jsd(*binned(X, Y, 3)),
    "kernel_pca": lambda X, Y: kernel_pca(X, Y, most=4),
    "kernel_pca, rbf": lambda X, Y: kernel_pca(X, Y, kernel="rbf", most=4),
    "kernel_pca, exponential": lambda X, Y: kernel_pca(X, Y, kernel="exponential", most=4),
    "prediction_uncertainty, weighted": lambda X, Y: prediction_uncertainty(
        X, Y, names=["a", "b", "b"], weights={"a": 2.0, "b": 1.0}
    ),
}


def _link(X: Any) -> Any:
    from gpuanon.arrays.backend import namespace

    return namespace(X).arange(len(X))


def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2 * ROWS, 3)) @ rng.normal(size=(3, 3))
    return X[:ROWS], X[:ROWS] + rng.normal(size=(ROWS, 3)) * 0.7, X[ROWS:]


@pytest.mark.parametrize("name", OF_TWO)
def test_figures_equal_those_of_the_host(cp: Any, name: str) -> None:
    X, Y, _ = _tables()
    expected = OF_TWO[name](X, Y)
    found = OF_TWO[name](cp.asarray(X), cp.asarray(Y))
    assert type(found.value) is type(expected.value)
    assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12)
    assert set(found.details) == set(expected.details)


def test_ks_on_either_device(xp: Any) -> None:
    x, y = xp.asarray([1.0, 2.0, 2.0, 5.0]), xp.asarray([2.0, 3.0, 4.0])
    assert ks_excess(x, y) == pytest.approx(0.75 - 1 / 3)
    assert ks_excess(y, x) == pytest.approx(0.25)
    assert ks_distance(x, y) == pytest.approx(0.75 - 1 / 3)


def test_reference_standard_on_either_device(xp: Any) -> None:
    X, Y, R = (xp.asarray(table) for table in _tables())
    measured = reference_standard(X, Y, R[:30], link=xp.arange(ROWS), k=3)
    expected = reference_standard(*_tables()[:2], _tables()[2][:30], link=np.arange(ROWS), k=3)
    assert measured.details["distance"] == expected.details["distance"]


def test_auto_target_on_either_device(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # So few records differ more by chance than the standard allows: here the limit lies between the two candidates.
    monkeypatch.setattr("gpuanon.assessing.risk.auto_target.limit_of", lambda name: 0.9)
    X, _, R = (xp.asarray(table) for table in _tables())
    noise = xp.asarray(np.random.default_rng(2).normal(size=(ROWS, 3)))
    choice = auto_target(X, R, lambda target: X + noise * (target - 1), [1, 2], k=3)
    assert choice.target == 2
    assert isinstance(choice.release, xp.ndarray)
    assert [trial.target for trial in choice.trials] == [1, 2]


@pytest.fixture(scope="module")
def tables() -> tuple[Table, Table, Table, Schema, np.ndarray]:
    """A small registry with weights, its release with a row added and one dropped, a reference, and the link."""
    both = registry(100).append_column("w", pa.array(np.linspace(1.0, 20.0, 100)))
    both = both.append_column("family", pa.array(np.arange(100) // 3))
    level = both["education"].cast(pa.string())  # the reference must hold no level that the original does not have
    known = pc.is_in(level, value_set=level.slice(0, 50).unique())
    original, reference = Table.of(both.slice(0, 50)), Table.of(both.filter(known).slice(50))
    rules = recipe("noise", columns=COLUMNS | {"w": {"role": "weight"}, "family": {"role": "household"}})
    release = gpuanon.protect(original, rules, rng=1, backend="numpy")
    rows = np.append(np.arange(49), 3)
    link = np.append(release.link[:49], -1)
    return original, release.table.take(rows), reference, Schema.resolve(original, rules["columns"]), link


OPTIONS = {
    "analysis": {"models": [{"formula": "cost ~ age"}]},
    "workload": {"workloads": [{"response": "cost", "columns": ["age"]}]},
}


@pytest.mark.usefixtures("cuml")
@pytest.mark.parametrize("name", [measure.name for measure in MEASURES.values()])
def test_every_measure_of_a_comparison_on_the_device_equals_the_hosts(cp: Any, name: str, tables: Any) -> None:
    original, release, reference, schema, link = tables
    found, expected = (
        compute(Comparison(original, release, schema, link, reference, backend), (name,), OPTIONS)
        for backend in (Backend("cupy", "the stand-in"), None)
    )
    assert found.failed == expected.failed == {}
    # Sums of some dozens of numbers in another order; forests are grown in float32.
    tolerance = 1e-6 if name == "pmse_forest" else 1e-9
    _same(found.measured[name].to_json(), expected.measured[name].to_json(), tolerance)


def _same(found: Any, expected: Any, tolerance: float) -> None:
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found:
            _same(found[key], expected[key], tolerance)
    elif isinstance(found, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


@pytest.mark.parametrize("measure", MEASURES.values(), ids=lambda measure: measure.name)
def test_a_measure_receives_device_arrays_unless_it_is_written_for_the_host(
    cp: Any, measure: Measure, tables: Any
) -> None:
    """A host-only measure launches nothing and uploads nothing; the others compute on what was uploaded."""
    original, release, reference, schema, link = tables
    comparison = Comparison(original, release, schema, link, reference, Backend("cupy", "the stand-in"))
    uploads = len(cp.transfers.uploads)
    compute(comparison, (measure.name,))
    assert (len(cp.transfers.uploads) > uploads) is (measure.host is None)


SAMPLED = {
    "ks": "at most 20 000 pairs are exchanged on the host",
    "paired_means": "up to 2000 pairs, signs are flipped one by one on the host",
    "cluster_balance": "the stand-in for cuML downloads what cuML keeps on the device",
    "pmse_forest": "the same",
}
"""Measures that download rows, of a number that does not grow with the table."""


@pytest.mark.usefixtures("cuml")
@pytest.mark.parametrize(
    "measure", [one for one in MEASURES.values() if one.host is None], ids=lambda measure: measure.name
)
def test_no_table_is_copied_back_to_the_host(cp: Any, measure: Measure, tables: Any) -> None:
    original, release, reference, schema, link = tables
    comparison = Comparison(original, release, schema, link, reference, Backend("cupy", "the stand-in"))
    compute(comparison, (measure.name,), OPTIONS)
    features = len(comparison.features)
    largest = max((copy.bytes for copy in cp.transfers.downloads), default=0)
    if measure.name not in SAMPLED:
        assert largest < 8 * features * max(features, len(original) / 2)  # sums of products, or figures per record


def test_a_measure_of_the_host_says_why() -> None:
    assert {entry["name"]: entry.get("host_reason") for entry in catalogue()} == {
        measure.name: measure.host for measure in MEASURES.values()
    }
    assert all(("host_reason" in entry) is entry["host_only"] for entry in catalogue())
