"""Text as 128-bit numbers, equal for equal text: all rows of a column at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.hashing import mix_bits

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]

_TABLE = 1 << 20
_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))


def text_bits(texts: pa.Array) -> Host:
    """(n, 2) uint64 of an Arrow array of text: the sum over its bytes of a random number for each byte and place.

    Such sums (simple tabulation) of two different texts are equal with probability 2^-128 over the random numbers, which
    are the same in every run.  A null has the bits of an empty text.  Cost : O(bytes).
    """
    import pyarrow as pa

    texts = texts.cast(pa.large_binary())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, count=len(texts) + 1, offset=8 * texts.offset)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(texts) else (0, 0)
    content = texts.buffers()[2]
    letters = np.frombuffer(content, dtype=np.uint8, count=last)[first:] if last > first else np.empty(0, np.uint8)
    lengths = np.diff(offsets)
    place = np.arange(last - first) - np.repeat(offsets[:-1] - first, lengths)
    keys = place * 256 + letters
    longest = int(lengths.max(initial=0))
    out = np.empty((len(texts), 2), np.uint64)
    for half, seed in enumerate(_SEEDS):
        if longest * 256 <= _TABLE:
            numbers = mix_bits(np.arange(longest * 256, dtype=np.uint64) ^ seed)[keys]
        else:
            numbers = mix_bits(keys.astype(np.uint64) ^ seed)
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers, dtype=np.uint64)])
        out[:, half] = running[offsets[1:] - first] - running[offsets[:-1] - first]
    return out
