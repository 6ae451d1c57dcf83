"""Forests over a set of inputs: cells, and subtrees that members replace."""

from __future__ import annotations

from leaveout.encoders.forests.cells import Cells, Groups, Overlay, overlay_family, overlay_two

__all__ = ["Cells", "Groups", "Overlay", "overlay_family", "overlay_two"]
