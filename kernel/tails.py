"""Real functions between fractions, and tails of binomial, hypergeometric and other draws.

An enclosure is a lower and an upper bound of the true value; every rounding goes outwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from .numbers import Floats, need
from .values import Ask, hints

Enclosure = tuple[Fraction, Fraction]

BITS = 160
"""Significant bits to which fractions are rounded, and bits after the point of series."""

_ONE = 1 << BITS


def down(value: Fraction, bits: int = BITS) -> Fraction:
    """Return a number that is not larger, with at most ``bits`` significant bits."""
    top, bottom = value.numerator, value.denominator
    shift = top.bit_length() - bottom.bit_length() - bits
    if shift >= 0:
        return Fraction(top // (bottom << shift) << shift)
    return Fraction((top << -shift) // bottom, 1 << -shift)


def up(value: Fraction, bits: int = BITS) -> Fraction:
    """Return a number that is not smaller, with at most ``bits`` significant bits."""
    return -down(-value, bits)


def upwards(value: Fraction) -> str:
    """Return a number rounded up to four digits, as text."""
    context = Context(prec=4, rounding=ROUND_CEILING)
    return f"{context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()}"


def _ceil(top: int, bottom: int) -> int:
    return -(-top // bottom)


def sqrt(value: Fraction) -> Enclosure:
    """Enclose a square root, by the integer root of the number times a power of 4."""
    need(value >= 0, "a negative number has no root")
    length = value.numerator.bit_length() - value.denominator.bit_length()
    places = max(0, BITS - length // 2)
    whole, rest = divmod(value.numerator << 2 * places, value.denominator)
    root = math.isqrt(whole)
    exact = not rest and root * root == whole
    return Fraction(root, 1 << places), Fraction(root + (not exact), 1 << places)


def power(base: Fraction, exponent: int) -> Enclosure:
    """Enclose a non-negative integer power of a non-negative number, by squaring."""
    need(base >= 0 and exponent >= 0, "expected a non-negative base and exponent")
    low = high = Fraction(1)
    for bit in f"{exponent:b}":
        low, high = down(low * low), up(high * high)
        if bit == "1":
            low, high = down(low * base), up(high * base)
    return low, high


def exp(value: Fraction) -> Enclosure:
    """Enclose e^x = 2^k e^r, where r = x - k ln 2 is between 0 and 2, by Taylor's series.

    Once term n is at most a unit and n > 4, all later ones together are less than another unit.
    """
    need(abs(value) <= 2**16, "e to the power of a number beyond 65,536")
    twos = math.floor(float(value) / math.log(2)) - 1
    least, most = sorted(twos * end for end in _log_of_two())
    low = high = term_low = term_high = _ONE
    rest_low = math.floor(value * _ONE) - most
    rest_high = math.ceil(value * _ONE) - least
    count = 0
    while count < 5 or term_high > 1:
        count += 1
        term_low = term_low * rest_low // (count * _ONE)
        term_high = _ceil(term_high * rest_high, count * _ONE)
        low, high = low + term_low, high + term_high
    scale = Fraction(2) ** twos / _ONE
    return low * scale, (high + 1) * scale


def log(value: Fraction) -> Enclosure:
    """Enclose ln(2^k m) = k ln 2 + 2 artanh((m - 1) / (m + 1)), with m from 2/3 to 4/3."""
    need(value > 0, "only a number above 0 has a logarithm")
    twos = value.numerator.bit_length() - value.denominator.bit_length()
    if value > Fraction(4, 3) * Fraction(2) ** twos:
        twos += 1
    elif value < Fraction(2, 3) * Fraction(2) ** twos:
        twos -= 1
    part = value / Fraction(2) ** twos
    low, high = _artanh((part - 1) / (part + 1))
    least, most = sorted(twos * end for end in _log_of_two())
    return Fraction(2 * low + least, _ONE), Fraction(2 * high + most, _ONE)


@cache
def _log_of_two() -> tuple[int, int]:
    low, high = _artanh(Fraction(1, 3))
    return 2 * low, 2 * high


def _artanh(value: Fraction) -> tuple[int, int]:
    """Enclose z + z^3 / 3 + z^5 / 5 + ... for z from -1/3 to 1/3, in units of 2^-160.

    Once a power of z is at most a unit, the terms from it on are together less than 2 units.
    """
    if value < 0:
        low, high = _artanh(-value)
        return -high, -low
    power_low, power_high = math.floor(value * _ONE), math.ceil(value * _ONE)
    square_low, square_high = power_low**2 // _ONE, _ceil(power_high**2, _ONE)
    low = high = 0
    count = 1
    while power_high > 1:
        low, high = low + power_low // count, high + _ceil(power_high, count)
        power_low = power_low * square_low // _ONE
        power_high = _ceil(power_high * square_high, _ONE)
        count += 2
    return low, high + 2 * power_high


MOST_TRIALS = 2**17
"""Binomial tails of more trials are bounded by Chernoff, which is slightly looser."""


def at_least(count: int, trials: int, chance: Fraction) -> Enclosure:
    """Enclose the probability of at least ``count`` events in independent trials.

    Summed from the mode outwards, or as 1 minus the other tail, so that terms decrease.
    """
    need(0 <= chance <= 1 and 0 <= trials <= MOST_TRIALS, "no binomial tail that can be summed")
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
    """Enclose a tail whose terms decrease: the first one times the sum of ratios to it.

    Later ratios are smaller still, so the rest of the sum is at most a geometric series.
    """
    if count > trials:
        return Fraction(0), Fraction(0)
    low = high = term_low = term_high = _ONE
    top, bottom = chance.numerator, chance.denominator - chance.numerator
    for place in range(count, trials):
        above, below = (trials - place) * top, (place + 1) * bottom
        term_low, term_high = term_low * above // below, _ceil(term_high * above, below)
        low, high = low + term_low, high + term_high
        if term_high <= 1 and above < below:
            high += _ceil(term_high * above, below - above)
            break
    ways = _ways(trials, count)
    yes, no = power(chance, count), power(1 - chance, trials - count)
    first_low, first_high = down(ways[0] * yes[0] * no[0]), up(ways[1] * yes[1] * no[1])
    return down(first_low * Fraction(low, _ONE)), up(first_high * Fraction(high, _ONE))


@lru_cache(maxsize=4)
def _ways(trials: int, count: int) -> Enclosure:
    ways = Fraction(math.comb(trials, count))
    return down(ways), up(ways)


def is_rare(count: int, trials: int, chance: Fraction, level: Fraction) -> bool:
    """Return whether ``count`` or more events provably have probability at most ``level``.

    For many trials P <= exp(-n D), with D the divergence of count / n from the chance, if it is
    smaller (Chernoff 1952).
    """
    if trials <= MOST_TRIALS:
        return at_least(count, trials, chance)[1] <= level
    share = Fraction(count, trials)
    if not 0 < chance < share:
        return chance == 0 < count
    divergence = share * (log(share)[0] - log(chance)[1])
    if share < 1:
        divergence += (1 - share) * (log(1 - share)[0] - log(1 - chance)[1])
    return level > 0 and trials * divergence >= -log(level)[0]


def lower_ends(counts: Sequence[tuple[int, int]], level: Fraction, ask: Ask) -> list[Fraction]:
    """Return lower bounds of probabilities, from events and trials; each fails with ``level``.

    A chance p that makes so many events rare is at most Clopper and Pearson's end (1934), which
    exceeds the true one with probability at most ``level``; p comes from outside.
    """
    need(
        all(0 <= hits <= trials > 0 for hits, trials in counts),
        "events are not between 0 and the number of trials",
    )
    pairs = np.array(counts, np.int64).reshape(-1, 2)
    known = {"hits": pairs[:, 0], "trials": pairs[:, 1], "level": np.array(float(level))}
    ends = hints(ask, "lower_ends", known, len(pairs))
    found = [Fraction(end) for end in ends.tolist()]
    for (hits, trials), end in zip(counts, found, strict=True):
        need(end == 0 or is_rare(hits, trials, end, level), "an end of an interval is not shown")
    return found


_BETS = np.arange(1, 21)[:, None] / 20


def exceeds(draws: Floats, means: Floats, error: Fraction) -> NDArray[np.bool_]:
    """Return by column whether a mean is above a number, or an event of chance ``error`` occurred.

    Draws are in [0, 1], shape (trials, columns). For bets u in [0, 1], the product of
    (1 - u) + u x / m over the trials has expectation at most 1 if the mean is at most m, as has the
    average over bets fixed before; it reaches 1 / error with chance at most ``error`` (Markov;
    Waudby-Smith and Ramdas 2024). A factor has at most 5 roundings, each product 1 more; between
    powers of two that are split off, 8 factors of 2^-60 to 2^61 neither overflow nor underflow.
    """
    least = 2.0**-60
    need((draws == 0) | (draws >= least) & (draws <= 1), "a draw that is not between 0 and 1")
    need((means >= least) & (means <= 1), "a mean that is not between 0 and 1")
    product, exponent = np.frexp(np.ones((len(_BETS), draws.shape[1])))
    exponent = exponent.astype(np.int64)
    for start in range(0, len(draws), 8):
        factors = (1 - _BETS) + _BETS / means * draws[start : start + 8, None]
        product, shift = np.frexp(product * factors.prod(axis=0))
        exponent = np.where(product > 0, exponent + shift, -(2**40))
    most = exponent.max(axis=0)
    total = np.ldexp(product, np.maximum(exponent - most, -2000)).sum(axis=0)
    wanted = len(_BETS) / error * (1 + Fraction(6 * len(draws) + 64, 2**52))
    twos = wanted.numerator.bit_length() - wanted.denominator.bit_length()
    bound = math.nextafter(float(wanted / Fraction(2) ** twos), math.inf)
    return np.asarray(np.ldexp(total, np.clip(most - twos, -1000, 1000)) >= bound)


def means_above(draws: Floats, error: Fraction, ask: Ask) -> list[Fraction]:
    """Return lower bounds of the columns' means; each fails with ``error``. See `exceeds`."""
    known = {"draws": draws, "level": np.array(float(error))}
    means = hints(ask, "means_above", known, draws.shape[1])
    shown = means != 0
    need(exceeds(draws[:, shown], means[shown], error), "a bound of a mean is not shown")
    return [Fraction(mean) for mean in means.tolist()]


