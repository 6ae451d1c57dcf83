"""The iDP-DB of a network and a hyper-network as a mixed-integer programme (LUCID, Eq. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.arrays import Floats
from leaveout.encoders.bounds import HyperLayer, HyperNetwork, PairBounds
from leaveout.encoders.box import Box
from leaveout.encoders.interval import Interval
from leaveout.models import Layer, Stack
from leaveout.models.matrices import dense, numbers
from leaveout.solvers import Outcome, Problem, Status

Columns = NDArray[np.int64]


class ProblemBuilder:
    """Builder of a `Problem`, block by block.

    A block of rows is a list of terms ``(columns, coefficients)``, shapes ``(n,)`` and ``(rows,
    n)``. Column -1 is a variable known to be zero and is left out.
    """

    def __init__(self) -> None:
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._integer: list[NDArray[np.bool_]] = []
        self._names: list[str] = []
        self._rows: list[NDArray[np.int64]] = []
        self._columns: list[Columns] = []
        self._values: list[Floats] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._row_count = 0

    @property
    def variables(self) -> int:
        """Number of variables so far."""
        return len(self._names)

    def add_variables(
        self, lower: ArrayLike, upper: ArrayLike, name: str, integer: bool = False
    ) -> Columns:
        """Add variables with bounds; return their columns, shape (n,)."""
        low, high = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
        start = self.variables
        self._lower.append(low)
        self._upper.append(high)
        self._integer.append(np.full(len(low), integer))
        self._names += [f"{name}[{i}]" for i in range(len(low))]
        return np.arange(start, start + len(low))

    def add_rows(
        self,
        terms: Sequence[tuple[Columns, Floats]],
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> None:
        """Add rows ``lower <= sum of coefficients @ variables <= upper``."""
        count = terms[0][1].shape[0]
        for columns, coefficients in terms:
            row, position = np.nonzero((coefficients != 0) & (columns >= 0))
            self._rows.append(row + self._row_count)
            self._columns.append(columns[position])
            self._values.append(coefficients[row, position])
        self._row_lower.append(np.broadcast_to(np.asarray(lower, float), (count,)))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, float), (count,)))
        self._row_count += count

    def build(self, objective: int, maximise: bool) -> Problem:
        """Return the problem that optimises the variable in column ``objective``."""
        from scipy.sparse import csr_array

        costs = np.zeros(self.variables)
        costs[objective] = 1.0
        matrix = csr_array(
            (
                np.concatenate([*self._values, np.zeros(0)]),
                (
                    np.concatenate([*self._rows, np.zeros(0, np.int64)]),
                    np.concatenate([*self._columns, np.zeros(0, np.int64)]),
                ),
            ),
            shape=(self._row_count, self.variables),
        )
        return Problem(
            costs,
            matrix,
            np.concatenate([*self._row_lower, np.zeros(0)]),
            np.concatenate([*self._row_upper, np.zeros(0)]),
            np.concatenate(self._lower),
            np.concatenate(self._upper),
            np.concatenate(self._integer),
            maximise,
            names=tuple(self._names),
        )


NEGLIGIBLE = 2.0**-20
"""If a smaller share of a neuron's range passes its ReLU, that part is scaled separately."""


