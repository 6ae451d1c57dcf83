"""The iDP-DB of a network and a hyper-network as a mixed-integer program (LUCID, Eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.bounds import PairBounds
from leaveout.encoders.box import Box
from leaveout.encoders.builder import ProblemBuilder
from leaveout.encoders.hyper import HyperLayer, HyperNetwork
from leaveout.encoders.interval import Interval
from leaveout.encoders.scaling import NEGLIGIBLE, ScaledPair, scaled
from leaveout.models import Layer, Stack
from leaveout.solvers import Outcome, Problem

__all__ = ["MARGIN", "Encoding", "IdpProblem", "encode_idp"]

Floats = NDArray[np.float64]
Columns = NDArray[np.int64]

MARGIN = 1e-6
"""What rows are widened by, in scaled units (every neuron lies in [-1, 1]).

A thousand times the tolerance asked of solvers, so that no true leak sits closer to a row than a
solver can see: rows narrower than a solver's tolerance have made solvers call feasible problems
infeasible.
"""


@dataclass(frozen=True)
class Encoding:
    """Which of LUCID's techniques an encoding uses.

    Attributes
    ----------
    matching : bool
        Matching dependencies: rows that keep each pair of neurons within its difference interval.
    relax_if_similar : float or None
        Threshold tau, in units of the activations: where a pair's difference interval is not
        wider, the hyper-network's ReLU is relaxed. None relaxes nothing.
    """

    matching: bool = True
    relax_if_similar: float | None = 0.01


@dataclass(frozen=True, eq=False)
class IdpProblem:
    """An encoded problem, and how to read its outcome in the network's own units.

    Attributes
    ----------
    problem : Problem
        Maximises the confidence; its elastic form minimises how far the constraints are missed.
    inputs : ndarray of int, shape (d,)
        Columns of the input.
    box : Box
    input_factors : ndarray of float64, shape (d,)
    score_factor : float
    relaxed : int
        ReLUs relaxed although a binary would have been exact.
    """

    problem: Problem
    inputs: Columns
    box: Box
    input_factors: Floats
    score_factor: float
    relaxed: int

    def upper(self, outcome: Outcome) -> float:
        """Upper bound of the exact confidence from the dual bound, padded for tolerances.

        All variables but binaries lie in [-1, 1], so a reduced cost that is off by the dual
        tolerance moves the bound by at most the tolerance times the number of variables.
        """
        bound = outcome.dual_bound
        if not np.isfinite(bound):
            return float(bound)
        pad = MARGIN * max(1.0, abs(bound)) + 1e-9 * self.problem.variables
        return float((bound + pad) * self.score_factor)

    def point(self, outcome: Outcome) -> Floats | None:
        """Input of the solver's best point, clipped to the box, or None."""
        if outcome.solution is None:
            return None
        return self.box.clip(outcome.solution.point[self.inputs] * self.input_factors)


