"""Hand small open nodes to a MILP solver."""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass, field, replace

import numpy as np

from leaveout.bab.instance import Instance
from leaveout.bab.lucid.options import TIGHT
from leaveout.bab.lucid.sets import MemberSet, bound_set
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.space import Space
from leaveout.encoders import Box, Encoding, hyper_network, network_bounds, pair_bounds
from leaveout.solvers import SolverProcess

__all__ = ["Handoff"]

_SMALL = 0.05
"""Mean width of the regions that are handed over, relative to the whole."""

_PAIRS = 12
"""Pairs of undecided phases of a node that is handed over, at most."""

_SHARE = 0.1
"""Share of the time that solvers may take."""

_LIMIT = 2.0


@dataclass(eq=False)
class Handoff:
    """Bounds nodes by the MILP of one member over the node's region.

    Attributes
    ----------
    space : Space
    instance : Instance
    label : int
    solver : str
        ``name`` or ``name:option``.
    started : float
        Of `time.perf_counter`.
    """

    space: Space
    instance: Instance
    label: int
    solver: str
    started: float = field(default_factory=time.perf_counter)
    _spent: float = 0.0
    _process: SolverProcess | None = None

    def wants(self, node: Node) -> bool:
        """Whether a node is small enough, and there is time."""
        if len(node.members) > 1 or node.phase.any():
            return False
        width = float((node.upper - node.lower).mean())
        if width > _SMALL * float((self.space.upper - self.space.lower).mean()):
            return False
        undecided = (node.state[0] < node.state[3]) & (node.state[1] > -node.state[2])
        if not 0 < int(undecided.sum()) <= _PAIRS:
            return False
        return self._spent < _SHARE * (time.perf_counter() - self.started)

    def end(self) -> None:
        """End the solver, where one was started."""
        if self._process is not None:
            self._process.kill()

    def bounded(self, node: Node, target: float) -> Node:
        """Return a node with what a MILP proves of it; leaks up to the target do not matter."""
        begun = time.perf_counter()
        if self._process is None:
            self._process = SolverProcess(self.solver)
            # Whoever drops the search without ending it drops the solver with it.
            weakref.finalize(self, self._process.kill)
        whole, origin = self.instance, self.space.origin
        low, high = node.lower + origin, node.upper + origin
        room = 1e-9 * (np.abs(low) + np.abs(high))
        box = Box(np.maximum(low - room, whole.box.lower), np.minimum(high + room, whole.box.upper))
        bounds = network_bounds(whole.network.stack, box)
        hyper = hyper_network(whole.members, node.members)
        part = replace(
            whole,
            box=box,
            pair=pair_bounds(whole.network.stack, hyper, bounds, box),
            network_error=float(node.errors[0]),
            member_error=float(node.errors[-1]),
        )
        task = MemberSet(
            node.members, node.value, Encoding(relax_if_similar=None, tolerance=TIGHT), _LIMIT
        )
        found = bound_set(part, task, self.label, target, self._process)
        self._spent += time.perf_counter() - begun
        value = min(node.value, float(found.result.upper))
        return replace(node, value=value, cap=value, cut_at=max(node.cut_at, target))
