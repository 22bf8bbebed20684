"""A stand-in for the parts of cuML that are used, with the arguments that its documentation names (release 26.10).

cuML cannot run where there is no GPU.  What stands in for it takes those arguments, refuses others, wants arrays of the
device, and computes with scikit-learn.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.cluster import KMeans as ReferenceKMeans
from sklearn.ensemble import RandomForestClassifier as ReferenceForest
from sklearn.ensemble import RandomForestRegressor as ReferenceRegressor


class KMeans:
    """Lloyd's iterations with cuML's arguments."""

    def __init__(
        self, *, n_clusters: int = 8, max_iter: int = 300, tol: float = 1e-4, verbose: bool = False,
        random_state: int | None = None, init: Any = "scalable-k-means++", n_init: Any = "auto",
        oversampling_factor: float = 2.0, max_samples_per_batch: int = 1 << 15, device_buffer_samples: int = 0,
        init_size: int = 0, output_type: str | None = None,
    ) -> None:  # fmt: skip
        assert output_type == "cupy"
        self.centres, self.iterations = init, max_iter

    def fit(self, X: Any) -> KMeans:
        cupy = sys.modules["cupy"]
        assert isinstance(X, cupy.ndarray)
        centres = self.centres.get()
        assert len(centres)
        fitted = ReferenceKMeans(len(centres), init=centres, n_init=1, max_iter=self.iterations).fit(X.get())
        self.labels_ = cupy.asarray(fitted.labels_.astype(np.int32))
        self.cluster_centers_ = cupy.asarray(fitted.cluster_centers_)
        return self


class RandomForestClassifier:
    """Scikit-learn's trees with cuML's arguments."""

    def __init__(
        self, *, n_estimators: int = 100, split_criterion: str = "gini", bootstrap: bool = True,
        max_samples: float = 1.0, max_depth: int | None = None, max_leaves: int = -1, max_features: Any = "sqrt",
        n_bins: int = 128, min_samples_leaf: int = 1, min_samples_split: int = 2, min_impurity_decrease: float = 0.0,
        max_batch_size: int = 4096, random_state: int | None = None, n_streams: int = 4, oob_score: bool = False,
        class_weight: Any = None, verbose: bool = False, output_type: str | None = None,
    ) -> None:  # fmt: skip
        assert output_type == "cupy"
        assert n_streams == 1
        self.model = ReferenceForest(
            n_estimators, max_depth=max_depth, min_samples_leaf=min_samples_leaf, max_features=max_features,
            bootstrap=bootstrap, random_state=random_state,
        )  # fmt: skip

    def fit(self, X: Any, y: Any, *, convert_dtype: bool = True) -> RandomForestClassifier:
        assert isinstance(X, sys.modules["cupy"].ndarray)
        assert (X.dtype, y.dtype) == (np.float32, np.int32)  # else cuML makes copies of its own
        self.model.fit(X.get(), y.get())
        return self

    def predict_proba(
        self, X: Any, *, convert_dtype: bool = True, layout: str = "depth_first", default_chunk_size: Any = None,
        align_bytes: Any = None,
    ) -> Any:  # fmt: skip
        assert X.dtype == np.float32
        return sys.modules["cupy"].asarray(self.model.predict_proba(X.get()).astype(np.float32))


class RandomForestRegressor:
    """Scikit-learn's trees with cuML's arguments; one output only."""

    def __init__(
        self, *, n_estimators: int = 100, split_criterion: str = "mse", bootstrap: bool = True,
        max_samples: float = 1.0, max_depth: int | None = None, max_leaves: int = -1, max_features: Any = 1.0,
        n_bins: int = 128, min_samples_leaf: int = 1, min_samples_split: int = 2, min_impurity_decrease: float = 0.0,
        max_batch_size: int = 4096, random_state: int | None = None, n_streams: int = 4, oob_score: bool = False,
        verbose: bool = False, output_type: str | None = None,
    ) -> None:  # fmt: skip
        assert output_type == "cupy"
        assert n_streams == 1
        self.model = ReferenceRegressor(
            n_estimators, max_depth=max_depth, min_samples_leaf=min_samples_leaf, max_features=max_features,
            bootstrap=bootstrap, random_state=random_state,
        )  # fmt: skip

    def fit(self, X: Any, y: Any, *, convert_dtype: bool = True) -> RandomForestRegressor:
        assert isinstance(X, sys.modules["cupy"].ndarray)
        assert (X.dtype, y.dtype, y.ndim) == (np.float32, np.float32, 1)
        self.model.fit(X.get(), y.get())
        return self

    def predict(
        self, X: Any, *, convert_dtype: bool = True, layout: str = "depth_first", default_chunk_size: Any = None,
        align_bytes: Any = None,
    ) -> Any:  # fmt: skip
        assert X.dtype == np.float32
        return sys.modules["cupy"].asarray(self.model.predict(X.get()).astype(np.float32))


def modules() -> dict[str, ModuleType]:
    """The modules by name, to be put among the imported ones."""
    found = {name: ModuleType(name) for name in ("cuml", "cuml.cluster", "cuml.ensemble")}
    for name, what in (
        ("cluster", KMeans), ("ensemble", RandomForestClassifier), ("ensemble", RandomForestRegressor)
    ):  # fmt: skip
        setattr(found[f"cuml.{name}"], what.__name__, what)
    return found
