"""The training device of a process, and what fits into its memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.models.train.stacked import Stack


GROUP = {"cpu": None, "cuda": 128}
"""Networks that one product computes, by devices: on a GPU always so many, see `Products`."""

_USED = 0.9
"""Share of the memory that networks are given: allocators leave gaps."""


@dataclass
class DeviceMemory:
    """The device of a process, and how many networks fit."""

    device: str = ""  # a torch device; empty until it is known
    networks: int = sys.maxsize  # most that are trained together: fewer, once so many did not fit
    claim: IO[bytes] | None = None  # held as long as the device is

    def halve(self, networks: int) -> bool:
        """Record that some networks do not fit; False if no fewer can be trained."""
        group = GROUP[self.device.partition(":")[0]] or 1
        self.networks = networks // 2 // group * group
        return self.networks > 0


def networks_that_fit(stack: Stack, memory: int, group: int | None) -> int:
    """Return how many networks fit into some memory, at least the minimum."""
    least = group or 1
    networks = int(memory * _USED - stack.shared_bytes()) // stack.network_bytes()
    return max(networks // least, 1) * least
