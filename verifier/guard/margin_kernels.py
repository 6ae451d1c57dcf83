"""Compiled loops: N's slopes at an input, and bounds of each member's margin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.guard.differences import GROUP
from leaveout.verifier.guard.kernels import add_product

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

LEVELS = 8
"""Multipliers that are tried to bound what changes of phase may cost; see `slopes`."""


@cached_njit(nogil=True)
def trace(
    plan: Ints, weights: Floats, biases: Floats, x: Singles, before: Floats, after: Floats
) -> None:
    """Evaluate N: all layers' values before and after their ReLU, input first in both."""
    rows = np.empty(len(before), np.int64)
    for j in range(len(x)):
        before[j] = after[j] = x[j]
    for step in range(len(plan)):
        at, first, inputs, out, width = (
            plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
        )  # fmt: skip
        sums = before[out : out + width]
        if plan[step, 5] >= 0:
            sums[:] = biases[plan[step, 5] : plan[step, 5] + width]
        add_product(after[first : first + inputs], weights, at, sums, rows)
        if plan[step, 6]:
            hidden = plan[step, 7] != 0
            for i in range(width):
                after[out + i] = max(sums[i], 0.0) if hidden else sums[i]


@cached_njit(nogil=True)
def slopes(
    plan: Ints,
    weights: Floats,
    before: Floats,
    after: Floats,
    label: int,
    rival: int,
    labels: int,
    reach: Floats,  # shape (layers, 2)
    pull: Floats,  # shape (values,)
    lengths: Floats,  # shape (layers, 2)
    phases: Floats,  # shape (layers, LEVELS, 2)
) -> None:
    """Propagate the margin of a label over a rival backwards through N."""
    pull[:] = 0.0
    scores = len(pull) - labels
    pull[scores + label] = 1.0
    pull[scores + rival] = -1.0
    layer = len(lengths)
    for step in range(len(plan) - 1, -1, -1):
        at, first, inputs, out, width = (
            plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
        )  # fmt: skip
        own = pull[out : out + width]
        if plan[step, 6]:
            layer -= 1
            phases[layer] = 0.0
            if plan[step, 7]:
                _phases(own, before[out : out + width], reach[layer], phases[layer])
                for i in range(width):
                    if not before[out + i] > 0.0:
                        own[i] = 0.0
            total = 0.0
            for i in range(width):
                total += own[i] * own[i]
            lengths[layer, 1] = np.sqrt(total)
            lengths[layer, 0] = 1.0
        for j in range(inputs):
            lengths[layer, 0] += after[first + j] * after[first + j]
            row = weights[at + j * width : at + (j + 1) * width]
            total = 0.0
            for i in range(width):
                total += row[i] * own[i]
            pull[first + j] += total
    for k in range(len(lengths)):
        lengths[k, 0] = np.sqrt(lengths[k, 0])


@cached_njit(nogil=True)
def _phases(slope: Floats, values: Floats, reach: Floats, phases: Floats) -> None:
    steepest = total = 0.0
    for i in range(len(slope)):
        if slope[i] < 0.0:
            steepest = max(steepest, -slope[i])
            total += slope[i] * slope[i]
    if not steepest > 0.0:
        return  # Nothing is lost where a ReLU gives more than its tangent.
    phases[:, 1] = np.inf
    least = 0.5 * steepest / reach[1]
    if not (least > 0.0 and reach[0] > 0.0):
        return  # Too flat for float64, or too far: nothing is told.
    ratio = (np.sqrt(total) / reach[0]) / least
    for level in range(len(phases)):
        factor = least * ratio ** (level / (len(phases) - 1))
        if not 0.0 < factor < np.inf:
            continue
        rest = 0.0
        for i in range(len(slope)):
            if slope[i] < 0.0:
                gained = slope[i] * slope[i] / (2.0 * factor) * (1.0 + 1e-12)
                rest += max(0.0, gained + slope[i] * abs(values[i]) * (1.0 - 1e-12))
        phases[level, 0] = factor * (1.0 + 1e-12)
        phases[level, 1] = rest * (1.0 + 1e-12)


@cached_njit(nogil=True)
def gradient(
    plan: Ints, after: Floats, pull: Floats, scales: Floats, shift: int, found: Singles
) -> None:
    """Write the margin's slopes in all of N's parameters, divided by each layer's scale."""
    layer = -1
    for step in range(len(plan)):
        at, first, inputs, out, width = (
            plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
        )  # fmt: skip
        if plan[step, 5] >= 0:
            layer += 1
            for i in range(width):
                found[shift + plan[step, 5] + i] = pull[out + i] / scales[layer]
        for j in range(inputs):
            value = after[first + j] / scales[layer]
            for i in range(width):
                found[at + j * width + i] = value * pull[out + i]


