"""Refutation of unlearning by majority vote: copied points, with exact chances."""

from __future__ import annotations

from fractions import Fraction

from leaveout.verifier.checker.binomials import EXACT_TRIALS, at_least
from leaveout.verifier.checker.rationals import Enclosure, exp, power
from leaveout.verifier.checker.services.settings import Service


def answered_right(service: Service, copies: int) -> Enclosure:
    """Enclose the chance that more than half of the shards hold one of a point's copies."""
    least, most = service.inclusion
    held = 1 - power(1 - least, copies)[1], 1 - power(1 - most, copies)[0]
    half = service.shards // 2 + 1
    return at_least(half, service.shards, held[0])[0], at_least(half, service.shards, held[1])[1]


def is_refuted(
    service: Service,
    copies: int,
    points: int,
    alpha: Fraction,
    beta: Fraction,
    gamma: Fraction,
) -> bool:
    """Whether a claim is false of points in copies and models that look points up.

    Theorem 3.1 of *Adaptive Machine Unlearning*, with its chances computed. A point is answered
    right if more than half of the shards hold a copy, which has the chance s, independently of
    other points. Points answered right are deleted, all copies of them; deleting one changes
    nothing of what models say of another. Let E be that none of the l points left is answered
    right. After unlearning it has the chance 1; of models trained anew (1 - s)^l. So if l is large
    enough for

        1 > e^alpha (1 - s)^l + beta,

    the claim fails for these updates; and it is false if that has a chance above gamma. l is
    binomial, of all points with the chance 1 - s.
    """
    if service.private or copies < 1 or not 1 <= points <= EXACT_TRIALS:
        return False
    if copies * points > service.rows or alpha > EXACT_TRIALS // 2:
        return False
    least, most = answered_right(service, copies)
    factor = exp(alpha)[1]

    def refutes(left: int) -> bool:
        """Return whether the attack refutes the claim with that many points left."""
        return factor * power(1 - least, left)[1] + beta < 1

    if not refutes(points):
        return False
    # The more points are left, the more it tells.
    low, high = 0, points
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return at_least(high, points, 1 - most)[0] > gamma
