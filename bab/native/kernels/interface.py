"""What a bound kernel takes and gives: many nodes side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.layout import Layout

if TYPE_CHECKING:
    from leaveout.bab.forms import Forms

__all__ = [
    "CLOSED", "CUT", "EMPTY", "FARTHEST", "OPEN",
    "Batch", "Bounded", "Floats", "Kernel", "MemberSets", "Numbers", "Work",
]  # fmt: skip

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OPEN, CLOSED, CUT, EMPTY = 0, 1, 2, 3
"""Status of a node: above the cut; not, by its multipliers; not, by a goal; no counter-example."""

FARTHEST = 4.0
"""Largest first guess of a condition's multiplier."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """What all nodes of a question share.

    Attributes
    ----------
    layout : Layout
    weights : ndarray of float64, shape (layout.weights,)
        Of N.
    bias : ndarray of float64, shape (hidden + labels,)
    rough, rough_difference : ndarray of float64, shape (hidden + labels,)
        Bounds of the sums of absolute terms of each pre-activation of N, and of each difference,
        over the whole region: rounding is charged against them.
    unit : float
        Relative rounding error charged.
    """

    layout: Layout
    weights: Floats
    bias: Floats
    rough: Floats
    rough_difference: Floats
    unit: float


@dataclass(frozen=True, eq=False)
class MemberSets:
    """Differences member minus N of some sets of members: intervals ``centre +- radius``.

    Attributes
    ----------
    centre, radius : ndarray of float64, shape (s, layout.weights)
    shift, slack : ndarray of float64, shape (s, hidden + labels)
        The same of the biases.
    exact : ndarray of bool, shape (s,)
        Whether all radii and slacks are 0.
    """

    centre: Floats
    radius: Floats
    shift: Floats
    slack: Floats
    exact: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Batch:
    """Nodes to bound.

    Attributes
    ----------
    which : ndarray of int64, shape (n,)
        Position of each node's set of members in `MemberSets`.
    case : ndarray of int64, shape (n,)
        Position of each node's case in `Forms`.
    lower, upper : ndarray of float64, shape (n, inputs)
    state : ndarray of float64, shape (n, 6, hidden)
        Known bounds: z lower, z upper, band below, band above, dz lower, dz upper. Of dz the
        true one's, where no phase is tied below; above that, whatever is given is not used.
    phase : ndarray of int8, shape (n, hidden)
        1 tied on, -1 tied off, 0 free.
    lines : ndarray of float64, shape (n, 4, hidden)
        What multipliers follow, to start from where ``warm``: slopes of z and of z + dz, offsets
        of the multipliers of z and of dz.
    known : ndarray of float64, shape (n, remembered, inputs + 2)
        Where ``warm``, how large the first forms of the case, and sums of two, can be: at most
        ``row x + shift``, held as row, shift, and the part of the shift that is for rounding. It
        was found above, of a region, a set and phases that hold the node's.
    share : ndarray of float64, shape (n, rows)
        Multipliers of the forms of each node's case: convex weights of its goals, and what is not
        negative of its conditions; 0 beyond them.
    warm : ndarray of bool, shape (n,)
    errors : ndarray of float64, shape (n, rows)
        How far float32 evaluation may move each form in the node.
    cut : ndarray of float64, shape (n,)
        Counter-examples of at most this value do not matter: regions without higher ones are cut.
        Of what is ``warm``, not below the cut under which it was found.
    stop_at : ndarray of float64, shape (n,)
        The ascent stops once a node is bounded by this.
    """

    which: Integers
    case: Integers
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    lines: Floats
    known: Floats
    share: Floats
    warm: NDArray[np.bool_]
    errors: Floats
    cut: Floats
    stop_at: Floats


@dataclass(frozen=True, eq=False)
class Bounded:
    """What a kernel found of each node; shapes as in `Batch`.

    Attributes
    ----------
    status : ndarray of int64, shape (n,)
        `OPEN`, `CLOSED`, `CUT` or `EMPTY`.
    value : ndarray of float64, shape (n,)
        No counter-example of the node has a higher value, as computed in float32. Never below the
        cut, up to which they may have been cut away; minus infinity where it has none at all.
    lower, upper, state
        Never wider than they were, but for dz above a layer with tied phases, which is bounded
        anew. Of a node whose status is `EMPTY` or `CUT`, as far as it got.
    cz, cd, share
        What proves ``value`` where the status is `OPEN` or `CLOSED`: multipliers of the affine
        maps of z and of dz, and of the forms.
    lines
        What the multipliers follow.
    known
        What was found of the forms here, where the status is `OPEN` or `CLOSED`.
    input_score : ndarray of float64, shape (n, inputs)
        How much of the value may be due to the width of each input.
    neuron_score : ndarray of float64, shape (n, hidden)
        How far apart the two tied phases of a neuron are; -1 where there is nothing to split.
    """

    status: Integers
    value: Floats
    lower: Floats
    upper: Floats
    state: Floats
    cz: Floats
    cd: Floats
    lines: Floats
    known: Floats
    share: Floats
    input_score: Floats
    neuron_score: Floats

    @staticmethod
    def begun(batch: Batch) -> Bounded:
        """Return what is known before anything was found."""
        count = len(batch.which)
        return Bounded(
            np.zeros(count, np.int64),
            np.full(count, np.inf),
            np.array(batch.lower),
            np.array(batch.upper),
            np.array(batch.state),
            np.zeros_like(batch.lines[:, 0]),
            np.zeros_like(batch.lines[:, 0]),
            np.array(batch.lines),
            np.array(batch.known),
            np.array(batch.share),
            np.zeros_like(batch.lower),
            np.full_like(batch.lines[:, 0], -1.0),
        )


@dataclass(frozen=True)
class Work:
    """What to do with a batch.

    Attributes
    ----------
    steps : int
        Of the ascent.
    rate : float
        Its first step, relative to the size of the multipliers.
    """

    steps: int
    rate: float = 0.1


class Kernel(Protocol):
    """Bounds many nodes at once."""

    def bound(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        """Bound every node of a batch; nothing given is changed."""
        ...
