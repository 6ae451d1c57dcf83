"""Compiled loops that evaluate coarse copies and bound their distance from members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.guard.kernels import add_product

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@cached_njit(nogil=True)
def input_sums(
    plan: Ints, weights: Floats, biases: Floats, x: NDArray[np.float32], sums: Floats
) -> None:
    """Write N's biases, plus the terms of layers that read the input directly."""
    rows = np.empty(len(x), np.int64)
    given = x.astype(np.float64)
    sums[: len(x)] = given
    for step in range(len(plan)):
        at, first, out, width = plan[step, 0], plan[step, 1], plan[step, 3], plan[step, 4]
        own = sums[out : out + width]
        if plan[step, 5] >= 0:
            own[:] = biases[plan[step, 5] : plan[step, 5] + width]
        if first == 0:
            add_product(given, weights, at, own, rows)


@cached_njit(nogil=True)
def open_coarsely(
    plan: Ints,
    weights: Floats,
    biases: Floats,
    numbers: NDArray[np.int8],
    sizes: NDArray[np.float32],
    reads: Ints,
    spectral: Floats,
    x: NDArray[np.float32],  # shape (d,)
    sums: Floats,  # shape (values,)
    label: int,
    labels: int,
    factor: float,
    error: float,
    places: Ints,
    left: Ints,  # shape (places,)
) -> int:
    """List copies whose members' margins may not exceed the error; return their number."""
    layers, scores, count = sizes.shape[1], len(sums) - labels, 0
    values, changes = np.empty(len(sums)), np.empty(len(sums))
    rows, apart = np.empty(len(sums), np.int64), np.empty(layers)
    lengths = np.empty(layers + 1)
    values[: len(x)] = x
    lengths[0] = 0.0
    for j in range(len(x)):
        lengths[0] += values[j] * values[j]
    for place in places:
        own = numbers[place]
        layer = -1
        for step in range(len(plan)):
            at, first, inputs, out, width = (
                plan[step, 0], plan[step, 1], plan[step, 2], plan[step, 3], plan[step, 4],
            )  # fmt: skip
            total, change = values[out : out + width], changes[out : out + width]
            if plan[step, 5] >= 0:
                layer += 1
                shift = len(weights) + plan[step, 5]
                total[:] = sums[out : out + width]
                for i in range(width):
                    change[i] = own[shift + i]
            given = values[first : first + inputs]
            if first > 0:
                add_product(given, weights, at, total, rows)
            add_product(given, own, at, change, rows)
            if plan[step, 6]:
                scale, length = np.float64(sizes[place, layer, 0]), 0.0
                for i in range(width):
                    total[i] += scale * change[i]
                    if plan[step, 7]:
                        total[i] = max(total[i], 0.0)
                    length += total[i] * total[i]
                lengths[layer + 1] = length
        for k in range(layers):
            read, before, passed = 1.0, 0.0, 0.0
            for at in range(reads[k], reads[k + 1]):
                source = reads[layers + 1 + at]
                read += lengths[source]
                if source > 0:
                    before += apart[source - 1] * apart[source - 1]
                    passed += spectral[at] * apart[source - 1]
            before = np.sqrt(before)
            off, moved = sizes[place, k, 1], sizes[place, k, 2]
            apart[k] = off * (np.sqrt(read) + before) + moved * before + passed
        best = -np.inf
        for c in range(labels):
            if c != label:
                best = max(best, values[scores + c])
        least = values[scores + label] - best - factor * apart[layers - 1]
        # Not "<=", nor beyond float64: what is no number tells nothing.
        if not (least > error and np.isfinite(least)):
            left[count] = place
            count += 1
    return count
