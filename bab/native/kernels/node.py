"""The three steps that bound a node: intermediate bounds, linear forms, the dual ascent.

Each is compiled on its own, for a range of nodes, without Python's lock: so threads share a
batch, and compiling takes seconds rather than minutes.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from leaveout.bab.native.kernels import ascent, compiled, pair, passes
from leaveout.bab.native.kernels.ascent import (
    adam,
    onto_simplex,
    residuals,
    sensitivity,
    settle,
)
from leaveout.bab.native.kernels.batch import CLOSED, CUT, EMPTY, FARTHEST, OPEN, Floats
from leaveout.bab.native.kernels.compiled import OPTIONS
from leaveout.bab.native.kernels.pair import branches
from leaveout.bab.native.kernels.passes import (
    backward,
    blend,
    clear,
    contract,
    first_tied,
    over_box,
    scores_on_top,
    tighten,
)
from leaveout.compiling import kept

__all__ = ["steps"]


@lru_cache(maxsize=1)
def steps() -> tuple[Any, Any, Any]:
    """Return the three compiled steps: tighten, form and ascend a range of nodes.

    They are kept on disk between runs. What is kept is told apart by the closure ``stamp``, a
    digest of the passes they are built from, so that an edit there is never overlooked.
    """
    modules = (compiled, pair, passes, ascent, sys.modules[__name__])
    sources = "".join(inspect.getsource(module) for module in modules)
    stamp = int.from_bytes(hashlib.sha256(sources.encode()).digest()[:6], "big")

    @kept(nogil=True, **OPTIONS)
    def tighten_nodes(
        begin: int, end: int, net: Any, numbers: Any, sets: Any, unit: float, which: Any,
        lower: Floats, upper: Floats, state: Floats, phase: Any, size: Floats, status: Any,
    ) -> None:  # fmt: skip
        """Refresh the intermediate bounds of nodes begin to end; status EMPTY where they cross."""
        inputs, starts, _, _ = net
        _ = stamp
        centre, radius, shift, slack, exact = sets
        hidden = starts[len(starts) - 2]
        ah, ad = np.zeros(inputs + hidden), np.zeros(inputs + hidden)
        cz, cd = np.zeros(hidden), np.zeros(hidden)
        for i in range(begin, end):
            s = which[i]
            members = (centre[s], radius[s], shift[s], slack[s], exact[s])
            fine = tighten(
                net, numbers, members, unit, lower[i], upper[i], state[i], phase[i], size[i],
                cz, cd, ah, ad,
            )  # fmt: skip
            status[i] = OPEN if fine else EMPTY

    @kept(nogil=True, **OPTIONS)
    def form_nodes(
        begin: int, end: int, net: Any, numbers: Any, sets: Any, unit: float, label: int,
        tie: Floats, cut: Floats, which: Any, rival: Any, lower: Floats, upper: Floats,
        state: Floats, phase: Any, size: Floats, status: Any, value: Floats,
        start_cz: Floats, start_cd: Floats, start_t: Floats, start_share: Floats,
    ) -> None:  # fmt: skip
        """Contract the regions of nodes by linear forms, and solve the 1-D Lagrangian over them.

        On a leak above the cut, N leads every other label by more than the cut; the member leads
        its rival by at most the tie; and so N leads the rival by at most the difference plus
        the tie.
        """
        inputs, starts, _, _ = net
        _ = stamp
        centre, radius, shift, slack, exact = sets
        hidden, outputs = starts[len(starts) - 2], starts[len(starts) - 1]
        labels, last = outputs - hidden, len(starts) - 2
        ah, ad = np.zeros(inputs + hidden), np.zeros(inputs + hidden)
        cz, cd = np.zeros((labels + 2, outputs)), np.zeros((labels + 2, outputs))
        form, constant = np.zeros((labels + 2, inputs)), np.zeros(labels + 2)
        share = np.zeros(labels)
        for i in range(begin, end):
            if status[i] != OPEN:
                value[i] = -np.inf
                continue
            s = which[i]
            members = (centre[s], radius[s], shift[s], slack[s], exact[s])
            bottom = first_tied(starts, phase[i])
            # Rows of forms: N's lead over each label, minus the member's lead, and the difference.
            best = -1
            for row in range(labels + 2):
                if row == label:
                    continue
                clear(share)
                own = row < labels
                if own:
                    share[row] = 1.0
                scores_on_top(net, label, rival[i], share, 0.0 if own else 1.0, cz[row], cd[row])
                if row == labels:
                    cz[row, hidden + label] -= 1.0
                elif row == labels + 1:
                    for c in range(hidden, outputs):
                        cz[row, c] = 0.0
                total, magnitude = backward(
                    net, numbers, members, state[i], phase[i], bottom, size[i], last,
                    hidden, outputs, cz[row], cd[row], ah, ad, True, not own,
                )  # fmt: skip
                for j in range(inputs):
                    form[row, j] = ah[j]
                allowed = 0.0 if own else tie[i]
                constant[row] = total + allowed + unit * (magnitude + allowed)
                found = over_box(form[row], constant[row], lower[i], upper[i])
                least = 0.0 if row == labels else cut[i]
                if not contract(form[row], constant[row], least, lower[i], upper[i]):
                    # Rows before this one may have cut leaks away, though none above the cut.
                    status[i] = EMPTY if row == labels else CUT
                    value[i] = cut[i] if row == labels else max(found, cut[i])
                    break
                if own and (best < 0 or found < value[i]):
                    best, value[i] = row, found
            if status[i] != OPEN:
                continue
            t, found = blend(
                form[best], constant[best], form[labels], constant[labels], lower[i], upper[i],
                FARTHEST, 0.0,
            )  # fmt: skip
            other, keep = labels, 1.0
            if best == rival[i]:
                t_d, found_d = blend(
                    form[best], constant[best], form[labels + 1], constant[labels + 1],
                    lower[i], upper[i], 1.0, 1.0,
                )  # fmt: skip
                if found_d <= found:
                    t, found, other, keep = t_d, found_d, labels + 1, 1.0 - t_d
            start_t[i] = t
            for c in range(labels):
                start_share[i, c] = 1.0 if c == best else 0.0
            for j in range(hidden):
                start_cz[i, j] = keep * cz[best, j] + t * cz[other, j]
                start_cd[i, j] = keep * cd[best, j] + t * cd[other, j]

    @kept(nogil=True, **OPTIONS)
    def ascend_nodes(
        begin: int, end: int, net: Any, numbers: Any, sets: Any, unit: float, label: int,
        tie: Floats, cut: Floats, aim: Floats, steps: int, rate: float, which: Any, rival: Any,
        lower: Floats, upper: Floats, state: Floats, phase: Any, size: Floats, status: Any,
        value: Floats, start_cz: Floats, start_cd: Floats, start_t: Floats, start_share: Floats,
        cz: Floats, cd: Floats, t: Floats, share: Floats, warm: Any, pull: Floats,
        tension: Floats,
    ) -> None:  # fmt: skip
        """Lower the dual values of nodes by Adam, from the better of two starts; stop at ``aim``.

        Multipliers are kept on float32 numbers, so that a certificate can hold them exactly. Given
        ``warm``, ``cz, cd, t, share`` are the second start; they are left at the best.
        """
        inputs, starts, _, _ = net
        weights = numbers[0]
        _ = stamp
        centre, radius, shift, slack, exact = sets
        last = len(starts) - 2
        hidden, outputs = starts[last], starts[last + 1]
        labels, sources = outputs - hidden, inputs + hidden
        ah, ad, h, after = (
            np.zeros(sources),
            np.zeros(sources),
            np.zeros(sources),
            np.zeros(sources),
        )
        best_h, best_d = np.zeros(sources), np.zeros(sources)
        gz, gd = np.zeros(outputs), np.zeros(outputs)
        now, now_d, now_share = np.zeros(outputs), np.zeros(outputs), np.zeros(labels)
        mean, square = np.zeros(2 * hidden + 1 + labels), np.zeros(2 * hidden + 1 + labels)
        scale = np.zeros(2 * last)
        for i in range(begin, end):
            if status[i] != OPEN:
                continue
            s = which[i]
            members = (centre[s], radius[s], shift[s], slack[s], exact[s])
            bottom = first_tied(starts, phase[i])
            mine, theirs = hidden + label, hidden + rival[i]
            best = np.inf
            now_t = 0.0
            clear(mean)
            clear(square)
            clear(scale)
            p1, p2 = 1.0, 1.0
            # Step -1 looks at the second start, step 0 at the first; the better one goes on.
            for step in range(-1 if warm[i] else 0, steps + 1):
                if step <= 0:
                    for j in range(hidden):
                        now[j] = cz[i, j] if step < 0 else start_cz[i, j]
                        now_d[j] = cd[i, j] if step < 0 else start_cd[i, j]
                    for c in range(labels):
                        now_share[c] = share[i, c] if step < 0 else start_share[i, c]
                    now_t = t[i] if step < 0 else start_t[i]
                now_t = np.float64(np.float32(now_t))
                for j in range(hidden):
                    now[j] = np.float64(np.float32(now[j]))
                    now_d[j] = np.float64(np.float32(now_d[j]))
                scores_on_top(net, label, rival[i], now_share, now_t, now, now_d)
                total, magnitude = backward(
                    net, numbers, members, state[i], phase[i], bottom, size[i], last,
                    hidden, outputs, now, now_d, ah, ad, False, True,
                )  # fmt: skip
                allowed = now_t * tie[i]
                found = over_box(ah, total + allowed, lower[i], upper[i])
                blur = unit * (magnitude + allowed)
                found += blur
                # Gains that rounding may have made are none.
                better = best - found > blur
                if better:
                    best = found
                    t[i] = now_t
                    for j in range(hidden):
                        cz[i, j], cd[i, j] = now[j], now_d[j]
                    for c in range(labels):
                        share[i, c] = now_share[c]
                    for j in range(sources):
                        best_h[j], best_d[j] = ah[j], ad[j]
                if step < 0:
                    continue
                if best <= aim[i] or step == steps:
                    break
                if step == 0:
                    if not better:
                        # The second start was better.
                        now_t = t[i]
                        for j in range(hidden):
                            now[j], now_d[j] = cz[i, j], cd[i, j]
                        for c in range(labels):
                            now_share[c] = share[i, c]
                        for j in range(sources):
                            ah[j], ad[j] = best_h[j], best_d[j]
                        scores_on_top(net, label, rival[i], now_share, now_t, now, now_d)
                    for k in range(last):
                        count = starts[k + 1] - starts[k]
                        for j in range(starts[k], starts[k + 1]):
                            scale[k] += abs(ah[inputs + j]) / count
                            scale[last + k] += abs(ad[inputs + j]) / count
                residuals(
                    net, numbers, members, lower[i], upper[i], state[i], phase[i], bottom,
                    size[i], now, now_d, ah, ad, h, after, gz, gd,
                )  # fmt: skip
                p1 *= 0.9
                p2 *= 0.99
                pace = rate * (1.02 - step / steps)
                for k in range(last):
                    for j in range(starts[k], starts[k + 1]):
                        now[j] -= pace * scale[k] * adam(mean, square, j, gz[j], p1, p2)
                        now_d[j] -= (
                            pace * scale[last + k] * adam(mean, square, hidden + j, gd[j], p1, p2)
                        )
                o = 2 * hidden
                slope = tie[i] - (gz[mine] + gd[mine] - gz[theirs] - gd[theirs])
                now_t = max(0.0, now_t - 0.3 * pace * adam(mean, square, o, slope, p1, p2))
                if labels > 2:
                    for c in range(labels):
                        slope = gz[mine] - gz[hidden + c]
                        now_share[c] -= pace * adam(mean, square, o + 1 + c, slope, p1, p2)
                    now_share[label] = -1e9
                    onto_simplex(now_share)
                    settle(now_share)
            # The region may have been cut down to leaks above the cut.
            value[i] = max(best, cut[i])
            sensitivity(net, weights, state[i], size[i], best_h, best_d, h, pull[i])
            for j in range(inputs):
                pull[i, j] *= upper[i, j] - lower[i, j]
            for j in range(hidden):
                l, u, p, q = state[i, 0, j], state[i, 1, j], state[i, 2, j], state[i, 3, j]
                tension[i, j] = -1.0
                if phase[i, j] == 0 and l < q and u > -p:
                    on, _, _, off, _, _ = branches(
                        best_h[inputs + j], best_d[inputs + j], cz[i, j], cd[i, j],
                        l, u, p, q, state[i, 4, j], state[i, 5, j], phase[i, j],
                    )  # fmt: skip
                    tension[i, j] = abs(on - off)
            if best <= cut[i]:
                status[i] = CLOSED

    return tighten_nodes, form_nodes, ascend_nodes
