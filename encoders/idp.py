"""The iDP-DB of a network and a hyper-network as a mixed-integer program (LUCID, Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.box import Box
from leaveout.encoders.builder import ProblemBuilder
from leaveout.encoders.hyper_network import HyperLayer
from leaveout.encoders.interval import Interval
from leaveout.encoders.neurons import Neurons
from leaveout.encoders.scaling import ScaledPair
from leaveout.models import Layer
from leaveout.solvers import Outcome, Problem, Status

Floats = NDArray[np.float64]
Columns = NDArray[np.int64]

MARGIN = 1e-6
"""What rows are widened by, in scaled units (every neuron lies in [-1, 1]).

A thousand times the tolerance asked of solvers, so that no true leak sits closer to a row than a
solver can see: rows narrower than a solver's tolerance have made solvers call feasible problems
infeasible.
"""

CONFIRMED = 1e-7
"""Least padded dual bound of the elastic problem, in scaled units, that confirms infeasibility."""

MOST_ROWS = 2048
"""Most rows of a table of listed values that are given a binary each."""

VANISHING = 1e-7
"""Size below which a listed value, in scaled units, is left to the margin of its row."""

_BOUNDED = frozenset({Status.OPTIMAL, Status.STOPPED})


@dataclass(frozen=True)
class Encoding:
    """The LUCID techniques that an encoding uses.

    Attributes
    ----------
    matching : bool
        Matching dependencies: rows that keep each pair of neurons within its difference interval.
    relax_if_similar : float or None
        Threshold tau, in units of the activations: where a pair's difference interval is not
        wider, the hyper-network's ReLU is relaxed. None relaxes nothing.
    tolerance : float
        Of the solver. Rows that are consequences are widened by the larger of `MARGIN` and ten
        times this.
    """

    matching: bool = True
    relax_if_similar: float | None = 0.01
    tolerance: float = 1e-9

    @property
    def margin(self) -> float:
        """Amount by which rows are widened, in scaled units."""
        return max(MARGIN, 10 * self.tolerance)


@dataclass(frozen=True, eq=False)
class IdpProblem:
    """An encoded problem, and the reading of its outcome in the network's units."""

    problem: Problem
    inputs: Columns  # shape (d,): columns of the input
    box: Box
    input_factors: Floats  # shape (d,)
    score_factor: float
    relaxed: int  # reLUs relaxed although a binary would have been exact
    tolerance: float  # of the solver

    @property
    def _pad(self) -> float:
        """How far tolerances may move a dual bound, in scaled units.

        A reduced cost off by the tolerance moves it by tolerance times the variable's range.
        """
        return self.tolerance * float((self.problem.upper - self.problem.lower).sum())

    def upper(self, outcome: Outcome) -> float:
        """Return an upper bound of the exact confidence: the padded dual bound.

        It is infinite without a dual bound, which only an optimum or a stop has.
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
        """Return the input nearest to the solver's best point, or None."""
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

    Larger tables stay hulls, and coefficients that solvers may drop become 0 in a widened row; both
    only loosen the bound.
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
    terms += [(sources[s], -w[0][d]) for s, w in layer.weights.items()]
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
    """Tie matched neurons: z + change_lo <= z# <= z + change_hi after each ReLU."""
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
        # Elastic: the cut-off becomes a row that the slack may break.
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
