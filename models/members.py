"""A family in normal form, lowered on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.models.family import Family
from leaveout.models.graph import Graph
from leaveout.models.lowering import lower
from leaveout.models.stack import Stack

_CHUNK = 2**26
_KEPT = 200 * 10**6
"""Bytes up to which the whole family is kept lowered: a search takes the same members thousands
of times, and copying them is many times faster than lowering them again."""


@dataclass(frozen=True, eq=False)
class Members:
    """The members of a family in normal form, lowered as they are requested.

    In normal form a member takes twice the memory it takes in the family, and many times as much
    where convolutions unroll; so only those asked for are in memory. Values are those of
    `leaveout.models.lower`, bit for bit.

    Attributes
    ----------
    graph : Graph
        Of the network whose architecture the members have.
    family : Family
    """

    graph: Graph
    family: Family

    def __len__(self) -> int:
        return len(self.family)

    def __getstate__(self) -> dict[str, Graph | Family]:
        # Not what was lowered, which takes several times as much.
        return {"graph": self.graph, "family": self.family}

    @property
    def inputs(self) -> int:
        """Width of the flattened input."""
        return self._first.inputs

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self._first.labels

    @cached_property
    def size(self) -> int:
        """Return how many numbers one member has in normal form."""
        return sum(
            layer.bias.size + sum(w.size for w in layer.weights.values())
            for layer in self._first.layers
        )

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> Stack:
        """Return the stack of some members, in the given order."""
        chosen = np.asarray(indices, dtype=np.int64)
        if self._whole is not None:
            return self._whole.take(chosen)
        # No reshaping operator can tell the shape of no members at all.
        return self._lower_members(chosen) if len(chosen) else self._first.take(chosen)

    def member(self, index: int) -> Stack:
        """Return the stack of the single member at ``index``."""
        return self.take([index])

    def chunks(
        self, indices: Sequence[int] | NDArray[np.int64] | None = None, size: int | None = None
    ) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Iterate over some or all members, a few at a time.

        Parameters
        ----------
        indices : sequence of int, optional
            All members if not given.
        size : int, optional
            How many members at a time; by default as many as fit 64 MB in normal form.

        Yields
        ------
        indices : ndarray of int64
            The next of those asked for, in the order given.
        stack : Stack
        """
        everyone = range(len(self)) if indices is None else indices
        chosen = np.asarray(everyone, dtype=np.int64)
        step = max(1, _CHUNK // (8 * self.size) if size is None else size)
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            yield part, self.take(part)

    @cached_property
    def _first(self) -> Stack:
        return self._lower_members(np.zeros(1, dtype=np.int64))

    @cached_property
    def _whole(self) -> Stack | None:
        if 8 * self.size * len(self) > _KEPT:
            return None
        return self._lower_members(np.arange(len(self), dtype=np.int64))

    def _lower_members(self, chosen: NDArray[np.int64]) -> Stack:
        """Return the stack of the chosen members."""
        # Weights that divide by zero are for the reader to refuse, by name of the member.
        with np.errstate(all="ignore"):
            return lower(self.graph, self.family.take(chosen))
