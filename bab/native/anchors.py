"""Take a region back from tied phases once they win no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from leaveout.bab.native.nodes import Node

__all__ = ["Anchors", "Held"]

_FIRST = 128
"""Nodes below an anchor before it is first asked whether they win anything."""

_WON = 0.04
"""Share of the open part that twice as many nodes must win."""


@dataclass(eq=False)
class _Anchor:
    node: Node
    met: int = 0
    next: int = _FIRST
    value: float = float("inf")


@dataclass(frozen=True, eq=False)
class Held:
    """An anchor, and how it fared.

    Attributes
    ----------
    key : int
        What nodes call it.
    node : Node
    met : int
        Nodes below it split so far.
    next : int
        Count at which it is asked next.
    value : float
        Of the open part when it was asked last.
    """

    key: int
    node: Node
    met: int
    next: int
    value: float


class Anchors:
    """Nodes without tied phases that were split by tying some.

    Tying is exact only up to the pairs whose phases really differ, so below every anchor the
    bounds end above the true value. Where they do, the region is taken back: what was proved of it
    stays as a cap, and it is split by inputs alone.
    """

    def __init__(self) -> None:
        self._anchors: dict[int, _Anchor] = {}
        self._gone: set[int] = set()

    def gone(self, node: Node) -> bool:
        """Whether the region of a node was taken back."""
        return node.anchor in self._gone

    def held(self, nodes: list[Node]) -> list[Held]:
        """Return the anchors that some nodes hang on."""
        idents = sorted({node.anchor for node in nodes})
        found = [(ident, self._anchors[ident]) for ident in idents if ident in self._anchors]
        return [Held(key, each.node, each.met, each.next, each.value) for key, each in found]

    def copied(self, nodes: list[Node], name: Callable[[], int]) -> tuple[list[Node], list[Held]]:
        """Return nodes for another explorer, with anchors of their own.

        Either explorer may then take the region back: it covers what it had below the anchor,
        under a cap that holds of that, and the other covers the rest. Under one name the other's
        nodes would go with it.
        """
        held = self.held(nodes)
        names = {each.key: name() for each in held}
        renamed = [replace(node, anchor=names.get(node.anchor, -1)) for node in nodes]
        return renamed, [replace(each, key=names[each.key]) for each in held]

    def hold(self, held: list[Held]) -> None:
        """Take anchors over."""
        for each in held:
            self._anchors[each.key] = _Anchor(each.node, each.met, each.next, each.value)

    def forget(self, other: Anchors) -> None:
        """Regions that another took back, under a cap that holds of all of them, are gone."""
        self._gone |= other._gone
        for key in other._gone:
            self._anchors.pop(key, None)

    def tied(self, node: Node) -> Node:
        """Return a node that is to be split by phases, with its anchor."""
        if node.anchor >= 0:
            return node
        self._anchors[node.ident] = _Anchor(node)
        return replace(node, anchor=node.ident)

    def met(self, node: Node, target: float, proved: float) -> Node:
        """Return what to do next of the most urgent node: itself, or its anchor taken back.

        Parameters
        ----------
        node : Node
        target : float
        proved : float
            No open node has a higher value, those that are being split included; infinity where
            it may not be used, because a certificate does not hold it.
        """
        anchor = self._anchors.get(node.anchor)
        if anchor is None:
            return node
        anchor.met += 1
        if anchor.met < anchor.next:
            return node
        won = anchor.value - node.value
        stalled = won < _WON * (anchor.value - target)
        anchor.next, anchor.value = 2 * anchor.met, node.value
        if not stalled:
            return node
        return self.take_back(node, proved)

    def take_back(self, node: Node, proved: float) -> Node:
        """Return the anchor of a node, never to tie phases again; what hangs on it is gone.

        Parameters
        ----------
        node : Node
            One of those that hang on its anchor.
        proved : float
            As in `met`.
        """
        anchor = self._anchors.pop(node.anchor).node
        self._gone.add(node.anchor)
        return replace(anchor, plain=True, cap=min(anchor.cap, proved))

    def holds(self, node: Node) -> bool:
        """Whether the region of a node can be taken back."""
        return node.anchor in self._anchors
