"""Try two ways to split on the most urgent nodes, and go on with the one that gets further."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leaveout.bab.native.explorer import Explorer, Stand
from leaveout.bab.native.nodes import Node
from leaveout.deadline import Deadline

__all__ = ["Race"]

_FIRST = 64
"""Nodes bounded before the first race."""

_AGAIN = 4
"""Times as many nodes until the next."""

_NODES = 16
"""Nodes raced on, at most."""

_LENGTH = 1024
"""Nodes that each side bounds."""

_SLICE = 0.05
"""Seconds that a side goes on at a time."""

_EVEN = 0.05
"""Values that differ by less than this share of what is open are equal; fewer nodes win then."""


@dataclass(eq=False)
class _Heat:
    """One race.

    Attributes
    ----------
    nodes : list of Node
        What is raced on; they stay the explorer's until one side has won.
    sides : tuple of Explorer
        One that splits as the explorer does, and one that does not.
    length : int
        Nodes each side is to bound.
    """

    nodes: list[Node]
    sides: tuple[Explorer, Explorer]
    length: int


class Race:
    """Compares explorers of the same nodes that split in different ways.

    Gains of single splits say too little of whole trees: those of tied phases fade, those of
    narrower inputs grow. Both sides hold all of the nodes raced on, so that what either proves is
    true; what the winner has left takes their place.

    Parameters
    ----------
    held : bool
        Whether there is anything to compare: phases may be tied somewhere.
    """

    def __init__(self, held: bool = True) -> None:
        self._next: float = _FIRST if held else math.inf
        self._heat: _Heat | None = None
        self._target = -math.inf

    def settle(self, explorer: Explorer) -> None:
        """End a race now: the explorer's nodes are to be seen, or changed, from outside.

        The side that leads wins. Where records are kept both sides are forgotten: what is
        recorded now may be seen too late.
        """
        heat = self._heat
        if heat is None:
            return
        if explorer.records is not None:
            self._heat = None
            return
        ours, theirs = heat.sides
        self._end(heat, explorer, ours if _is_ahead(ours, theirs, self._target) else theirs)

    def step(self, explorer: Explorer, target: float, seconds: float) -> Stand:
        """Explore for some seconds."""
        deadline = Deadline.after(seconds)
        self._target = target
        while True:
            left = deadline.left
            if self._heat is None:
                if explorer.bounded < self._next or not explorer.is_at_single_members:
                    return explorer.step(target, left)
                self._heat = _Heat(*explorer.apart(_NODES), _LENGTH)
            self._run(self._heat, explorer, target, min(left, _SLICE))
            stand = explorer.stand(target)
            if left <= _SLICE or not stand.worth_going_on:
                return stand

    def _run(self, heat: _Heat, explorer: Explorer, target: float, seconds: float) -> None:
        """Let the side that bounded fewer nodes go on; end the race once that is clear."""
        ours, theirs = heat.sides
        side = ours if ours.bounded <= theirs.bounded else theirs
        stand = side.step(target, seconds)
        if stand.worth_going_on:
            if min(ours.bounded, theirs.bounded) < heat.length:
                return
            side = ours if _is_ahead(ours, theirs, target) else theirs
        elif stand.value > target:
            # Nothing is left to split, but not all is proved: the other may get further.
            side = ours if side is theirs else theirs
        self._end(heat, explorer, side)

    def _end(self, heat: _Heat, explorer: Explorer, winner: Explorer) -> None:
        self._heat = None
        explorer.bounded += sum(side.bounded for side in heat.sides)
        self._next = _AGAIN * explorer.bounded
        explorer.adopt(heat.nodes, winner)


def _is_ahead(ours: Explorer, theirs: Explorer, target: float) -> bool:
    first, second = ours.stand(target), theirs.stand(target)
    if abs(first.value - second.value) > _EVEN * (max(first.value, second.value) - target):
        return first.value < second.value
    return first.open_nodes <= second.open_nodes
