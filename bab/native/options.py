"""Options of the native engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NativeOptions:
    """Options of a search."""

    seconds: float | None = None  # time limit per label; None for none
    gap: float = 1e-3  # relative gap at which the bounds count as closed
    steps: int = 100  # steps of the dual ascent per node
    reach: float = 0.5
    seed: int = 0
    workers: int = 1  # explorers; each uses its share of the cores
    executor: str = "processes"
    kernel: str = "cpu"  # for `leaveout.bab.native.kernels.make_kernel`
    certificate: bool = False  # record what a certificate needs
    nodes: int | None = None
