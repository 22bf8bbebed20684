"""Partitioned ICA swapping of scikit-learn's parts: SpectralClustering, then FastICA in every cluster.

Nothing of gpuanon is used: `bench/baselines.py` also runs this file in an environment that has scikit-learn alone.
"""

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import FastICA


def with_scikit_learn(X: np.ndarray) -> np.ndarray:
    """(n, d) released rows: clusters of about 200 rows, ICA of as many components as a cluster has dimensions."""
    rng = np.random.default_rng(0)
    scale = np.median(pdist(X[::20]))
    clusters = SpectralClustering(n_clusters=len(X) // 200, gamma=0.5 / scale**2, random_state=0).fit_predict(X)
    released = np.empty_like(X)
    for cluster in np.unique(clusters):
        here = np.flatnonzero(clusters == cluster)
        q = int(np.linalg.matrix_rank(X[here] - X[here].mean(axis=0)))
        if q < 1 or len(here) < 3:
            released[here] = X[here]
            continue
        ica = FastICA(n_components=q, whiten="unit-variance", random_state=0, max_iter=200)
        T = ica.fit_transform(X[here])
        released[here] = ica.inverse_transform(rng.permuted(T, axis=0))
    return released