@dataclass(frozen=True, eq=False)
class ScaledPair:
    """A network, a hyper-network, their bounds and the box, all in scaled units."""

    network: Stack
    hyper: HyperNetwork
    bounds: PairBounds
    box: Box
    inner: tuple[Floats, ...]
    outer: tuple[Floats, ...]  # the same for each source's outputs, the input first

    @property
    def largest(self) -> float:
        """The largest scaled weight of either network."""
        parts = [numbers(w) for layer in self.network.layers for w in layer.weights.values()]
        parts += [w.magnitude for layer in self.hyper.layers for w in layer.weights.values()]
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def scale_pair(network: Stack, hyper: HyperNetwork, bounds: PairBounds, box: Box) -> ScaledPair:
    """Scale each neuron of a pair by a power of two, without rounding.

    ReLUs commute with positive factors. A neuron of N and its match share a factor, so that their
    difference scales too.
    """
    inner: list[Floats] = []
    outer = [_powers(np.maximum(np.abs(box.lower), np.abs(box.upper)))]
    for own, other in zip(bounds.network, bounds.hyper, strict=True):
        size = np.maximum(own.magnitude, other.magnitude)
        if len(inner) == len(bounds.network) - 1:
            size = np.full_like(size, size.max(initial=0.0))
        factor = _powers(size)
        passing = np.maximum(np.maximum(own.upper, other.upper), 0.0)
        inner.append(factor)
        outer.append(np.where(passing < NEGLIGIBLE * factor, _powers(passing), factor))
    layers, hyper_layers = [], []
    for k, (layer, interval) in enumerate(zip(network.layers, hyper.layers, strict=True)):
        down = 1 / inner[k]
        ratio = {s: outer[s] * down[:, None] for s in layer.weights}
        weighted = {s: dense(w) * ratio[s] for s, w in layer.weights.items()}
        layers.append(Layer(weighted, layer.bias * down))
        weights = {s: _times(w, ratio[s]) for s, w in interval.weights.items()}
        hyper_layers.append(HyperLayer(weights, _times(interval.bias, down)))
    return ScaledPair(
        Stack(network.inputs, tuple(layers)),
        HyperNetwork(tuple(hyper_layers), hyper.members),
        PairBounds(
            _each(bounds.network, inner),
            _each(bounds.hyper, inner),
            _each(bounds.before, inner),
            _each(bounds.after, [*outer[1:-1], inner[-1]]),
        ),
        box.scale_by(outer[0]),
        tuple(inner),
        tuple(outer),
    )


def _each(intervals: tuple[Interval, ...], factors: list[Floats]) -> tuple[Interval, ...]:
    return tuple(_times(v, 1 / f) for v, f in zip(intervals, factors, strict=True))


def _powers(sizes: Floats) -> Floats:
    known = np.where(sizes > 0, sizes, 1.0)
    return np.asarray(2.0 ** np.clip(np.ceil(np.log2(known)), -300, 300))


def _times(interval: Interval, factor: Floats) -> Interval:
    return Interval(interval.lower * factor, interval.upper * factor)


class Neurons:
    """Variables and ReLU rows of one layer; column -1 is an output known to be zero.

    If a negligible share of a neuron's range passes, its output is left free, as solvers lose tiny
    coefficients. ``ratio`` is each neuron's inner over outer factor.
    """

    def __init__(
        self,
        builder: ProblemBuilder,
        pre: Interval,
        ratio: Floats,
        name: str,
        is_last: bool,
        relax: NDArray[np.bool_],
        margin: float,
    ) -> None:
        lower, upper = pre.lower, pre.upper
        count = len(lower)
        self.count = count
        loose = (upper > 0) & (upper < NEGLIGIBLE) & ~np.full(count, is_last)
        active = ((lower >= 0) & ~loose) | is_last
        self.unstable = ~active & ~loose & (upper > 0)
        self.inputs = np.full(count, -1)
        self.outputs = np.full(count, -1)
        self.defined = np.flatnonzero(active | self.unstable)
        u = np.flatnonzero(self.unstable)
        self.inputs[active] = self.outputs[active] = builder.add_variables(
            lower[active], upper[active], name
        )
        self.inputs[u] = builder.add_variables(lower[u], upper[u], f"{name}.pre")
        self.outputs[u] = builder.add_variables(np.zeros(len(u)), upper[u], name)
        free = (upper * ratio)[loose]
        self.outputs[loose] = builder.add_variables(np.zeros(len(free)), free, f"{name}.free")
        self._relu_rows(builder, u[~relax[u]], lower, upper, f"{name}.on")
        self._triangle_rows(builder, u[relax[u]], lower, upper, margin)

    def _relu_rows(
        self, builder: ProblemBuilder, u: Columns, lower: Floats, upper: Floats, name: str
    ) -> None:
        """Add Eq. 3f and 3g: h >= z, h <= upper a, h <= z - lower (1 - a)."""
        if not len(u):
            return
        on = builder.add_variables(np.zeros(len(u)), np.ones(len(u)), name, integer=True)
        one = np.eye(len(u))
        h, z = self.outputs[u], self.inputs[u]
        builder.add_rows([(h, one), (z, -one)], lower=0.0)
        builder.add_rows([(h, one), (on, -one * upper[u])], upper=0.0)
        builder.add_rows([(h, one), (z, -one), (on, -one * lower[u])], upper=-lower[u])

    def _triangle_rows(
        self, builder: ProblemBuilder, u: Columns, lower: Floats, upper: Floats, margin: float
    ) -> None:
        """Add the triangle: h >= z, h <= upper (z - lower) / (upper - lower)."""
        if not len(u):
            return
        one = np.eye(len(u))
        h, z = self.outputs[u], self.inputs[u]
        builder.add_rows([(h, one), (z, -one)], lower=0.0)
        slope = upper[u] / (upper[u] - lower[u])
        builder.add_rows([(h, one), (z, -one * slope)], upper=-slope * lower[u] + margin)