def encode_idp(
    network: Stack,
    hyper: HyperNetwork,
    bounds: PairBounds,
    box: Box,
    label: int,
    *,
    encoding: Encoding,
    floor: float,
    tie: float,
    elastic: bool = False,
) -> IdpProblem:
    """Encode: maximise the confidence of ``label`` in N where a member does not answer it.

    Parameters
    ----------
    network : Stack
        Of one network, N.
    hyper : HyperNetwork
        Of the set of members.
    bounds : PairBounds
    box : Box
    label : int
    encoding : Encoding
    floor : float
        Only confidences of at least this matter (a cut-off).
    tie : float
        The member's exact confidence may be this far above 0 (its float32 evaluation error).
    elastic : bool
        Instead of maximising, minimise by how much the cut-off and the leak are missed. This
        problem always has a solution; a positive dual bound proves the first one infeasible.

    Returns
    -------
    IdpProblem
    """
    pair = scaled(network, hyper, bounds, box)
    builder = ProblemBuilder()
    inputs = builder.add_variables(pair.box.lower, pair.box.upper, "x")
    layers = len(pair.network.layers)
    own: list[Columns] = [inputs]
    other: list[Columns] = [inputs]
    relaxed = 0
    for k in range(layers):
        is_last = k == layers - 1
        before, after = pair.bounds.network[k], pair.bounds.hyper[k]
        ratio = pair.inner[k] / pair.outer[k + 1]
        exact = np.zeros(len(before.lower), bool)
        z = _Neurons(builder, before, ratio, f"n{k + 1}", is_last, exact)
        _exact_rows(builder, z, pair.network.layers[k], own)
        similar = _similar(pair, k, encoding)
        m = _Neurons(builder, after, ratio, f"m{k + 1}", is_last, similar)
        relaxed += int(np.count_nonzero(m.unstable & similar))
        _hyper_rows(builder, m, pair.hyper.layers[k], other, pair, hyper.members == 1)
        if encoding.matching:
            _matching_rows(builder, z, m, pair.bounds.after[k])
        own.append(z.outputs)
        other.append(m.outputs)
    factor = float(pair.inner[-1][0])
    problem = _leak(builder, pair, label, own[-1], other[-1], floor / factor, tie / factor, elastic)
    return IdpProblem(problem, inputs, box, pair.outer[0], factor, relaxed)


def _similar(pair: ScaledPair, k: int, encoding: Encoding) -> NDArray[np.bool_]:
    width = pair.bounds.after[k].width * pair.outer[k + 1]
    tau = encoding.relax_if_similar
    return np.zeros(len(width), bool) if tau is None else np.asarray(width <= tau)


