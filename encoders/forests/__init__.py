"""Forests over a set of inputs: its cells, and the members' replaced subtrees."""

from __future__ import annotations

from leaveout.encoders.forests.cells import Cells, Groups, Overlay, overlay_family, overlay_two

__all__ = ["Cells", "Groups", "Overlay", "overlay_family", "overlay_two"]