MARGIN = 1e-6
"""Amount by which rows are widened, in scaled units (every neuron lies in [-1, 1]).

A thousand times the solvers' tolerance, so that no true leak is closer to a row than solvers can
resolve: solvers have called problems with rows narrower than their tolerance infeasible.
"""

CONFIRMED = 1e-7
"""Least padded dual bound of the elastic problem, in scaled units, that proves infeasibility."""

MOST_ROWS = 2048
"""Most rows of a table of listed values that get a binary each."""

VANISHING = 1e-7
"""Listed values below this size, in scaled units, are covered by the margin of their rows."""

_BOUNDED = frozenset({Status.OPTIMAL, Status.STOPPED})


@dataclass(frozen=True)
class Encoding:
    """The LUCID techniques that an encoding uses."""

    matching: bool = True
    relax_if_similar: float | None = 0.01
    tolerance: float = 1e-9  # solver tolerance

    @property
    def margin(self) -> float:
        """Amount by which rows are widened, in scaled units."""
        return max(MARGIN, 10 * self.tolerance)


@dataclass(frozen=True, eq=False)
class IdpProblem:
    """An encoded problem, and the reading of its outcome in the network's units."""

    problem: Problem
    inputs: Columns  # columns of the input, shape (d,)
    box: Box
    input_factors: Floats  # shape (d,)
    score_factor: float
    relaxed: int  # ReLUs relaxed although a binary would be exact
    tolerance: float  # solver tolerance

    @property
    def _pad(self) -> float:
        """Largest effect of tolerances on a dual bound, in scaled units.

        A reduced cost off by the tolerance moves it by tolerance times the variable's range.
        """
        return self.tolerance * float((self.problem.upper - self.problem.lower).sum())

    def upper(self, outcome: Outcome) -> float:
        """Return an upper bound of the exact confidence: the padded dual bound.

        Infinite unless the outcome is an optimum or a stop, as only these have a dual bound.
        """
        bound = outcome.dual_bound
        if outcome.status not in _BOUNDED or not np.isfinite(bound):
            return float("inf")
        return float((bound + self._pad + MARGIN * max(1.0, abs(bound))) * self.score_factor)

    def confirms(self, outcome: Outcome) -> bool:
        """Return whether an elastic problem's outcome proves that there is no leak."""
        known = outcome.status in _BOUNDED and np.isfinite(outcome.dual_bound)
        return bool(known and outcome.dual_bound > self._pad + CONFIRMED)

    def point(self, outcome: Outcome) -> Floats | None:
        """Return the input nearest to the solver's best point; None if it found none."""
        if outcome.solution is None:
            return None
        return self.box.nearest(outcome.solution.point[self.inputs] * self.input_factors)


