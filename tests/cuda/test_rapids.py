"""The choice between cuML and scikit-learn: no silent fallback.

What stands in for cuML is in ``tests/cuda/support/fake_cuml.py``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays import rapids
from gpuanon.assessing.utility.cluster_balance import cluster_balance
from gpuanon.assessing.utility.propensity.forest import pmse_forest
from gpuanon.errors import BackendError
from tests.cuda.support.fake_cuml import KMeans
from tests.support.every import recipe, registry


@pytest.fixture(autouse=True)
def ask_anew() -> None:
    rapids._problem.cache_clear()


def blobs() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    return np.repeat(centres, 20, axis=0) + 0.3 * rng.normal(size=(60, 2)), centres + 1


def test_host_arrays_go_to_scikit_learn() -> None:
    X, start = blobs()
    labels, centres = rapids.kmeans(X, start)
    assert np.array_equal(labels, np.repeat(np.arange(3), 20))
    np.testing.assert_allclose(centres, X.reshape(3, 20, 2).mean(axis=1))


def test_device_arrays_go_to_cuml_and_stay_on_the_device(cp: Any, cuml: ModuleType) -> None:
    X, start = blobs()
    assert rapids.cuml_problem() is None
    labels, centres = rapids.kmeans(cp.asarray(X), cp.asarray(start))
    assert isinstance(labels, cp.ndarray)
    assert labels.dtype == np.int64
    assert np.array_equal(labels.get(), rapids.kmeans(X, start)[0])
    np.testing.assert_allclose(centres.get(), rapids.kmeans(X, start)[1])


@pytest.mark.usefixtures("cuml")
def test_forests_on_a_device_are_cumls_and_their_answers_stay_there(cp: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(float)
    uploads = len(cp.transfers.uploads)
    device = [cp.asarray(array) for array in (X, y)]
    shares = rapids.forest(*device, device[0])
    assert isinstance(shares, cp.ndarray)
    assert shares.dtype == np.float64
    np.testing.assert_allclose(shares.get(), rapids.forest(X, y, X), rtol=1e-6)
    assert len(cp.transfers.uploads) == uploads + 3  # the table, its classes, and the stand-in for cuML


@pytest.mark.usefixtures("cuml")
def test_regression_forests_on_a_device_are_cumls_and_equal_those_of_the_host(cp: Any) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    Y = np.column_stack([X[:, 0], X[:, 1] ** 2]).astype(np.float32)
    options: dict[str, Any] = {"trees": 10, "smallest": 5, "depth": 8, "features": 2, "seed": 4}
    found = rapids.regression_forests(cp.asarray(X), cp.asarray(Y), **options).predict(cp.asarray(X))
    assert isinstance(found, cp.ndarray)
    assert (found.dtype, found.shape) == (np.float32, (300, 2))
    np.testing.assert_allclose(found.get(), rapids.regression_forests(X, Y, **options).predict(X), rtol=1e-5, atol=1e-5)
    assert np.corrcoef(found.get()[:, 1], Y[:, 1])[0, 1] > 0.9


@pytest.mark.usefixtures("cuml")
@pytest.mark.parametrize("fill", ["forest", "bagging"])
def test_added_rows_are_filled_by_forests_on_the_device(cp: Any, fill: str) -> None:
    """The release says where the models ran, keeps every record, and draws from what is near."""
    data: Any = registry(600)
    rules = recipe({"method": "synthetic-rows", "k": 3, "fill": fill, "trees": 4})
    uploads = len(cp.transfers.uploads)
    found = gpuanon.protect(data, rules, rng=7, backend="cupy")
    assert len(cp.transfers.uploads) > uploads
    assert found.manifest["mask"][0]["fill_models"] == "cuML, on the device"
    expected = gpuanon.protect(data, rules, rng=7, backend="numpy")
    assert expected.manifest["mask"][0]["fill_models"] == "on the CPU"
    assert found.manifest["rows_added"] == expected.manifest["rows_added"] > 0
    cost, host = (np.nan_to_num(one.data["cost"].to_numpy().astype(float)) for one in (found, expected))
    assert cost.mean() == pytest.approx(host.mean(), rel=0.1)


@pytest.mark.usefixtures("cp")
def test_a_fill_by_forests_without_cuml_is_refused_not_moved() -> None:
    rules = recipe({"method": "synthetic-rows", "k": 3, "fill": "forest", "trees": 4})
    with pytest.raises(BackendError, match="forests on a device: cuML is not installed"):
        gpuanon.protect(registry(300), rules, rng=7, backend="cupy")
    tree = gpuanon.protect(registry(300), recipe("synthetic-rows"), rng=7, backend="cupy")
    assert tree.manifest["mask"][0]["fill_models"] == "on the CPU"


@pytest.mark.usefixtures("cuml")
@pytest.mark.parametrize("measure", [cluster_balance, pmse_forest])
def test_measures_by_cuml_equal_those_by_scikit_learn(cp: Any, measure: Any) -> None:
    X, Y = np.random.default_rng(2).normal(size=(2, 120, 3))
    for after in (Y, X, X + 30):
        found, expected = measure(cp.asarray(X), cp.asarray(after)), measure(X, after)
        assert found.value == pytest.approx(expected.value, rel=1e-6)
        assert set(found.details) == set(expected.details)


def test_measures_without_cuml_are_refused_not_moved(cp: Any) -> None:
    X, Y = (cp.asarray(table) for table in np.random.default_rng(2).normal(size=(2, 120, 3)))
    for measure, what in ((cluster_balance, "k-means"), (pmse_forest, "forests")):
        with pytest.raises(BackendError, match=f"{what} on a device: cuML is not installed"):
            measure(X, Y)


def test_without_cuml_a_device_array_is_refused_not_moved(cp: Any) -> None:
    X, start = blobs()
    assert rapids.cuml_problem() == "cuML is not installed"
    downloads = len(cp.transfers.downloads)
    with pytest.raises(BackendError, match="k-means on a device: cuML is not installed"):
        rapids.kmeans(cp.asarray(X), cp.asarray(start))
    with pytest.raises(BackendError, match="forests on a device"):
        rapids.forest(cp.asarray(X), cp.arange(60) % 2, cp.asarray(X))
    assert len(cp.transfers.downloads) == downloads


def test_a_cuml_that_imports_but_fails_is_not_used(cuml: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(*args: Any, **keywords: Any) -> None:
        raise RuntimeError("no CUDA driver")

    monkeypatch.setattr(cuml, "KMeans", no_driver)
    assert rapids.cuml_problem() == "cuML does not answer (RuntimeError)"


def test_a_cuml_with_wrong_results_is_not_used(cuml: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(KMeans):
        def fit(self, X: Any) -> KMeans:
            super().fit(X)
            self.labels_ = self.labels_ * 0
            return self

    monkeypatch.setattr(cuml, "KMeans", Wrong)
    assert rapids.cuml_problem() == "cuML computes wrongly"
