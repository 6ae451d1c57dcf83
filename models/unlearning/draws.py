"""Everything random in unlearning, drawn by numpy so that no torch version changes it."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream of random numbers is for; each has its own."""

    WEIGHTS = 100
    ORDER = 101
    FORGET = 102
    ALTERNATIVE = 103
    GAME = 104
    ATTACK = 105
    THIRD = 106
    TRIAL = 107


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return the stream of a seed for one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, purpose, *key))))
