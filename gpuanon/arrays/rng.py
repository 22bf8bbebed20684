"""Random draws as a function of (key, stream, record number): Philox 4x32-10.

The order of execution, the chunk size, the number of workers and the backend do not change a draw.
The key is a secret: it comes from the operating system unless the caller provides one, and nothing here
prints it.  A stream's 64-bit Philox key and a 32-bit counter tweak are derived from the secret by
BLAKE2b, so streams are independent and a released draw does not reveal the secret.

References
----------
.. [1] J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw (2011), Parallel random numbers: as easy as
   1, 2, 3, SC '11.  Known answers: the Random123 distribution, kat_vectors.
.. [2] G. L. Steele, D. Lea, C. H. Flood (2014), Fast splittable pseudorandom number generators, OOPSLA.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.normal_quantile import normal_quantile
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
"""The odd increment of SplitMix64."""


def mix_bits(words: Array) -> Array:
    """The finaliser of SplitMix64 [2], a fixed hash that is not secret: a bijection of uint64 words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LANES = 1 << 14  # counters of a batch: they fit a core's cache
_THREADS = 256


def philox(counter: Array, key: tuple[int, int]) -> Array:
    """Philox 4x32-10 of [1]: (4, n) uint32 counters to (4, n) uint32 random words."""
    n = counter.shape[1]
    if on_device(counter):
        out = namespace(counter).empty_like(counter)
        launch("random", "philox", counter, n, *key, out, over=n, threads=_THREADS)
        return out
    out = np.empty_like(counter)
    for at in range(0, n, _LANES):
        lanes = slice(at, at + _LANES)
        _rounds([word.astype(np.uint64) for word in counter[:, lanes]], key, list(out[:, lanes]))
    return out


def _rounds(counter: list[Host], key: tuple[int, int], out: list[Host]) -> None:
    """The ten rounds on counters of uint64 lanes, which are overwritten; the words are written to `out`."""
    c0, c1, c2, c3 = counter
    product0, product1 = np.empty_like(c0), np.empty_like(c2)
    k0, k1 = key
    for _ in range(_ROUNDS):
        np.multiply(c0, _MULTIPLIERS[0], out=product0)
        np.multiply(c2, _MULTIPLIERS[1], out=product1)
        np.right_shift(product1, _HALF, out=c0)
        c0 ^= c1
        c0 ^= np.uint64(k0)
        np.bitwise_and(product1, _LOW, out=c1)
        np.right_shift(product0, _HALF, out=c2)
        c2 ^= c3
        c2 ^= np.uint64(k1)
        np.bitwise_and(product0, _LOW, out=c3)
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    for place, word in zip(out, counter, strict=True):
        place[...] = word


class Key:
    """The secret of one run.

    Examples
    --------
    >>> import gpuanon
    >>> gpuanon.Key(b"sixteen bytes or more")  # is not shown
    Key(<secret>)
    """

    __slots__ = ("_secret", "guessable")

    def __init__(self, secret: bytes, *, guessable: bool = False) -> None:
        if len(secret) < 16:
            raise ParameterError(
                "key: at least 16 bytes are needed", hint="'openssl rand -hex 32 > key.txt' makes a good one"
            )
        self._secret = secret
        self.guessable = guessable
        """Whether it follows from a number that anybody can try."""

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

    def secret(self, purpose: str) -> bytes:
        """32 bytes for one purpose, which tell nothing of the key."""
        return hashlib.blake2b(purpose.encode(), key=hashlib.blake2b(self._secret).digest(), digest_size=32).digest()

    def digest(self) -> str:
        """A hash that is equal for equal keys and does not reveal the key."""
        return hashlib.blake2b(b"gpuanon run", key=hashlib.blake2b(self._secret).digest(), digest_size=16).hexdigest()

    def __repr__(self) -> str:
        return "Key(<secret>)"

    def __reduce__(self) -> tuple[type[Key], tuple[bytes]]:
        return (Key, (self._secret,))


