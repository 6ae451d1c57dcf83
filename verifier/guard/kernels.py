"""Compiled loops: whether an input may be answered, and each member's answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit

Floats = NDArray[np.float64]

FAULTLESS, NOT_FINITE, OUTSIDE = 0, 1, 2
"""What `screen` finds."""


@cached_njit(nogil=True)
def screen(x: NDArray[np.float32], lower: Floats, upper: Floats) -> tuple[int, int]:
    """Return whether an input is finite and in bounds, and the first feature that is not."""
    outside = -1
    for j in range(len(x)):
        value = x[j]
        if not np.isfinite(value):
            return NOT_FINITE, j
        if outside < 0 and not (lower[j] <= value <= upper[j]):
            outside = j
    if outside >= 0:
        return OUTSIDE, outside
    return FAULTLESS, -1


@cached_njit(nogil=True)
def add_product(
    given: Floats, numbers: NDArray[np.number], at: int, sums: Floats, rows: NDArray[np.int64]
) -> None:
    """Add the product of a vector and a matrix to sums, in float64."""
    width, count = len(sums), 0
    for j in range(len(given)):
        rows[count] = j
        count += given[j] != 0.0
    # Four at a time: sums are read and written as seldom. Slices: of an index that may be negative,
    # loops are not vectorised.
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b, c, d = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        first = numbers[at + a * width : at + (a + 1) * width]
        second = numbers[at + b * width : at + (b + 1) * width]
        third = numbers[at + c * width : at + (c + 1) * width]
        fourth = numbers[at + d * width : at + (d + 1) * width]
        p, q, r, s = given[a], given[b], given[c], given[d]
        for i in range(width):
            sums[i] += (p * first[i] + q * second[i]) + (r * third[i] + s * fourth[i])
    for k in range(whole, count):
        value = given[rows[k]]
        row = numbers[at + rows[k] * width : at + (rows[k] + 1) * width]
        for i in range(width):
            sums[i] += value * row[i]


@cached_njit(nogil=True)
def find_leak(
    weights: NDArray[np.floating],  # shape (m, weights of a member)
    biases: NDArray[np.floating],  # shape (m, biases of a member)
    plan: NDArray[np.int64],  # shape (steps, 8)
    labels: int,
    values: Floats,
    x: NDArray[np.float32],  # shape (d,)
    label: int,
    members: NDArray[np.int64],
    rounding: float,
    close: NDArray[np.int64],  # shape (m,)
) -> tuple[int, int]:
    """Evaluate members until one surely prefers another label."""
    undecided = 0
    for j in range(len(x)):
        values[j] = x[j]
    scores = len(values) - labels
    rows = np.empty(len(values), np.int64)
    for member in members:
        own = weights[member]
        shifts = biases[member]
        for step in range(len(plan)):
            at, first, inputs, out, width = (
                plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
            )  # fmt: skip
            sums = values[out : out + width]
            if plan[step, 5] >= 0:
                sums[:] = shifts[plan[step, 5] : plan[step, 5] + width]
            add_product(values[first : first + inputs], own, at, sums, rows)
            if plan[step, 6] and plan[step, 7]:
                for i in range(width):
                    sums[i] = max(sums[i], 0.0)
        best = -np.inf
        for c in range(labels):
            if c != label:
                best = max(best, values[scores + c])
        margin = values[scores + label] - best
        if margin < -rounding:
            return member, undecided
        if not margin > rounding:
            close[undecided] = member
            undecided += 1
    return -1, undecided
