"""The finaliser of SplitMix64: a fixed hash of 64-bit words, not secret.

References
----------
.. [1] G. L. Steele, D. Lea, C. H. Flood (2014), Fast splittable pseudorandom number generators, OOPSLA.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
"""The odd increment of SplitMix64."""


def mix_bits(words: Array) -> Array:
    """uint64 words whose bits all depend on all bits of `words`; a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
