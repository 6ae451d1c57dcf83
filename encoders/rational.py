"""Exact arithmetic on networks and linear programmes, where rounding errors leave a doubt.

Every neuron is bounded by two affine functions of the input with rational coefficients; the two are
equal where all ReLUs below have a known phase (the symbolic intervals of Neurify, Wang et al.,
NeurIPS 2018). A polytope is searched by the simplex method with bounded variables and Bland's rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.encoders.rounding import Evaluation, Sums
from leaveout.models import Stack
from leaveout.models.matrices import dense

Phases = Mapping[tuple[int, int], int]
"""Phases of hidden neurons, by layer and position: 1 is active, -1 inactive."""

_ZERO = Fraction(0)
_LONG = 96  # most bits of a slope that is kept exactly


@dataclass(frozen=True)
class Affine:
    """``slopes x + constant``."""

    slopes: tuple[Fraction, ...]
    constant: Fraction

    def plus(self, factor: Fraction, other: Affine) -> Affine:
        """Return the sum with a multiple of another function."""
        slopes = tuple(
            a + factor * b if b else a for a, b in zip(self.slopes, other.slopes, strict=True)
        )
        return Affine(slopes, self.constant + factor * other.constant)

    def times(self, factor: Fraction) -> Affine:
        """Return a multiple of the function."""
        return Affine(tuple(factor * a for a in self.slopes), factor * self.constant)

    def at(self, point: Sequence[Fraction]) -> Fraction:
        """Return the value at a point."""
        return self.constant + sum(
            (a * x for a, x in zip(self.slopes, point, strict=True) if a), _ZERO
        )

    def most(self, lower: Sequence[Fraction], upper: Sequence[Fraction]) -> Fraction:
        """Return the greatest value over a box."""
        ends = zip(self.slopes, lower, upper, strict=True)
        return self.at([high if slope > 0 else low for slope, low, high in ends])

    def least(self, lower: Sequence[Fraction], upper: Sequence[Fraction]) -> Fraction:
        """Return the least value over a box."""
        return self.most(upper, lower)


def constant(size: int, value: Fraction = _ZERO) -> Affine:
    """Return a constant function of ``size`` inputs."""
    return Affine((_ZERO,) * size, value)


@dataclass(frozen=True)
class Rows:
    """A layer: each output's bias, and the source, position and weight of each term.

    ``exact`` is whether these are its exact numbers.
    """

    terms: tuple[tuple[tuple[int, int, Fraction], ...], ...]
    bias: tuple[Fraction, ...]
    exact: bool


def rows_of(stack: Stack, exact: Sequence[bool]) -> tuple[Rows, ...]:
    """Return the layers of a single network, with whether each is exact."""
    found = []
    for layer, known in zip(stack.layers, exact, strict=True):
        terms: list[list[tuple[int, int, Fraction]]] = [[] for _ in range(layer.width)]
        for source, weights in layer.weights.items():
            own = dense(weights)[0]
            for j, i in np.argwhere(own).tolist():
                terms[j].append((source, i, Fraction(float(own[j, i]))))
        bias = tuple(Fraction(float(value)) for value in layer.bias[0])
        found.append(Rows(tuple(map(tuple, terms)), bias, known))
    return tuple(found)


def scores_at(layers: Sequence[Rows], point: Sequence[Fraction]) -> list[Fraction]:
    """Return the scores of a network whose layers are all exact."""
    sources = [list(point)]
    for k, layer in enumerate(layers):
        values = [
            bias + sum((w * sources[s][i] for s, i, w in terms if sources[s][i]), _ZERO)
            for terms, bias in zip(layer.terms, layer.bias, strict=True)
        ]
        if k == len(layers) - 1:
            return values
        sources.append([max(value, _ZERO) for value in values])
    raise ValueError("a network must have layers")


@dataclass(frozen=True)
class Bounded:
    """Affine bounds of a network over a box."""

    lower: tuple[Affine | None, ...]  # of each score; None if unbounded
    upper: tuple[Affine | None, ...]  # of each score; None if unbounded
    limits: tuple[Affine, ...]  # non-negative where neurons have the given phases
    open: Mapping[tuple[int, int], Fraction]


def bound_scores(
    layers: Sequence[Rows],
    inputs: Sequence[Affine],
    lower: Sequence[Fraction],
    upper: Sequence[Fraction],
    phases: Phases,
) -> Bounded:
    """Bound every score of a network by affine functions of the input."""
    sources: list[list[tuple[Affine | None, Affine | None]]] = [[(each, each) for each in inputs]]
    limits: list[Affine] = []
    free: dict[tuple[int, int], Fraction] = {}
    for k, layer in enumerate(layers):
        values = [
            _sum(terms, bias, sources, len(lower)) if layer.exact else (None, None)
            for terms, bias in zip(layer.terms, layer.bias, strict=True)
        ]
        if k == len(layers) - 1:
            lows, highs = zip(*values, strict=True)
            return Bounded(tuple(lows), tuple(highs), tuple(limits), free)
        after = []
        for j, (low, high) in enumerate(values):
            phase = phases.get((k, j), 0)
            if phase > 0 and high is not None:
                limits.append(high)
            elif phase < 0 and low is not None:
                limits.append(low.times(Fraction(-1)))
            relaxed, gap = _relu(low, high, lower, upper, phase)
            after.append(relaxed)
            if gap is not None:
                free[k, j] = gap
        sources.append(after)
    raise ValueError("a network must have layers")


def _sum(
    terms: Sequence[tuple[int, int, Fraction]],
    bias: Fraction,
    sources: Sequence[Sequence[tuple[Affine | None, Affine | None]]],
    size: int,
) -> tuple[Affine | None, Affine | None]:
    ends: list[Affine | None] = [constant(size, bias), constant(size, bias)]
    same = True
    for source, i, weight in terms:
        low, high = sources[source][i]
        same = same and low is high
        pair = (low, high) if weight > 0 else (high, low)
        for side, each in enumerate(pair):
            if side and same:
                ends[1] = ends[0]
                continue
            known = ends[side]
            ends[side] = None if known is None or each is None else known.plus(weight, each)
    return ends[0], ends[1]


def _relu(
    low: Affine | None,
    high: Affine | None,
    lower: Sequence[Fraction],
    upper: Sequence[Fraction],
    phase: int,
) -> tuple[tuple[Affine | None, Affine | None], Fraction | None]:
    """Bound a ReLU of a value between two functions; also return the gap if its phase is open."""
    nothing = constant(len(lower))
    if phase:
        return ((low, high) if phase > 0 else (nothing, nothing)), None
    most = None if high is None else high.most(lower, upper)
    least = None if low is None else low.least(lower, upper)
    if most is not None and most <= 0:
        return (nothing, nothing), None
    if least is not None and least >= 0:
        return (low, high), None
    if high is None or most is None:
        return (nothing, None), None
    start = high.least(lower, upper)
    above = high if start >= 0 else _chord(high, start, most)
    active = low is not None and least is not None and most >= -least
    gap = most if least is None else min(most, -least)
    return (low if active else nothing, above), gap


def _chord(high: Affine, start: Fraction, end: Fraction) -> Affine:
    slope = end / (end - start)
    if slope.denominator.bit_length() > _LONG:
        # Any slope bounds the ReLU if the line is high enough at both ends.
        slope = Fraction(float(slope))
    line = high.times(slope)
    room = max(-slope * start, end - slope * end)
    return Affine(line.slopes, line.constant + room)


class Polytope:
    """The points of a box where some affine functions are non-negative."""

    def __init__(self, lower: Sequence[Fraction], upper: Sequence[Fraction]) -> None:
        self._size = len(lower)
        self._ends: list[tuple[Fraction, Fraction | None]] = list(zip(lower, upper, strict=True))
        # Of each variable: the row of a basic one; whether any other is at its upper bound.
        self._row: dict[int, int] = {}
        self._high: dict[int, bool] = dict.fromkeys(range(self._size), False)
        self._table: list[tuple[int, dict[int, Fraction], Fraction]] = []
        self.pivots = 0

    def add(self, form: Affine) -> bool:
        """Add a function that must be non-negative; return whether any point is left."""
        coefficients, constant_ = self._in_nonbasic(form)
        variable = len(self._ends)
        self._ends.append((_ZERO, None))
        self._table.append((variable, coefficients, constant_))
        row = len(self._table) - 1
        self._row[variable] = row
        return self._value(row) >= 0 or self._ascend(row, _ZERO) >= 0

    def most(self, form: Affine) -> tuple[Fraction, list[Fraction]]:
        """Return the greatest value of a function, and its position."""
        coefficients, constant_ = self._in_nonbasic(form)
        self._table.append((-1, coefficients, constant_))
        value = self._ascend(len(self._table) - 1, None)
        self._table.pop()
        return value, self.point()

    def point(self) -> list[Fraction]:
        """Return the current point."""
        return [self._at(i) for i in range(self._size)]

    def _at(self, variable: int) -> Fraction:
        row = self._row.get(variable)
        if row is not None:
            return self._value(row)
        low, high = self._ends[variable]
        return high if self._high[variable] and high is not None else low

    def _value(self, row: int) -> Fraction:
        _, coefficients, total = self._table[row]
        return total + sum((c * self._at(v) for v, c in coefficients.items()), _ZERO)

    def _in_nonbasic(self, form: Affine) -> tuple[dict[int, Fraction], Fraction]:
        """Return a function in terms of the non-basic variables."""
        found: dict[int, Fraction] = {}
        total = form.constant
        for variable, slope in enumerate(form.slopes):
            if not slope:
                continue
            row = self._row.get(variable)
            if row is None:
                found[variable] = found.get(variable, _ZERO) + slope
                continue
            _, coefficients, own = self._table[row]
            total += slope * own
            for v, c in coefficients.items():
                found[v] = found.get(v, _ZERO) + slope * c
        return {v: c for v, c in found.items() if c}, total

    def _ascend(self, goal: int, enough: Fraction | None) -> Fraction:
        """Increase a row's value until it is enough or maximal."""
        while enough is None or self._value(goal) < enough:
            coefficients = self._table[goal][1]
            enter = min(
                (v for v, c in coefficients.items() if self._may_move(v, c > 0)), default=None
            )
            if enter is None:
                break
            self._move(goal, enter, coefficients[enter] > 0)
        return self._value(goal)

    def _may_move(self, variable: int, up: bool) -> bool:
        low, high = self._ends[variable]
        return low != high and self._high[variable] != up

    def _move(self, goal: int, enter: int, up: bool) -> None:
        """Move a variable until it or a basic variable meets its bound."""
        self.pivots += 1
        low, high = self._ends[enter]
        step = None if high is None else high - low
        leave, leaves_high = None, False
        for row, (variable, coefficients, _) in enumerate(self._table):
            slope = coefficients.get(enter)
            if row == goal or not slope:
                continue
            rises = (slope > 0) == up
            ends = self._ends[variable]
            end = ends[1] if rises else ends[0]
            if end is None:
                continue
            room = abs((end - self._value(row)) / slope)
            if (
                step is None
                or room < step
                or (room == step and leave is not None and variable < self._table[leave][0])
            ):
                step, leave, leaves_high = room, row, rises
        if leave is None:
            if step is None:
                raise ValueError("a box must be bounded")
            self._high[enter] = up
            return
        self._pivot(leave, enter, leaves_high)

    def _pivot(self, leave: int, enter: int, leaves_high: bool) -> None:
        variable, coefficients, total = self._table[leave]
        factor = coefficients[enter]
        solved = {v: -c / factor for v, c in coefficients.items() if v != enter}
        solved[variable] = 1 / factor
        start = -total / factor
        self._table[leave] = (enter, solved, start)
        for row, (name, own, value) in enumerate(self._table):
            slope = own.get(enter)
            if row == leave or not slope:
                continue
            joined = {v: c for v, c in own.items() if v != enter}
            for v, c in solved.items():
                joined[v] = joined.get(v, _ZERO) + slope * c
            self._table[row] = (name, {v: c for v, c in joined.items() if c}, value + slope * start)
        del self._row[variable], self._high[enter]
        self._row[enter] = leave
        self._high[variable] = leaves_high


