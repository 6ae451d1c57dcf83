"""Binomial tails between rational numbers, and Clopper-Pearson intervals."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from leaveout.verifier.checker.rationals import BITS, Enclosure, down, exp, log, power, up

EXACT_TRIALS = 2**17
"""Of more trials tails are bounded as Chernoff does, which is a little wider."""

_STEPS = 44
"""Halvings of the place where a tail reaches a level: 1e-13 is left."""


def at_least(count: int, trials: int, chance: Fraction) -> Enclosure:
    """Enclose the probability of at least ``count`` events.

    Terms beyond ``count`` have falling ratios; their remainder is at most a geometric series.
    """
    if not 0 <= chance <= 1 or not 0 <= trials <= EXACT_TRIALS:
        raise ValueError(f"expected a chance in [0, 1] and up to {EXACT_TRIALS:,} trials")
    if count <= 0 or (chance == 1 and count <= trials):
        return Fraction(1), Fraction(1)
    if count > trials or chance == 0:
        return Fraction(0), Fraction(0)
    if count < (trials + 1) * chance:
        low, high = _beyond(trials - count + 1, trials, 1 - chance)
        return max(Fraction(0), 1 - high), 1 - low
    low, high = _beyond(count, trials, chance)
    return low, min(Fraction(1), high)


def _beyond(count: int, trials: int, chance: Fraction) -> Enclosure:
    """Enclose a tail whose terms fall from the first one on."""
    if count > trials:
        return Fraction(0), Fraction(0)
    yes = power(chance, count)
    no = power(1 - chance, trials - count)
    ways = _ways(trials, count)
    one = 1 << BITS
    low = high = term_low = term_high = one
    top, bottom = chance.numerator, chance.denominator - chance.numerator
    for place in range(count, trials):
        above, below = (trials - place) * top, (place + 1) * bottom
        term_low = term_low * above // below
        term_high = -(-term_high * above // below)
        low, high = low + term_low, high + term_high
        if term_high <= 1 and above < below:
            # All ratios beyond are smaller still.
            high += -(-term_high * above // (below - above))
            break
    first_low, first_high = down(ways[0] * yes[0] * no[0]), up(ways[1] * yes[1] * no[1])
    return down(first_low * Fraction(low, one)), up(first_high * Fraction(high, one))


@lru_cache(maxsize=4)
def _ways(trials: int, count: int) -> Enclosure:
    """Enclose a binomial coefficient, with results cached."""
    ways = Fraction(math.comb(trials, count))
    return down(ways), up(ways)


def least_probability(count: int, trials: int, level: Fraction) -> Fraction:
    """Return a chance at which ``count`` or more events have probability <= ``level``.

    The true chance is smaller with probability at most ``level`` (Clopper and Pearson, 1934).
    """
    if trials < 1 or not 0 <= count <= trials:
        raise ValueError(f"{count} events in {trials} trials: expected 0 <= events <= trials, > 0")
    if not 0 < level < 1:
        raise ValueError("expected a level above 0 and below 1")
    if not count:
        return Fraction(0)
    low, high = Fraction(0), Fraction(count, trials)
    while high - low > high / 2**_STEPS:
        middle = down((low + high) / 2, _STEPS + 4)
        if not low < middle < high:
            break
        if _at_most(count, trials, middle, level):
            low = middle
        else:
            high = middle
    return low


def _at_most(count: int, trials: int, chance: Fraction, level: Fraction) -> bool:
    """Return whether ``count`` or more events provably have probability <= ``level``."""
    if trials <= EXACT_TRIALS:
        return at_least(count, trials, chance)[1] <= level
    # P(at least k of n) <= exp(-n D), D the divergence of k / n from the chance (Chernoff).
    share = Fraction(count, trials)
    divergence = share * (log(share)[0] - log(chance)[1])
    if share < 1:
        divergence += (1 - share) * (log(1 - share)[0] - log(1 - chance)[1])
    return exp(max(-trials * divergence, Fraction(-(2**16))))[1] <= level


def most_probability(count: int, trials: int, level: Fraction) -> Fraction:
    """Return a chance that the true one exceeds with probability at most ``level``."""
    return 1 - least_probability(trials - count, trials, level)
