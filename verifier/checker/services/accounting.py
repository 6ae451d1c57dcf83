"""What a service's answers reveal about its seeds, in rational numbers.

Each route returns an alpha with which the service is (alpha, beta, gamma)-unlearning. Free numbers
of a route may be any: a poor one only gives a larger alpha.
"""

from __future__ import annotations

from fractions import Fraction

from leaveout.verifier.checker.rationals import log, sqrt
from leaveout.verifier.checker.services.settings import Service


def group_privacy_alpha(service: Service) -> Fraction:
    """Return the alpha of group privacy, with beta = gamma = 0.

    Answers are ``predictions * epsilon``-private in one seed, so all seeds move any transcript's
    chance by at most e to ``shards`` times that.
    """
    return service.shards * service.predictions * service.epsilon


def moments(service: Service, beta: Fraction, order: Fraction) -> Fraction | None:
    """Return the alpha that moments of the information show of any transcript, with gamma = 0.

    With E = predictions * epsilon and V = shards E^2 / 8 the information Z has E[e^(l Z)] <=
    exp(l (1 + l) V) for every order l > 0. Since (1 - e^-x)+ <= e^(l x) l^l / (1 + l)^(1 + l), the
    posterior exceeds e^k times the prior by at most

        exp(l (1 + l) V - l k) l^l / (1 + l)^(1 + l),

    which is beta where k = (1 + l) V + (ln(1 / beta) + l ln l - (1 + l) ln(1 + l)) / l.
    """
    if beta <= 0 or order <= 0:
        return None
    variance = service.shards * (service.predictions * service.epsilon) ** 2 / 8
    needed = order * log(order)[1] - (1 + order) * log(1 + order)[0] - log(beta)[0]
    # What is negative shows more than is ever asked.
    return max(Fraction(0), (1 + order) * variance + needed / order)


def together(service: Service, beta: Fraction, gamma: Fraction) -> Fraction | None:
    """Return the alpha shown of all seeds at once, on average over transcripts.

    Given the answers before, that of one prediction has a law whose logarithm beside its mean over
    the seeds lies in an interval of length R = span * shards. So of seeds and n answers

        Pr[Z > n R^2 / 8 + R sqrt(n ln(1 / b) / 2)] <= b,

    and with b = beta * gamma Markov's inequality leaves out a share gamma of transcripts.
    """
    tail = beta * gamma
    if tail <= 0:
        return None
    width, count = service.span * service.shards, service.predictions
    return count * width**2 / 8 + width * sqrt(-count * log(tail)[0] / 2)[1]


def near_mean(
    service: Service, beta: Fraction, gamma: Fraction, bound: Fraction, share: Fraction
) -> Fraction | None:
    """Return ``bound`` if it is an alpha shown by votes being near their mean.

    Of b = beta * gamma, b2 = ``share`` b is what the sum of n steps may fail with, and b1 = (b -
    b2) / (n e^K) what the range of a step may: with L labels it exceeds R = span sqrt(shards ln(L
    (L - 1) / b1) / 2) no more often (McDiarmid). Any K will do that is at least

        n (R^2 + shards epsilon^2) / 8 + R sqrt(n ln(1 / b2) / 2).
    """
    tail, count = beta * gamma, service.predictions
    if service.labels is None or tail <= 0 or bound < 0 or not 0 < share < 1:
        return None
    pairs = service.labels * (service.labels - 1)
    far = log(Fraction(pairs * count))[1] + bound - log((1 - share) * tail)[0]
    square = service.span**2 * service.shards * far / 2
    drift = count * (square + service.shards * service.epsilon**2) / 8
    spread = sqrt(-square * count * log(share * tail)[0] / 2)[1]
    return bound if drift + spread <= bound else None