NO_BIT = 10_000  # of 0, which is a multiple of every power of two
_BITS, _LEAST_BIT = 53, -1022


def lowest_bit(values: Floats) -> Integers:
    """Return the exponent of the largest power of two that divides each number."""
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, _BITS).astype(np.int64)
    last = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    return np.where(whole == 0, NO_BIT, exponent - _BITS + last).astype(np.int64)


@dataclass(frozen=True)
class _Grid:
    """Multiples of ``2^bit`` whose absolute values sum to at most ``size``."""

    bit: int
    size: float

    def times(self, other: _Grid) -> _Grid:
        return _Grid(self.bit + other.bit, self.size * other.size)

    def plus(self, other: _Grid) -> _Grid:
        return _Grid(min(self.bit, other.bit), self.size + other.size)

    @property
    def exact(self) -> bool:
        """Whether float64 represents all of them, and all partial sums."""
        return self.is_in_range and (
            self.size == 0.0 or self.size <= 2.0 ** min(self.bit + _BITS, 900)
        )

    @property
    def is_in_range(self) -> bool:
        """Whether none of them underflows or overflows float64."""
        return self.size == 0.0 or (self.bit >= _LEAST_BIT and self.size <= 2.0**900)


_NOTHING = _Grid(NO_BIT, 0.0)


