"""All randomness of unlearning, drawn by numpy, independent of the torch version."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """The purposes of random streams; each has its own."""

    WEIGHTS = 100
    ORDER = 101
    FORGET = 102
    ALTERNATIVE = 103
    GAME = 104
    ATTACK = 105
    THIRD = 106
    TRIAL = 107


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return a seed's random stream for one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, purpose, *key))))
