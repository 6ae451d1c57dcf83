"""What kernels read of smooth activations: tables of functions, and rows added to states."""

from __future__ import annotations

from functools import cache

import numpy as np

from leaveout.arrays import Floats
from leaveout.kernel.smooth import FUNCTIONS, HALF, Curve, Kinds

FIRST = 6  # rows of a state without smooth neurons

KIND, UP, UP_AT, DOWN, DOWN_AT, UP_D, UP_D_AT, DOWN_D, DOWN_D_AT, LEAST, MOST, APART, GAP, GAP_D = (
    range(FIRST, FIRST + 14)
)
"""Slopes and constants of lines above and below h; the same for dh (apart: of z + dz); slopes in
``dh = m dz``; whether z and z + dz are bounded apart; the lines' distances in the middle."""

ROWS = GAP_D + 1


@cache
def tables() -> tuple[Floats, Floats]:
    """Return knots of all functions, shape (kinds, knots, 2), and their data, shape (kinds, 8)."""
    knots, data = np.zeros((len(FUNCTIONS), 2 * HALF + 1, 2)), np.zeros((len(FUNCTIONS), 8))
    for kind, own in enumerate(FUNCTIONS):
        curve = Curve.of(kind)
        if own.touch:
            continue
        knots[kind, :, 0], knots[kind, :, 1] = curve.values, curve.slopes
        first, *others = [end for _, end, _ in curve.pieces]
        second = others[0] if others else first
        sign = 1.0 if own.convex else -1.0
        data[kind, :6] = own.step, first, second, sign, own.rising, own.floor
        data[kind, 6:] = own.off, 2 * own.rounded
    return knots, data


def room_for(kinds: Kinds) -> Floats | None:
    """Return rows to add to states, with the kinds of neurons; None for ReLUs alone."""
    if not kinds.any():
        return None
    rows = np.zeros((ROWS - FIRST, len(kinds)))
    rows[KIND - FIRST] = kinds
    return rows
