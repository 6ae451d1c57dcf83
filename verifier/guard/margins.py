"""Bounds on the members that may lose N's margin, from few numbers per member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.compiling import cached_njit
from leaveout.encoders import Box
from leaveout.encoders.interval import gamma
from leaveout.kernel.smooth import SLOPE, VALUE
from leaveout.verifier.guard.packing import (
    CURVATURE,
    MIXED,
    Curves,
    Layout,
    Packed,
    activate,
    add_product,
    bend,
    round_up,
)

Number = TypeVar("Number", np.float32, np.float64)

Singles = NDArray[np.float32]

GROUP = 32
"""Members of a group, and groups of a block."""

_RANK = 96  # most coordinates of a member
_SHARE = 4  # members at least to a coordinate: a basis must not be as large as the family
_SAMPLED_MEMBERS = 256  # members that the basis is fitted to, and at most as many slopes
_CHUNK = 2**21  # numbers of members that are looked at together
_SUMMED = 2**22  # numbers whose sum in float32 is known to lose less than half of what it adds up

_UNIT32 = 2.0**-24

_TINY = 2.0**-126  # what float32 may lose of a number or product that is below its range


@dataclass(frozen=True, eq=False)
class Differences:
    """Bounds of members minus N: ``basis @ coordinates`` and a rest, in groups by distance."""

    layout: Layout
    order: NDArray[np.int64]  # shape (m,): the members
    norms: Singles  # shape (m, layers)
    groups: Singles  # shape (groups or blocks, layers)
    blocks: Singles  # shape (groups or blocks, layers)
    scales: Floats  # shape (layers,)
    basis: Floats  # shape (rank, numbers of a member): about orthonormal; of float32 numbers
    coordinates: Singles  # shape (m, rank)
    rests: Singles  # shape (m, layers + 1)
    rounding: Floats  # shape (layers,)


def summarise(packed: Packed, slopes: Singles, lengths: Floats) -> Differences:
    """Describe how members differ from N."""
    layout = Layout.of(packed)
    own = packed.own
    rounding = layout.rounding(own[None])[0]
    members, rank = len(packed.weights), min(_RANK, len(packed.weights) // _SHARE)
    rows = np.unique(np.linspace(0, members - 1, _SAMPLED_MEMBERS).astype(np.int64))
    scales, basis = _choose_basis(layout, packed.apart(rows), slopes, rank)
    norms = np.empty((members, len(scales)), np.float32)
    rests = np.empty((members, len(scales) + 1), np.float32)
    coordinates = np.empty((members, len(basis)), np.float32)
    step = max(1, _CHUNK // len(own))
    for start in range(0, members, step):
        chosen = np.arange(start, min(start + step, members))
        apart = packed.apart(chosen)
        norms[chosen] = round_up(layout.spectral_norms(apart) + rounding)
        coordinates[chosen], rests[chosen] = _coordinates(layout, apart, scales, basis)
    order = np.argsort(norms @ lengths, kind="stable")
    norms = norms[order]
    groups = largest(norms, 0)
    return Differences(
        layout, order, norms, groups, largest(groups, 0), scales, basis.astype(np.float64),
        np.ascontiguousarray(coordinates[order]), rests[order], rounding,
    )  # fmt: skip


def largest(values: NDArray[Number], axis: int) -> NDArray[Number]:
    """Return the largest value of each group along an axis."""
    starts = np.arange(0, values.shape[axis], GROUP)
    found: NDArray[Number] = np.maximum.reduceat(values, starts, axis=axis)
    return found


def _choose_basis(
    layout: Layout, apart: Floats, slopes: Singles, rank: int
) -> tuple[Floats, Singles]:
    """Choose scales and a basis; any is sound, because what is left over is bounded afterwards."""
    sizes = [np.sqrt(np.mean(layout.norms(rows) ** 2, axis=0)) for rows in (apart, slopes)]
    known = (sizes[0] > 0) & (sizes[1] > 0) & np.isfinite(sizes[0]) & np.isfinite(sizes[1])
    scales = np.where(known, np.sqrt(sizes[1] / np.where(known, sizes[0], 1.0)), 1.0)
    factors = np.ones(apart.shape[1])
    for layer, scale in enumerate(scales):
        for columns in layout.columns(layer):
            factors[columns] = scale
    both = []
    for rows in (apart * factors, slopes / factors):
        size = np.sqrt(np.mean(np.einsum("ij,ij->i", rows, rows)))
        if 0 < size < np.inf:
            both.append(rows / size)
    if not (both and rank):
        return scales, np.zeros((0, apart.shape[1]), np.float32)
    rows = np.concatenate(both)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    chosen = np.flatnonzero(values > 1e-9 * values[-1])[-rank:]
    basis, _ = np.linalg.qr(rows.T @ (vectors[:, chosen] / np.sqrt(values[chosen])))
    return scales, np.ascontiguousarray(basis.T, np.float32)


def _coordinates(
    layout: Layout, apart: Floats, scales: Floats, basis: Singles
) -> tuple[Singles, Singles]:
    """Return the coordinates of differences and the norms of their rests."""
    for layer, scale in enumerate(scales):
        for columns in layout.columns(layer):
            apart[:, columns] *= scale
    single = apart.astype(np.float32)
    coordinates = single @ basis.T
    rest = single - coordinates @ basis
    whole = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    along = np.linalg.norm(coordinates.astype(np.float64), axis=1)
    rank, numbers = basis.shape
    spread = float(np.linalg.norm(basis.astype(np.float64))) if rank else 0.0
    # What float32 may have lost in the rest and in its product with the basis.
    lost = _UNIT32 * (2.0 * whole + (rank + 4.0) * along * spread)
    lost += (rank + 4.0) * np.sqrt(numbers) * _TINY
    left = layout.norms(rest) + lost[:, None]
    total = np.sqrt((left * left).sum(axis=1))
    hidden = np.linalg.norm((rest @ basis.T).astype(np.float64), axis=1)
    # Of very many numbers a sum may lose all, but never more than Cauchy and Schwarz allow.
    share = gamma(numbers + 4, _UNIT32) if numbers < _SUMMED else 1.0
    hidden += spread * (lost + share * total) + rank * numbers * _TINY
    # What float32 may lose in products of coordinates, and of slopes that are rounded.
    hidden += _UNIT32 * (2.0 * (rank + 8.0) * along + 8.0 * whole)
    return coordinates, round_up(np.concatenate([left, hidden[:, None]], axis=1) * (1.0 + 1e-6))


Ints = NDArray[np.int64]

LEVELS = 8  # multipliers that are tried to bound what changes of phase may cost; see `slopes`

_FINE = 2.0**-10  # the change at which what a table's slope is off by costs least


@cached_njit(nogil=True)
def trace(
    plan: Ints,
    curves: Curves,
    weights: Floats,
    biases: Floats,
    x: Singles,
    before: Floats,
    after: Floats,
) -> None:
    """Evaluate N: all layers' values before and after activation, input first in both."""
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
            after[out : out + width] = sums
            activate(after[out : out + width], out, plan[step, 7], curves)