class _Neurons:
    """Variables and ReLU rows of one layer; -1 is the column of an output known to be zero.

    Where a negligible share of a neuron's range passes its ReLU, the output may be anything it
    can be, whatever the input: rows with coefficients that small are lost on solvers.
    ``ratio`` is the inner over the outer factor of each neuron.
    """

    def __init__(
        self,
        builder: ProblemBuilder,
        pre: Interval,
        ratio: Floats,
        name: str,
        is_last: bool,
        relax: NDArray[np.bool_],
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
        self._triangle_rows(builder, u[relax[u]], lower, upper)

    def _relu_rows(
        self, builder: ProblemBuilder, u: Columns, lower: Floats, upper: Floats, name: str
    ) -> None:
        """Eq. 3f and 3g: h >= z, h <= upper a, h <= z - lower (1 - a)."""
        if not len(u):
            return
        on = builder.add_variables(np.zeros(len(u)), np.ones(len(u)), name, integer=True)
        one = np.eye(len(u))
        h, z = self.outputs[u], self.inputs[u]
        builder.add_rows([(h, one), (z, -one)], lower=0.0)
        builder.add_rows([(h, one), (on, -one * upper[u])], upper=0.0)
        builder.add_rows([(h, one), (z, -one), (on, -one * lower[u])], upper=-lower[u])

    def _triangle_rows(
        self, builder: ProblemBuilder, u: Columns, lower: Floats, upper: Floats
    ) -> None:
        """Relax to a triangle: h >= z, h <= upper (z - lower) / (upper - lower)."""
        if not len(u):
            return
        one = np.eye(len(u))
        h, z = self.outputs[u], self.inputs[u]
        builder.add_rows([(h, one), (z, -one)], lower=0.0)
        slope = upper[u] / (upper[u] - lower[u])
        builder.add_rows([(h, one), (z, -one * slope)], upper=-slope * lower[u] + MARGIN)


def _exact_rows(builder: ProblemBuilder, z: _Neurons, layer: Layer, sources: list[Columns]) -> None:
    """Eq. 3d: z = W h + b."""
    d = z.defined
    terms = [(z.inputs[d], np.eye(len(d)))]
    terms += [(sources[s], -w[0][d]) for s, w in layer.weights.items()]
    if len(d):
        builder.add_rows(terms, layer.bias[0][d], layer.bias[0][d])


def _hyper_rows(
    builder: ProblemBuilder,
    m: _Neurons,
    layer: HyperLayer,
    sources: list[Columns],
    pair: ScaledPair,
    single: bool,
) -> None:
    """Eq. 3e, for inputs of any sign: b_lo + W_lo h <= z <= b_hi + W_hi h where h >= 0.

    For an input x in [a, b] with a < 0, the least value w x over w in [w_lo, w_hi] is concave in
    x and the greatest is convex; the chord through the values at a and b bounds each. For
    a >= 0 the chord is the paper's row.
    """
    d = m.defined
    if not len(d):
        return
    one = [(m.inputs[d], np.eye(len(d)))]
    if single:
        exact = [(sources[s], -w.lower[d]) for s, w in layer.weights.items()]
        builder.add_rows(one + exact, layer.bias.lower[d], layer.bias.upper[d])
        return
    low, high = layer.bias.lower[d] - MARGIN, layer.bias.upper[d] + MARGIN
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
    """Slopes, and the sum of intercepts, of the chords of ``pick(lower x, upper x)`` over a box."""
    at_lower = pick(lower * box.lower, upper * box.lower)
    at_upper = pick(lower * box.upper, upper * box.upper)
    width = box.upper - box.lower
    crosses = (box.lower < 0) & (width > 0)
    slope = np.where(crosses, (at_upper - at_lower) / np.where(width > 0, width, 1.0), 0.0)
    slope = np.where(crosses, slope, np.where(box.lower >= 0, pick(lower, upper), 0.0))
    intercept = np.where(box.lower >= 0, 0.0, at_lower - slope * box.lower)
    return slope, intercept.sum(axis=1)


def _matching_rows(builder: ProblemBuilder, z: _Neurons, m: _Neurons, change: Interval) -> None:
    """Keep each pair of neurons together: z + change_lo <= z# <= z + change_hi after each ReLU."""
    some = np.flatnonzero((z.outputs >= 0) | (m.outputs >= 0))
    if not len(some):
        return
    one = np.eye(len(some))
    builder.add_rows(
        [(m.outputs[some], one), (z.outputs[some], -one)],
        change.lower[some] - MARGIN,
        change.upper[some] + MARGIN,
    )


def _leak(
    builder: ProblemBuilder,
    pair: ScaledPair,
    label: int,
    own: Columns,
    other: Columns,
    floor: float,
    tie: float,
    elastic: bool,
) -> Problem:
    """Eq. 3a and 3c: the label wins in N by beta, and not against some rival in the member."""
    rivals = [c for c in range(pair.network.labels) if c != label]
    count = len(rivals)
    ones = np.ones((count, 1))
    top = pair.bounds.network[-1]
    most = float(np.min(top.upper[label] - top.lower[rivals]))
    cut = floor - MARGIN
    # Elastic: the cut-off becomes a row that the slack may break.
    beta = builder.add_variables(min(-4.0, cut) if elastic else cut, max(most, cut), "beta")
    slack = builder.add_variables(0.0, 8.0 if elastic else 0.0, "slack")
    lead = [(own[[label]], ones), (own[rivals], -np.eye(count))]
    builder.add_rows([*lead, (beta, -ones)], lower=0.0)
    leak = [(other[[label]], ones), (other[rivals], -np.eye(count)), (slack, -ones)]
    if count == 1:
        builder.add_rows(leak, upper=tie + MARGIN)
    else:
        seen = pair.bounds.hyper[-1]
        big = np.maximum(seen.upper[label] - seen.lower[rivals], 0.0) + MARGIN
        alpha = builder.add_variables(np.zeros(count), np.ones(count), "leaks", integer=True)
        builder.add_rows([*leak, (alpha, np.diag(big))], upper=big + tie + MARGIN)
        builder.add_rows([(alpha, np.ones((1, count)))], lower=1.0)
    if elastic:
        builder.add_rows([(beta, np.ones((1, 1))), (slack, np.ones((1, 1)))], lower=cut)
    return builder.build(int(slack[0]) if elastic else int(beta[0]), maximise=not elastic)
