"""The finaliser of SplitMix64 against published values."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.rng import GOLDEN_GAMMA, mix_bits


def test_splitmix64_gives_the_published_values():
    # Rosetta Code, "Pseudo-random numbers/Splitmix64", seed 1234567.
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    states = np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * np.uint64(GOLDEN_GAMMA)
    assert mix_bits(states).tolist() == known