def encode_idp(
    pair: ScaledPair,
    box: Box,
    label: int,
    *,
    encoding: Encoding,
    floor: float,
    tie: float,
    elastic: bool = False,
) -> IdpProblem:
    """Encode the maximal confidence of ``label`` in N where a member answers otherwise."""
    margin = encoding.margin
    builder = ProblemBuilder()
    inputs = builder.add_variables(pair.box.lower, pair.box.upper, "x")
    _choice_rows(builder, inputs, pair.box, margin)
    layers = len(pair.network.layers)
    own: list[Columns] = [inputs]
    other: list[Columns] = [inputs]
    relaxed = 0
    for k in range(layers):
        is_last = k == layers - 1
        before, after = pair.bounds.network[k], pair.bounds.hyper[k]
        ratio = pair.inner[k] / pair.outer[k + 1]
        exact = np.zeros(len(before.lower), bool)
        z = Neurons(builder, before, ratio, f"n{k + 1}", is_last, exact, margin)
        _exact_rows(builder, z, pair.network.layers[k], own)
        similar = _similar(pair, k, encoding)
        m = Neurons(builder, after, ratio, f"m{k + 1}", is_last, similar, margin)
        relaxed += int(np.count_nonzero(m.unstable & similar))
        _hyper_rows(builder, m, pair.hyper.layers[k], other, pair, margin)
        if encoding.matching:
            _matching_rows(builder, z, m, pair.bounds.after[k], margin)
        own.append(z.outputs)
        other.append(m.outputs)
    factor = float(pair.inner[-1][0])
    leak = _Leak(pair, label, floor / factor - margin, tie / factor + margin, elastic)
    problem = leak.problem(builder, own[-1], other[-1])
    return IdpProblem(problem, inputs, box, pair.outer[0], factor, relaxed, encoding.tolerance)


def _choice_rows(builder: ProblemBuilder, inputs: Columns, box: Box, margin: float) -> None:
    """Tie discrete inputs to listed values: x = sum of value_j y_j, sum of y_j = 1.

    Larger tables are relaxed to hulls, and coefficients that solvers may drop become 0 in widened
    rows; both only loosen the bound.
    """
    for each in box.choices:
        count = len(each)
        if not 1 < count <= MOST_ROWS:
            continue
        taken = builder.add_variables(np.zeros(count), np.ones(count), "takes", integer=True)
        builder.add_rows([(taken, np.ones((1, count)))], 1.0, 1.0)
        values = each.values.T
        tiny = (values != 0) & (np.abs(values) < VANISHING)
        spare = np.where(tiny.any(axis=1), margin, 0.0)
        terms = [(inputs[each.columns], np.eye(len(values))), (taken, np.where(tiny, 0.0, -values))]
        builder.add_rows(terms, -spare, spare)


def _similar(pair: ScaledPair, k: int, encoding: Encoding) -> NDArray[np.bool_]:
    width = pair.bounds.after[k].width * pair.outer[k + 1]
    tau = encoding.relax_if_similar
    return np.zeros(len(width), bool) if tau is None else np.asarray(width <= tau)


def _exact_rows(builder: ProblemBuilder, z: Neurons, layer: Layer, sources: list[Columns]) -> None:
    """Add Eq. 3d: z = W h + b."""
    d = z.defined
    terms = [(z.inputs[d], np.eye(len(d)))]
    terms += [(sources[s], -dense(w)[0][d]) for s, w in layer.weights.items()]
    if len(d):
        builder.add_rows(terms, layer.bias[0][d], layer.bias[0][d])


def _hyper_rows(
    builder: ProblemBuilder,
    m: Neurons,
    layer: HyperLayer,
    sources: list[Columns],
    pair: ScaledPair,
    margin: float,
) -> None:
    """Add Eq. 3e for any sign of inputs: b_lo + W_lo h <= z <= b_hi + W_hi h if h >= 0.

    For x in [a, b] with a < 0, the chord bounds the concave least and convex greatest value of w x;
    for a >= 0 it is the paper's row.
    """
    d = m.defined
    if not len(d):
        return
    one = [(m.inputs[d], np.eye(len(d)))]
    if pair.hyper.members == 1:
        exact = [(sources[s], -w.lower[d]) for s, w in layer.weights.items()]
        builder.add_rows(one + exact, layer.bias.lower[d], layer.bias.upper[d])
        return
    low, high = layer.bias.lower[d] - margin, layer.bias.upper[d] + margin
    least, greatest = [], []
    for s, w in layer.weights.items():
        w_lower, w_upper = w.lower[d], w.upper[d]
        if s == 0:
            w_lower, shift_low = _chord(w_lower, w_upper, pair.box, np.minimum)
            w_upper, shift_high = _chord(w.lower[d], w_upper, pair.box, np.maximum)
            low, high = low + shift_low, high + shift_high
        least.append((sources[s], -w_lower))
        greatest.append((sources[s], -w_upper))
    builder.add_rows(one + least, lower=low)
    builder.add_rows(one + greatest, upper=high)


