"""Members at one byte per number: enough to exclude most ties at a quarter of the reads."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.verifier.guard.packing import Curves, Layout, Packed, activate, add_product, round_up

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
    curves: Curves,
    spread: Floats,
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
                activate(total, out, plan[step, 7], curves)
                for i in range(width):
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
            apart[k] = spread[k, 0] * apart[k] + spread[k, 1]
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


_STEPS = 127  # steps of a layer's largest difference, either way
_CHUNK = 2**21  # numbers of members that are looked at together
_SPARE = 1e-6  # share added to norms, far above what float64 loses in them

_MARGIN = math.sqrt(2.0) * (1.0 + 1e-9)
"""What a margin changes by at most, a unit of the scores' change."""


@dataclass(frozen=True, eq=False)
class CoarseCopy:
    """Lower bounds of members' margins at an input, from coarse copies."""

    packed: Packed  # the members
    order: Ints  # shape (m,)
    places: Ints  # shape (m,): where each is
    numbers: NDArray[np.int8]  # shape (m, numbers of a member)
    sizes: NDArray[np.float32]  # shape (m, layers, 3)
    reads: Ints  # see `layout.Layout.reads`
    spectral: Floats  # shape (matrices,): bounds of N's spectral norms

    @staticmethod
    def of(packed: Packed, order: Ints) -> CoarseCopy:
        """Copy all members."""
        layout, own, members = Layout.of(packed), packed.own, len(packed.weights)
        layers = len(layout.blocks)
        numbers = np.empty((members, len(own)), np.int8)
        sizes = np.empty((members, layers, 3), np.float32)
        lost = layout.rounding(own[None])
        step = max(1, _CHUNK // len(own))
        # What is no number is left as such: it bounds nothing.
        with np.errstate(all="ignore"):
            for start in range(0, members, step):
                chosen = slice(start, start + step)
                apart = packed.apart(order[chosen])
                copied = np.empty_like(apart)
                for layer in range(layers):
                    columns = list(layout.columns(layer))
                    most = np.max([np.abs(apart[:, each]).max(axis=1) for each in columns], axis=0)
                    scale = round_up(most / _STEPS)
                    scale[~np.isfinite(scale)] = 0.0
                    sizes[chosen, layer, 0] = scale
                    own_scale = scale.astype(np.float64)[:, None]
                    for each in columns:
                        steps = np.rint(apart[:, each] / own_scale)
                        steps[~np.isfinite(steps)] = 0.0
                        numbers[chosen, each] = steps
                        copied[:, each] = own_scale * steps
                rounding = lost + layout.rounding(apart) + layout.rounding(copied)
                apart -= copied
                off, moved = layout.spectral_norms(apart), layout.norms(copied)
                sizes[chosen, :, 1] = round_up((off + rounding) * (1.0 + _SPARE))
                sizes[chosen, :, 2] = round_up((moved + rounding) * (1.0 + _SPARE))
        spectral, places = layout.matrix_norms(own), np.argsort(order)
        return CoarseCopy(packed, order, places, numbers, sizes, layout.reads, spectral)

    def in_stored_order(self, members: Ints) -> Ints:
        """Return members, shape (n,), in the order they are stored."""
        return self.order[np.sort(self.places[members])]

    def at(self, x: NDArray[np.float32], label: int, labels: int, error: float) -> CoarseInput:
        """Evaluate what all members share at an input."""
        packed = self.packed
        sums = np.empty(packed.values)
        input_sums(packed.plan, packed.own_weights, packed.own_biases, x, sums)
        return CoarseInput(self, x, sums, label, labels, error)


@dataclass(frozen=True, eq=False)
class CoarseInput:
    """An input and what all members share at it; see `CoarseCopy.at`."""

    copy: CoarseCopy
    x: NDArray[np.float32]  # shape (d,)
    sums: Floats  # shape (values,): what N's layers make of the input itself, and their biases
    label: int
    labels: int
    error: float

    def open(self, members: Ints) -> Ints:
        """Return, in order, the members whose margins may not exceed the error."""
        copy, packed, places = self.copy, self.copy.packed, self.copy.places[members]
        left = np.empty(len(members), np.int64)
        count = open_coarsely(
            packed.plan, packed.curves, packed.spread, packed.own_weights, packed.own_biases,
            copy.numbers, copy.sizes, copy.reads, copy.spectral, self.x, self.sums, self.label,
            self.labels, _MARGIN, self.error, places, left,
        )  # fmt: skip
        return copy.order[left[:count]]