def band(trials: int, error: Fraction) -> Fraction:
    """Return how far an empirical distribution function is from the true one, but for ``error``.

    P(sup |F_n - F| > m) <= 2 exp(-2 n m^2) (Dvoretzky, Kiefer and Wolfowitz; Massart 1990).
    """
    return sqrt(log(2 / error)[1] / (2 * trials))[1]


def hypergeometric(rows: int, size: int, marked: int) -> tuple[list[int], int]:
    """Bound the probabilities that 0, 1, 2, ... of the marked rows are drawn, from above.

    Hypergeometric: numbers a and whole b with probabilities at most a / b. Each follows from the
    one before; marked rows and those drawn can be exchanged.
    """
    few, many = sorted((marked, size))
    need(0 <= few <= many <= rows, f"no {size:,} of {rows:,} rows with {marked:,} marked")
    need(few <= 2**20, f"a tail of {marked:,} rows, with {size:,} drawn, has too many terms")
    least = max(0, few + many - rows)
    top = math.comb(many, least) * math.comb(rows - many, few - least)
    bottom = math.comb(rows, few)
    bits = BITS + max(0, bottom.bit_length() - top.bit_length())
    found = [0] * least + [_ceil(top << bits, bottom)]
    for j in range(least, few):
        found.append(
            _ceil(found[-1] * (many - j) * (few - j), (j + 1) * (rows - many - few + j + 1))
        )
    return found, 1 << bits


def few_drawn(rows: int, size: int, marked: int, most: int) -> Fraction:
    """Bound the probability that at most ``most`` of the marked rows are drawn."""
    found, whole = hypergeometric(rows, size, marked)
    return min(Fraction(1), Fraction(sum(found[: max(0, most + 1)]), whole))
