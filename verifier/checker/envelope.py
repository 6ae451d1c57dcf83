"""Evaluation errors over the whole box: bounds of N, and of members by their difference."""

from __future__ import annotations

import numpy as np

from leaveout.arrays import Floats
from leaveout.models import Members, Stack
from leaveout.verifier.checker.arithmetic import Arithmetic, gamma
from leaveout.verifier.checker.evaluation import largest_program, program_of
from leaveout.verifier.checker.inputs import Inputs, ends_over
from leaveout.verifier.checker.layout import Net, Sets, Start
from leaveout.verifier.checker.pairs import Nodes, facts_of, pull_back, within_range
from leaveout.verifier.checker.question import Question

Interval = tuple[Floats, Floats]


def whole_bounds(net: Net, sets: Sets, start: Start) -> list[Interval]:
    """Bound hidden layers over the whole box, its listed values included, shape (1, width) each."""
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


def whole_errors(question: Question, net: Net, everyone: Sets, start: Start) -> tuple[float, float]:
    """Bound the float32 error of N's confidence, and of any member's, over the box."""
    own = [(low[0], high[0]) for low, high in whole_bounds(net, everyone, start)]
    other = member_bounds(question.network.stack, question.members, question.inputs, net, own)
    graph, box, numbers = question.network.graph, question.inputs, net.arithmetic
    inputs = np.maximum(np.abs(box.lower), np.abs(box.upper))[None]
    alone = {name: value[None] for name, value in question.network.parameters.items()}
    first = np.zeros(1, np.int64)
    error = program_of(graph, alone, numbers).errors(first, inputs, [high[None] for _, high in own])
    tie = largest_program(graph, question.family.parameters, numbers).errors(
        first, inputs, [high[None] for _, high in other]
    )
    return float(error[0]), float(tie[0])


def member_bounds(
    network: Stack, members: Members, inputs: Inputs, net: Net, own: list[Interval]
) -> list[Interval]:
    """Bounds of every member's hidden layers: intervals of weights, cut with N's plus change."""
    numbers = net.arithmetic
    weights, biases, change, change_bias = _hulls(network, members)
    any_member: list[Interval] = [(inputs.lower, inputs.upper)]
    after: list[Interval] = [(np.zeros(net.inputs), np.zeros(net.inputs))]
    found = []
    for k in range(net.layers - 1):
        value, moved = biases[k], change_bias[k]
        for b, s in enumerate(net.sources[k]):
            w = net.weights[k][b]
            value = _sum(value, _product(weights[k][b], any_member[s], numbers), numbers)
            moved = _sum(moved, _product((w, w), after[s], numbers), numbers)
            moved = _sum(moved, _product(change[k][b], any_member[s], numbers), numbers)
        total = _sum(own[k], moved, numbers)
        value = (np.maximum(value[0], total[0]), np.minimum(value[1], total[1]))
        found.append(value)
        any_member.append((np.maximum(value[0], 0.0), np.maximum(value[1], 0.0)))
        after.append(_relu_change(own[k], moved, numbers))
    return found


def _hulls(
    network: Stack, members: Members
) -> tuple[list[list[Interval]], list[Interval], list[list[Interval]], list[Interval]]:
    """Intervals of all members' weights and biases, and of their differences from N's."""
    lows: list[Floats] = []
    highs: list[Floats] = []
    for _, stack in members.chunks():
        parts = []
        for own, layer in zip(network.layers, stack.layers, strict=True):
            for s in sorted(layer.weights):
                parts += [layer.weights[s], layer.weights[s] - own.weights[s]]
            parts += [layer.bias, layer.bias - own.bias]
        low, high = [p.min(axis=0) for p in parts], [p.max(axis=0) for p in parts]
        if lows:
            low = [np.minimum(a, b) for a, b in zip(lows, low, strict=True)]
            high = [np.maximum(a, b) for a, b in zip(highs, high, strict=True)]
        lows, highs = low, high
    pairs = iter(
        # The subtraction rounds once.
        (np.nextafter(a, -np.inf), np.nextafter(b, np.inf))
        for a, b in zip(lows, highs, strict=True)
    )
    weights, biases, change, change_bias = [], [], [], []
    for layer in network.layers:
        found = [(next(pairs), next(pairs)) for _ in layer.weights]
        weights.append([first for first, _ in found])
        change.append([second for _, second in found])
        biases.append(next(pairs))
        change_bias.append(next(pairs))
    return weights, biases, change, change_bias


def _size(v: Interval) -> Floats:
    return np.maximum(np.abs(v[0]), np.abs(v[1]))


def _sum(a: Interval, b: Interval, numbers: Arithmetic) -> Interval:
    pad = gamma(2) * (_size(a) + _size(b))
    low, high = numbers.number(a[0]) + b[0], numbers.number(a[1]) + b[1]
    return numbers.down(low) - pad, numbers.up(high) + pad


def _product(w: Interval, v: Interval, numbers: Arithmetic) -> Interval:
    ends = [numbers.number(each) for each in w]
    corners = (ends[0] * v[0], ends[0] * v[1], ends[1] * v[0], ends[1] * v[1])
    low = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
    high = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    sizes = [numbers.nearest(each) for each in w]
    pad = gamma(2 * len(v[0]) + 2) * (_size((sizes[0], sizes[1])) @ _size(v))
    return numbers.down(low.sum(axis=1)) - pad, numbers.up(high.sum(axis=1)) + pad


def _relu_change(own: Interval, change: Interval, numbers: Arithmetic) -> Interval:
    """Hull of ``relu(z + d) - relu(z)``: it grows with d, and with z if d >= 0, else against it."""
    (low, high), (below, above) = own, change
    pad = gamma(6) * (_size(own) + _size(change))
    z = numbers.number(np.where(above >= 0, high, low))
    most = numbers.up(np.maximum(z + above, 0.0) - np.maximum(z, 0.0)) + pad
    z = numbers.number(np.where(below >= 0, low, high))
    least = numbers.down(np.maximum(z + below, 0.0) - np.maximum(z, 0.0)) - pad
    return (
        np.maximum(least, np.minimum(below, 0.0)),
        np.minimum(most, np.maximum(above, 0.0)),
    )
