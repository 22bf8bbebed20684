"""Rows of a table as 128 bits that are equal for equal rows, in whatever piece of the table they lie.

A value is one 64-bit word (text: two).  With x its bits, mixed with a secret word of the column, and odd secret
multipliers a, b, a row is the pair of sums ``Σ a x`` and ``Σ b x`` over its columns (multiplicative hashing [1]_),
mixed once more.  Different rows share their bits with probability of about 2^-126 over the secret, which follows from
the key of a run (`keyed_rows`): who does not know it cannot write a table whose different rows share their bits.
Outside of a run the secret is a constant, so that figures are the same every time.

References
----------
.. [1] M. Dietzfelbinger, T. Hagerup, J. Katajainen, M. Penttonen (1997), A reliable randomized algorithm for the
   closest-pair problem, J. Algorithms 25(1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Backend, Host, on_device
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Key, mix_bits
from gpuanon.arrays.threads import each
from gpuanon.tables.arrow import arrow_scalar, numpy_array
from gpuanon.tables.native import without_nan
from gpuanon.tables.table import Table
from gpuanon.tables.values import distinct, family, lookup, plain, ticks

if TYPE_CHECKING:
    import pyarrow as pa


_SHORT = 64
_secret: ContextVar[bytes] = ContextVar("secret of row bits", default=b"no run: bits that are the same every time")


@contextmanager
def keyed_rows(key: Key) -> Iterator[None]:
    """Bits of rows are those of this key; in all threads that are started from here."""
    token = _secret.set(key.secret("bits of rows"))
    try:
        yield
    finally:
        _secret.reset(token)


def with_keyed_rows(key: Key, task: Callable[[Any], Any], item: Any) -> Any:
    """A task in `keyed_rows`, wherever it is done."""
    with keyed_rows(key):
        return task(item)


def _numbers(name: str, count: int) -> Host:
    """(count,) uint64 that the secret derives from a name."""
    digest = hashlib.blake2b(name.encode(), key=_secret.get(), digest_size=8 * count).digest()
    return np.frombuffer(digest, dtype=np.uint64)


def text_bits(texts: pa.Array) -> Host:
    """(n, 2) uint64 of an Arrow array of text: the sum over its bytes of a random number for each byte and place.

    Such sums (simple tabulation) of two different texts are equal with probability 2^-128 over the random numbers,
    which follow from the secret.  A null has the bits of an empty text.  Cost : O(bytes).
    """
    import pyarrow as pa

    texts = texts.cast(pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    content = texts.buffers()[2]
    letters = np.empty(0, np.uint8) if content is None else np.frombuffer(content, dtype=np.uint8)
    longest = int(np.diff(offsets).max(initial=0))
    seeds = _numbers("text", 2)
    return _short(letters, offsets, longest, seeds) if longest <= _SHORT else _long(letters, offsets, seeds)


def _short(letters: Host, offsets: Host, longest: int, seeds: Host) -> Host:
    """All texts at once, byte after byte."""
    out = np.zeros((len(offsets) - 1, 2), np.uint64)
    lengths, rows = np.diff(offsets), np.arange(len(offsets) - 1)
    for place in range(longest):
        rows = rows[lengths[rows] > place]
        found = letters[offsets[rows] + place]
        keys = np.arange(place * 256, place * 256 + 256, dtype=np.uint64)
        for half, seed in enumerate(seeds):
            out[rows, half] += mix_bits(keys ^ seed)[found]
    return out


def _long(letters: Host, offsets: Host, seeds: Host) -> Host:
    """Running sums over all bytes."""
    first, last = int(offsets[0]), int(offsets[-1])
    place = np.arange(last - first) - np.repeat(offsets[:-1] - first, np.diff(offsets))
    keys = (place * 256 + letters[first:last]).astype(np.uint64)
    out = np.empty((len(offsets) - 1, 2), np.uint64)
    for half, seed in enumerate(seeds):
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix_bits(keys ^ seed), dtype=np.uint64)])
        out[:, half] = running[offsets[1:] - first] - running[offsets[:-1] - first]
    return out


_LINES = 1 << 14  # rows whose words stay in a core's cache


@dataclass(frozen=True, eq=False, repr=False)
class Words:
    """The values of a column.

    values  : (n, 1) or (n, 2) uint64, equal for equal values
    missing : (n,) whether a value is null; None if none is
    secret  : (2,) what the values are mixed with
    factors : (2,) odd multipliers of the column
    null    : (2,) what a null adds to the sums.  No value adds both, so that a null differs from every value
    """

    values: Array
    missing: Array | None
    secret: Host
    factors: Host
    null: Host

    def on(self, backend: Backend) -> Words:
        """The same values on a device: one upload, or two where a value is null; none if they are there."""
        if backend.name == "numpy" or on_device(self.values):
            return self
        missing = None if self.missing is None else backend.upload(self.missing)
        return replace(self, values=backend.upload(np.ascontiguousarray(self.values)), missing=missing)


def row_bits(table: Table, columns: Sequence[str], *, stored: bool = False, backend: Backend = HOST) -> Array:
    """(n, 2) uint64: equal for rows that are equal on `columns`, in whatever piece of the table they lie.

    stored  : whether floats count by their bits; otherwise −0.0 is 0.0, and NaN is null
    backend : where the bits are made and stay, the same bits everywhere
    """
    return bits_of(list(column_words(table, columns, stored=stored).values()), table.n_rows, backend)


def column_words(table: Table, columns: Sequence[str], *, stored: bool) -> dict[str, Words]:
    """The values of each of the columns; `stored` as for `row_bits`."""

    def one(name: str) -> Words:
        column = table.arrow(name)
        return _named(name, _plain_numbers(column, stored) or _words(column if stored else without_nan(column)))

    names = list(dict.fromkeys(columns))
    return dict(zip(names, each(one, names), strict=True))


def _named(name: str, words: tuple[Host, Host | None]) -> Words:
    """The words of a column of this name."""
    numbers = _numbers(f"column {name}", 6)
    return Words(*words, numbers[:2], numbers[2:4] | np.uint64(1), numbers[4:])


def bits_of(columns: Sequence[Words], n: int, backend: Backend = HOST) -> Array:
    """(n, 2) uint64 of rows with these columns, on a device column by column: one of them is uploaded at a time."""
    if backend.name != "numpy":
        sums = backend.xp.zeros((2, n), np.uint64)
        for column in columns:
            _add(column.on(backend), slice(0, n), sums)
        return mix_bits(sums).T
    out = np.empty((2, n), np.uint64)

    def work(lines: slice) -> None:
        sums = np.zeros((2, lines.stop - lines.start), np.uint64)
        for column in columns:
            _add(column, lines, sums)
        out[:, lines] = mix_bits(sums)

    each(work, ranges(n, _LINES))
    return out.T


def _add(column: Words, lines: slice, sums: Array) -> None:
    """Add what the values of some rows contribute to their sums (2, m)."""
    missing = None if column.missing is None else column.missing[lines]
    for half in (0, 1):
        if half < column.values.shape[1]:
            mixed = mix_bits(column.values[lines, half] ^ column.secret[half])
        terms = mixed * column.factors[half]
        if missing is not None:
            terms[missing] = column.null[half]
        sums[half] += terms


def _plain_numbers(column: pa.ChunkedArray, stored: bool) -> tuple[Host, None] | None:
    """`_words` of float64 without nulls and NaN, without a copy that is not needed; None for other columns."""
    import pyarrow as pa

    if not pa.types.is_float64(column.type) or column.null_count:
        return None
    values = numpy_array(column)
    if not stored:
        if len(values) and bool(np.isnan(values.min())):
            return None
        values = values + 0.0 if bool((values == 0.0).any()) else values
    return np.ascontiguousarray(values).view(np.uint64)[:, None], None


def _words(column: pa.ChunkedArray) -> tuple[Host, Host | None]:
    """(n, 1) or (n, 2) words that are equal for equal values, and (n,) whether a value is null (None: nowhere)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=column.type.storage_type)
    missing = numpy_array(column.is_null()) if column.null_count else None
    kind = family(column.type)
    if pa.types.is_struct(column.type) and column.type.num_fields:
        names = [f"{at} {field.name}" for at, field in enumerate(column.type)]
        inside = [_named(name, _words(child)) for name, child in zip(names, column.flatten(), strict=True)]
        return bits_of(inside, len(column)), missing
    if kind == "time" or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        whole = ticks(plain(column)) if kind == "time" else column
        wide = pa.uint64() if pa.types.is_uint64(column.type) else pa.int64()
        numbers = numpy_array(pc.fill_null(whole.cast(wide), arrow_scalar(0, wide))).view(np.uint64)
    elif pa.types.is_floating(column.type):
        numbers = numpy_array(pc.fill_null(column.cast(pa.float64()), arrow_scalar(0.0, pa.float64()))).view(np.uint64)
    elif kind == "text":
        return _text_words(column)
    elif kind == "other":  # lists, maps: no distinct values to look up
        return _digests(column.to_pylist()), missing
    else:
        levels = distinct([column])
        known = _digests(levels.to_pylist() or [None])
        found = lookup(column, levels)
        nowhere = found < 0  # null, also behind a dictionary
        return known[np.maximum(found, 0)], nowhere if bool(nowhere.any()) else None
    return numbers[:, None], missing


def _text_words(column: pa.ChunkedArray) -> tuple[Host, Host | None]:
    """`_words` of text, with or without a dictionary."""
    import pyarrow as pa

    words, missing = [np.empty((0, 2), np.uint64)], [np.empty(0, bool)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(column.type):
            codes = numpy_array(chunk.indices.cast(pa.int64()).fill_null(arrow_scalar(-1, pa.int64())))
            levels, empty = text_bits(chunk.dictionary), numpy_array(chunk.dictionary.is_null())
            words.append(np.concatenate([levels, np.zeros((1, 2), np.uint64)])[codes])  # the code of a null is the last
            missing.append(np.append(empty, True)[codes])
        else:
            words.append(text_bits(chunk))
            missing.append(numpy_array(chunk.is_null()))
    nowhere = np.concatenate(missing)
    return np.concatenate(words), nowhere if bool(nowhere.any()) else None


def _digests(values: Sequence[Any]) -> Host:
    """(n, 2) words of each value's text."""
    key = _secret.get()
    digests = [hashlib.blake2b(str(value).encode(), key=key, digest_size=16).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
