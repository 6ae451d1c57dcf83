"""Compiled: forms of scores as linear forms of the input, under given multipliers.

Of goals ``F_g`` and conditions ``F_k >= 0`` the least goal is at most
``sum w_g F_g + sum t_k F_k`` with convex weights w and any t >= 0; the largest value of that over
a node is bounded by the dual of ``docs/native.md``.
"""

from __future__ import annotations

import math
from typing import Any

from leaveout.bab.native.kernels.arguments import Rows
from leaveout.bab.native.kernels.ascent import narrow
from leaveout.bab.native.kernels.interface import Floats
from leaveout.bab.native.kernels.jit import jit_function
from leaveout.bab.native.kernels.neuron_bounds import backward, clear


@jit_function
def case_of(rows: Any, case: int) -> Any:
    """Return the rows of one case."""
    a, b = rows.starts[case], rows.starts[case + 1]
    c, d = rows.sum_starts[case], rows.sum_starts[case + 1]
    return Rows(
        rows.inputs[a:b], rows.scores[a:b], rows.change[a:b], rows.constant[a:b], rows.sizes[a:b],
        rows.goal[a:b], rows.featured[a:b], rows.touching[a:b],
        rows.starts, rows.sums[c:d], rows.sum_starts,
    )  # fmt: skip


@jit_function
def on_top(
    rows: Any, errors: Floats, first: int, share: Floats, cz: Floats, cd: Floats, x: Floats
) -> float:
    """Set the coefficients above the last hidden layer; return the constant."""
    scores = rows.scores.shape[1]
    constant = 0.0
    clear(x)
    for c in range(scores):
        cz[first + c], cd[first + c] = 0.0, 0.0
    for k in range(len(rows.goal)):
        if share[k] == 0.0:
            continue
        constant += share[k] * (rows.constant[k] + errors[k])
        for c in range(scores):
            cz[first + c] += share[k] * rows.scores[k, c]
        if rows.touching[k]:
            for c in range(scores):
                cd[first + c] += share[k] * rows.change[k, c]
        if rows.featured[k]:
            for i in range(len(x)):
                x[i] += share[k] * rows.inputs[k, i]
    return constant


@jit_function
def form_value(
    net: Any, numbers: Any, members: Any, unit: float, rows: Any, errors: Floats,
    share: Floats, state: Any, phase: Any, bottom: int, size: Floats,
    cz: Floats, cd: Floats, ah: Floats, ad: Floats, x: Floats, pair: bool,
) -> tuple[float, float]:  # fmt: skip
    """Leave a linear form in ``ah``; return its padded constant, and the pad.

    The top is a sum of forms, rounded as all of their terms.
    """
    last = len(net.starts) - 2
    first, outputs = net.starts[last], net.starts[last + 1]
    constant = on_top(rows, errors, first, share, cz, cd, x)
    total, magnitude = backward(
        net, numbers, members, state, phase, bottom, size, last, first, outputs,
        cz, cd, ah, ad, pair,
    )  # fmt: skip
    for i in range(net.inputs):
        ah[i] += x[i]
    for k in range(len(rows.goal)):
        if share[k] != 0.0:
            magnitude += share[k] * (rows.sizes[k] + errors[k])
    pad = unit * magnitude
    return total + constant + pad, pad


@jit_function
def settle(share: Floats, goal: Any) -> None:
    """Round multipliers to numbers that a certificate holds exactly.

    Goal multipliers become multiples of 2^-23 that sum to exactly 1, the others float32.
    """
    rest, largest = 1.0, -1
    for k in range(len(goal)):
        if goal[k] and (largest < 0 or share[k] > share[largest]):
            largest = k
    for k in range(len(goal)):
        if not goal[k]:
            share[k] = narrow(share[k])
        elif k != largest:
            share[k] = math.floor(share[k] * 8388608.0) / 8388608.0
            rest -= share[k]
    share[largest] = rest
