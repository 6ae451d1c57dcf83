"""Interval arithmetic over the whole region, from which every tree starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.layout import Net, Sets

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Start:
    """Bounds over everything."""

    state: Floats  # shape (6, hidden): as in `leaveout.verifier.checker.pairs.facts_of`
    terms: Floats  # shape (hidden + labels,): sums of absolute terms of each z and dz
    terms_d: Floats  # shape (hidden + labels,): sums of absolute terms of each z and dz


def start(net: Net, everyone: Sets) -> Start:
    """Propagate intervals of z, and of dz with ``dh`` anywhere between 0 and dz.

    So the bounds of dz hold whatever pairs are tied.
    """
    outputs, numbers = net.starts[-1], net.arithmetic
    terms, terms_d = np.zeros(outputs), np.zeros(outputs)
    state = np.zeros((6, net.hidden))
    low_h, high_h = [net.lower], [net.upper]
    low_dh, high_dh = [np.zeros(net.inputs)], [np.zeros(net.inputs)]
    for k in range(net.layers):
        at = net.at(k)
        shift = numbers.number(everyone.shift[0, at])
        slack = numbers.number(everyone.slack[0, at])
        low, high = net.bias[at].copy(), net.bias[at].copy()
        low_d, high_d = shift - slack, shift + slack
        own, own_d = np.abs(net.bias[at]), np.abs(shift) + slack
        for b, source in enumerate(net.sources[k]):
            w, c, r = net.weights[k][b], everyone.centre[k][b][0], everyone.radius[k][b][0]
            h0, h1, d0, d1 = low_h[source], high_h[source], low_dh[source], high_dh[source]
            c, r = numbers.number(c), numbers.number(r)
            size_d = np.maximum(np.abs(d0), np.abs(d1))
            size = h1 if source else numbers.number(h1) + np.abs(net.origin)
            changed = w + c
            own = own + np.abs(w) @ size
            own_d = own_d + (np.abs(c) + r) @ (size + size_d) + (np.abs(changed) + r) @ size_d
            low = low + np.maximum(w, 0) @ h0 + np.minimum(w, 0) @ h1
            high = high + np.maximum(w, 0) @ h1 + np.minimum(w, 0) @ h0
            spread = r @ (numbers.number(h1) + size_d)
            low_d = low_d + np.maximum(c, 0) @ h0 + np.minimum(c, 0) @ h1 - spread
            high_d = high_d + np.maximum(c, 0) @ h1 + np.minimum(c, 0) @ h0 + spread
            low_d = low_d + np.maximum(changed, 0) @ d0 + np.minimum(changed, 0) @ d1
            high_d = high_d + np.maximum(changed, 0) @ d1 + np.minimum(changed, 0) @ d0
        # Twice, for the rounding of the sums themselves.
        terms[at], terms_d[at] = 2 * numbers.up(own), 2 * numbers.up(own_d)
        low = numbers.down(low) - net.unit * terms[at]
        high = numbers.up(high) + net.unit * terms[at]
        low_d = numbers.down(low_d) - net.unit * terms_d[at]
        high_d = numbers.up(high_d) + net.unit * terms_d[at]
        if k < net.layers - 1:
            state[:, at] = (
                low, high, np.maximum(high_d, 0), np.maximum(-low_d, 0), low_d, high_d
            )  # fmt: skip
            low_h.append(np.maximum(low, 0))
            high_h.append(np.maximum(high, 0))
            low_dh.append(np.minimum(low_d, 0))
            high_dh.append(np.maximum(high_d, 0))
    return Start(state, terms, terms_d)
