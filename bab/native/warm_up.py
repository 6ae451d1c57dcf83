"""Warm-up: the smallest question, so that the kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import leak_forms
from leaveout.bab.native.kernels.interface import Work
from leaveout.bab.native.nodes import batch_of, root_node
from leaveout.bab.native.space import make_space
from leaveout.encoders.box import Box
from leaveout.models.stack import Layer, Stack


class _One:
    """A single other network."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def __len__(self) -> int:
        return 1

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        yield indices, self._stack


def rehearse() -> None:
    """Bound one node of two one-neuron networks."""
    from leaveout.bab.native.kernels.cpu import CpuKernel

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
    space = make_space(first, _One(second), Box(np.full(1, -1.0), np.ones(1)))
    member = np.zeros(1, np.int64)
    asked = leak_forms(0, 2, 1, 0.0, 0.0)
    forms = space.read(asked)
    batch = batch_of([root_node(space, forms, member, 0, 0)], -1.0, -1.0)[0]
    CpuKernel(threads=1).bound(space.numbers, forms, space.sets([member]), batch, Work(1))
