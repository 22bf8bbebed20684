"""Random draws as a function of (key, stream, record number): Philox 4x32-10.

The order of execution, the chunk size, the number of workers and the backend do not change a draw.
The key is a secret: it comes from the operating system unless the caller brings one, and nothing here
prints it.  A stream's 64-bit Philox key and a 32-bit counter tweak are derived from the secret by
BLAKE2b, so streams are independent and a released draw does not lead back to the secret.

References
----------
.. [1] J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw (2011), Parallel random numbers: as easy as
   1, 2, 3, SC '11.  Known answers: the Random123 distribution, kat_vectors.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.errors import ParameterError

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: Array, key: tuple[int, int]) -> Array:
    """Philox 4x32-10 of [1]: (4, n) uint32 counters to (4, n) uint32 random words."""
    xp = namespace(counter)
    c0, c1, c2, c3 = (word.astype(np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> _HALF) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _HALF) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return xp.stack([c0, c1, c2, c3]).astype(np.uint32)


class Key:
    """The secret of one run."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) < 16:
            raise ParameterError("key: at least 16 bytes are needed", hint="'openssl rand -hex 32 > key.txt' makes a good one")
        self._secret = secret

    @classmethod
    def fresh(cls) -> Key:
        """A key from the operating system."""
        return cls(secrets.token_bytes(32))

    @classmethod
    def find(cls, file: Path | None = None) -> Key:
        """The key in `file`, else in ``GPUANON_KEY``, else a fresh one."""
        if file is not None:
            try:
                return cls(file.read_bytes().strip())
            except OSError as error:
                raise ParameterError(f"key file: cannot be read ({error.strerror})") from None
        text = os.environ.get("GPUANON_KEY")
        return cls.fresh() if text is None else cls(text.encode())

    def draws(self, records: Array, path: str = "") -> Draws:
        """The draws of the records with these numbers."""
        return Draws(self, records, path)

    def derive(self, path: str) -> tuple[int, int, int]:
        """Two Philox key words and a counter tweak for the stream named `path`."""
        digest = hashlib.blake2b(path.encode(), key=hashlib.blake2b(self._secret).digest(), digest_size=12).digest()
        words = np.frombuffer(digest, dtype="<u4")
        return int(words[0]), int(words[1]), int(words[2])

    def digest(self) -> str:
        """Tells whether two keys are equal, without leading back to either."""
        return hashlib.blake2b(b"gpuanon run", key=hashlib.blake2b(self._secret).digest(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return "Key(<secret>)"

    def __reduce__(self) -> tuple[type[Key], tuple[bytes]]:
        return (Key, (self._secret,))


@dataclass(frozen=True, repr=False)
class Draws:
    """Random numbers for a set of records: one row of numbers a record, whatever the order of the records.

    records : (n,) int64 record numbers (on the device where the draws are wanted)
    path    : names the stream; equal paths give equal numbers, so each use has its own name
    """

    key: Key
    records: Array
    path: str

    def child(self, name: str) -> Draws:
        """The stream `name` below this one."""
        return Draws(self.key, self.records, f"{self.path}/{name}")

    def take(self, rows: Array) -> Draws:
        """The draws of some of the records."""
        return Draws(self.key, self.records[rows], self.path)

    def words(self, count: int) -> Array:
        """(n, count) uniform uint32."""
        xp = namespace(self.records)
        k0, k1, tweak = self.key.derive(self.path)
        blocks = -(-count // 4)
        records = self.records.astype(np.uint64)
        low, high = (records & _LOW).astype(np.uint32), (records >> _HALF).astype(np.uint32)
        out = xp.empty((len(records), 4 * blocks), dtype=np.uint32)
        for block in range(blocks):
            counter = xp.stack([low, high, xp.full_like(low, block), xp.full_like(low, tweak)])
            out[:, 4 * block : 4 * block + 4] = philox(counter, (k0, k1)).T
        return out[:, :count]

    def uniform(self, count: int = 1) -> Array:
        """(n, count) float64 in the open interval (0, 1), 52 random bits."""
        words = self.words(2 * count).astype(np.uint64)
        bits = (words[:, 0::2] << np.uint64(20)) | (words[:, 1::2] >> np.uint64(12))
        return (bits.astype(np.float64) + 0.5) * 2.0**-52

    def normal(self, count: int = 1) -> Array:
        """(n, count) standard normal float64, by the inverse distribution function."""
        uniform = self.uniform(count)
        if on_device(uniform):
            from cupyx.scipy.special import ndtri
        else:
            from scipy.special import ndtri
        return ndtri(uniform)

    def __repr__(self) -> str:
        return f"Draws(<secret>, {self.path!r}, {len(self.records)} records)"