def _chord(lower: Floats, upper: Floats, box: Box, pick: np.ufunc) -> tuple[Floats, Floats]:
    """Return slopes and summed intercepts of the chords of ``pick`` over a box."""
    at_lower = pick(lower * box.lower, upper * box.lower)
    at_upper = pick(lower * box.upper, upper * box.upper)
    width = box.upper - box.lower
    crosses = (box.lower < 0) & (width > 0)
    slope = np.where(crosses, (at_upper - at_lower) / np.where(width > 0, width, 1.0), 0.0)
    slope = np.where(crosses, slope, np.where(box.lower >= 0, pick(lower, upper), 0.0))
    intercept = np.where(box.lower >= 0, 0.0, at_lower - slope * box.lower)
    return slope, intercept.sum(axis=1)


def _matching_rows(
    builder: ProblemBuilder, z: Neurons, m: Neurons, change: Interval, margin: float
) -> None:
    """Relate matched neurons: z + change_lo <= z# <= z + change_hi after each ReLU."""
    some = np.flatnonzero((z.outputs >= 0) | (m.outputs >= 0))
    if not len(some):
        return
    one = np.eye(len(some))
    builder.add_rows(
        [(m.outputs[some], one), (z.outputs[some], -one)],
        change.lower[some] - margin,
        change.upper[some] + margin,
    )


@dataclass(frozen=True, eq=False)
class _Leak:
    """Eq. 3a and 3c: the label wins in N by beta, but not in the member.

    ``cut`` is the least beta, ``tie`` the member's largest margin, both scaled and widened.
    """

    pair: ScaledPair
    label: int
    cut: float
    tie: float
    elastic: bool

    def problem(self, builder: ProblemBuilder, own: Columns, other: Columns) -> Problem:
        """Add the last variables and rows, given both networks' score columns."""
        label, elastic = self.label, self.elastic
        rivals = [c for c in range(self.pair.network.labels) if c != label]
        count = len(rivals)
        ones = np.ones((count, 1))
        top = self.pair.bounds.network[-1]
        most = max(float(np.min(top.upper[label] - top.lower[rivals])), self.cut)
        # Elastic: the cut-off becomes a row that the slack may violate.
        beta = builder.add_variables(min(-4.0, self.cut) if elastic else self.cut, most, "beta")
        slack = builder.add_variables(0.0, 8.0 if elastic else 0.0, "slack")
        margin = [(own[[label]], ones), (own[rivals], -np.eye(count))]
        builder.add_rows([*margin, (beta, -ones)], lower=0.0)
        leak = [(other[[label]], ones), (other[rivals], -np.eye(count)), (slack, -ones)]
        if count == 1:
            builder.add_rows(leak, upper=self.tie)
        else:
            seen = self.pair.bounds.hyper[-1]
            big = np.maximum(seen.upper[label] - seen.lower[rivals], 0.0)
            alpha = builder.add_variables(np.zeros(count), np.ones(count), "leaks", integer=True)
            builder.add_rows([*leak, (alpha, np.diag(big))], upper=big + self.tie)
            builder.add_rows([(alpha, np.ones((1, count)))], lower=1.0)
        if elastic:
            builder.add_rows([(beta, np.ones((1, 1))), (slack, np.ones((1, 1)))], lower=self.cut)
        return builder.build(int(slack[0]) if elastic else int(beta[0]), maximise=not elastic)
