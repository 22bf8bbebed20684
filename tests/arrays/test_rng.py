"""Random draws: the published answers, independence of order and batch, and their distributions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from gpuanon.arrays.rng import Key, philox
from gpuanon.errors import ParameterError
from tests.support.philox import KNOWN, SECRET, words


def slow_philox(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds of Philox 4x32, on Python's integers, as in fig. 2 of Salmon et al. (2011)."""
    (x0, x1, x2, x3), (k0, k1) = counter, key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * x0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * x2, 1 << 32)
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % (1 << 32), (k1 + 0xBB67AE85) % (1 << 32)
    return [x0, x1, x2, x3]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter, key, answer):
    found = philox(np.array(words(counter), dtype=np.uint32)[:, None], tuple(words(key)))
    assert found[:, 0].tolist() == words(answer) == slow_philox(words(counter), words(key))
    assert found.dtype == np.uint32


word = st.integers(0, 2**32 - 1)


@given(st.lists(word, min_size=4, max_size=4), st.lists(word, min_size=2, max_size=2))
@example([2**32 - 1, 0, 2**31, 1], [0, 2**32 - 1])
def test_philox_equals_an_implementation_on_python_integers(counter, key):
    found = philox(np.array(counter, dtype=np.uint32)[:, None], tuple(key))
    assert found[:, 0].tolist() == slow_philox(counter, key)


def test_philox_of_many_counters_equals_philox_of_each():
    counters = np.random.default_rng(0).integers(0, 2**32, (4, 40_000), dtype=np.uint32)
    many = philox(counters, (1, 2))
    for at in (0, 1, 16_383, 16_384, 39_999):
        assert np.array_equal(many[:, at], philox(counters[:, at : at + 1], (1, 2))[:, 0])


def draws(records, path="test"):
    return Key(SECRET).draws(np.asarray(records, dtype=np.int64), path)


def test_words_are_philox_of_record_block_and_stream():
    k0, k1, tweak = Key(SECRET).derive("test")
    records = [0, 5, 2**32 + 7, 2**40]
    found = draws(records).words(7)
    for row, record in enumerate(records):
        for block in range(2):
            expected = slow_philox([record % 2**32, record >> 32, block, tweak], [k0, k1])
            wanted = min(4, 7 - 4 * block)
            assert found[row, 4 * block : 4 * block + wanted].tolist() == expected[:wanted]


@given(st.integers(1, 9), st.integers(1, 50))
@example(5, 1)
def test_a_draw_does_not_depend_on_other_records(count, n):
    records = np.random.default_rng(n).permutation(10_000)[:n]
    for kind in ("words", "uniform", "normal"):
        together = getattr(draws(records), kind)(count)
        assert together.shape == (n, count)
        one = draws(records).take(np.array([n // 2]))
        assert np.array_equal(getattr(one, kind)(count)[0], together[n // 2])
        assert np.array_equal(getattr(draws(records), kind)(count + 3)[:, :count], together)
        assert np.array_equal(getattr(draws(records[::-1]), kind)(count), together[::-1])
    assert np.array_equal(draws(records[::-1]).keys(), draws(records).keys()[::-1])


def test_threads_and_batches_do_not_change_draws(monkeypatch):
    many = draws(np.arange(100_000))
    several = many.words(5), many.uniform(2), many.normal(3), many.keys()
    monkeypatch.setenv("GPUANON_THREADS", "1")
    monkeypatch.setattr("gpuanon.arrays.rng._LANES", 777)
    for one, other in zip(several, (many.words(5), many.uniform(2), many.normal(3), many.keys()), strict=True):
        assert np.array_equal(one, other)


def test_uniforms_keys_and_normals_come_from_the_same_words():
    some = draws(np.arange(100))
    w = some.words(4).astype(np.uint64)
    assert np.array_equal(some.keys(), w[:, 0] << np.uint64(32) | w[:, 1])
    bits = (w[:, 0::2] << np.uint64(20)) | (w[:, 1::2] >> np.uint64(12))
    assert np.array_equal(some.uniform(2), (bits.astype(np.float64) + 0.5) / 2**52)
    np.testing.assert_allclose(some.normal(2), stats.norm.ppf(some.uniform(2)), rtol=1e-13)


def test_uniforms_never_reach_0_or_1():
    from gpuanon.arrays.rng import _units

    for word, expected in ((0, 2.0**-53), (2**32 - 1, 1 - 2.0**-53)):
        assert _units([np.array([word], dtype=np.uint64)] * 4)[0][0] == expected


def test_draws_follow_their_distributions():
    n = 100_000
    some = draws(np.arange(n), "distribution")
    uniform, normal = some.uniform(3), some.child("normal").normal(3)
    for j in range(3):
        assert stats.kstest(uniform[:, j], "uniform").pvalue > 1e-3
        assert stats.kstest(normal[:, j], "norm").pvalue > 1e-3
    correlations = np.corrcoef(np.concatenate([uniform, normal], axis=1).T)[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(n)
    # Next records are as independent as next columns.
    assert abs(np.corrcoef(uniform[1:, 0], uniform[:-1, 0])[0, 1]) < 4 / np.sqrt(n)
    bits = np.unpackbits(some.words(1).view(np.uint8), axis=1).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 4 * 0.5 / np.sqrt(n)


def test_streams_and_keys_are_independent():
    records = np.arange(50_000)
    a, b = draws(records, "a").uniform()[:, 0], draws(records, "b").uniform()[:, 0]
    c = Key(SECRET + b"!").draws(records, "a").uniform()[:, 0]
    assert np.abs(np.corrcoef([a, b, c])[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(50_000)
    assert np.array_equal(draws(records, "a").child("x").words(1), draws(records, "a/x").words(1))


def test_no_records_and_no_numbers_are_allowed():
    assert draws([]).uniform(3).shape == (0, 3)
    assert draws([]).keys().shape == (0,)
    assert draws([1, 2]).words(0).shape == (2, 0)


def test_the_key_is_in_no_repr_or_message(tmp_path, monkeypatch):
    key = Key(SECRET)
    for text in (repr(key), str(key), repr(key.draws(np.arange(3), "p")), str(vars(type(key)))):
        assert SECRET.decode() not in text
    assert np.array_equal(
        pickle.loads(pickle.dumps(key)).draws(np.arange(3)).words(1), key.draws(np.arange(3)).words(1)
    )
    assert Key.fresh().derive("a") != Key.fresh().derive("a")
    with pytest.raises(ParameterError, match="at least 16 bytes"):
        Key(b"short")
    file = tmp_path / "key"
    file.write_bytes(SECRET + b"\n")
    monkeypatch.setenv("GPUANON_KEY", SECRET.decode())
    assert Key.find(file).derive("a") == Key.find().derive("a") == key.derive("a")
    with pytest.raises(ParameterError, match="key file"):
        Key.find(tmp_path / "missing")
