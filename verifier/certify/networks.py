"""Hints for claims about networks: slopes of lines, and multiples of half-spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.kernel.networks import ABOVE, BELOW, HIGH, LOW, P, Q
from leaveout.kernel.values import Arrays

Flags = NDArray[np.bool_]

_EQUAL_AREAS = 1.0 + 1e-9
"""Areas above a ReLU within this factor count as equal: rounding must not decide."""

_ROUNDS = 3  # most half-spaces added to one form
_FLAT = 1e-4  # half-spaces violated by a smaller share of their width do not count as violated
_CANCELLED = 1e-6  # slopes whose terms cancel down to this share count as 0


_SETTLED = 1e-5  # pairs settled by less than this share of their width are bounded again


def rows(known: Arrays) -> Arrays:
    """Return which pairs of a layer are worth bounding: those whose phases are not settled."""
    low, high, p, q = (known["state"][:, i] for i in (LOW, HIGH, P, Q))
    slack = _SETTLED * (high - low + p + q)
    wanted = (known["layer"] == 0) | ~((low >= q + slack) | (high <= -p - slack))
    return {"wanted": wanted | (known["kinds"] > 0)}


def slopes(known: Arrays) -> Arrays:
    """Return slopes of the lines that bound a layer's pairs with the least area."""
    state, on, off, free = (known[name] for name in ("state", "on", "off", "free"))
    low, high, p, q = (state[:, i] for i in (LOW, HIGH, P, Q))
    below, above = state[:, BELOW], state[:, ABOVE]
    z_low = np.where(off, low, np.maximum(low, -p))
    z_high = np.where(on, high, np.minimum(high, q))
    rise, fall = _lines(z_low, z_high)
    least, most = low + below, high + above
    apart = free & ((low >= 0) | (high <= 0) | (least >= 0) | (most <= 0))
    crossing = (below < 0) & (above > 0)
    width = np.where(crossing, above - below, 1.0)
    rise_d = np.where(crossing, above / width, (below >= 0).astype(np.float64))
    fall_d = np.where(crossing, -below / width, (below < 0).astype(np.float64))
    rise_d, fall_d = (np.where(off, np.where(on, s, 0.0), 1.0) for s in (rise_d, fall_d))
    first, second = _lines(least, most)
    found = {
        "rise": rise,
        "fall": fall,
        "rise_d": np.where(apart, first, rise_d),
        "fall_d": np.where(apart, second, fall_d),
        "apart": apart,
    }
    if known["kinds"].any():
        # The search's own lines, so that bounds agree; compiled.
        from leaveout.bab.native.kernels import curve_tables as of
        from leaveout.bab.native.kernels.curves import shapes

        bent = shapes(known["kinds"], state, pair=True)
        rows_of = {
            "rise": of.UP, "fall": of.DOWN, "rise_d": of.UP_D, "fall_d": of.DOWN_D,
            "apart": of.APART,
        }  # fmt: skip
        for name, row in rows_of.items():
            value = bent[:, row].astype(found[name].dtype)
            found[name] = np.where(known["kinds"] > 0, value, found[name])
    return found


