"""Bounds of a network's hidden layers over everything: linear, cut with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.backward import Nodes, pull_back, within_range
from leaveout.verifier.checker.choices import ends_over
from leaveout.verifier.checker.intervals import Start
from leaveout.verifier.checker.layout import Net, Sets
from leaveout.verifier.checker.pairs import facts_of

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]


def whole_bounds(net: Net, sets: Sets, start: Start) -> list[Interval]:
    """Bound hidden layers over everything, what is listed included, shape (1, width) each."""
    state, numbers = start.state[None].copy(), net.arithmetic
    free, untied = np.zeros((1, net.hidden), np.int8), np.zeros(1, bool)
    nodes = Nodes(net, sets, np.zeros(1, np.int64), start.terms, start.terms_d, [])
    sources: list[Interval] = [(net.lower[None], net.upper[None])]
    found = []
    for k in range(net.layers - 1):
        at = net.at(k)
        width = at.stop - at.start
        low = net.bias[at].copy().reshape(1, -1)
        high = low.copy()
        for w, s in zip(net.weights[k], net.sources[k], strict=True):
            up, down = np.maximum(w, 0).T, np.minimum(w, 0).T
            low = low + sources[s][0] @ up + sources[s][1] @ down
            high = high + sources[s][1] @ up + sources[s][0] @ down
        pad = net.unit * start.terms[at]
        both = np.concatenate([np.eye(width), -np.eye(width)])
        forms = pull_back(nodes, np.zeros(2 * width, np.int64), k, both, None)
        ends = forms.constant + ends_over(net.rows, forms.slopes, net.lower, net.upper, numbers)
        ends = within_range(numbers.up(ends))[None]
        high = np.minimum(np.minimum(numbers.up(high) + pad, ends[:, :width]), state[:, 1, at])
        low = np.maximum(np.maximum(numbers.down(low) - pad, -ends[:, width:]), state[:, 0, at])
        state[:, 0, at], state[:, 1, at] = low, high
        nodes.facts.append(facts_of(state[:, :, at], free[:, at], untied))
        sources.append((np.maximum(low, 0.0), np.maximum(high, 0.0)))
        found.append((low, high))
    return found
