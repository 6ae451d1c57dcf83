"""Two networks in the kernels' form, without a family: what an explorer of forms searches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.batch import MemberSets, Numbers
from leaveout.bab.native.layout import Layout, layout_of
from leaveout.bab.native.listed import Listed
from leaveout.bab.native.pairs import Difference, propagate, shifted
from leaveout.encoders import Box
from leaveout.encoders.interval import gamma
from leaveout.models import Stack

__all__ = ["PairSpace", "pair_space"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairSpace:
    """A `leaveout.bab.native.pairs.Space` with one member.

    Attributes
    ----------
    numbers : Numbers
    origin : ndarray of float64, shape (inputs,)
    box : Box
    lower, upper : ndarray of float64, shape (inputs,)
        The box, shifted.
    root : ndarray of float64, shape (6, hidden)
    """

    numbers: Numbers
    origin: Floats
    box: Box
    lower: Floats
    upper: Floats
    root: Floats
    _difference: MemberSets

    @property
    def layout(self) -> Layout:
        """The flat layout."""
        return self.numbers.layout

    @cached_property
    def listed(self) -> Listed:
        """Inputs that take listed values only, shifted."""
        return Listed.of(self.box, self.origin)

    @property
    def count(self) -> int:
        """Number of members."""
        return 1

    def sets(self, groups: list[NDArray[np.int64]]) -> MemberSets:
        """Return the one difference there is."""
        assert len(groups) == 1
        return self._difference


def pair_space(first: Stack, second: Stack, box: Box) -> PairSpace:
    """Bring two networks of one architecture into the kernels' form."""
    layout = layout_of(first)
    origin = np.minimum(box.lower, 0.0)
    weights = layout.weights_of(first)[0]
    own = layout.biases_of(first)[0]
    bias = shifted(layout, weights, own, origin)
    change = layout.weights_of(second)[0] - weights
    # The difference is shifted, not the two sides of it: rounding then is relative to itself.
    moved = shifted(layout, change, layout.biases_of(second)[0] - own, origin)
    none = np.zeros_like
    whole = Difference(change, none(change), moved, none(moved), True)
    most = np.nextafter(box.upper - origin, np.inf)
    least = np.maximum(np.nextafter(box.lower - origin, -np.inf), 0.0)
    bare = Numbers(layout, weights, bias, bias, bias, 0.0)
    unit = gamma(8 * (layout.inputs + 2 * len(bias)) + 256)
    root, rough, rough_difference = propagate(layout, bare, whole, origin, least, most, unit)
    numbers = Numbers(layout, weights, bias, rough, rough_difference, unit)
    sets = MemberSets(
        change[None], none(change)[None], moved[None], none(moved)[None], np.ones(1, bool)
    )
    return PairSpace(numbers, origin, box, least, most, root, sets)