@dataclass(frozen=True, repr=False)
class Draws:
    """Random numbers for a set of records: one row of numbers per record, whatever the order of the records.

    records : (n,) int64 record numbers (on the device on which the draws are made)
    path    : name of the stream; equal paths give equal numbers, so each use needs its own name
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
        return self._drawn("words", count, np.uint32, 4, lambda four: four)

    def keys(self) -> Array:
        """(n,) uniform uint64: sorting by them gives a random permutation."""
        if on_device(self.records):
            out = namespace(self.records).empty(len(self.records), dtype=np.uint64)
            self._launch("keys", out, len(out))
            return out
        return self._drawn("", 1, np.uint64, 1, lambda four: (four[0] << _HALF | four[1],))[:, 0]

    def uniform(self, count: int = 1) -> Array:
        """(n, count) float64 in the open interval (0, 1), 52 random bits."""
        return self._drawn("uniform", count, np.float64, 2, _units)

    def normal(self, count: int = 1) -> Array:
        """(n, count) standard normal float64, by the inverse distribution function; the same bits on every device."""
        return self._drawn("normal", count, np.float64, 2, lambda four: [normal_quantile(u) for u in _units(four)])

    def _drawn(
        self, kernel: str, count: int, dtype: Any, yields: int, numbers: Callable[[list[Host]], Sequence[Host]]
    ) -> Array:
        """(n, count) numbers, `yields` of them from the four words of a counter; `numbers` makes them on the host."""
        n = len(self.records)
        if on_device(self.records):
            out = namespace(self.records).empty((n, count), dtype=dtype)
            self._launch(kernel, out, n * count, count)
            return out
        *key, tweak = self.key.derive(self.path)
        blocks = max(1, -(-count // yields))
        padded = np.empty((n, blocks, yields), dtype=dtype)
        rows = max(1, _LANES // blocks)

        def fill(at: int) -> None:
            records = np.repeat(self.records[at : at + rows].astype(np.uint64), blocks)
            four = [records & _LOW, records >> _HALF, np.empty_like(records), np.full_like(records, tweak)]
            four[2].reshape(-1, blocks)[...] = np.arange(blocks, dtype=np.uint64)
            _rounds(four, (key[0], key[1]), four)
            for number, values in enumerate(numbers(four)):
                padded[at : at + rows, :, number] = values.reshape(-1, blocks)

        each(fill, range(0, n, rows))
        return padded.reshape(n, blocks * yields)[:, :count]

    def _launch(self, kernel: str, out: Array, size: int, *count: int) -> None:
        """Fill `out` (of `size` numbers) with the kernel of that name."""
        records = namespace(out).ascontiguousarray(self.records, dtype=np.int64)
        stream = self.key.derive(self.path)
        launch("random", kernel, records, len(records), *count, *stream, out, over=size, threads=_THREADS)

    def __repr__(self) -> str:
        return f"Draws(<secret>, {self.path!r}, {len(self.records)} records)"


def _units(four: list[Host]) -> tuple[Host, Host]:
    """Two numbers in the open interval (0, 1), of 52 random bits and a half each, from four words of 32 bits."""
    high, low = np.uint64(20), np.uint64(12)
    bits = (four[0] << high | four[1] >> low, four[2] << high | four[3] >> low)
    first, second = ((b.astype(np.float64) + 0.5) * 2.0**-52 for b in bits)
    return first, second


_FEWEST_SEEDS = 1 << 96
"""Seeds below it can be tried, one after the other: people take small ones."""


def _seeded_by_hand(rng: np.random.Generator) -> bool:
    """Whether a generator was made from a small number; unknown means so: only NumPy's own seeds of 128 bits tell."""
    entropy = getattr(rng.bit_generator.seed_seq, "entropy", None)
    words = entropy if isinstance(entropy, (list, tuple, np.ndarray)) else [entropy]
    return not any(isinstance(word, (int, np.integer)) and int(word) >= _FEWEST_SEEDS for word in words)


def as_key(rng: Key | bytes | int | np.random.Generator | None) -> Key:
    """The key that `rng` stands for."""
    if rng is None:
        return Key.fresh()
    if isinstance(rng, Key):
        return rng
    if isinstance(rng, bytes):
        return Key(rng)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise ParameterError("rng: a whole number from 0 up is allowed, got a negative one")
        return Key(np.random.default_rng(int(rng)).bytes(32), guessable=int(rng) < _FEWEST_SEEDS)
    if isinstance(rng, np.random.Generator):
        return Key(rng.bytes(32), guessable=_seeded_by_hand(rng))
    raise ParameterError(
        f"rng: None, a Key, bytes, an integer or a numpy Generator is allowed, got {type(rng).__name__}"
    )
