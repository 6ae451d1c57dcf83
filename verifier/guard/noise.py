"""The exponential mechanism on a label, and its source of randomness."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

from leaveout.models.sharded.aggregation import draw_exponential, operating_system

_MOST_SEEDED = 32


def draw_noisy_label(label: int, labels: int, epsilon: float, chance: random.Random) -> int:
    """Draw a label: Pr[c] ~ exp(epsilon * u_c / 2), u = 1 for one label, else 0.

    LUCID, section 3.2: two networks' probabilities differ by a factor of at most exp(epsilon);
    epsilon 0 is uniform.
    """
    return draw_exponential([int(each == label) for each in range(labels)], epsilon, chance)


def randomness(seed: int | None) -> Callable[[bytes], random.Random]:
    """Return the random source per input: the operating system's, unless seeded.

    With a seed it depends on the input only, not on the order.
    """
    if seed is None:
        system = operating_system()
        return lambda _: system
    key = seed.to_bytes(_MOST_SEEDED, "big", signed=True)
    return lambda given: random.Random(hashlib.blake2b(given, key=key, digest_size=32).digest())
