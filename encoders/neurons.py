"""Variables and rows of one layer of ReLUs in a mixed-integer program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.builder import ProblemBuilder
from leaveout.encoders.interval import Interval
from leaveout.encoders.scaling import NEGLIGIBLE

Floats = NDArray[np.float64]
Columns = NDArray[np.int64]


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
