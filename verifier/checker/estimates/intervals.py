"""Confidence bounds for distributions and events, in rational numbers."""

from __future__ import annotations

from fractions import Fraction

from leaveout.verifier.checker.binomials import least_probability, most_probability
from leaveout.verifier.checker.estimates.file import Counts
from leaveout.verifier.checker.rationals import log, sqrt

LOWER_SHARE = Fraction(4, 5)
"""Of what may fail, the part of the lower end."""


def band(trials: int, error: Fraction) -> Fraction:
    """Return how far an empirical distribution function is from the true one, anywhere.

    Farther with a probability of at most 2 exp(-2 n m^2) (Dvoretzky, Kiefer and Wolfowitz, with
    Massart's constant), which is ``error`` for m = sqrt(ln(2 / error) / (2 n)).
    """
    return sqrt(log(2 / error)[1] / (2 * trials))[1]


def more_often(unlearned: tuple[int, int], retrained: tuple[int, int], error: Fraction) -> Fraction:
    """Return by how much an event is more likely in the first arm, at least.

    Either arm has half of the error; they need not be independent of each other.
    """
    low = least_probability(*unlearned, error / 2)
    return max(Fraction(0), low - most_probability(*retrained, error / 2))


def of_events(counts: Counts, error: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of the largest difference between the arms of the chance of an event.

    Both ends of both arms of every event share the error.
    """
    each = error / (4 * len(counts.unlearned))
    lower = upper = Fraction(0)
    for pair in zip(counts.unlearned, counts.retrained, strict=True):
        (low, high), (least, most) = (
            (least_probability(*one, each), most_probability(*one, each)) for one in pair
        )
        lower = max(lower, low - most, least - high)
        upper = max(upper, high - least, most - low)
    return lower, upper
