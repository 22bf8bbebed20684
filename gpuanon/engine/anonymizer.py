"""The scikit-learn face."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpuanon.arrays.backend import BackendName
from gpuanon.arrays.rng import as_key
from gpuanon.engine.protect import protect
from gpuanon.engine.release import Release
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe


class Anonymizer(BaseEstimator):  # type: ignore[misc]
    """Masks a dataframe as a recipe says; the first step of a scikit-learn pipeline.

    Only `fit_transform` masks: a release is verified as a whole, and a row that was not in it has no group to mix
    with.  Rows come out in random order, so fit a target column inside the dataframe, not beside it.

    Parameters
    ----------
    recipe : as for `gpuanon.protect`
    backend : ``"auto"``, ``"numpy"`` or ``"cupy"``
    rng : as for `gpuanon.protect`; bytes and integers are kept as a `Key`, which does not show them

    Attributes
    ----------
    release_ : the `Release`, with its manifest and its private link

    A pickle or a copy holds neither `rng` nor the link; `sklearn.base.clone` keeps `rng`.

    Examples
    --------
    >>> import gpuanon, pandas as pd
    >>> frame = pd.DataFrame({"age": [30, 33, 36, 60, 63, 66]})
    >>> recipe = {"columns": {"age": {"role": "quasi"}}, "mask": [{"method": "microaggregation", "k": 3}]}
    >>> sorted(gpuanon.Anonymizer(recipe).fit_transform(frame)["age"].tolist())
    [33, 33, 33, 63, 63, 63]
    """

    def __init__(
        self, recipe: Recipe | Mapping[str, Any] | str | Path, backend: BackendName = "auto", rng: Any = None
    ) -> None:
        self.recipe = recipe
        self.backend = backend
        self.rng = rng

    @property
    def rng(self) -> Any:
        """The secret of the draws, in a form that can be shown."""
        return self._rng

    @rng.setter
    def rng(self, rng: Any) -> None:
        self._rng = rng if rng is None or isinstance(rng, np.random.Generator) else as_key(rng)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rng": None}

    def fit(self, X: Any, y: None = None) -> Anonymizer:
        """Mask `X` and keep the release."""
        if y is not None:
            raise GpuanonError("y: a release comes out in another order", hint="make the target a column of X")
        self.release_: Release = protect(X, self.recipe, rng=self.rng, backend=self.backend)
        return self

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Mask `X`: the same kind of dataframe, verified, in random order."""
        return self.fit(X, y).release_.data

    def transform(self, X: Any) -> Any:
        """Refuse: rows that were not masked together cannot be masked alike."""
        raise GpuanonError(
            "transform: unseen rows have no group to mix with, so no guarantee could hold for them",
            hint="mask all rows together with fit_transform",
        )