@dataclass(frozen=True)
class _Form:
    """An affine expression: for each source, its grid and whether its values are only copied."""

    linear: dict[int, tuple[_Grid, bool]]
    constant: _Grid
    exact: bool


def exact_layers(evaluation: Evaluation) -> tuple[bool, ...]:
    """Return for each layer whether its folded weights are exact."""
    graph = evaluation.graph
    basis = _Grid(0, 1.0)
    forms = {graph.input: _Form({0: (basis, True)}, _NOTHING, True)}
    layers: list[bool] = []
    for step in evaluation.steps:
        first = forms[step.inputs[0]]
        if step.sums is not None:
            forms[step.output] = _through(first, step.sums)
        elif step.sign:
            forms[step.output] = _join_forms(first, forms[step.inputs[1]])
        else:
            layers.append(first.exact)
            forms[step.output] = _Form({len(layers): (basis, True)}, _NOTHING, True)
    return (*layers, forms[graph.output].exact)


def _through(form: _Form, sums: Sums) -> _Form:
    if sums.shift is None or not form.exact:
        return _Form(form.linear, form.constant, False)
    bits = lowest_bit(sums.factors)
    size = float(sums.through(np.ones((1, sums.sides.shape[1]))).sum(axis=0).max(initial=0.0))
    matrix = _Grid(int(bits.min(initial=NO_BIT)), max(size, 1.0))
    copies = sums.copies
    linear, exact = {}, True
    for source, (grid, copied) in form.linear.items():
        linear[source] = grid.times(matrix), copied and copies
        # Scaling by a power of two and copying do not round.
        found = linear[source][0]
        exact = exact and found.is_in_range and (copied or copies or found.exact)
    own = np.abs(sums.shift)
    added = _Grid(int(lowest_bit(own).min(initial=NO_BIT)), float(own.max(initial=0.0)))
    carried = form.constant.times(matrix) if form.constant.size else _NOTHING
    constant = carried.plus(added)
    alone = not carried.size or (copies and not added.size)
    return _Form(linear, constant, exact and (constant.is_in_range if alone else constant.exact))


def _join_forms(first: _Form, second: _Form) -> _Form:
    """Return the sum of two forms."""
    linear = dict(first.linear)
    exact = first.exact and second.exact
    for source, (grid, copied) in second.linear.items():
        if source not in linear:
            linear[source] = grid, copied
            continue
        total = linear[source][0].plus(grid)
        linear[source] = total, False
        exact = exact and total.exact
    constant = first.constant.plus(second.constant)
    alone = not first.constant.size or not second.constant.size
    return _Form(linear, constant, exact and (alone or constant.exact))
