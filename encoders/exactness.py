"""Exact float arithmetic on whole multiples of a power of two.

A float of ``b`` bits holds every multiple of ``2^g`` up to ``2^(g + b)``. So where all terms of a
sum of products are multiples of one such grid, and their absolute values add up to no more, nothing
is rounded, in whatever order they are added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.evaluation import Evaluation, Sums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NO_BIT = 10_000
"""Of 0, a multiple of everything."""
_BITS, _LEAST_BIT = 53, -1022


def lowest_bit(values: Floats) -> Integers:
    """Return the exponent of the greatest power of two that divides each number."""
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
        """Whether float64 holds all of them, and all partial sums."""
        return self.is_in_range and (
            self.size == 0.0 or self.size <= 2.0 ** min(self.bit + _BITS, 900)
        )

    @property
    def is_in_range(self) -> bool:
        """Whether none of them underflows float64 or leaves its range."""
        return self.size == 0.0 or (self.bit >= _LEAST_BIT and self.size <= 2.0**900)


_NOTHING = _Grid(NO_BIT, 0.0)


@dataclass(frozen=True)
class _Form:
    """An affine expression: the grid of each source, and whether it only copies values."""

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
    bits = lowest_bit(sums.sides)
    size = float(sums.sides.sum(axis=(0, 1)).max(initial=0.0))
    matrix = _Grid(int(bits.min(initial=NO_BIT)), max(size, 1.0))
    copies = _copies(sums.sides)
    linear, exact = {}, True
    for source, (grid, copied) in form.linear.items():
        linear[source] = grid.times(matrix), copied and copies
        # What is scaled by a power of two, or copied, is not rounded.
        found = linear[source][0]
        exact = exact and found.is_in_range and (copied or copies or found.exact)
    own = np.abs(sums.shift)
    added = _Grid(int(lowest_bit(own).min(initial=NO_BIT)), float(own.max(initial=0.0)))
    carried = form.constant.times(matrix) if form.constant.size else _NOTHING
    constant = carried.plus(added)
    alone = not carried.size or (copies and not added.size)
    return _Form(linear, constant, exact and (constant.is_in_range if alone else constant.exact))


def _copies(sides: Floats) -> bool:
    """Return whether outputs are at most one input times a power of two or minus one."""
    present = sides > 0
    if (present.sum(axis=(0, 1)) > 1).any():
        return False
    mantissas = np.frexp(sides[present])[0]
    return bool((mantissas == 0.5).all())


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
