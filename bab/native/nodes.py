"""Nodes: a region of inputs, a set of members, the phases fixed so far, and what bounds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.kernels.batch import Batch, Bounded
from leaveout.bab.native.pairs import Pairs

__all__ = ["Node", "Split", "batch_of", "exact", "root_node", "with_bounds"]

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

Kind = Literal["root", "input", "members", "phase"]


@dataclass(frozen=True, slots=True)
class Split:
    """What a node is of its parent.

    Attributes
    ----------
    kind : {"root", "input", "members", "phase"}
    index : int
        Input, or hidden neuron; the rival of a root.
    side : int
        0 and 1 for the two children: below and above the point, tied on and off.
    point : float
        Of an input split.
    """

    kind: Kind
    index: int = 0
    side: int = 0
    point: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One node of the search tree; arrays as in `kernels.batch.Batch`, without the first axis.

    Attributes
    ----------
    ident, parent : int
        The parent of a root is -1.
    split : Split
    members : ndarray of int64
    error, tie : float
        How far a float32 confidence of N, and of a member, may be from the exact one here.
    gauged : float
        Mean width of the region over which the errors were bounded.
    value : float
        No leak of the node has a higher float32 confidence, but for those cut away.
    spread : float
        How much of the value comes from the set holding more than its centre; 0 for one member.
    anchor : int
        The last node above without tied phases, where this one has some; else -1.
    plain : bool
        Whether phases are not to be tied below this node.
    cap : float
        What was proved of the region otherwise.
    cut_at : float
        Leaks of at most this confidence may have been cut away; minus infinity if none was.
    """

    ident: int
    parent: int
    split: Split
    members: Members
    rival: int
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    cz: NDArray[np.float32]
    cd: NDArray[np.float32]
    t: float
    share: Floats
    pull: Floats
    tension: Floats
    error: float
    tie: float
    gauged: float
    value: float
    warm: bool
    spread: float = 0.0
    anchor: int = -1
    plain: bool = False
    cap: float = np.inf
    cut_at: float = -np.inf

    @property
    def bound(self) -> float:
        """No leak of the node has a higher float32 confidence, not even one cut away."""
        return max(self.value, self.cut_at)


def root_node(pairs: Pairs, members: Members, rival: int, ident: int) -> Node:
    """Return the node of all leaks of some members towards one rival."""
    layout = pairs.layout
    share = np.zeros(layout.labels)
    share[rival] = 1.0
    nothing = np.zeros(layout.hidden, np.float32)
    return Node(
        ident,
        -1,
        Split("root", rival),
        members,
        rival,
        pairs.lower,
        pairs.upper,
        pairs.root,
        np.zeros(layout.hidden, np.int8),
        nothing,
        nothing,
        0.0,
        share,
        np.zeros(layout.inputs),
        np.full(layout.hidden, -1.0),
        pairs.instance.network_error,
        pairs.instance.member_error,
        float((pairs.upper - pairs.lower).mean()),
        np.inf,
        False,
    )


def batch_of(nodes: list[Node], target: float, aim: float) -> tuple[Batch, list[Members]]:
    """Lay nodes side by side; the sets of members they are about are listed once each.

    Parameters
    ----------
    nodes : list of Node
    target, aim : float
        What need not be bounded further, and what the ascent stops at: float32 confidences.
    """
    groups: dict[bytes, int] = {}
    listed: list[Members] = []
    which = np.empty(len(nodes), np.int64)
    for i, node in enumerate(nodes):
        key = node.members.tobytes()
        if key not in groups:
            groups[key] = len(listed)
            listed.append(node.members)
        which[i] = groups[key]
    batch = Batch(
        which,
        np.array([node.rival for node in nodes], np.int64),
        np.stack([node.lower for node in nodes]),
        np.stack([node.upper for node in nodes]),
        np.stack([node.state for node in nodes]),
        np.stack([node.phase for node in nodes]),
        np.stack([node.cz for node in nodes]).astype(np.float64),
        np.stack([node.cd for node in nodes]).astype(np.float64),
        np.array([node.t for node in nodes]),
        np.stack([node.share for node in nodes]),
        np.array([node.warm for node in nodes]),
        np.array([node.tie for node in nodes]),
        np.array([exact(target, node) for node in nodes]),
        np.array([exact(aim, node) for node in nodes]),
    )
    return batch, listed


def exact(confidence: float, node: Node) -> float:
    """Return the exact confidence that a float32 one is surely above, a hair on the safe side."""
    return confidence - node.error - 1e-12 * (1.0 + abs(confidence))


def with_bounds(node: Node, found: Bounded, i: int, spread: float, target: float) -> Node:
    """Return a node with what a kernel found of it, given what it was allowed to cut away."""
    shrunk = (found.lower[i] > node.lower).any() or (found.upper[i] < node.upper).any()
    return replace(
        node,
        lower=found.lower[i].copy(),
        upper=found.upper[i].copy(),
        state=found.state[i].copy(),
        cz=found.cz[i].astype(np.float32),
        cd=found.cd[i].astype(np.float32),
        t=float(found.t[i]),
        share=found.share[i].copy(),
        pull=found.pull[i].copy(),
        tension=found.tension[i].copy(),
        value=min(float(found.value[i]) + node.error, node.cap),
        warm=True,
        spread=spread,
        cut_at=max(node.cut_at, target) if shrunk else node.cut_at,
    )
