"""The three steps that bound a node: neuron bounds, linear forms, dual ascent.

Each is compiled separately, for a range of nodes, without Python's lock: so threads can share a
batch, and compilation takes seconds instead of minutes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.native.kernels.arguments import Rows
from leaveout.bab.native.kernels.interface import CLOSED, CUT, EMPTY, FARTHEST, OPEN, MemberSets
from leaveout.bab.native.kernels.line_bounds import (
    SLOPE,
    adam,
    along,
    by_lines,
    narrow,
    neuron_scores,
    onto_simplex,
    sensitivity,
    usual,
)
from leaveout.bab.native.kernels.neuron_bounds import (
    backward,
    blend,
    clear,
    contract,
    first_tied,
    tighten,
)
from leaveout.bab.native.kernels.pair_bounds import (
    CUTS,
    OPTIONS,
    jit_function,
    no_cuts,
    over_box,
    recall,
    remember,
)
from leaveout.compiling import cached_njit


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

    The top is a sum of forms, with the rounding error of all their terms.
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
    """Round multipliers to numbers that a certificate can store exactly.

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


@cached_njit(nogil=True, **OPTIONS)
def tighten_nodes(
    begin: int, end: int, net: Any, own: Any, sets: Any, effort: Any, every: Any, nodes: Any
) -> None:  # fmt: skip
    """Refresh neuron bounds of nodes begin to end; set EMPTY if they cross."""
    hidden = net.starts[len(net.starts) - 2]
    ah, ad = np.zeros(net.inputs + hidden), np.zeros(net.inputs + hidden)
    cz, cd = np.zeros(hidden), np.zeros(hidden)
    cuts = no_cuts(min(hidden, CUTS) + nodes.known.shape[1], net.inputs)
    for i in range(begin, end):
        s = nodes.which[i]
        recall(
            case_of(every, nodes.case[i]), nodes.known[i], nodes.cut[i], nodes.warm[i],
            nodes.lower[i], nodes.upper[i], cuts,
        )  # fmt: skip
        members = MemberSets(
            sets.centre[s], sets.radius[s], sets.shift[s], sets.slack[s], sets.exact[s]
        )
        fine = tighten(
            net, own, members, effort.unit, nodes.lower[i], nodes.upper[i], nodes.state[i],
            nodes.phase[i], nodes.refresh[i], nodes.size[i], cz, cd, ah, ad, effort.pair, cuts,
        )  # fmt: skip
        # Bounds kept from above may have cut away points that are not above the cut.
        nodes.status[i] = OPEN if fine else (CUT if nodes.warm[i] else EMPTY)


