"""Conditional distribution functions and their empirical inverse on the device, against the formulas themselves."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.operations.dither.empirical import conditional_ranges, running_weights
from gpuanon.masking.operations.dither.permute import resample
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.interpreter import Module
from tests.cuda.support.machine import Watch

Array = np.ndarray[Any, Any]
NO_SHARED = {"shared_per_block": 256, "shared_per_block_optin": 256}
TOLERANCE = {np.float64: 1e-12, np.float32: 1e-6}


@pytest.fixture(autouse=True)
def _limits_of_each_device() -> None:
    """The stand-ins of these tests differ in their limits, which are queried once per device."""
    kernels._limits.cache_clear()


class Mixtures:
    """Gaussian mixtures, one per part, and samples of them."""

    def __init__(self, samples: Sequence[int], components: Sequence[int], d: int, real: type, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.starts = np.concatenate([[0], np.cumsum(samples)])
        self.first = np.concatenate([[0], np.cumsum(components)])
        c = int(self.first[-1])
        factors = np.tril(rng.normal(size=(c, d, d))) * 0.4
        factors[:, range(d), range(d)] = rng.uniform(0.5, 1.5, size=(c, d))
        # The reference uses the arguments of the kernel, rounded to its type.
        self.means = rng.normal(size=(c, d)).astype(real)
        self.whitening = np.linalg.inv(factors).astype(real)
        self.log_weights = np.log(rng.dirichlet(np.ones(c))).astype(real)
        own = np.repeat(np.arange(len(samples)), samples)
        chosen = rng.integers(self.first[own], self.first[own + 1])
        noise = np.einsum("nij,nj->ni", factors[chosen], rng.normal(size=(len(own), d)))
        self.x = (self.means[chosen] + noise).astype(real)

    def arrays(self) -> tuple[Array, ...]:
        return self.x, self.starts, self.means, self.whitening, self.log_weights, self.first

    def expected(self) -> Array:
        """Equations 12–14 of Wei et al. with the covariances themselves: no triangular factor, no recursion."""
        u = np.empty(self.x.shape)
        for part in range(len(self.starts) - 1):
            for i in range(self.starts[part], self.starts[part + 1]):
                u[i] = self._of_sample(self.x[i].astype(float), range(self.first[part], self.first[part + 1]))
        return u

    def _of_sample(self, x: Array, components: range) -> list[float]:
        means = self.means.astype(float)
        covariances = [np.linalg.inv(W.T @ W) for W in self.whitening[components].astype(float)]
        log_posterior = self.log_weights[components].astype(float)
        u = []
        for j in range(len(x)):
            z, log_density = [], []
            for component, cov in zip(components, covariances, strict=True):
                along = np.linalg.solve(cov[:j, :j], cov[:j, j])
                mu = means[component, j] + along @ (x[:j] - means[component, :j])
                sigma = np.sqrt(cov[j, j] - along @ cov[:j, j])
                z.append((x[j] - mu) / sigma)
                log_density.append(norm.logpdf(x[j], mu, sigma))
            u.append(np.exp(logsumexp(log_posterior + norm.logcdf(z)) - logsumexp(log_posterior)))
            log_posterior = log_posterior + np.array(log_density)
        return u


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 7])
def test_conditional_cdfs_are_those_of_the_equations(cp: Any, real: type, d: int) -> None:
    mixtures = Mixtures((33, 1, 40), (3, 1, 5), d, real)
    u = conditional_cdfs(*map(cp.asarray, mixtures.arrays()))
    assert isinstance(u, cp.ndarray)
    assert u.dtype == real
    np.testing.assert_allclose(host(u), mixtures.expected(), rtol=TOLERANCE[real])


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 4])
def test_conditional_cdfs_agree_with_numpys(cp: Any, real: type, d: int) -> None:
    mixtures = Mixtures((50, 20), (4, 9), d, real)
    mixtures.x[:4] -= np.array([[2], [4], [6], [8]], real)  # small probabilities too
    device = conditional_cdfs(*map(cp.asarray, mixtures.arrays()))
    x, starts, means, whitening, log_weights, first = mixtures.arrays()
    wide = (array.astype(np.float64) for array in (x, means, whitening, log_weights))
    samples, *mixture = wide
    twins = conditional_cdfs(samples, starts, *mixture, first)
    assert twins.min() < 1e-9
    np.testing.assert_allclose(host(device), twins, rtol=TOLERANCE[real], atol=np.finfo(np.float32).tiny)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_state_that_shared_memory_cannot_hold_is_kept_in_global_memory(real: type) -> None:
    mixtures = Mixtures((40,), (3,), 3, real)
    with fake_cupy(races=True) as cp:
        in_shared = host(conditional_cdfs(*map(cp.asarray, mixtures.arrays())))
    kernels._limits.cache_clear()
    with fake_cupy(races=True, **NO_SHARED) as cp:
        np.testing.assert_array_equal(host(conditional_cdfs(*map(cp.asarray, mixtures.arrays()))), in_shared)


def test_samples_that_do_not_fit_the_memory_are_transformed_in_pieces() -> None:
    mixtures = Mixtures((40, 0, 40), (3, 1, 2), 2, np.float64)
    with fake_cupy() as cp:
        at_once = host(conditional_cdfs(*map(cp.asarray, mixtures.arrays())))
    with fake_cupy(free_memory=1500) as cp:
        np.testing.assert_array_equal(host(conditional_cdfs(*map(cp.asarray, mixtures.arrays()))), at_once)
        assert len(cp.launches) > 1


def test_components_of_weight_0_are_ignored(cp: Any) -> None:
    mixtures = Mixtures((20,), (4,), 3, np.float64)
    mixtures.log_weights[[0, 2]] = -np.inf
    u = host(conditional_cdfs(*map(cp.asarray, mixtures.arrays())))
    alive = Mixtures((20,), (4,), 3, np.float64)
    alive.means, alive.whitening = alive.means[[1, 3]], alive.whitening[[1, 3]]
    alive.log_weights, alive.first = alive.log_weights[[1, 3]], np.array([0, 2])
    np.testing.assert_allclose(u, alive.expected(), rtol=1e-12)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_samples_far_from_every_component_keep_their_precision(cp: Any, real: type) -> None:
    # At 60 deviations the densities are below the smallest number; only their ratios are needed.
    mixtures = Mixtures((6,), (3,), 2, real)
    mixtures.x[:] = [[60, 0], [-60, 1], [0, 60], [1, -60], [60, 60], [-45, 30]]
    u = host(conditional_cdfs(*map(cp.asarray, mixtures.arrays())))
    expected = mixtures.expected()
    known = expected > np.finfo(real).tiny  # below, the type holds nothing
    np.testing.assert_allclose(u[known], expected[known], rtol=30 * TOLERANCE[real])  # z² / 2 = 1800 costs 11 bits
    assert (u[~known] <= np.finfo(real).tiny).all()


# -- the empirical inverse ---------------------------------------------------------------------------------------------


def naive_inverse(u: Array, X: Array, labels: Array, weights: Array | None) -> Array:
    """Equation 9, record by record: the smallest value whose conditional distribution function reaches u."""
    weights = np.ones(len(X)) if weights is None else weights
    found = np.empty_like(X)
    for i in range(len(X)):
        alike = labels == labels[i]
        for j in range(X.shape[1]):
            values = np.unique(X[alike, j])
            shares = np.array([weights[alike & (X[:, j] <= v)].sum() for v in values]) / weights[alike].sum()
            found[i, j] = values[np.argmax(shares >= u[i, j])]
            alike &= X[:, j] == found[i, j]
    return found


def on(cp: Any, p: Partition) -> Partition:
    """The partition on the device."""
    return Partition(cp.asarray(p.order), cp.asarray(p.starts))


@settings(max_examples=25, deadline=None, derandomize=True)
@example(seed=0, n=1, d=1, parts=1, weighted=False)
@example(seed=1, n=60, d=3, parts=4, weighted=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    d=st.integers(1, 3),
    parts=st.integers(1, 4),
    weighted=st.booleans(),
)
def test_the_inverse_is_the_smallest_value_that_reaches_u(
    seed: int, n: int, d: int, parts: int, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, d)).astype(np.float64)
    labels = rng.integers(0, parts, n)
    weights = 2.0 ** rng.integers(0, 3, n) if weighted else None  # sums and shares of halves: exact
    u = rng.integers(1, 64, size=(n, d)) / 64
    p = Partition.from_labels(labels)
    with fake_cupy() as cp:
        given_weights = None if weights is None else cp.asarray(weights)
        low, high, order = map(host, conditional_ranges(cp.asarray(u), cp.asarray(X), on(cp, p), given_weights))
        for ours, twins in zip((low, high, order), conditional_ranges(u, X, p, weights), strict=True):
            np.testing.assert_array_equal(ours, twins)
    np.testing.assert_array_equal(X[order[low]], naive_inverse(u, X, labels, weights))
    np.testing.assert_array_equal(X[order[high - 1]], X[order[low]])


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_inverse_takes_every_type_of_column(cp: Any, dtype: type) -> None:
    rng = np.random.default_rng(0)
    X, u = rng.integers(0, 5, size=(70, 3)).astype(dtype), rng.uniform(size=(70, 3))
    u[:4] = [[0, 0, 0], [1, 1, 1], [0, 1, 0], [0.5, 0.5, 0.5]]
    p = Partition.from_labels(rng.integers(0, 3, 70))
    device = conditional_ranges(cp.asarray(u), cp.asarray(X), on(cp, p))
    for ours, twins in zip(device, conditional_ranges(u, X, p), strict=True):
        np.testing.assert_array_equal(host(ours), twins)


def test_weights_of_many_digits_equal_numpy_to_the_bit(cp: Any) -> None:
    rng = np.random.default_rng(5)
    X, weights = rng.integers(0, 4, size=(300, 2)) * 1.0, rng.lognormal(sigma=2, size=300)
    p = Partition.from_labels(rng.integers(0, 3, 300))
    running = running_weights(cp.asarray(weights), on(cp, p))
    assert running.dtype == np.int64  # a scan of whole numbers is exact, whatever its order
    np.testing.assert_array_equal(host(running), running_weights(weights, p))
    # The first column's borders between two values, where the last bit decides.
    labels = p.labels()
    borders = [
        weights[(labels == a) & (X[:, 0] <= x)].sum() / weights[labels == a].sum()
        for a, (x, _) in zip(labels, X, strict=True)
    ]
    u = np.column_stack([borders, rng.random(300)])
    device = conditional_ranges(cp.asarray(u), cp.asarray(X), on(cp, p), cp.asarray(weights))
    for ours, twins in zip(device, conditional_ranges(u, X, p, weights), strict=True):
        np.testing.assert_array_equal(host(ours), twins)
    key = Key(bytes(range(32)))
    ours = resample(on(cp, p), key.draws(cp.arange(300)), cp.asarray(weights))
    np.testing.assert_array_equal(host(ours), resample(p, key.draws(np.arange(300)), weights))


# -- memory ------------------------------------------------------------------------------------------------------------


def test_only_the_size_of_the_largest_mixture_is_copied_to_the_host(cp: Any) -> None:
    mixtures = [cp.asarray(array) for array in Mixtures((40, 24), (4, 9), 4, np.float64).arrays()]
    X, blocks = cp.asarray(np.random.default_rng(0).integers(0, 3, size=(64, 4)) * 1.0), on(cp, Partition.whole(64))
    cp.transfers.clear()
    conditional_ranges(conditional_cdfs(*mixtures), X, blocks)
    assert [copy.how for copy in cp.transfers.copies] == ["int()"]


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("device", [{}, NO_SHARED], ids=["shared", "global"])
def test_every_request_of_the_forward_kernel_is_coalesced(device: dict[str, int], real: type) -> None:
    with fake_cupy(traffic=True, **device) as cp:
        conditional_cdfs(*map(cp.asarray, Mixtures((64, 64), (3, 2), 5, real).arrays()))
        counters = cp.launches[-1][1].traffic.table()
    assert len(counters) > 20
    assert [c for c in counters if c.ratio > 2] == []


def huge(shape: tuple[int, ...], dtype: type) -> Array:
    """An array whose memory is only reserved until it is touched."""
    reserve_nothing = 0x4000  # MAP_NORESERVE of Linux, which the module does not name before Python 3.13
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve_nothing
    return np.frombuffer(mmap.mmap(-1, int(np.prod(shape)) * np.dtype(dtype).itemsize, flags=flags), dtype).reshape(
        shape
    )


@pytest.mark.parametrize("in_shared", [True, False])
def test_the_last_sample_and_component_of_huge_tables_are_found(in_shared: bool) -> None:
    n, size, d, c = 2**31 + 7, 20, 2, 2**30 + 3
    mixtures = Mixtures((size,), (2,), d, np.float32)
    x, u, scratch = huge((d, n), np.float32), huge((d, n), np.float32), huge((4, d, n), np.float64)
    means, whitening = huge((c, d), np.float32), huge((c, d, d), np.float32)
    log_diagonal, log_weights = huge((c, d), np.float32), huge((c,), np.float32)
    x[:, -size:] = mixtures.x.T
    means[-2:], whitening[-2:], log_weights[-2:] = mixtures.means, mixtures.whitening, mixtures.log_weights
    log_diagonal[-2:] = np.log(mixtures.whitening.diagonal(axis1=1, axis2=2))
    rows, components, tiles = np.array([n - size, n]), np.array([c - 2, c]), np.array([0, 1])
    sizes = (np.int64(1), np.int64(n), np.int32(d))
    model = (means, whitening, log_diagonal, log_weights)
    whole = (np.int64(0), np.int64(c), np.int32(1))
    args = (x, rows, components, tiles, *sizes, *model, np.uint64(0) if in_shared else scratch, *whole, u)
    shared = 4 * d * 32 * 8 if in_shared else 0
    Module.of("rosenblatt", real="float").launch(
        "rosenblatt", grid=(1,), block=(32,), args=args, shared=shared, watch=Watch(races=False)
    )
    np.testing.assert_allclose(u[:, -size:].T, mixtures.expected(), rtol=1e-6)


def test_the_last_part_of_a_huge_sorted_table_is_found() -> None:
    n, d, size = 2**31 + 5, 2, 6
    rows, u = huge((d, n), np.float32), np.array([[0.1, 0.5, 0.9], [0.2, 0.9, 0.4]])
    rows[:, -size:] = [[1, 1, 1, 2, 2, 2], [5, 6, 6, 1, 2, 3]]
    low, high = np.empty(3, np.int64), np.empty(3, np.int64)
    args = (u, rows, np.zeros(3, np.int64), np.array([n - size, n]), np.uint64(0))
    Module.of("empirical_inverse", real="float").launch(
        "empirical_inverse",
        grid=(1,),
        block=(32,),
        args=(*args, np.int64(3), np.int32(d), np.int64(n), low, high),
        watch=Watch(races=False),
    )
    np.testing.assert_array_equal(low - (n - size), [0, 1, 4])
    np.testing.assert_array_equal(high - (n - size), [1, 3, 5])
