"""Operators that select numbers along an axis or embed them: Slice, Gather, Pad."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leaveout.models.operators.base import Affine, Constants, Floats, Shape, Shapes


@dataclass(frozen=True)
class Take(Affine):
    """Selected numbers along one axis, in a given order."""

    axis: int  # counted with the batch axis, at least 1
    places: tuple[int, ...]  # positions along it, from 0; one may come twice
    single: bool = False  # whether the axis goes, which takes one place

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        found = values.take(self.places, axis=self.axis + 1)
        return np.asarray(found.squeeze(self.axis + 1) if self.single else found)

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        at = self.axis - 1
        if not 0 <= at < len(shape):
            raise ValueError(f"axis = {self.axis} of {['batch', *shape]}")
        if any(not 0 <= place < shape[at] for place in self.places):
            raise ValueError(f"it picks a place outside the {shape[at]} along axis {self.axis}")
        count = () if self.single else (len(self.places),)
        return (*shape[:at], *count, *shape[at + 1 :])

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`."""
        return 0


@dataclass(frozen=True)
class BesideZero(Affine):
    """Two scores from one number: 0 and the number."""

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        return np.pad(values.reshape(*values.shape[:2], 1), ((0, 0), (0, 0), (1, 0)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        if math.prod(shape) != 1:
            raise ValueError(f"{['batch', *shape]} is not one number")
        return (2,)

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`."""
        return 0


@dataclass(frozen=True)
class Place(Affine):
    """Numbers embedded among others."""

    widths: tuple[tuple[int, int], ...]  # how many before and after, along each axis of a sample
    fill: str = ""  # name of a constant of one number that they are; 0 where empty

    @property
    def exact(self) -> bool:
        """See `Affine.exact`."""
        return True

    def apply(self, values: Floats, constants: Constants, biased: bool) -> Floats:
        """See `Affine.apply`."""
        widths = ((0, 0), (0, 0), *self.widths)
        found = np.pad(values, widths)
        if not biased or not self.fill:
            return found
        given = constants[self.fill]
        around = np.pad(np.zeros((1, 1, *values.shape[2:])), widths, constant_values=1.0)
        return np.asarray(found + around * given.reshape(len(given), *(1,) * (values.ndim - 1)))

    def shape_after(self, shape: Shape, constants: Shapes) -> Shape:
        """See `Affine.shape_after`."""
        if len(self.widths) != len(shape):
            raise ValueError(f"it pads {1 + len(self.widths)} axes of {['batch', *shape]}")
        if self.fill and constants[self.fill] not in {(), (1,)}:
            raise ValueError(
                f"it fills with {self.fill!r} of shape {list(constants[self.fill])}, expected one "
                "number"
            )
        return tuple(n + sum(each) for n, each in zip(shape, self.widths, strict=True))

    def roundings(self, shape: Shape, constants: Shapes) -> int:
        """See `Affine.roundings`; none, but an embedded number is charged as one."""
        return 1 if self.fill else 0
