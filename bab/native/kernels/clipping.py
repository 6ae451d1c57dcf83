"""Compiled: the largest value of a linear form over a box and half-spaces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leaveout.bab.native.kernels.interface import Floats
from leaveout.bab.native.kernels.jit import jit_function

ROUNDS = 3
"""Half-spaces added to one form."""

FLAT = 1e-4
"""Half-spaces missed by less than this share of their width are not missed.

Boxes are cut to half-spaces, and so are their corners missed by nothing but for rounding.
"""

CANCELLED = 1e-6
"""Slopes of which no more than this is left are 0, at the most that they can be."""


class Cuts(NamedTuple):
    """Half-spaces ``row x + shift >= 0`` that contain all that matters."""

    rows: Floats  # shape (most, inputs)
    shift: Floats  # shape (most,)
    pads: Floats  # shape (most,)
    width: Floats  # shape (most,)
    count: Any  # shape (1,): how many there are
    x: Floats  # shape (inputs,): room to work in
    order: Any  # shape (inputs,): room to work in
    at: Floats  # shape (inputs,): room to work in
    form: Floats  # shape (inputs,): room to work in


@jit_function
def no_cuts(most: int, inputs: int) -> Any:
    """Return empty storage for half-spaces."""
    return Cuts(
        np.zeros((most, inputs)), np.zeros(most), np.zeros(most), np.zeros(most),
        np.zeros(1, np.int64), np.zeros(inputs), np.zeros(inputs, np.int64), np.zeros(inputs),
        np.zeros(inputs),
    )  # fmt: skip


@jit_function
def add_cut(cuts: Any, row: Floats, shift: float, pad: float, lower: Floats, upper: Floats) -> None:
    """Add a half-space unless it contains the whole box."""
    c = cuts.count[0]
    least, width = shift, 0.0
    for i in range(len(lower)):
        cuts.rows[c, i] = row[i]
        least += row[i] * (lower[i] if row[i] > 0.0 else upper[i])
        width += abs(row[i]) * (upper[i] - lower[i])
    if least >= 0.0:
        return
    cuts.shift[c], cuts.pads[c], cuts.width[c] = shift, pad, width
    cuts.count[0] = c + 1


@jit_function
def over_box(form: Floats, constant: float, lower: Floats, upper: Floats) -> float:
    """Return the largest ``form x + constant`` over the box."""
    value = constant
    for i in range(len(lower)):
        value += form[i] * (upper[i] if form[i] > 0.0 else lower[i])
    return value


@jit_function
def largest(form: Floats, constant: float, lower: Floats, upper: Floats, cuts: Any) -> float:
    """Bound ``form x + constant`` from above over the box and the half-spaces.

    ``form + sum of multiplier * half-space`` is a bound for any multipliers >= 0; the half-space
    most violated by the maximiser gets its best one, in turn.
    """
    value = over_box(form, constant, lower, upper)
    count = cuts.count[0]
    if count == 0:
        return value
    n = len(lower)
    x, order, at, now = cuts.x, cuts.order, cuts.at, cuts.form
    steepest = 0.0
    for i in range(n):
        steepest = max(steepest, abs(form[i]))
    for i in range(n):
        now[i] = form[i]
        if abs(now[i]) <= CANCELLED * steepest:
            # What rounding leaves of terms that cancel must not decide where the maximiser is.
            constant += max(now[i] * lower[i], now[i] * upper[i])
            now[i] = 0.0
    best = value
    for _ in range(ROUNDS):
        for i in range(n):
            x[i] = upper[i] if now[i] > 0.0 else lower[i]
        chosen, missed, slope = -1, FLAT, 0.0
        for c in range(count):
            v = cuts.shift[c]
            for i in range(n):
                v += cuts.rows[c, i] * x[i]
            if -v > missed * cuts.width[c]:
                chosen, missed, slope = c, (1.0 + FLAT) * -v / cuts.width[c], v
        if chosen < 0:
            break
        row = cuts.rows[chosen]
        # The form's slopes change their sign one after the other.
        found = 0
        for i in range(n):
            if row[i] * (1.0 if now[i] > 0.0 else -1.0) < 0.0 and upper[i] > lower[i]:
                step = -now[i] / row[i]
                o = found
                while o > 0 and at[o - 1] > step:
                    at[o], order[o] = at[o - 1], order[o - 1]
                    o -= 1
                at[o], order[o] = step, i
                found += 1
        t, small = 0.0, FLAT * cuts.width[chosen]
        for o in range(found):
            t = at[o]
            slope += abs(row[order[o]]) * (upper[order[o]] - lower[order[o]])
            if slope >= -small:
                break
        if slope < -small:
            # Nothing of the box is in the half-space.
            return -np.inf
        constant += t * (cuts.shift[chosen] + cuts.pads[chosen])
        for i in range(n):
            moved = now[i] + t * row[i]
            if abs(moved) <= CANCELLED * abs(now[i]):
                constant += max(moved * lower[i], moved * upper[i])
                moved = 0.0
            now[i] = moved
        value = over_box(now, constant, lower, upper)
        # Multipliers that overflow say nothing.
        if -np.inf < value < best:
            best = value
    return best


@jit_function
def remember(known: Floats, place: int, row: Floats, shift: float, pad: float) -> None:
    """Keep a bound of a form for descendants, if there is room."""
    if place < known.shape[0]:
        inputs = known.shape[1] - 2
        for i in range(inputs):
            known[place, i] = row[i]
        known[place, inputs], known[place, inputs + 1] = shift, pad


@jit_function
def recall(
    rows: Any, known: Floats, cut: float, warm: bool, lower: Floats, upper: Floats, cuts: Any
) -> None:
    """Start from the ancestors' kept bounds: goals exceed the cut, conditions are >= 0."""
    cuts.count[0] = 0
    if not warm:
        return
    count, inputs = len(rows.goal), known.shape[1] - 2
    for place in range(min(known.shape[0], count + len(rows.sums))):
        least = 0.0
        if place < count:
            least += cut if rows.goal[place] else 0.0
        else:
            k, o = rows.sums[place - count]
            least += (cut if rows.goal[k] else 0.0) + (cut if rows.goal[o] else 0.0)
        shift = known[place, inputs] - least
        add_cut(cuts, known[place], shift, known[place, inputs + 1], lower, upper)