@cached_njit(nogil=True, **OPTIONS)
def form_nodes(
    begin: int, end: int, net: Any, own: Any, sets: Any, effort: Any, every: Any, nodes: Any,
    starts: Any,
) -> None:  # fmt: skip
    """Contract the regions of nodes by linear forms, and blend these into a starting point."""
    inputs, layers = net.inputs, len(net.starts) - 1
    hidden, outputs = net.starts[layers - 1], net.starts[layers]
    sources, width = inputs + hidden, nodes.share.shape[1]
    ah, ad, x = np.zeros(sources), np.zeros(sources), np.zeros(inputs)
    cz, cd = np.zeros((width, outputs)), np.zeros((width, outputs))
    line, shift = np.zeros((width, inputs)), np.zeros(width)
    both_z, both_d = np.zeros(outputs), np.zeros(outputs)
    joined, share, tried = np.zeros(inputs), np.zeros(width), np.zeros(width)
    most = 0
    for c in range(len(every.sum_starts) - 1):
        most = max(most, every.sum_starts[c + 1] - every.sum_starts[c])
    sum_line, sum_shift = np.zeros((most, inputs)), np.zeros(most)
    for i in range(begin, end):
        if nodes.status[i] != OPEN:
            nodes.value[i] = nodes.cut[i] if nodes.status[i] == CUT else -np.inf
            continue
        s = nodes.which[i]
        members = MemberSets(
            sets.centre[s], sets.radius[s], sets.shift[s], sets.slack[s], sets.exact[s]
        )
        rows, errors, cut = case_of(every, nodes.case[i]), nodes.errors[i], nodes.cut[i]
        lower, upper, state, phase = (
            nodes.lower[i],
            nodes.upper[i],
            nodes.state[i],
            nodes.phase[i],
        )
        count, bottom, best = len(rows.goal), first_tied(net.starts, phase), -1
        for k in range(count):
            clear(share)
            share[k] = 1.0
            shift[k], pad = form_value(
                net, own, members, effort.unit, rows, errors, share, state, phase, bottom,
                nodes.size[i], cz[k], cd[k], ah, ad, x, rows.touching[k],
            )  # fmt: skip
            for j in range(inputs):
                line[k, j] = ah[j]
            remember(nodes.known[i], k, ah, shift[k], pad)
            found = over_box(line[k], shift[k], lower, upper)
            goal = rows.goal[k]
            if not contract(line[k], shift[k], cut if goal else 0.0, lower, upper):
                # Earlier rows may have cut some points away, though none above the cut.
                nodes.status[i] = CUT if goal else EMPTY
                nodes.value[i] = max(found, cut) if goal else cut
                break
            if goal and (best < 0 or found < nodes.value[i]):
                best, nodes.value[i] = k, found
        if nodes.status[i] != OPEN:
            continue
        for p in range(len(rows.sums)):
            k, o = rows.sums[p, 0], rows.sums[p, 1]
            clear(share)
            share[k], share[o] = 1.0, 1.0
            sum_shift[p], pad = form_value(
                net, own, members, effort.unit, rows, errors, share, state, phase, bottom,
                nodes.size[i], both_z, both_d, ah, ad, x,
                rows.touching[k] or rows.touching[o],
            )  # fmt: skip
            for j in range(inputs):
                sum_line[p, j] = ah[j]
            remember(nodes.known[i], count + p, ah, sum_shift[p], pad)
            least = (cut if rows.goal[k] else 0.0) + (cut if rows.goal[o] else 0.0)
            if not contract(sum_line[p], sum_shift[p], least, lower, upper):
                nodes.status[i] = CUT if rows.goal[k] or rows.goal[o] else EMPTY
                nodes.value[i] = cut
                break
        if nodes.status[i] != OPEN:
            continue
        # One multiplier at a time, over the linear forms.
        clear(share)
        share[best] = 1.0
        constant, blended = shift[best], np.inf
        for j in range(inputs):
            joined[j] = line[best, j]
        for k in range(count):
            if k == best:
                continue
            mixing = 1.0 if rows.goal[k] else 0.0
            t, blended = blend(
                joined, constant, line[k], shift[k], lower, upper,
                1.0 if rows.goal[k] else FARTHEST, mixing,
            )  # fmt: skip
            if t == 0.0:
                continue
            keep = 1.0 - mixing * t
            for j in range(inputs):
                joined[j] = keep * joined[j] + t * line[k, j]
            constant = keep * constant + t * shift[k]
            for o in range(count):
                share[o] *= keep
            share[k] += t
        chosen = -1
        for p in range(len(rows.sums)):
            k, o = rows.sums[p, 0], rows.sums[p, 1]
            if not (rows.goal[k] or rows.goal[o]):
                continue
            half = 0.5 if rows.goal[k] and rows.goal[o] else 1.0
            for j in range(inputs):
                joined[j] = half * sum_line[p, j]
            t, found = blend(
                line[best], shift[best], joined, half * sum_shift[p], lower, upper, 1.0, 1.0
            )
            if found <= blended:
                blended, chosen = found, p
                clear(tried)
                tried[best] = 1.0 - t
                tried[k] += half * t
                tried[o] += half * t
        if chosen >= 0:
            for k in range(count):
                share[k] = tried[k]
        settle(share, rows.goal)
        for k in range(count):
            starts[i, k] = share[k]


