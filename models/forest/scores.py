"""Quality of a split: Gini index or entropy, from counts in one fixed order of terms."""

from __future__ import annotations

import math
from typing import Any

from leaveout.models.forest.compiling import scalar, subroutine

_INVERSE_LN2 = 1.4426950408889634
_TERMS = 13


@scalar
def _times_log2(count: int) -> float:
    """Return count * log2(count), the same float on every machine.

    log2 is the series of atanh((m - 1) / (m + 1)) for m in [sqrt(1/2), sqrt(2)), with omitted terms
    below 1e-20.
    """
    if count < 2:
        return 0.0
    fraction, exponent = math.frexp(float(count))
    if fraction < 0.7071067811865476:
        fraction *= 2.0
        exponent -= 1
    ratio = (fraction - 1.0) / (fraction + 1.0)
    square = ratio * ratio
    series = 0.0
    for j in range(_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * j + 1)
    return count * (exponent + 2.0 * ratio * series * _INVERSE_LN2)


@subroutine
def score(entropy: bool, left: Any, at: int, total: Any) -> float:
    """Return the quality of a split, higher is better (paper, equations 2 and 3).

    Gini: size minus size times the weighted index. Entropy: minus size times the weighted entropy.
    """
    first, second = 0, 0
    a, b = 0.0, 0.0
    for c in range(len(total)):
        x = left[at + c]
        y = total[c] - x
        first += x
        second += y
        if entropy:
            a += _times_log2(x)
            b += _times_log2(y)
        else:
            a += float(x) * float(x)
            b += float(y) * float(y)
    if entropy:
        return (a - _times_log2(first)) + (b - _times_log2(second))
    return a / first + b / second
