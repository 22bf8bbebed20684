"""Kernel principal components, against scikit-learn and the thesis's definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from gpuanon.errors import ParameterError
from gpuanon.numerics.kernel_components import KernelPCA, _moments
from gpuanon.numerics.kernel_values import Kernel, kernel_matrix, kernel_product

KERNELS = [
    (Kernel(), {"kernel": "poly", "degree": 4, "gamma": 1, "coef0": 1}),
    (Kernel(degree=3, constant=0.5), {"kernel": "poly", "degree": 3, "gamma": 1, "coef0": 0.5}),
    (Kernel("rbf", sigma=1.5), {"kernel": "rbf", "gamma": 0.5 / 1.5**2}),
    (Kernel("exponential", sigma=2), {"kernel": lambda x, y: np.exp(x @ y / 4)}),
]


def reference_matrix(X, Y, kernel):
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    if kernel.kind == "rbf":
        return rbf_kernel(X, Y, gamma=kernel.gamma)
    if kernel.kind == "exponential":
        return np.exp(X @ Y.T / kernel.sigma**2)
    return polynomial_kernel(X, Y, degree=kernel.degree, gamma=1, coef0=kernel.constant)


@given(
    st.integers(0, 30),
    st.integers(1, 30),
    st.integers(1, 6),
    st.integers(1, 7),
    st.sampled_from([np.float64, np.float32]),
)
@example(5, 1, 1, 1, np.float32)
def test_matrix_and_product_equal_those_of_scikit_learn(n, m, d, degree, dtype):
    rng = np.random.default_rng(n)
    X, Y, W = (rng.normal(size=shape).astype(dtype) for shape in ((n, d), (m, d), (m, 3)))
    for kernel in (Kernel(degree=degree), Kernel("rbf", sigma=0.5 + degree), Kernel("exponential", sigma=2.0)):
        K = reference_matrix(X, Y, kernel) if n else np.empty((0, m))
        scale = np.abs(K).max(initial=1)
        np.testing.assert_allclose(kernel_matrix(X, Y, kernel), K, rtol=0, atol=40 * np.finfo(dtype).eps * scale)
        found = kernel_product(X, Y, W, kernel)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, K @ W, rtol=0, atol=40 * np.finfo(dtype).eps * scale * np.abs(W).sum())


@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_exact_components_equal_those_of_scikit_learn(kernel, options):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(200, 4)), rng.normal(size=(60, 4))
    reference = Reference(n_components=8, eigen_solver="dense", **options).fit(X)
    found = KernelPCA.fit(X, kernel, share=1, components=8)
    np.testing.assert_allclose(found.variances * len(X), reference.eigenvalues_, rtol=1e-10)
    expected = reference.transform(new)
    projected = found.project(new)
    sign = np.sign((expected * projected).sum(axis=0))
    np.testing.assert_allclose(projected, expected * sign, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_with_every_row_a_landmark_nystrom_is_exact(kernel, options):
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=(150, 3)), rng.normal(size=(40, 3))
    exact = KernelPCA.fit(X, kernel, share=1, components=6)
    nystrom = KernelPCA.fit(X, kernel, share=1, components=6, exact_rows=10, landmarks=150)
    assert nystrom.captured == pytest.approx(1)
    np.testing.assert_allclose(nystrom.variances, exact.variances, rtol=1e-8)
    np.testing.assert_allclose(
        np.abs(nystrom.project(new)), np.abs(exact.project(new)), atol=1e-7 * np.sqrt(exact.variances[0])
    )


def test_a_polynomial_kernel_has_a_finite_space_so_enough_landmarks_are_exact():
    """Degree 2 in 3 columns: 10 monomials.  80 landmarks span them, and the components are those of all rows."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3))
    exact = KernelPCA.fit(X, Kernel(degree=2), share=1)
    few = KernelPCA.fit(X, Kernel(degree=2), share=1, exact_rows=10, landmarks=80)
    assert len(exact.variances) == len(few.variances) == 9  # the constant has no variance
    np.testing.assert_allclose(few.variances, exact.variances, rtol=1e-8)