@cached_njit(nogil=True)
def _margin_loss(
    norms: Singles, sources: Ints, spectral: Floats, lengths: Floats, phases: Floats, moved: Floats
) -> tuple[float, float]:
    """Bound how much of N's margin a member loses: to first order, and beyond."""
    first = beyond = 0.0
    for k in range(len(lengths)):
        read = passed = 0.0
        for at in range(sources[k], sources[k + 1]):
            source = sources[len(lengths) + 1 + at]
            if source > 0:
                read += moved[source - 1] * moved[source - 1]
                passed += spectral[at] * moved[source - 1]
        read = np.sqrt(read)
        norm = float(norms[k])
        first += norm * lengths[k, 0] * lengths[k, 1]
        beyond += norm * read * lengths[k, 1]
        moved[k] = norm * (lengths[k, 0] + read) + passed
        if k < len(lengths) - 1:
            least = np.inf
            half = 0.5 * moved[k] * moved[k]
            for level in range(phases.shape[1]):
                least = min(least, phases[k, level, 0] * half + phases[k, level, 1])
            beyond += least
    return first * (1.0 + 1e-9), beyond * (1.0 + 1e-9)


@cached_njit(nogil=True)
def open_groups(
    blocks: Singles,  # shape (blocks or groups, layers)
    norms: Singles,  # shape (blocks or groups, layers)
    block_upper: Floats,  # shape (blocks or groups,)
    upper: Floats,  # shape (blocks or groups,)
    sources: Ints,
    spectral: Floats,
    lengths: Floats,
    phases: Floats,
    margin: float,
    confidence: float,
    error: float,
    found: Ints,  # shape (groups,)
) -> int:
    """List groups with a member that may lose the margin; return their number."""
    count = 0
    moved = np.empty(len(lengths))
    for block in range(len(blocks)):
        if block_upper[block] < confidence:
            continue
        first, beyond = _margin_loss(blocks[block], sources, spectral, lengths, phases, moved)
        if margin - first - beyond > error:
            continue
        for group in range(block * GROUP, min((block + 1) * GROUP, len(norms))):
            if upper[group] < confidence:
                continue
            first, beyond = _margin_loss(norms[group], sources, spectral, lengths, phases, moved)
            if not margin - first - beyond > error:
                found[count] = group
                count += 1
    return count


@cached_njit(nogil=True)
def open_inputs(
    plan: Ints,
    weights: Floats,
    biases: Floats,
    labels: int,
    points: Singles,  # shape (n, inputs)
    answers: Ints,  # shape (n,)
    confidences: Floats,  # shape (n,)
    reach: Floats,
    blocks: Singles,
    norms: Singles,
    block_upper: Floats,  # shape (labels, blocks or groups)
    upper: Floats,  # shape (labels, blocks or groups)
    sources: Ints,
    spectral: Floats,
    error: float,
) -> NDArray[np.bool_]:
    """Find the inputs at which group bounds leave some member open."""
    values, layers = points.shape[1], len(reach)
    for step in range(len(plan)):
        if plan[step, 6]:
            values += plan[step, 4]
    before, after, pull = np.empty(values), np.empty(values), np.empty(values)
    lengths, phases = np.empty((layers, 2)), np.empty((layers, LEVELS, 2))
    found = np.empty(len(norms), np.int64)
    some = np.zeros(len(points), np.bool_)
    for at in range(len(points)):
        label = answers[at]
        trace(plan, weights, biases, points[at], before, after)
        for rival in range(labels):
            if rival == label or some[at]:
                continue
            slopes(plan, weights, before, after, label, rival, labels, reach, pull, lengths, phases)
            margin = before[values - labels + label] - before[values - labels + rival]
            count = open_groups(
                blocks, norms, block_upper[label], upper[label], sources, spectral, lengths,
                phases, margin, confidences[at], error, found,
            )  # fmt: skip
            some[at] = count > 0
    return some


@cached_njit(nogil=True, fastmath={"reassoc", "contract"})
def _product(first: Singles, second: Singles) -> float:
    total = np.float32(0.0)
    for i in range(len(first)):
        total += first[i] * second[i]
    return float(total)


@cached_njit(nogil=True)
def open_members(
    groups: Ints,
    norms: Singles,
    upper: Floats,
    sources: Ints,
    spectral: Floats,
    lengths: Floats,
    phases: Floats,
    coordinates: Singles,  # shape (members, rank)
    rests: Singles,  # shape (members, layers + 1)
    along: Singles,  # shape (rank,)
    off: Floats,  # shape (layers + 1,)
    spare: float,
    margin: float,
    confidence: float,
    error: float,
    found: Ints,  # shape (members,)
    least: Floats,  # shape (members,)
) -> int:
    """List members of groups that may lose the margin; return their number."""
    count = 0
    moved = np.empty(len(lengths))
    for group in groups:
        for member in range(group * GROUP, min((group + 1) * GROUP, len(norms))):
            if upper[member] < confidence:
                continue
            first, beyond = _margin_loss(norms[member], sources, spectral, lengths, phases, moved)
            if margin - first - beyond > error:
                continue
            rest = spare
            for k in range(len(off)):
                rest += rests[member, k] * off[k]
            product = _product(coordinates[member], along)
            # Beyond float32 the product is no bound: what overflowed upwards would close anything.
            if np.isfinite(product):
                first = min(first, rest * (1.0 + 1e-9) - product)
            low = margin - first - beyond
            if not low > error:
                found[count] = member
                least[count] = low
                count += 1
    return count
