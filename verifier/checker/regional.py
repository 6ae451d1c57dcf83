"""Bounds of one network's hidden layers over boxes: linear ones, cut with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.backward import Nodes, largest, pull_back, within_range
from leaveout.verifier.checker.choices import ends_over
from leaveout.verifier.checker.intervals import Start
from leaveout.verifier.checker.layout import Net, Sets
from leaveout.verifier.checker.pairs import facts_of

__all__ = ["hidden_bounds", "whole_bounds"]

Floats = NDArray[np.float64]
Interval = tuple[Floats, Floats]

_ROWS = 8192
"""Rows pulled back together."""


def whole_bounds(net: Net, sets: Sets, start: Start) -> list[Interval]:
    """Bound hidden layers over everything, what is listed included, shape (1, width) each.

    Parameters
    ----------
    net : Net
    sets : Sets
        Any: no difference is looked at.
    start : Start
    """
    return _bounds(net, sets, start, net.lower[None], net.upper[None], listed=True)


def hidden_bounds(
    net: Net, sets: Sets, start: Start, lower: Floats, upper: Floats
) -> list[Interval]:
    """Bound hidden layers over shifted boxes inside of everything, shape (n, width) each.

    Parameters
    ----------
    net, sets, start
        As in `whole_bounds`.
    lower, upper : ndarray of float64, shape (n, inputs)
    """
    widest = max((net.starts[k + 1] - net.starts[k] for k in range(net.layers - 1)), default=1)
    step = max(1, _ROWS // (2 * widest))
    parts = [
        _bounds(net, sets, start, lower[i : i + step], upper[i : i + step], listed=False)
        for i in range(0, len(lower), step)
    ]
    return [
        (np.concatenate([p[k][0] for p in parts]), np.concatenate([p[k][1] for p in parts]))
        for k in range(net.layers - 1)
    ]


def _bounds(
    net: Net, sets: Sets, start: Start, lower: Floats, upper: Floats, *, listed: bool
) -> list[Interval]:
    count = len(lower)
    state = np.repeat(start.state[None], count, axis=0)
    free, untied = np.zeros((count, net.hidden), np.int8), np.zeros(count, bool)
    nodes = Nodes(net, sets, np.zeros(count, np.int64), start.terms, start.terms_d, [])
    sources: list[Interval] = [(lower, upper)]
    found = []
    for k in range(net.layers - 1):
        at = net.at(k)
        width = at.stop - at.start
        low = np.tile(net.bias[at], (count, 1))
        high = low.copy()
        for w, s in zip(net.weights[k], net.sources[k], strict=True):
            up, down = np.maximum(w, 0).T, np.minimum(w, 0).T
            low += sources[s][0] @ up + sources[s][1] @ down
            high += sources[s][1] @ up + sources[s][0] @ down
        pad = net.unit * start.terms[at]
        both = np.tile(np.concatenate([np.eye(width), -np.eye(width)]), (count, 1))
        of = np.repeat(np.arange(count), 2 * width)
        forms = pull_back(nodes, of, k, both, None)
        if listed:
            ends = forms.constant + ends_over(net.tables, forms.slopes, lower[0], upper[0])
            ends = within_range(ends)
        else:
            ends = largest(forms, lower[of], upper[of])
        ends = ends.reshape(count, 2 * width)
        high = np.minimum(np.minimum(high + pad, ends[:, :width]), state[:, 1, at])
        low = np.maximum(np.maximum(low - pad, -ends[:, width:]), state[:, 0, at])
        state[:, 0, at], state[:, 1, at] = low, high
        nodes.facts.append(facts_of(state[:, :, at], free[:, at], untied))
        sources.append((np.maximum(low, 0.0), np.maximum(high, 0.0)))
        found.append((low, high))
    return found