def test_a_linear_kernel_gives_plain_principal_components():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 50
    reference = PCA().fit(X)
    for rows in (1000, 10):
        found = KernelPCA.fit(X, Kernel(degree=1, constant=0), share=1, exact_rows=rows, landmarks=50)
        assert len(found.variances) == 4
        np.testing.assert_allclose(found.variances, reference.explained_variance_ * 299 / 300, rtol=1e-8)
        np.testing.assert_allclose(np.abs(found.project(X)), np.abs(reference.transform(X)), atol=1e-6)


def test_projections_of_the_fitted_rows_are_centred_uncorrelated_and_have_the_stated_variances():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5))
    for rows in (1000, 10):
        found = KernelPCA.fit(X, share=0.9, exact_rows=rows, landmarks=100)
        P = found.project(X)
        scale = np.sqrt(found.variances[0])
        assert np.abs(P.mean(axis=0)).max() < 1e-10 * scale
        np.testing.assert_allclose(np.cov(P.T, bias=True), np.diag(found.variances), atol=1e-9 * scale**2)


def test_components_stop_at_the_share_of_variance():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 3))
    everything = KernelPCA.fit(X, share=1)
    shares = np.cumsum(everything.variances) / everything.variances.sum()
    found = KernelPCA.fit(X, share=0.8)
    count = len(found.variances)
    assert shares[count - 1] >= 0.8 > shares[count - 2]
    assert found.share == pytest.approx(shares[count - 1])
    assert len(KernelPCA.fit(X, share=0.8, components=2).variances) == 2


def test_single_precision_stays_single():
    X = np.random.default_rng(6).normal(size=(100, 3)).astype(np.float32)
    single, double = KernelPCA.fit(X, share=0.9), KernelPCA.fit(X.astype(np.float64), share=0.9)
    assert single.project(X).dtype == np.float32
    scale = np.sqrt(double.variances[0])
    np.testing.assert_allclose(single.project(X), double.project(X), atol=1e-4 * scale)


def test_constant_rows_have_components_of_zero_variance():
    found = KernelPCA.fit(np.ones((20, 3)))
    assert found.variances.tolist() == [0]
    assert np.abs(found.project(np.ones((2, 3)))).max() < 1e-9


def test_many_rows_project_like_single_rows(monkeypatch):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 3))
    found = KernelPCA.fit(X, share=0.9)
    whole = found.project(X)
    monkeypatch.setattr("gpuanon.numerics.kernel_values._TILE", 1000)
    np.testing.assert_allclose(found.project(X), whole, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.project(X[5:6]), whole[5:6], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("q", [40, 25])
def test_moments_of_tiles_are_those_of_all_rows(monkeypatch, q):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(700, 3))
    L, W = X[:40], np.tril(rng.normal(size=(40, q)))
    for name, size in (("_PHI", 64), ("_PART", 200), ("_STRIP", 16)):
        monkeypatch.setattr(f"gpuanon.numerics.kernel_components.{name}", size)
    mean, covariance = _moments(X, L, W, Kernel())
    phi = kernel_matrix(X, L) @ W
    np.testing.assert_allclose(mean, phi.mean(axis=0), rtol=1e-10, atol=1e-10 * np.abs(phi).max())
    np.testing.assert_allclose(covariance, np.cov(phi.T, bias=True), rtol=1e-9, atol=1e-12 * phi.var())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Kernel("linear"), "kernel"),
        (lambda: Kernel(degree=0), "degree"),
        (lambda: Kernel("rbf", sigma=0), "sigma"),
        (lambda: KernelPCA.fit(np.ones((1, 2))), "two rows"),
        (lambda: KernelPCA.fit(np.ones((5, 2)), share=0), "share"),
        (lambda: kernel_product(np.ones((2, 3)), np.ones((4, 3)), np.ones((3, 1))), "X, Y, W"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_rows_too_long_for_the_exponential_kernel_are_refused():
    X = np.full((3, 2), 30.0)
    with pytest.raises(ParameterError, match="larger sigma"):
        kernel_product(X, X, np.ones((3, 1)), Kernel("exponential"))
    assert np.isfinite(kernel_product(X, X, np.ones((3, 1)), Kernel("exponential", sigma=10))).all()
