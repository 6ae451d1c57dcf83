"""Nodes: a region of inputs, a set of members, fixed phases, and a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.interface import Batch, Bounded, Layout
from leaveout.bab.native.space import Space

Members = NDArray[np.int64]

Kind = Literal["root", "input", "members", "phase", "untied", "range"]


_MANY, MOST_REFRESHED = 512, 128
"""Of a network with more hidden neurons than the first, the second are bounded again."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a node was made from its parent."""

    kind: Kind
    index: int = 0  # input, or hidden neuron; for a root the case
    # 0 and 1 for the two children: inputs below and above the point, tied on and off, z of a smooth
    # neuron above and below the point.
    side: int = 0
    point: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node of the search tree; arrays as in `Batch` without the first axis."""

    ident: int  # number of this node
    parent: int  # number of the parent; -1 for a root
    split: Split
    members: Members
    case: int  # the case that it searches: see `Forms`
    lower: Floats
    upper: Floats
    state: Floats
    phase: NDArray[np.int8]
    lines: NDArray[np.float32]
    known: Floats
    share: Floats
    input_score: Floats
    neuron_score: Floats
    errors: Floats  # shape (rows,): largest effect of float32 evaluation per form
    rounding_width: float  # mean width of the region for which the errors were computed
    value: float  # no counter-example of the node has a higher value, except those cut away
    warm: bool
    spread: float = 0.0
    plain: bool = False  # whether no phases may be tied below this node
    cap: float = np.inf  # bound of the region proved by other means
    cut_at: float = -np.inf

    @property
    def bound(self) -> float:
        """Upper bound of the node's counter-examples, including those cut away."""
        return max(self.value, self.cut_at)


def root_node(
    space: Space,
    forms: Forms,
    members: Members,
    case: int,
    ident: int,
    region: tuple[Floats, Floats] | None = None,
    *,
    plain: bool = False,
) -> Node:
    """Return the node of all counter-examples of one case, for some members."""
    lower, upper = (space.lower, space.upper) if region is None else region
    layout, rows = space.layout, forms.case(case)
    share, errors = np.zeros(forms.width), np.zeros(forms.width)
    share[int(np.argmax(forms.goal[rows]))] = 1.0
    errors[: rows.stop - rows.start] = forms.errors[rows]
    return Node(
        ident=ident,
        parent=-1,
        split=Split("root", case),
        members=members,
        case=case,
        lower=lower,
        upper=upper,
        state=space.root,
        phase=np.zeros(layout.hidden, np.int8),
        lines=np.zeros((4, layout.hidden), np.float32),
        known=np.zeros((forms.kept_bounds, layout.inputs + 2)),
        share=share,
        input_score=np.zeros(layout.inputs),
        neuron_score=np.full(
            layout.hidden, 0.0 if space.bounded and layout.hidden > _MANY else -1.0
        ),
        errors=errors,
        rounding_width=float((upper - lower).mean()),
        value=np.inf,
        warm=False,
        plain=plain,
    )


def untie(node: Node, split: Split, ident: int, layout: Layout, cap: float) -> Node:
    """Return the node of the same region without tied phases or virtual differences.

    It contains every counter-example of the node; bounds of z and of bands concern true values.
    """
    state = node.state.copy()
    lowest = int(np.flatnonzero(node.phase)[0])
    above = slice(int(layout.starts[np.searchsorted(layout.starts, lowest, side="right")]), None)
    state[4, above], state[5, above] = -state[3, above], state[2, above]
    return replace(
        node,
        ident=ident,
        parent=node.ident,
        split=split,
        state=state,
        phase=np.zeros_like(node.phase),
        plain=True,
        cap=min(node.cap, cap),
    )


def _to_refresh(node: Node) -> NDArray[np.bool_]:
    """Return the neurons to bound again: all, or those whose ties would gain most."""
    hidden = len(node.neuron_score)
    if hidden <= _MANY or (node.neuron_score < 0.0).all():
        return np.ones(hidden, bool)
    chosen = np.argpartition(-node.neuron_score, MOST_REFRESHED)[:MOST_REFRESHED]
    found = np.zeros(hidden, bool)
    found[chosen] = node.neuron_score[chosen] > 0.0
    return found


def share_bounds(root: Node, other: Node, found: Node) -> Node:
    """Return a root with what was found of another one, if its neurons are many and the same."""
    alike = (
        np.array_equal(root.lower, other.lower)
        and np.array_equal(root.upper, other.upper)
        and np.array_equal(root.members, other.members)
    )
    if not alike or len(root.neuron_score) <= _MANY or found.value == -np.inf:
        return root
    return replace(root, state=found.state, neuron_score=np.zeros_like(root.neuron_score))


def batch_of(nodes: list[Node], target: float, stop_at: float) -> tuple[Batch, list[Members]]:
    """Return nodes as a batch, and the distinct sets of members."""
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
        which=which,
        case=np.array([node.case for node in nodes], np.int64),
        lower=np.stack([node.lower for node in nodes]),
        upper=np.stack([node.upper for node in nodes]),
        state=np.stack([node.state for node in nodes]),
        phase=np.stack([node.phase for node in nodes]),
        lines=np.stack([node.lines for node in nodes]).astype(np.float64),
        known=np.stack([node.known for node in nodes]),
        share=np.stack([node.share for node in nodes]),
        warm=np.array([node.warm for node in nodes]),
        errors=np.stack([node.errors for node in nodes]),
        refresh=np.stack([_to_refresh(node) for node in nodes]),
        cut=np.full(len(nodes), target),
        stop_at=np.full(len(nodes), stop_at),
    )
    return batch, listed


def with_bounds(node: Node, found: Bounded, i: int, spread: float, target: float) -> Node:
    """Return a node with a kernel's results; points up to ``target`` may have been cut away."""
    shrunk = (found.lower[i] > node.lower).any() or (found.upper[i] < node.upper).any()
    return replace(
        node,
        lower=found.lower[i].copy(),
        upper=found.upper[i].copy(),
        state=found.state[i, :6].copy(),
        lines=found.lines[i].astype(np.float32),
        known=found.known[i].copy(),
        share=found.share[i].copy(),
        input_score=found.input_score[i].copy(),
        neuron_score=found.neuron_score[i].copy(),
        value=min(float(found.value[i]), node.cap),
        warm=True,
        spread=spread,
        cut_at=max(node.cut_at, target) if shrunk else node.cut_at,
    )
