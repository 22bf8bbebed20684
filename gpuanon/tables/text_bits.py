"""Text as 128-bit numbers, equal for equal text: all rows of a column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.hashing import mix_bits

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]

_SHORT = 64
_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))


def text_bits(texts: pa.Array) -> Host:
    """(n, 2) uint64 of an Arrow array of text: the sum over its bytes of a random number for each byte and place.

    Such sums (simple tabulation) of two different texts are equal with probability 2^-128 over the random numbers,
    which are the same in every run.  A null has the bits of an empty text.  Cost : O(bytes).
    """
    import pyarrow as pa

    texts = texts.cast(pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    content = texts.buffers()[2]
    letters = np.empty(0, np.uint8) if content is None else np.frombuffer(content, dtype=np.uint8)
    longest = int(np.diff(offsets).max(initial=0))
    return _short(letters, offsets, longest) if longest <= _SHORT else _long(letters, offsets)


def _short(letters: Host, offsets: Host, longest: int) -> Host:
    """All texts at once, byte after byte."""
    out = np.zeros((len(offsets) - 1, 2), np.uint64)
    lengths, rows = np.diff(offsets), np.arange(len(offsets) - 1)
    for place in range(longest):
        rows = rows[lengths[rows] > place]
        found = letters[offsets[rows] + place]
        keys = np.arange(place * 256, place * 256 + 256, dtype=np.uint64)
        for half, seed in enumerate(_SEEDS):
            out[rows, half] += mix_bits(keys ^ seed)[found]
    return out


def _long(letters: Host, offsets: Host) -> Host:
    """Running sums over all bytes."""
    first, last = int(offsets[0]), int(offsets[-1])
    place = np.arange(last - first) - np.repeat(offsets[:-1] - first, np.diff(offsets))
    keys = (place * 256 + letters[first:last]).astype(np.uint64)
    out = np.empty((len(offsets) - 1, 2), np.uint64)
    for half, seed in enumerate(_SEEDS):
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix_bits(keys ^ seed), dtype=np.uint64)])
        out[:, half] = running[offsets[1:] - first] - running[offsets[:-1] - first]
    return out
