"""Bounds of hidden pairs in many nodes, layer by layer, within half-spaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.backward import Nodes, pull_back
from leaveout.verifier.checker.blocks import Block
from leaveout.verifier.checker.clipping import HalfSpaces, largest_within
from leaveout.verifier.checker.errors import OUT_OF_RANGE, RejectedError
from leaveout.verifier.checker.pairs import facts_of
from leaveout.verifier.checker.spaces import Space

Flags = NDArray[np.bool_]

_ROWS = 1024
"""Rows pulled back together, so that they stay in cache."""


def bound_hidden_pairs(space: Space, block: Block, nodes: Nodes, given: HalfSpaces) -> None:
    """Bound the z and dz of all hidden pairs, each layer from those before it."""
    net, state, phase = nodes.net, block.state, block.phase
    lowest = np.full(len(block.nodes), net.layers)
    for k in reversed(range(net.layers - 1)):
        lowest[(phase[:, net.at(k)] != 0).any(axis=1)] = k
    for k in range(net.layers - 1):
        at = net.at(k)
        known = state[:, :, at]
        tied = (lowest < k) & block.alive & space.differs
        # What ancestors proved of differences there may be of others: of fewer tied pairs.
        known[tied, 4:] = np.array([-np.inf, np.inf])[:, None]
        unstable = ~((known[:, 0] >= known[:, 3]) | (known[:, 1] <= -known[:, 2]))
        _cut_by_ties(block, nodes, k, unstable, given)
        wanted = unstable if k else np.ones_like(unstable)
        wanted &= block.alive[:, None]
        _tighten(block, nodes, k, wanted, given, pair=False)
        wanted |= (tied & block.alive)[:, None]
        if space.differs:
            _tighten(block, nodes, k, wanted, given, pair=True)
        low, high, p, q = known[:, 0], known[:, 1], known[:, 2], known[:, 3]
        below, above = known[:, 4], known[:, 5]
        true = (lowest >= k)[:, None] & wanted
        np.copyto(p, np.minimum(p, np.maximum(above, 0.0)), where=true)
        np.copyto(q, np.minimum(q, np.maximum(-below, 0.0)), where=true)
        here = phase[:, at]
        if np.isnan(known[block.alive]).any():
            raise RejectedError(OUT_OF_RANGE)
        crossed = (low > high) | (below > above)
        crossed |= ((here > 0) & (high < -p)) | ((here < 0) & (low > q))
        block.alive &= ~crossed.any(axis=1)
        nodes.facts.append(facts_of(known, here, lowest < k))


def _cut_by_ties(
    block: Block, nodes: Nodes, layer: int, unstable: Flags, given: HalfSpaces
) -> None:
    """Add what tied pairs say of z: that it is at least -p where on, at most q where off."""
    at = nodes.net.at(layer)
    phase, state = block.phase[:, at], block.state[:, :, at]
    first = given.count.copy()
    everything, neurons = np.nonzero((phase != 0) & unstable & block.alive[:, None])
    for begin in range(0, len(everything), _ROWS):
        of, neuron = everything[begin : begin + _ROWS], neurons[begin : begin + _ROWS]
        side = phase[of, neuron]
        rows = np.zeros((len(of), at.stop - at.start))
        rows[np.arange(len(of)), neuron] = side
        forms = pull_back(nodes, of, layer, rows, None)
        band = np.where(side > 0, state[of, 2, neuron], state[of, 3, neuron])
        given.add(of, forms, -band, block.lower, block.upper)
    if len(everything):
        block.cut_to(given, first)


def _tighten(
    block: Block,
    nodes: Nodes,
    layer: int,
    wanted: Flags,
    given: HalfSpaces,
    *,
    pair: bool,
) -> None:
    """Bound some outputs of a layer, or their differences, from both sides."""
    at = nodes.net.at(layer)
    state = block.state[:, :, at]
    everything, neurons = np.nonzero(wanted)
    below, above = (4, 5) if pair else (0, 1)
    for begin in range(0, len(everything), _ROWS):
        of, neuron = everything[begin : begin + _ROWS], neurons[begin : begin + _ROWS]
        # Both signs of a row, side by side.
        twice, sign = np.repeat(of, 2), np.tile([1.0, -1.0], len(of))
        rows = np.zeros((len(twice), at.stop - at.start))
        rows[np.arange(len(twice)), np.repeat(neuron, 2)] = sign
        own, change = (np.zeros_like(rows), rows) if pair else (rows, None)
        forms = pull_back(nodes, twice, layer, own, change)
        found, empty = largest_within(forms, twice, block.lower, block.upper, given)
        block.alive[twice[empty]] = False
        state[of, above, neuron] = np.minimum(state[of, above, neuron], found[::2])
        state[of, below, neuron] = np.maximum(state[of, below, neuron], -found[1::2])
