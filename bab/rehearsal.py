"""The kernels of the searches on the smallest question there is, so that they are compiled."""

from __future__ import annotations

import numpy as np

from leaveout.bab.linear.space import PairSpace, pair_space
from leaveout.bab.native.kernels.batch import Batch, Work
from leaveout.bab.native.nodes import batch_of
from leaveout.encoders.box import Box
from leaveout.models.stack import Layer, Stack

__all__ = ["rehearse_forms", "rehearse_pairs"]


def rehearse_pairs() -> None:
    """Bound one node with the kernel for leaks."""
    from leaveout.bab.native.kernels.cpu import CpuKernel

    space, batch = _smallest()
    CpuKernel(1).bound(space.numbers, space.sets([np.zeros(1, np.int64)]), batch, Work(0, 1))


def rehearse_forms() -> None:
    """Bound one node with the kernel for linear forms."""
    from leaveout.bab.linear.forms import Forms
    from leaveout.bab.linear.kernel import LinearKernel

    space, batch = _smallest()
    goal, none = np.array([True, False]), np.zeros((2, 2))
    forms = Forms(np.zeros((2, 1)), np.eye(2), none, np.zeros(2), np.zeros(2), goal)
    kernel = LinearKernel(forms.shifted(space.origin), 1)
    kernel.bound(space.numbers, space.sets([np.zeros(1, np.int64)]), batch, Work(0, 1))


def _smallest() -> tuple[PairSpace, Batch]:
    """Return a network of one neuron beside another, and the root of the question."""
    first, second = (
        Stack(
            1,
            (
                Layer({0: np.full((1, 1, 1), weight)}, np.zeros((1, 1))),
                Layer({1: np.array([[[1.0], [-1.0]]])}, np.zeros((1, 2))),
            ),
        )
        for weight in (1.0, 1.5)
    )
    space = pair_space(first, second, Box(np.full(1, -1.0), np.ones(1)))
    return space, batch_of([space.node(0, 2, 1)], -1.0, -1.0)[0]