@cached_njit(nogil=True, **OPTIONS)
def ascend_nodes(
    begin: int, end: int, net: Any, own: Any, sets: Any, effort: Any, every: Any, nodes: Any,
    starts: Any,
) -> None:  # fmt: skip
    """Lower dual values by Adam, from the better of two starts, to ``stop_at``.

    Multipliers stay float32, so that certificates store them exactly. A warm node's given
    multipliers are the second start, later replaced by its best ones.
    """
    inputs, layers = net.inputs, len(net.starts) - 1
    last, steps = layers - 1, effort.steps
    hidden, outputs = net.starts[last], net.starts[layers]
    sources, width = inputs + hidden, nodes.share.shape[1]
    ah, ad, h = np.zeros(sources), np.zeros(sources), np.zeros(sources)
    after, best_h, best_d = np.zeros(sources), np.zeros(sources), np.zeros(sources)
    x, gz, gd = np.zeros(inputs), np.zeros(outputs), np.zeros(outputs)
    now, now_d, share = np.zeros(outputs), np.zeros(outputs), np.zeros(width)
    lines, slopes = np.zeros((4, hidden)), np.zeros((5, hidden))
    simplex = np.zeros(width)
    mean, square = np.zeros(4 * hidden + width), np.zeros(4 * hidden + width)
    scale = np.zeros(2 * last)
    for i in range(begin, end):
        if nodes.status[i] != OPEN:
            continue
        s = nodes.which[i]
        members = MemberSets(
            sets.centre[s], sets.radius[s], sets.shift[s], sets.slack[s], sets.exact[s]
        )
        rows, errors = case_of(every, nodes.case[i]), nodes.errors[i]
        lower, upper, state, phase = (
            nodes.lower[i],
            nodes.upper[i],
            nodes.state[i],
            nodes.phase[i],
        )
        count, bottom, goals = len(rows.goal), first_tied(net.starts, phase), 0
        for k in range(count):
            goals += 1 if rows.goal[k] else 0
        best = np.inf
        clear(mean)
        clear(square)
        clear(scale)
        p1, p2 = 1.0, 1.0
        # Step -1 evaluates the second start, step 0 the first; the better one is continued.
        for step in range(-1 if nodes.warm[i] else 0, steps + 1):
            if step < 0:
                for k in range(count):
                    share[k] = nodes.share[i, k]
                for o in range(4):
                    for j in range(hidden):
                        lines[o, j] = nodes.lines[i, o, j]
            elif step == 0:
                for k in range(count):
                    share[k] = starts[i, k]
                usual(state, phase, lines)
            constant = on_top(rows, errors, hidden, share, now, now_d, x)
            total, magnitude = by_lines(
                net, own, members, state, phase, bottom, nodes.size[i], lines, now, now_d,
                ah, ad, slopes, effort.pair,
            )  # fmt: skip
            for j in range(inputs):
                ah[j] += x[j]
            for k in range(count):
                if share[k] != 0.0:
                    magnitude += share[k] * (rows.sizes[k] + errors[k])
            noise = effort.unit * magnitude
            found = over_box(ah, total + constant + noise, lower, upper)
            # Gains that rounding could explain do not count.
            better = best - found > noise
            if better:
                best = found
                for j in range(hidden):
                    nodes.cz[i, j], nodes.cd[i, j] = now[j], now_d[j]
                for o in range(4):
                    for j in range(hidden):
                        nodes.lines[i, o, j] = lines[o, j]
                for k in range(count):
                    nodes.share[i, k] = share[k]
                for j in range(sources):
                    best_h[j], best_d[j] = ah[j], ad[j]
            if step < 0:
                continue
            if best <= nodes.stop_at[i] or step == steps:
                break
            if step == 0:
                if not better:
                    # The second start was better.
                    for o in range(4):
                        for j in range(hidden):
                            lines[o, j] = nodes.lines[i, o, j]
                    for k in range(count):
                        share[k] = nodes.share[i, k]
                    on_top(rows, errors, hidden, share, now, now_d, x)
                    by_lines(
                        net, own, members, state, phase, bottom, nodes.size[i], lines, now,
                        now_d, ah, ad, slopes, effort.pair,
                    )  # fmt: skip
                    for j in range(inputs):
                        ah[j] += x[j]
                for k in range(last):
                    neurons = net.starts[k + 1] - net.starts[k]
                    for j in range(net.starts[k], net.starts[k + 1]):
                        scale[k] += abs(ah[inputs + j]) / neurons
                        scale[last + k] += abs(ad[inputs + j]) / neurons
            along(
                net, own, members, lower, upper, state, phase, bottom, nodes.size[i],
                now, now_d, ah, ad, slopes, h, after, gz, gd, effort.pair,
            )  # fmt: skip
            p1 *= 0.9
            p2 *= 0.99
            left = 1.02 - step / steps
            pace = effort.rate * left
            for k in range(last):
                for j in range(net.starts[k], net.starts[k + 1]):
                    slope = slopes[3, j] * gz[j]
                    move = adam(mean, square, 2 * hidden + j, slope, p1, p2)
                    lines[0, j] = min(max(lines[0, j] - SLOPE * left * move, 0.0), 1.0)
                    if effort.pair:
                        slope = slopes[4, j] * (gz[j] + gd[j])
                        move = adam(mean, square, 3 * hidden + j, slope, p1, p2)
                        lines[1, j] = min(max(lines[1, j] - SLOPE * left * move, 0.0), 1.0)
                        move = adam(mean, square, hidden + j, gd[j], p1, p2)
                        lines[3, j] -= pace * scale[last + k] * move
                    lines[2, j] -= pace * scale[k] * adam(mean, square, j, gz[j], p1, p2)
            for k in range(count):
                if rows.goal[k] and goals == 1:
                    simplex[k] = 1.0
                    continue
                slope = rows.constant[k] + errors[k]
                for c in range(outputs - hidden):
                    slope += rows.scores[k, c] * gz[hidden + c]
                if rows.touching[k]:
                    for c in range(outputs - hidden):
                        slope += rows.change[k, c] * gd[hidden + c]
                if rows.featured[k]:
                    for j in range(inputs):
                        slope += rows.inputs[k, j] * h[j]
                move = pace * adam(mean, square, 4 * hidden + k, slope, p1, p2)
                simplex[k] = share[k] - move if rows.goal[k] else -1e9
                if not rows.goal[k]:
                    share[k] = max(0.0, share[k] - 0.3 * move)
            if goals > 1:
                onto_simplex(simplex[:count])
            for k in range(count):
                if rows.goal[k]:
                    share[k] = simplex[k]
            settle(share, rows.goal)
        # The region may have been cut to the points above the cut.
        nodes.value[i] = max(best, nodes.cut[i])
        sensitivity(net, own.weights, state, nodes.size[i], best_h, best_d, h, nodes.input_score[i])
        for j in range(inputs):
            nodes.input_score[i, j] *= upper[j] - lower[j]
        neuron_scores(
            state, phase, nodes.cz[i], nodes.cd[i], best_h[inputs:], best_d[inputs:],
            nodes.neuron_score[i],
        )  # fmt: skip
        if best <= nodes.cut[i]:
            nodes.status[i] = CLOSED
