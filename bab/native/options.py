"""What may be set about the native engine."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NativeOptions"]


@dataclass(frozen=True)
class NativeOptions:
    """How to search.

    Attributes
    ----------
    seconds : float or None
        Time for one label; None for none.
    gap : float
        Relative gap at which the bounds count as closed.
    steps : int
        Of the dual ascent of one node.
    reach : float
        The ascent stops once a node is this share of what is open below the largest value: those
        above it come first. 1 where all that matters is whether nodes can be dropped.
    seed : int
    workers : int
        Explorers; each takes its share of the cores.
    executor : str
        How several explorers run: see `leaveout.bab.native.workers.executors`.
    kernel : str
        Of `leaveout.bab.native.kernels.make_kernel`.
    certificate : bool
        Keep what a certificate needs.
    nodes : int or None
        Nodes after which a search ends, once the round they fall in is over; None for no limit.
        What so many prove does not depend on how fast the machine is.
    """

    seconds: float | None = None
    gap: float = 1e-3
    steps: int = 60
    reach: float = 0.5
    seed: int = 0
    workers: int = 1
    executor: str = "processes"
    kernel: str = "cpu"
    certificate: bool = False
    nodes: int | None = None
