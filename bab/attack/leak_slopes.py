"""Leaks as ascent problems: raise N's confidence until the member's margin vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import Nets, Sloped, evaluate
from leaveout.bab.attack.local_networks import jacobians
from leaveout.bab.attack.slp import Model
from leaveout.encoders import Box
from leaveout.models import Stack

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Pairs:
    """N's confidence as the goal, and each member's margin as the limit."""

    network: Nets  # N alone
    members: Nets  # of m members; p points belong to each
    label: int
    lower: Floats  # shape (m, p, d): where each point may go
    upper: Floats  # shape (m, p, d): where each point may go
    slack: float  # in units of the scores

    @staticmethod
    def of(
        box: Box, label: int, network: Nets, members: Nets, points: Floats, slack: float
    ) -> Pairs:
        """Return the problem of points in the box, their discrete features fixed."""
        return Pairs(network, members, label, *box.around(points), slack)

    @property
    def slacks(self) -> tuple[float]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,)

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`."""
        return Model(
            (evaluate(self.network, points, self.label, widths),),
            (evaluate(self.members, points, self.label, widths),),
        )


@dataclass(frozen=True, eq=False)
class Margins:
    """N's margin over each rival as its own goal, for one member.

    Where two rivals tie, the slope of one margin lowers the other.
    """

    network: Stack  # of one network each
    member: Stack  # of one network each
    label: int
    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    slack: float  # in units of the scores

    @property
    def slacks(self) -> tuple[float]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,)

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`; nothing is smoothed."""
        shape, flat = points.shape[:-1], points.reshape(-1, points.shape[-1]).astype(np.float64)
        scores, slopes = jacobians(self.network, flat)
        others, other_slopes = jacobians(self.member, flat)
        label, every = self.label, np.arange(len(flat))
        rivals = [c for c in range(scores.shape[1]) if c != label]
        strongest = np.array(rivals)[others[:, rivals].argmax(axis=1)]

        def make_sloped(value: Floats, slope: Floats) -> Sloped:
            """Return a value and its slope in the shapes of a model."""
            return Sloped(value.reshape(shape), slope.reshape(points.shape))

        return Model(
            tuple(
                make_sloped(scores[:, label] - scores[:, c], slopes[:, label] - slopes[:, c])
                for c in rivals
            ),
            (
                make_sloped(
                    others[:, label] - others[every, strongest],
                    other_slopes[:, label] - other_slopes[every, strongest],
                ),
            ),
        )
