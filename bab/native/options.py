"""Options of the native engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NativeOptions:
    """Options of a search."""

    seconds: float | None = None  # time for one label; None for none
    gap: float = 1e-3  # relative gap at which the bounds count as closed
    steps: int = 60  # of the dual ascent of one node
    reach: float = 0.5
    seed: int = 0
    workers: int = 1  # explorers; each takes its share of the cores
    executor: str = "processes"
    kernel: str = "cpu"  # of `leaveout.bab.native.kernels.make_kernel`
    certificate: bool = False  # keep what a certificate needs
    nodes: int | None = None