@cached_njit(nogil=True)
def slopes(
    plan: Ints,
    curves: Curves,
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
                given = before[out : out + width]
                smooth = plan[step, 7] == MIXED
                kinds = curves[0][out : out + width] if smooth else curves[0]
                _phases(own, given, kinds, reach[layer], phases[layer])
                if smooth:
                    _bends(own, kinds, curves, phases[layer])
                for i in range(width):
                    if smooth and kinds[i] > 0:
                        own[i] *= bend(curves, kinds[i], given[i])[1]
                    elif not given[i] > 0.0:
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
def _phases(
    slope: Floats, values: Floats, kinds: NDArray[np.int8], reach: Floats, phases: Floats
) -> None:
    """Bound what ReLUs' changes of phase may cost; kinds, if any, tell which are ReLUs."""
    steepest = total = 0.0
    relus = len(kinds) == 0
    for i in range(len(slope)):
        if slope[i] < 0.0 and (relus or kinds[i] == 0):
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
            if slope[i] < 0.0 and (relus or kinds[i] == 0):
                gained = slope[i] * slope[i] / (2.0 * factor) * (1.0 + 1e-12)
                rest += max(0.0, gained + slope[i] * abs(values[i]) * (1.0 - 1e-12))
        phases[level, 0] = factor * (1.0 + 1e-12)
        phases[level, 1] = rest * (1.0 + 1e-12)


@cached_njit(nogil=True)
def _bends(slope: Floats, kinds: NDArray[np.int8], curves: Curves, phases: Floats) -> None:
    """Add what smooth neurons may lose, beyond their tangents, to what ReLUs may.

    A change of d loses at most ``C d^2 / 2``, C being the largest second derivative. A table's
    slope is off by up to SLOPE, and ``SLOPE |d| <= SLOPE (d^2 / e + e) / 2`` for any e.
    """
    steepest = rest = 0.0
    for i in range(len(slope)):
        if kinds[i] > 0:
            bend = curves[2][kinds[i], CURVATURE] + SLOPE / _FINE
            steepest = max(steepest, abs(slope[i]) * bend * (1.0 + 1e-12))
            rest += abs(slope[i]) * (VALUE + 0.5 * SLOPE * _FINE) * (1.0 + 1e-12)
    for level in range(len(phases)):
        phases[level, 0] = max(phases[level, 0], steepest)
        phases[level, 1] += rest * (1.0 + 1e-9)


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
    norms: Singles,
    sources: Ints,
    spectral: Floats,
    spread: Floats,
    lengths: Floats,
    phases: Floats,
    moved: Floats,
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
            moved[k] = spread[k, 0] * moved[k] + spread[k, 1]
    return first * (1.0 + 1e-9), beyond * (1.0 + 1e-9)


@cached_njit(nogil=True)
def open_groups(
    blocks: Singles,  # shape (blocks or groups, layers)
    norms: Singles,  # shape (blocks or groups, layers)
    block_upper: Floats,  # shape (blocks or groups,)
    upper: Floats,  # shape (blocks or groups,)
    sources: Ints,
    spectral: Floats,
    spread: Floats,
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
        first, beyond = _margin_loss(
            blocks[block], sources, spectral, spread, lengths, phases, moved
        )
        if margin - first - beyond > error:
            continue
        for group in range(block * GROUP, min((block + 1) * GROUP, len(norms))):
            if upper[group] < confidence:
                continue
            first, beyond = _margin_loss(
                norms[group], sources, spectral, spread, lengths, phases, moved
            )
            if not margin - first - beyond > error:
                found[count] = group
                count += 1
    return count


@cached_njit(nogil=True)
def open_inputs(
    plan: Ints,
    curves: Curves,
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
    spread: Floats,
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
        trace(plan, curves, weights, biases, points[at], before, after)
        for rival in range(labels):
            if rival == label or some[at]:
                continue
            slopes(
                plan, curves, weights, before, after, label, rival, labels, reach, pull, lengths,
                phases,
            )  # fmt: skip
            margin = before[values - labels + label] - before[values - labels + rival]
            count = open_groups(
                blocks, norms, block_upper[label], upper[label], sources, spectral, spread,
                lengths, phases, margin, confidences[at], error, found,
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
    spread: Floats,
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
            first, beyond = _margin_loss(
                norms[member], sources, spectral, spread, lengths, phases, moved
            )
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


_SAMPLE = 128  # inputs whose slopes the basis is fitted to
_NUMBERS = 2**24  # numbers that these slopes have together, at most

_NEAR = 0.1
"""Share of members that are expected to lie nearer to N than changes of phase are bounded for."""

_FLAT = 2.0**-90
"""Least norm that slopes are taken to have: what float32 loses below its range is less of it."""

_SPARE = 1e-9  # share added for what float64 loses in sums of positive numbers


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
                self._sources, self._spectral, self._packed.spread, lengths, phases, margin, seen,
                error, groups,
            )  # fmt: skip
            if not count:
                continue
            along, off, spare = self._project(after, pull, lengths)
            count = open_members(
                groups[:count], known.norms, self._upper[label], self._sources, self._spectral,
                self._packed.spread, lengths, phases, known.coordinates, known.rests, along, off,
                spare, margin, seen, error, found, least,
            )  # fmt: skip
            parts.append((found[:count].copy(), least[:count].copy()))
        return known.order[_least_first(parts)]

    def open_inputs(self, points: Singles, labels: Ints, confidences: Floats) -> NDArray[np.bool_]:
        """Return at which inputs some member may disagree or tie, by norms."""
        packed, known = self._packed, self.differences
        return np.asarray(
            open_inputs(
                packed.plan, packed.curves, packed.own_weights, packed.own_biases, self._labels,
                points, labels, confidences, self._reach, known.blocks, known.groups,
                self._block_upper, self._group_upper, self._sources, self._spectral,
                packed.spread, self._error,
            )
        )  # fmt: skip

    def _trace_own(self, x: Singles) -> tuple[Floats, Floats]:
        """Return N's values before and after activation."""
        packed = self._packed
        before, after = np.empty(packed.values), np.empty(packed.values)
        trace(packed.plan, packed.curves, packed.own_weights, packed.own_biases, x, before, after)
        return before, after

    def _margin_slopes(
        self, before: Floats, after: Floats, label: int, rival: int
    ) -> tuple[Floats, Floats, Floats]:
        packed, layers = self._packed, len(self._reach)
        pull, lengths = np.empty(packed.values), np.empty((layers, 2))
        phases = np.empty((layers, LEVELS, 2))
        slopes(
            packed.plan, packed.curves, packed.own_weights, before, after, label, rival,
            self._labels, self._reach, pull, lengths, phases,
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
