"""The bound kernel of linear forms: the same passes, under any multipliers of the last layer.

Of goals ``F_g`` and conditions ``F_k >= 0`` the least goal is at most
``sum w_g F_g + sum t_k F_k`` with convex weights w and any t >= 0; the maximum of that over a node
is bounded by the dual of ``docs/native.md``.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np

from leaveout.bab.linear.forms import Forms
from leaveout.bab.native.kernels import ascent, compiled, pair, passes
from leaveout.bab.native.kernels.ascent import adam, onto_simplex, residuals, sensitivity
from leaveout.bab.native.kernels.batch import (
    CLOSED,
    CUT,
    EMPTY,
    FARTHEST,
    OPEN,
    Batch,
    Bounded,
    Floats,
    MemberSets,
    Numbers,
    Work,
)
from leaveout.bab.native.kernels.compiled import OPTIONS
from leaveout.bab.native.kernels.compiled import compiled as compiled_function
from leaveout.bab.native.kernels.cpu import flat_layout
from leaveout.bab.native.kernels.node import steps
from leaveout.bab.native.kernels.pair import branches
from leaveout.bab.native.kernels.passes import (
    backward,
    blend,
    clear,
    contract,
    first_tied,
    over_box,
)
from leaveout.compiling import kept
from leaveout.cores import cores

__all__ = ["LinearKernel"]

MOST_PAIRED = 8
"""Forms of which all sums of two are looked at."""


@compiled_function
def on_top(
    forms: Any, wider: float, first: int, share: Floats, cz: Floats, cd: Floats, x: Floats
) -> float:  # fmt: skip
    """Set what is above the last hidden layer for some multipliers; returns the constant."""
    gx, gz, gd, g0, extra, _ = forms
    constant = 0.0
    clear(x)
    for c in range(gz.shape[1]):
        cz[first + c], cd[first + c] = 0.0, 0.0
    for k in range(len(g0)):
        if share[k] == 0.0:
            continue
        constant += share[k] * (g0[k] + wider * extra[k])
        for c in range(gz.shape[1]):
            cz[first + c] += share[k] * gz[k, c]
            cd[first + c] += share[k] * gd[k, c]
        for i in range(len(x)):
            x[i] += share[k] * gx[k, i]
    return constant


@compiled_function
def settled(share: Floats, goal: Any) -> None:
    """Move the shares of the goals to multiples of 2^-23 whose sum is exactly 1."""
    rest, largest = 1.0, -1
    for k in range(len(share)):
        if goal[k] and (largest < 0 or share[k] > share[largest]):
            largest = k
    for k in range(len(share)):
        if goal[k] and k != largest:
            share[k] = np.floor(share[k] * 8388608.0) / 8388608.0
            rest -= share[k]
    share[largest] = rest


@compiled_function
def valued(
    net: Any, numbers: Any, members: Any, unit: float, forms: Any, wider: float, sizes: Floats,
    share: Floats, state: Any, phase: Any, bottom: int, size: Floats,
    cz: Floats, cd: Floats, ah: Floats, ad: Floats, x: Floats, by_rule: bool,
) -> tuple[float, float]:  # fmt: skip
    """Return a linear form's constant, padded, and the pad; the form is left in ``ah``.

    What is on top is a sum of forms, rounded as all of their terms.
    """
    inputs, starts, _, _ = net
    last = len(starts) - 2
    first, outputs = starts[last], starts[last + 1]
    constant = on_top(forms, wider, first, share, cz, cd, x)
    total, magnitude = backward(
        net, numbers, members, state, phase, bottom, size, last, first, outputs,
        cz, cd, ah, ad, by_rule, True,
    )  # fmt: skip
    for i in range(inputs):
        ah[i] += x[i]
    for k in range(len(share)):
        magnitude += share[k] * sizes[k]
    pad = unit * magnitude
    return total + constant + pad, pad


@lru_cache(maxsize=1)
def _bound() -> Any:
    """Return the compiled step that bounds a range of nodes whose layers are bounded."""
    modules = (compiled, pair, passes, ascent, sys.modules[__name__])
    sources = "".join(inspect.getsource(module) for module in modules)
    stamp = int.from_bytes(hashlib.sha256(sources.encode()).digest()[:6], "big")

    @kept(nogil=True, **OPTIONS)
    def bound_nodes(
        begin: int, end: int, net: Any, numbers: Any, sets: Any, unit: float, forms: Any,
        wider: Floats, sizes: Floats, cut: Floats, aim: Floats, steps: int, rate: float,
        lower: Floats, upper: Floats, state: Floats, phase: Any, size: Floats, status: Any,
        value: Floats, cz: Floats, cd: Floats, share: Floats, warm: Any, pull: Floats,
        tension: Floats,
    ) -> None:  # fmt: skip
        inputs, starts, _, _ = net
        _ = stamp
        gx, gz, gd, g0, extra, goal = forms
        centre, radius, shift, slack, exact = sets
        members = (centre[0], radius[0], shift[0], slack[0], exact[0])
        weights = numbers[0]
        last, count = len(starts) - 2, len(g0)
        hidden, outputs = starts[last], starts[last + 1]
        sources = inputs + hidden
        ah, ad, h = np.zeros(sources), np.zeros(sources), np.zeros(sources)
        after, best_h, best_d = np.zeros(sources), np.zeros(sources), np.zeros(sources)
        x, gradz, gradd = np.zeros(inputs), np.zeros(outputs), np.zeros(outputs)
        now, now_d, now_share = np.zeros(outputs), np.zeros(outputs), np.zeros(count)
        all_z, all_d = np.zeros((count, outputs)), np.zeros((count, outputs))
        line, shifts = np.zeros((count, inputs)), np.zeros(count)
        joined, start, simplex = np.zeros(inputs), np.zeros(count), np.zeros(count)
        paired, scored = np.zeros(count), np.zeros(count, np.bool_)
        pair_z, pair_d = np.zeros(hidden), np.zeros(hidden)
        for k in range(count):
            for c in range(gz.shape[1]):
                scored[k] = scored[k] or gz[k, c] != 0.0 or gd[k, c] != 0.0
        mean, square = np.zeros(2 * hidden + count), np.zeros(2 * hidden + count)
        scale = np.zeros(2 * last)
        for i in range(begin, end):
            if status[i] != OPEN:
                value[i] = -np.inf
                continue
            bottom = first_tied(starts, phase[i])
            best_goal = -1
            for k in range(count):
                clear(start)
                start[k] = 1.0
                shifts[k], _ = valued(
                    net, numbers, members, unit, forms, wider[i], sizes, start, state[i], phase[i],
                    bottom, size[i], all_z[k], all_d[k], ah, ad, x, True,
                )  # fmt: skip
                for j in range(inputs):
                    line[k, j] = ah[j]
                found = over_box(line[k], shifts[k], lower[i], upper[i])
                least = cut[i] if goal[k] else 0.0
                if not contract(line[k], shifts[k], least, lower[i], upper[i]):
                    status[i] = CUT if goal[k] else EMPTY
                    value[i] = max(found, cut[i]) if goal[k] else cut[i]
                    break
                if goal[k] and (best_goal < 0 or found < value[i]):
                    best_goal, value[i] = k, found
            if status[i] != OPEN:
                continue
            # Two forms may cancel where each alone is loose: their sum is bounded on its own.
            together, pair_best = False, np.inf
            for k in range(count):
                for o in range(k):
                    if not (scored[k] and scored[o]) or count > MOST_PAIRED:
                        continue
                    clear(simplex)
                    simplex[k], simplex[o] = 1.0, 1.0
                    constant, _ = valued(
                        net, numbers, members, unit, forms, wider[i], sizes, simplex, state[i],
                        phase[i], bottom, size[i], now, now_d, ah, ad, x, True,
                    )  # fmt: skip
                    found = over_box(ah, constant, lower[i], upper[i])
                    least = (cut[i] if goal[k] else 0.0) + (cut[i] if goal[o] else 0.0)
                    if not contract(ah, constant, least, lower[i], upper[i]):
                        status[i] = CUT if goal[k] or goal[o] else EMPTY
                        value[i] = cut[i]
                        break
                    if not (goal[k] or goal[o]):
                        continue
                    halved = 0.5 if goal[k] and goal[o] else 1.0
                    if halved * found < pair_best:
                        together, pair_best = True, halved * found
                        clear(paired)
                        paired[k], paired[o] = halved, halved
                        for j in range(hidden):
                            pair_z[j], pair_d[j] = halved * now[j], halved * now_d[j]
                if status[i] != OPEN:
                    break
            if status[i] != OPEN:
                continue
            # One multiplier after the other, over the linear forms.
            clear(start)
            start[best_goal] = 1.0
            constant = shifts[best_goal]
            for j in range(inputs):
                joined[j] = line[best_goal, j]
            blended = np.inf
            for k in range(count):
                if k == best_goal:
                    continue
                mixing = 1.0 if goal[k] else 0.0
                t, blended = blend(
                    joined, constant, line[k], shifts[k], lower[i], upper[i],
                    1.0 if goal[k] else FARTHEST, mixing,
                )  # fmt: skip
                if t == 0.0:
                    continue
                keep = 1.0 - mixing * t
                for j in range(inputs):
                    joined[j] = keep * joined[j] + t * line[k, j]
                constant = keep * constant + t * shifts[k]
                for o in range(count):
                    start[o] *= keep
                start[k] += t
            settled(start, goal)
            together = together and pair_best < blended
            if together:
                for o in range(count):
                    start[o] = paired[o]
            best = np.inf
            p1, p2 = 1.0, 1.0
            clear(mean)
            clear(square)
            clear(scale)
            for step in range(-1 if warm[i] else 0, steps + 1):
                if step <= 0:
                    for o in range(count):
                        now_share[o] = share[i, o] if step < 0 else start[o]
                    for j in range(hidden):
                        now[j], now_d[j] = cz[i, j], cd[i, j]
                        if step == 0 and together:
                            now[j], now_d[j] = pair_z[j], pair_d[j]
                        elif step == 0:
                            now[j], now_d[j] = 0.0, 0.0
                            for k in range(count):
                                now[j] += start[k] * all_z[k, j]
                                now_d[j] += start[k] * all_d[k, j]
                total, blur = valued(
                    net, numbers, members, unit, forms, wider[i], sizes, now_share, state[i],
                    phase[i], bottom, size[i], now, now_d, ah, ad, x, False,
                )  # fmt: skip
                found = over_box(ah, total, lower[i], upper[i])
                better = best - found > blur
                if better:
                    best = found
                    for j in range(hidden):
                        cz[i, j], cd[i, j] = now[j], now_d[j]
                    for o in range(count):
                        share[i, o] = now_share[o]
                    for j in range(sources):
                        best_h[j], best_d[j] = ah[j], ad[j]
                if step < 0:
                    continue
                if best <= aim[i] or step == steps:
                    break
                if step == 0:
                    if not better:
                        for j in range(hidden):
                            now[j], now_d[j] = cz[i, j], cd[i, j]
                        for o in range(count):
                            now_share[o] = share[i, o]
                        for j in range(sources):
                            ah[j], ad[j] = best_h[j], best_d[j]
                        on_top(forms, wider[i], hidden, now_share, now, now_d, x)
                    for k in range(last):
                        width = starts[k + 1] - starts[k]
                        for j in range(starts[k], starts[k + 1]):
                            scale[k] += abs(ah[inputs + j]) / width
                            scale[last + k] += abs(ad[inputs + j]) / width
                residuals(
                    net, numbers, members, lower[i], upper[i], state[i], phase[i], bottom,
                    size[i], now, now_d, ah, ad, h, after, gradz, gradd,
                )  # fmt: skip
                p1 *= 0.9
                p2 *= 0.99
                pace = rate * (1.02 - step / steps)
                for k in range(last):
                    for j in range(starts[k], starts[k + 1]):
                        now[j] -= pace * scale[k] * adam(mean, square, j, gradz[j], p1, p2)
                        now_d[j] -= (
                            pace * scale[last + k]
                            * adam(mean, square, hidden + j, gradd[j], p1, p2)
                        )  # fmt: skip
                goals = 0
                for k in range(count):
                    slope = g0[k] + wider[i] * extra[k]
                    for c in range(outputs - hidden):
                        slope += gz[k, c] * gradz[hidden + c] + gd[k, c] * gradd[hidden + c]
                    for j in range(inputs):
                        slope += gx[k, j] * h[j]
                    move = adam(mean, square, 2 * hidden + k, slope, p1, p2)
                    if goal[k]:
                        now_share[k] -= pace * move
                        goals += 1
                    else:
                        now_share[k] = max(0.0, now_share[k] - 0.3 * pace * move)
                if goals == 1:
                    for k in range(count):
                        if goal[k]:
                            now_share[k] = 1.0
                else:
                    for k in range(count):
                        simplex[k] = now_share[k] if goal[k] else -1e9
                    onto_simplex(simplex)
                    for k in range(count):
                        if goal[k]:
                            now_share[k] = simplex[k]
                    settled(now_share, goal)
            value[i] = max(best, cut[i])
            sensitivity(net, weights, state[i], size[i], best_h, best_d, h, pull[i])
            for j in range(inputs):
                pull[i, j] *= upper[i, j] - lower[i, j]
            for j in range(hidden):
                low, high = state[i, 0, j], state[i, 1, j]
                p, q = state[i, 2, j], state[i, 3, j]
                tension[i, j] = -1.0
                if phase[i, j] == 0 and low < q and high > -p:
                    on, _, _, off, _, _ = branches(
                        best_h[inputs + j], best_d[inputs + j], cz[i, j], cd[i, j],
                        low, high, p, q, state[i, 4, j], state[i, 5, j], phase[i, j],
                    )  # fmt: skip
                    tension[i, j] = abs(on - off)
            if best <= cut[i]:
                status[i] = CLOSED

    return bound_nodes


class LinearKernel:
    """Bounds nodes of one question about linear forms.

    The multipliers of a node's forms are its ``share``: convex ones of the goals, non-negative ones
    of the others; its ``tie`` the share of the forms' ``extra`` that is charged. `Work.label` and
    the rival and t of nodes are not read.

    Parameters
    ----------
    forms : Forms
        In the inputs that the kernels read.
    threads : int, optional
        By default one a core.
    """

    name = "linear"

    def __init__(self, forms: Forms, threads: int | None = None) -> None:
        self._forms = (
            forms.inputs, forms.scores, forms.change, forms.constant, forms.extra, forms.goal,
        )  # fmt: skip
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="bound")

    def bound(self, numbers: Numbers, sets: MemberSets, batch: Batch, work: Work) -> Bounded:
        """See `Kernel.bound`."""
        tighten_nodes, _, _ = steps()
        bound_nodes = _bound()
        count = len(batch.which)
        found = Bounded(
            np.zeros(count, np.int64),
            np.full(count, np.inf),
            np.array(batch.lower),
            np.array(batch.upper),
            np.array(batch.state),
            np.array(batch.cz),
            np.array(batch.cd),
            np.array(batch.t),
            np.array(batch.share),
            np.zeros_like(batch.lower),
            np.full_like(batch.cz, -1.0),
        )
        net = flat_layout(numbers.layout)
        own = (numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)
        members = (sets.centre, sets.radius, sets.shift, sets.slack, sets.exact)
        size = np.zeros_like(batch.cz)
        most = np.maximum(np.abs(batch.lower), np.abs(batch.upper)).max(axis=0)
        inputs, scores, change, constant, extra, _ = self._forms
        top = slice(len(numbers.bias) - scores.shape[1], None)
        sizes = (
            np.abs(constant) + extra + np.abs(inputs) @ most + np.abs(scores) @ numbers.rough[top]
        )
        sizes += np.abs(change) @ numbers.rough_difference[top]

        def run(begin: int, end: int) -> None:
            tighten_nodes(
                begin, end, net, own, members, numbers.unit, batch.which,
                found.lower, found.upper, found.state, batch.phase, size, found.status,
            )  # fmt: skip
            bound_nodes(
                begin, end, net, own, members, numbers.unit, self._forms, batch.tie, sizes,
                batch.cut, batch.aim, work.steps, work.rate, found.lower, found.upper, found.state,
                batch.phase, size, found.status, found.value, found.cz, found.cd, found.share,
                batch.warm, found.pull, found.tension,
            )  # fmt: skip

        piece = max(1, min(8, count // (2 * self._threads)))
        futures = [self._pool.submit(run, i, min(i + piece, count)) for i in range(0, count, piece)]
        for future in futures:
            future.result()
        return found
