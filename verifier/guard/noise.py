"""The exponential mechanism on one label, and where its randomness comes from."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

from leaveout.models.sharded.aggregation import draw_exponential, operating_system

_MOST_SEEDED = 32


def noised(label: int, labels: int, epsilon: float, chance: random.Random) -> int:
    """Draw a label: Pr[c] proportional to exp(epsilon * u_c / 2), u = 1 for one label, else 0.

    LUCID, section 3.2. Between two networks that answer differently the chance of any label
    differs by a factor of at most exp(epsilon); with an epsilon of 0 all labels are as likely.
    """
    return draw_exponential([int(each == label) for each in range(labels)], epsilon, chance)


def randomness(seed: int | None) -> Callable[[bytes], random.Random]:
    """Return what draws the answer to an input from: the operating system, unless seeded.

    Of a seed and an input always the same, in whatever order inputs come.
    """
    if seed is None:
        system = operating_system()
        return lambda _: system
    key = seed.to_bytes(_MOST_SEEDED, "big", signed=True)
    return lambda given: random.Random(hashlib.blake2b(given, key=key, digest_size=32).digest())