def _lines(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the chord above a ReLU, and the better of 0 and z below it."""
    crossing = (low < 0) & (high > 0)
    width = np.where(crossing, high - low, 1.0)
    always = (low >= 0).astype(np.float64)
    rise = np.where(crossing, high / width, always)
    fall = np.where(crossing, (high > -low * _EQUAL_AREAS).astype(np.float64), always)
    return rise, fall


def multiples(known: Arrays) -> Arrays:
    """Return multiples of half-spaces: the one most violated at each form's maximiser, in turn."""
    forms, constant = known["slopes"], known["constant"]
    n, r, inputs = forms.shape
    rows, shifts = known["half_spaces"], known["shifts"]
    low, high = (np.repeat(known[key], r, axis=0) for key in ("lower", "upper"))
    widths = np.repeat((np.abs(rows) * (known["upper"] - known["lower"])[:, None]).sum(-1), r, 0)
    node = np.repeat(np.arange(n), r)
    now = forms.reshape(n * r, inputs).copy()
    best = np.full(n * r, np.inf)
    taken: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats]] = []
    with np.errstate(all="ignore"):
        fixed = constant.reshape(n * r).copy()
        flat = np.abs(now) <= _CANCELLED * np.abs(now).max(axis=1, keepdims=True)
        fixed += np.where(flat, np.maximum(now * low, now * high), 0.0).sum(axis=1)
        now = np.where(flat, 0.0, now)
        left = np.arange(n * r)
        plain = fixed + np.where(now > 0, now * high, now * low).sum(1)
        best = plain.copy()
        kept = np.zeros(n * r, np.int64)
        for step in range(1, _ROUNDS + 1):
            x = np.where(now > 0, high[left], low[left])
            value = (rows[node[left]] @ x[:, :, None])[:, :, 0] + shifts[node[left]]
            width = widths[left]
            missed = np.where(value < 0, -value / width, 0.0)
            missed = np.where(np.isfinite(missed), missed, 0.0)
            farthest = missed.max(axis=1)
            going = farthest > _FLAT
            if not going.any():
                break
            left, now, fixed = left[going], now[going], fixed[going]
            value, missed, width, farthest = (a[going] for a in (value, missed, width, farthest))
            chosen = np.argmax(missed * (1 + _FLAT) >= farthest[:, None], axis=1)
            one = np.arange(len(left))
            row, shift = rows[node[left], chosen], shifts[node[left], chosen]
            spread = high[left] - low[left]
            t = _multiple(now, row, value[one, chosen], _FLAT * width[one, chosen], spread)
            taken.append((left, chosen, t))
            moved, fixed = now + t[:, None] * row, fixed + t * shift
            cancelled = np.abs(moved) <= _CANCELLED * np.abs(now)
            ends = np.maximum(moved * low[left], moved * high[left])
            fixed = fixed + np.where(cancelled, ends, 0.0).sum(1)
            now = np.where(cancelled, 0.0, moved)
            found = fixed + np.where(now > 0, now * high[left], now * low[left]).sum(1)
            better = found < best[left]
            best[left[better]], kept[left[better]] = found[better], step
    row_of, slot, t = (
        np.concatenate([np.zeros(0, d), *(e[i] for e in taken)])
        for i, d in ((0, np.int64), (1, np.int64), (2, np.float64))
    )
    when = np.concatenate(
        [np.zeros(0, np.int64), *(np.full(len(e[0]), i + 1) for i, e in enumerate(taken))]
    )
    some = (kept[row_of] >= when) & (t > 0)
    row_of, slot, t = row_of[some], slot[some], t[some]
    # One half-space may have been chosen twice.
    key, back = np.unique(row_of * rows.shape[1] + slot, return_inverse=True)
    total = np.bincount(back, t, len(key)) if len(key) else np.zeros(0)
    return {"row": key // rows.shape[1], "slot": key % rows.shape[1], "t": total}


def _multiple(now: Floats, row: Floats, value: Floats, small: Floats, width: Floats) -> Floats:
    """Return the multiple with the least maximum over the box; 0 if it decreases for ever.

    The maximum is convex and piecewise linear in the multiple. Its slope is the row's value at the
    maximiser, which increases where slopes of the form change sign, one at a time.
    """
    gain = np.where(now > 0.0, -row, row) * width
    turning = gain > 0.0
    step = np.full(row.shape, np.inf)
    np.divide(now, -row, out=step, where=turning)
    order = np.argsort(step, axis=1)
    slope = np.cumsum(np.take_along_axis(np.where(turning, gain, 0.0), order, 1), axis=1)
    enough = slope >= (-small - value)[:, None]
    t = np.take_along_axis(step, order, 1)[np.arange(len(row)), np.argmax(enough, axis=1)]
    return np.where(enough[:, -1] & np.isfinite(t) & (t > 0.0), t, 0.0)


def split(known: Arrays) -> Arrays:
    """Return where to halve leaves that need a little more: the input that moves the form most."""
    width, steep = known["upper"] - known["lower"], np.abs(known["slopes"])
    index = np.argmax(width * (steep + steep.mean(axis=1, keepdims=True) + 1e-300), axis=1)
    one = np.arange(len(index))
    return {"index": index, "point": (known["lower"][one, index] + known["upper"][one, index]) / 2}


LINES: Mapping[str, Callable[[Arrays], Arrays]] = {
    "rows": rows, "slopes": slopes, "multiples": multiples,
}  # fmt: skip
"""By what the kernel asks for wherever it bounds forms."""


def lines_only(what: str, known: Arrays) -> Arrays:
    """Answer the questions that do not depend on a certificate."""
    return LINES[what](known) if what in LINES else {}
