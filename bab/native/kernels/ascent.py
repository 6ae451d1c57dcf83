"""Compiled parts of the dual ascent: its steps and split scores.

Nothing here needs to be right for a bound to hold: any multipliers prove one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leaveout.bab.native.kernels.interface import Floats
from leaveout.bab.native.kernels.jit import jit_function
from leaveout.bab.native.kernels.pair_bounds import branches

SLOPE = 0.3
"""First step of a slope between 0 and 1."""


@jit_function
def adam(mean: Floats, square: Floats, o: int, slope: float, p1: float, p2: float) -> float:
    """Update the means at ``o`` by a slope; return a step, about 1 for constant sign."""
    mean[o] = 0.9 * mean[o] + 0.1 * slope
    square[o] = 0.99 * square[o] + 0.01 * slope * slope
    root: float = math.sqrt(square[o] / (1.0 - p2)) + 1e-30
    step: float = mean[o] / (1.0 - p1) / root
    return step


@jit_function
def onto_simplex(v: Floats) -> None:
    """Project onto the probability simplex, in place (Michelot's method)."""
    level = -math.inf
    for _ in range(len(v)):
        total, count = -1.0, 0
        for i in range(len(v)):
            if v[i] > level:
                total += v[i]
                count += 1
        level = total / count
    for i in range(len(v)):
        v[i] = max(v[i] - level, 0.0)


@jit_function
def narrow(number: float) -> float:
    """Round to a float32 number."""
    rounded: float = np.float64(np.float32(number))
    return rounded


@jit_function
def sensitivity(
    net: Any, weights: Floats, state: Floats, size: Floats, ah: Floats, ad: Floats,
    sums: Floats, input_score: Floats,
) -> None:  # fmt: skip
    """Write the relaxation error that each input can remove, per unit of its width.

    A pair loses at most its coefficient times its width. Slopes of the dual bound vanish at its
    optimum, so they cannot be used.
    """
    inputs, starts, blocks, first = net
    layers = len(starts) - 1
    for i in range(len(sums)):
        sums[i] = 0.0
    for k in range(layers - 2, -1, -1):
        for j in range(starts[k], starts[k + 1]):
            l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
            if u <= -p:
                continue
            own, passing = 0.0, 1.0
            if l < q:
                width = max(u - l, 1e-300)
                passing = max(u, 0.0) / width if l < 0.0 else 1.0
                if l < 0.0 < u:
                    own = abs(ah[inputs + j])
                own += abs(ad[inputs + j]) * size[j] / max(width, size[j])
            total = own + sums[inputs + j] * passing
            for b in range(first[k], first[k + 1]):
                start, width_of = blocks[b, 1], blocks[b, 2]
                row = blocks[b, 3] + (j - starts[k]) * width_of
                for i in range(width_of):
                    sums[start + i] += total * abs(weights[row + i])
    for i in range(inputs):
        input_score[i] = sums[i]


@jit_function
def neuron_scores(
    state: Floats, phase: Any, cz: Floats, cd: Floats, ah: Floats, ad: Floats, neuron_score: Floats
) -> None:
    """Write the gap between each neuron's tied phases; -1 if there is nothing to split."""
    for j in range(len(cz)):
        l, u, p, q = state[0, j], state[1, j], state[2, j], state[3, j]
        neuron_score[j] = -1.0
        if phase[j] == 0 and l < q and u > -p:
            on, _, _, off, _, _ = branches(
                ah[j], ad[j], cz[j], cd[j], l, u, p, q, state[4, j], state[5, j], phase[j]
            )
            neuron_score[j] = abs(on - off)
