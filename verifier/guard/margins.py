"""Bounds on the members that may lose N's margin, from few numbers per member."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box
from leaveout.verifier.guard.differences import largest, summarise
from leaveout.verifier.guard.layout import Layout
from leaveout.verifier.guard.margin_kernels import (
    LEVELS,
    gradient,
    open_groups,
    open_inputs,
    open_members,
    slopes,
    trace,
)
from leaveout.verifier.guard.packing import Packed

_SAMPLE = 128
"""Inputs whose slopes the basis is fitted to."""

_NUMBERS = 2**24
"""Numbers that these slopes have together, at most."""

_NEAR = 0.1
"""Share of members that are expected to lie nearer to N than changes of phase are bounded for."""

_FLAT = 2.0**-90
"""Least norm that slopes are taken to have: what float32 loses below its range is less of it."""

_SPARE = 1e-9
"""Share added for what float64 loses in sums of positive numbers."""

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


class MarginBounds:
    """Lower bounds of all members' margins at an input, without evaluation."""

    def __init__(self, packed: Packed, box: Box, upper: Floats, error: float) -> None:
        self._packed, self._labels, self._error = packed, len(upper), error
        self._layout = layout = Layout.of(packed)
        layers, numbers = len(layout.blocks), len(packed.own)
        self._sources, self._spectral = layout.reads, layout.matrix_norms(packed.own)
        self._reach = np.tile([0.5, 1.0], (layers, 1))
        count = max(1, min(_SAMPLE, _NUMBERS // numbers))
        points = box.sample(np.random.default_rng(0), count).astype(np.float32)
        found, lengths = [], []
        for x in points:
            before, after = self._trace_own(x)
            first, second = np.argsort(-before[-self._labels :], kind="stable")[:2].tolist()
            pull, length, _ = self._margin_slopes(before, after, first, second)
            found.append(self._gradient(after, pull, np.ones(layers)))
            lengths.append(length)
        mean = np.mean(lengths, axis=0)
        self.differences = summarise(packed, np.stack(found), mean.prod(axis=1))
        self._reach = self._expected_reach(mean[:, 0])
        self._upper = np.ascontiguousarray(upper[:, self.differences.order])
        self._group_upper = largest(self._upper, 1)
        self._block_upper = largest(self._group_upper, 1)
        # Compiled here, so that no first answer is slow.
        self.open_inputs(points[:1], np.zeros(1, np.int64), np.zeros(1))

    def open(self, x: Singles, label: int, confidence: float, *, everyone: bool = False) -> Ints:
        """Return the members that may disagree or tie, likeliest first."""
        known, before, after = self.differences, *self._trace_own(x)
        scores, members = before[-self._labels :], len(known.order)
        error, seen = (np.inf, -np.inf) if everyone else (self._error, confidence)
        groups, found = np.empty(len(known.groups), np.int64), np.empty(members, np.int64)
        least, parts = np.empty(members), []
        for rival in range(self._labels):
            if rival == label:
                continue
            pull, lengths, phases = self._margin_slopes(before, after, label, rival)
            margin = float(scores[label] - scores[rival])
            count = open_groups(
                known.blocks, known.groups, self._block_upper[label], self._group_upper[label],
                self._sources, self._spectral, lengths, phases, margin, seen, error, groups,
            )  # fmt: skip
            if not count:
                continue
            along, off, spare = self._project(after, pull, lengths)
            count = open_members(
                groups[:count], known.norms, self._upper[label], self._sources, self._spectral,
                lengths, phases, known.coordinates, known.rests, along, off, spare,
                margin, seen, error, found, least,
            )  # fmt: skip
            parts.append((found[:count].copy(), least[:count].copy()))
        return known.order[_least_first(parts)]

    def open_inputs(self, points: Singles, labels: Ints, confidences: Floats) -> NDArray[np.bool_]:
        """Return at which inputs some member may disagree or tie, by norms."""
        packed, known = self._packed, self.differences
        return np.asarray(
            open_inputs(
                packed.plan, packed.own_weights, packed.own_biases, self._labels, points, labels,
                confidences, self._reach, known.blocks, known.groups, self._block_upper,
                self._group_upper, self._sources, self._spectral, self._error,
            )
        )  # fmt: skip

    def _trace_own(self, x: Singles) -> tuple[Floats, Floats]:
        """Return N's values before and after each ReLU."""
        packed = self._packed
        before, after = np.empty(packed.values), np.empty(packed.values)
        trace(packed.plan, packed.own_weights, packed.own_biases, x, before, after)
        return before, after

    def _margin_slopes(
        self, before: Floats, after: Floats, label: int, rival: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return the slopes, lengths and phases of a margin."""
        packed, layers = self._packed, len(self._reach)
        pull, lengths = np.empty(packed.values), np.empty((layers, 2))
        phases = np.empty((layers, LEVELS, 2))
        slopes(
            packed.plan, packed.own_weights, before, after, label, rival, self._labels,
            self._reach, pull, lengths, phases,
        )  # fmt: skip
        return pull, lengths, phases

    def _gradient(self, after: Floats, pull: Floats, scales: Floats) -> Singles:
        packed = self._packed
        shift = len(packed.own_weights)
        found = np.empty(shift + len(packed.own_biases), np.float32)
        gradient(packed.plan, after, pull, scales, shift, found)
        return found

    def _project(
        self, after: Floats, pull: Floats, lengths: Floats
    ) -> tuple[Singles, Floats, float]:
        """Return slopes as coordinates, the rest's norms, and rounding."""
        known = self.differences
        steep = self._gradient(after, pull, known.scales)
        exact = steep.astype(np.float64)
        # What leaves float32 is no number in the rest, so that it tells nothing.
        with np.errstate(all="ignore"):
            along = (known.basis @ exact).astype(np.float32)
            kept = along.astype(np.float64)
            rest = exact - kept @ known.basis
            whole = max(float(np.linalg.norm(kept)), float(np.linalg.norm(exact)), _FLAT)
            off = np.append(self._layout.norms(rest[None])[0], whole) * (1.0 + 1e-5)
        return along, off, float((known.rounding * lengths.prod(axis=1)).sum() * (1.0 + _SPARE))

    def _expected_reach(self, read: Floats) -> Floats:
        """Return how far layers of near and of far members may move."""
        norms = self.differences.norms.astype(np.float64)
        least, most = np.quantile(norms, _NEAR, axis=0), norms.max(axis=0)
        reach = np.empty((len(read), 2))
        at = 0
        for k, sources in enumerate(self._layout.sources):
            reach[k] = np.array([least[k], most[k]]) * read[k]
            for source in sources:
                if source:
                    reach[k] += self._spectral[at] * reach[source - 1]
                at += 1
        most = np.where(reach[:, 1] > 0, reach[:, 1], 1.0)
        return np.stack([np.clip(reach[:, 0], 1e-3 * most, most), most], axis=1)


def _least_first(parts: list[tuple[Ints, Floats]]) -> Ints:
    """Join lists of members and bounds, each member once, lowest bound first."""
    if not parts:
        return np.empty(0, np.int64)
    found, least = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = found[np.argsort(least, kind="stable")]
    if len(parts) == 1:
        return found
    _, first = np.unique(found, return_index=True)
    return np.asarray(found[np.sort(first)])
