"""Nodes of a tree side by side, as their children start from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.arithmetic import Arithmetic
from leaveout.verifier.checker.backward import Forms
from leaveout.verifier.checker.clipping import HalfSpaces, contract
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.layout import Net
from leaveout.verifier.checker.tree import Tree
from leaveout.verifier.checker.tree_arrays import INPUT, PHASE, UNTIED

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(eq=False)
class Block:
    """Nodes side by side: what their children start from.

    ``slopes`` and ``constant``, shape (n, remembered, inputs) and (n, remembered), bound the first
    forms and sums of each node's case.
    """

    nodes: Integers
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    slopes: Floats
    constant: Floats
    alive: Flags

    @staticmethod
    def gather_rows(parts: list[tuple[Block, int]], nodes: Integers) -> Block:
        """Return copies of some rows of several blocks."""
        return Block(
            nodes,
            np.stack([block.lower[i] for block, i in parts]),
            np.stack([block.upper[i] for block, i in parts]),
            np.stack([block.state[i] for block, i in parts]),
            np.stack([block.phase[i] for block, i in parts]),
            np.stack([block.slopes[i] for block, i in parts]),
            np.stack([block.constant[i] for block, i in parts]),
            np.ones(len(nodes), bool),
        )

    def select(self, own: Integers) -> Block:
        """Return some of the nodes."""
        return Block(
            self.nodes[own], self.lower[own], self.upper[own], self.state[own], self.phase[own],
            self.slopes[own], self.constant[own], self.alive[own],
        )  # fmt: skip

    def split(self, tree: Tree, net: Net) -> None:
        """Turn what was copied from the parents into the children's regions and phases."""
        part = tree.part
        for i, node in enumerate(self.nodes):
            kind, index, side = part.kind[node], int(part.index[node]), part.side[node]
            if kind == INPUT:
                point = part.point[node]
                if side == 0:
                    self.upper[i, index] = min(self.upper[i, index], point)
                else:
                    self.lower[i, index] = max(self.lower[i, index], point)
            elif kind == PHASE:
                if self.phase[i, index]:
                    raise RejectedError(
                        f"node {int(part.ident[node])} [{tree.path(int(node))}] ties a pair that "
                        "is tied already"
                    )
                self.phase[i, index] = -1 if side else 1
            elif kind == UNTIED:
                self._untie(i, net)

    def _untie(self, i: int, net: Net) -> None:
        """Give up tied phases: what is known of virtual differences is not of true ones.

        Bounds of z are of N, and bands of true differences: both hold of every counter-example.
        """
        phase, state = self.phase[i], self.state[i]
        tied = [k for k in range(net.layers - 1) if phase[net.at(k)].any()]
        for k in range(tied[0] + 1 if tied else net.layers, net.layers - 1):
            at = net.at(k)
            state[4, at], state[5, at] = -state[3, at], state[2, at]
        phase[:] = 0

    def cut(self, own: Integers, forms: Forms, least: Floats, numbers: Arithmetic) -> None:
        """Keep of some nodes' regions where ``slopes x + constant >= least`` is possible."""
        self.lower[own], self.upper[own], empty = contract(
            forms, least, self.lower[own], self.upper[own], numbers
        )
        self.alive[own[empty]] = False

    def cut_to(self, given: HalfSpaces, first: Integers | int = 0) -> None:
        """Cut regions to half-spaces, from some place of each node on."""
        for c in range(int(given.count.max(initial=0))):
            own = np.flatnonzero(self.alive & (first <= c) & (c < given.count))
            if len(own):
                forms = Forms(given.rows[own, c], given.shift[own, c])
                self.cut(own, forms, np.zeros(len(own)), given.arithmetic)
