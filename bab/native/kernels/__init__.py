"""Bound kernels: the same bounds on CPUs, on GPUs, and in readable numpy."""

from __future__ import annotations

from leaveout.bab.native.kernels.registry import BUILT_IN, GROUP, make_kernel

__all__ = ["BUILT_IN", "GROUP", "make_kernel"]
