"""Bits of rows follow from a secret: values cannot be planted so that different rows share them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.tables.row_bits import keyed_rows, row_bits, text_bits, with_keyed_rows
from gpuanon.tables.table import Table

KEY, OTHER = Key(b"a key for tests, of sixteen bytes or more"), Key(b"another key for tests of the bits of rows")
GAMMA = 0x9E3779B97F4A7C15
TOP = np.uint64(1 << 63)


def unmixed(words):
    """The words that multiplicative hashing without a secret mixes to `words`."""
    with np.errstate(over="ignore"):
        words = words ^ (words >> np.uint64(32))
        words = words * np.uint64(pow(GAMMA, -1, 1 << 64))
        return words ^ (words >> np.uint64(32))


def planted(rows=40):
    """Pairs of rows that differ in both columns by half of 2^64 after such mixing: odd multipliers cancel that."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2**64, rows, dtype=np.uint64) for _ in range(2))
    both = [unmixed(np.concatenate([words, words ^ TOP])).view(np.int64) for words in (a, b)]
    return pa.table({"a": both[0], "b": both[1], "cost": rng.normal(size=2 * rows)})


@pytest.mark.parametrize("write", [False, True])
def test_planted_values_do_not_make_a_class(write, tmp_path):
    columns = {name: {"role": "quasi", "keep": True} for name in "ab"} | {"cost": {"role": "sensitive"}}
    rules = {"columns": columns, "mask": [{"method": "noise", "columns": ["cost"]}]}
    release = gpuanon.protect(planted(), rules, rng=b"a key for the tests of rows", backend="numpy")
    manifest = release.write(tmp_path / "release.parquet") if write else release.manifest
    frame = release.data.to_pandas()
    assert manifest["quasi"]["smallest_class"] == frame.groupby(["a", "b"]).size().min() == 1


def test_bits_are_those_of_the_key_in_all_threads():
    table = Table.of(
        pa.table({"x": np.arange(300.0), "t": [f"t{i % 50}" for i in range(300)], "n": [None, 1, 2] * 100})
    )

    def bits(_=None):
        return row_bits(table, ["x", "t", "n"])

    plain = bits()
    with keyed_rows(KEY):
        keyed = bits()
        inside = each(bits, range(8))
    assert all(np.array_equal(keyed, one) for one in inside)
    assert np.array_equal(plain, bits())
    with ThreadPoolExecutor(2) as pool:  # a worker that knows nothing of the run
        assert np.array_equal(pool.submit(with_keyed_rows, KEY, bits, None).result(), keyed)
        assert np.array_equal(pool.submit(bits).result(), plain)
    with keyed_rows(OTHER):
        other = bits()
    for found in (keyed, other):
        assert not np.isin(found, plain).any()
        classes = pd.DataFrame(found).groupby([0, 1]).ngroup()
        assert classes.nunique() == 300  # x tells all rows apart
    assert not np.isin(keyed, other).any()


def test_text_is_keyed_too_short_and_long():
    for texts in (["a", "b", None, "ab"], ["a" * 70, "b", None, "ab"]):
        found = []
        for key in (KEY, OTHER):
            with keyed_rows(key):
                found.append(text_bits(pa.array(texts, pa.string())))
        known = [0, 1, 3]
        assert not np.isin(found[0][known], found[1][known]).any()
        assert not found[0][2].any()  # a null has the bits of an empty text


def test_the_secret_of_a_task_is_not_shown():
    from functools import partial

    assert "a key for tests" not in repr(partial(with_keyed_rows, KEY, print))
