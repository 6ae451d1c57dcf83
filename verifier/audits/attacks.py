"""Membership attacks on one model: how well scores tell its training rows from others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from leaveout.arrays import Floats, Integers
from leaveout.verifier.audits.intervals import clopper_pearson

CONFIDENCE = 0.95
"""Of each interval by itself."""

ONE_IN = (100, 1000)
"""False positive rates at which true positive rates are given: one row in so many."""

_LEAST_FALSE = 10  # others that must lie above such a threshold, or its place is anybody's guess

_LEAST_SPREAD = 1e-3
"""A row's spread is at least this share of the median row's: some references agree exactly."""


class Range(NamedTuple):
    """A number measured on rows, and its interval for rows like them."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Attack:
    """How well one attack does.

    ``rates`` are the shares of training rows found where at most one other row in `ONE_IN` is taken
    for one; None with too few others. Attacks that see labels only have no threshold, and none.
    """

    name: str
    auc: Range  # probability that a training row scores above another row; ties count half
    rates: tuple[Range | None, ...]
    advantage: Range  # largest difference of both shares; accuracy is (1 + advantage) / 2


def scaled_confidence(scores: Floats, labels: Integers) -> Floats:
    """Return log(p / (1 - p)) of each row's own label, p being the softmax of its scores.

    The loss is log(1 + exp(-this)), so that thresholds of the two are the same attacks.
    """
    rows = np.arange(len(scores))
    own, others = scores[rows, labels], np.array(scores, np.float64)
    others[rows, labels] = -np.inf
    most = others.max(axis=1)
    return np.asarray(own - most - np.log(np.exp(others - most[:, None]).sum(axis=1)))


def mean_interval(mean: float, count: int, error: float) -> Range:
    """Return Chernoff and Hoeffding's interval (1963) of a mean of numbers in [0, 1].

    Also of a U-statistic of them, ``count`` then being how many disjoint groups there are.
    """
    most, ends = math.log(2.0 / error) / count, []
    for end in (0.0, 1.0):
        inside, outside = mean, end
        if _divergence(mean, end) > most:
            while abs(outside - inside) > 1e-12:
                middle = (inside + outside) / 2
                if _divergence(mean, middle) > most:
                    outside = middle
                else:
                    inside = middle
        ends.append(outside)
    return Range(mean, ends[0], ends[1])


def _divergence(mean: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two coins."""
    found = 0.0
    for p, q in ((mean, other), (1.0 - mean, 1.0 - other)):
        if p > 0:
            found += p * math.log(p / q) if q > 0 else math.inf
    return found


def judge_scores(name: str, members: Floats, others: Floats) -> Attack:
    """Judge an attack that calls a row a member where its score is high.

    All rows must be independent. The threshold of a false positive rate is drawn with the others,
    so intervals of true positive rates hold wherever the exact one may be.
    """
    ascending, error = np.sort(others), 1.0 - CONFIDENCE
    few = min(len(members), len(others))
    above, upto = (np.searchsorted(ascending, members, side) for side in ("left", "right"))
    auc = float((above + upto).sum() / (2.0 * len(members) * len(others)))
    rates = tuple(_rate_at(members, ascending, one_in) for one_in in ONE_IN)
    cuts, own = np.concatenate((members, others)), np.sort(members)
    shares = [1.0 - np.searchsorted(each, cuts) / len(each) for each in (own, ascending)]
    most = max(0.0, float((shares[0] - shares[1]).max()))
    # Dvoretzky, Kiefer, Wolfowitz and Massart: of all thresholds at once, half the error each.
    far = sum(math.sqrt(math.log(4.0 / error) / (2 * len(each))) for each in (members, others))
    advantage = Range(most, max(0.0, most - far), min(1.0, most + far))
    return Attack(name, mean_interval(auc, few, error), rates, advantage)


def _rate_at(members: Floats, ascending: Floats, one_in: int) -> Range | None:
    """Return the true positive rate; each of the four ends fails with a quarter of the error."""
    count, each = len(ascending), (1.0 + CONFIDENCE) / 2
    if count < _LEAST_FALSE * one_in:
        return None
    # The true threshold is between these of the others' scores, from the top.
    chances, error = (np.arange(count), count, 1 / one_in), (1.0 - each) / 2
    few, many = int((bdtr(*chances) <= error).sum()), 1 + int((bdtrc(*chances) > error).sum())
    low, value, high = (
        int((members > ascending[-k]).sum()) for k in (few, 1 + count // one_in, many)
    )
    total = len(members)
    return Range(
        value / total, clopper_pearson(low, total, each)[0], clopper_pearson(high, total, each)[1]
    )


def judge_answers(name: str, members: Floats, others: Floats) -> Attack:
    """Judge an attack that calls a row a member with a probability known for each row."""
    each = [
        mean_interval(float(part.mean()), len(part), (1.0 - CONFIDENCE) / 2)
        for part in (members, others)
    ]
    own, other = each
    advantage = Range(own.value - other.value, own.low - other.high, own.high - other.low)
    return Attack(name, Range(*(0.5 + part / 2 for part in advantage)), (), advantage)


def offline_ratios(seen: Floats, out: Floats) -> Floats:
    """Return the likelihood ratio's scores where there is one model without each row.

    Its mean is that model's confidence, and its spread, which one model does not show, is that of
    all rows together: that changes no row's place in the order.
    """
    apart = seen - out
    spread = float(apart.std())
    return np.asarray(apart / spread if spread > 0 else apart)


def online_ratios(seen: Floats, kept: Floats, out: Floats) -> Floats:
    """Return log likelihood ratios of Gaussians with a row and without it (Carlini et al. 2022).

    With a row mean and spread are those of its own references. Without it there is one exact model,
    which may be the one under attack: so the mean is that with the row less what the other rows
    lose by leaving, on average, and the spread is theirs.

    Of each row ``seen`` is what the model under attack says, ``kept`` what models say that were
    trained with it (shape (rows, references), NaN where one was not), ``out`` the model without it.
    """
    mean, spread = np.nanmean(kept, axis=1), np.nanstd(kept, axis=1)
    lost, count = mean - out, len(out) - 1
    loss = (lost.sum() - lost) / count
    square = ((lost**2).sum() - lost**2) / count - loss**2
    least = max(_LEAST_SPREAD * float(np.median(spread)), 1e-9)
    spread, wide = np.maximum(spread, least), np.maximum(np.sqrt(np.maximum(square, 0)), least)
    with_row = ((seen - mean) / spread) ** 2 / 2 + np.log(spread)
    without = ((seen - mean + loss) / wide) ** 2 / 2 + np.log(wide)
    return np.asarray(without - with_row)


def label_advantage(epsilon: float, labels: int) -> float:
    """Return what one answer of a guard tells of which of two labels it was drawn for."""
    grown = math.expm1(epsilon / 2)
    return grown / (grown + labels)
