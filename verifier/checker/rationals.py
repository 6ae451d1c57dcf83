"""Real functions enclosed by rational numbers, without floats or tolerances.

Each function returns two fractions that enclose the true value. Intermediate results are rounded
outwards to `BITS` significant bits, so that fractions stay short.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache

Enclosure = tuple[Fraction, Fraction]
"""A lower and an upper end."""

BITS = 160
_MOST = 2**16
"""Larger exponents are refused: their fractions would be too long."""
_HALVED = Fraction(1, 16)


def down(value: Fraction, bits: int = BITS) -> Fraction:
    """Return a number that is not larger, with at most ``bits`` significant bits."""
    if not value:
        return value
    top, bottom = value.numerator, value.denominator
    shift = top.bit_length() - bottom.bit_length() - bits
    if shift >= 0:
        return Fraction(top // (bottom << shift) << shift)
    return Fraction((top << -shift) // bottom, 1 << -shift)


def up(value: Fraction, bits: int = BITS) -> Fraction:
    """Return a number that is not smaller, with at most ``bits`` significant bits."""
    return -down(-value, bits)


def sqrt(value: Fraction) -> Enclosure:
    """Enclose the square root of a non-negative number."""
    if value < 0:
        raise ValueError("a negative number has no root")
    # Integer square roots are exact when rounded down: here of value 4^places, rounded down.
    length = value.numerator.bit_length() - value.denominator.bit_length()
    places = max(0, BITS - length // 2)
    whole, rest = divmod(value.numerator << 2 * places, value.denominator)
    root = math.isqrt(whole)
    exact = not rest and root * root == whole
    return Fraction(root, 1 << places), Fraction(root + (not exact), 1 << places)


def power(base: Fraction, exponent: int) -> Enclosure:
    """Enclose a non-negative integer power of a non-negative number."""
    if base < 0 or exponent < 0:
        raise ValueError("expected a non-negative base and exponent")
    low = high = Fraction(1)
    for bit in f"{exponent:b}":
        low, high = down(low * low), up(high * high)
        if bit == "1":
            low, high = down(low * base), up(high * base)
    return low, high


def exp(value: Fraction) -> Enclosure:
    """Enclose e to a power between -65536 and 65536.

    Uses Taylor's series of an argument of at most 1/16, whose remainder is at most a geometric
    series; the result is squared as often as the argument was halved.
    """
    if abs(value) > _MOST:
        raise ValueError(f"e to the power of {float(value):g} cannot be computed")
    if value < 0:
        low, high = exp(-value)
        return down(1 / high), up(1 / low)
    return _exp_end(down(value))[0], _exp_end(up(value))[1]


def _exp_end(value: Fraction) -> Enclosure:
    halvings = 0
    while value > _HALVED:
        value /= 2
        halvings += 1
    low = high = term_low = term_high = Fraction(1)
    count = 0
    while term_high.numerator << BITS > term_high.denominator:
        count += 1
        term_low, term_high = down(term_low * value / count), up(term_high * value / count)
        low, high = low + term_low, high + term_high
    # Each further term is at most a sixteenth of the one before.
    low, high = down(low), up(high + term_high * _HALVED / (1 - _HALVED))
    for _ in range(halvings):
        low, high = down(low * low), up(high * high)
    return low, high


def log(value: Fraction) -> Enclosure:
    """Enclose the natural logarithm of a positive number.

    For 2^e m with m from 2/3 to 4/3, it is e ln 2 + 2 artanh((m - 1) / (m + 1)).
    """
    if value <= 0:
        raise ValueError("only a number above 0 has a logarithm")
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / Fraction(2) ** exponent
    while mantissa > Fraction(4, 3):
        mantissa, exponent = mantissa / 2, exponent + 1
    while mantissa < Fraction(2, 3):
        mantissa, exponent = mantissa * 2, exponent - 1
    low, high = _artanh((mantissa - 1) / (mantissa + 1))
    least, most = _log_of_two()
    if exponent < 0:
        least, most = most, least
    return down(2 * low + exponent * least), up(2 * high + exponent * most)


@cache
def _log_of_two() -> Enclosure:
    low, high = _artanh(Fraction(1, 3))
    return down(2 * low), up(2 * high)


def _artanh(value: Fraction) -> Enclosure:
    """Enclose z + z^3 / 3 + z^5 / 5 + ... for z from -1/3 to 1/3."""
    if value < 0:
        low, high = _artanh(-value)
        return -high, -low
    square_low, square_high = down(value * value), up(value * value)
    power_low, power_high = down(value), up(value)
    low = high = Fraction(0)
    count = 1
    while power_high and power_high.numerator << BITS + 4 > power_high.denominator:
        low, high = low + down(power_low / count), high + up(power_high / count)
        power_low, power_high = down(power_low * square_low), up(power_high * square_high)
        count += 2
    # The remainder is at most a geometric series of ratio z^2.
    return down(low), up(high + power_high / (count * (1 - square_high)))


def upwards(value: Fraction) -> str:
    """Return a number rounded up to four digits, as text."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()}"


EXACT_TRIALS = 2**17
"""With more trials, tails are bounded as by Chernoff, which is slightly looser."""

_STEPS = 44
"""Bisections of the place where a tail reaches a level, down to 1e-13."""


def at_least(count: int, trials: int, chance: Fraction) -> Enclosure:
    """Enclose the probability of at least ``count`` events.

    Terms beyond ``count`` have decreasing ratios; their remainder is at most a geometric series.
    """
    if not 0 <= chance <= 1 or not 0 <= trials <= EXACT_TRIALS:
        raise ValueError(f"expected a probability in [0, 1] and at most {EXACT_TRIALS:,} trials")
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
    """Enclose a tail whose terms decrease from the first one on."""
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
            # All later ratios are smaller still.
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
    """Return a probability with which ``count`` or more events have chance at most ``level``.

    The true probability is smaller only with chance at most ``level`` (Clopper and Pearson, 1934).
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
    """Return a bound that the true probability exceeds with chance at most ``level``."""
    return 1 - least_probability(trials - count, trials, level)
