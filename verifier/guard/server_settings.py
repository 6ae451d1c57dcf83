"""Settings of a served guard: processes, padding, access and limits."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import GuardError

MOST_ROWS = 1000
MOST_BYTES = 1 << 20
MOST_WAITING = 1000

_BURST = 10.0  # seconds of a rate that may be asked for at once

_HOST = re.compile(r"\*|[a-z0-9_][a-z0-9_.-]*|[0-9a-f.]*:[0-9a-f]*:[0-9a-f:.]*", re.IGNORECASE)
"""A name, an address, or any."""

_LONGEST = 3600.0
_MOST_PROCESSES = 256


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a served guard."""

    pad: float = 0.05  # seconds; see `Padding`
    processes: int = 1  # that answer, each by itself, from one memory
    keys: Path | None = None  # digests of the keys of those who may ask; None answers everybody
    rate: float | None = None
    burst: float | None = None
    hosts: tuple[str, ...] = ()
    most_rows: int = MOST_ROWS  # of one request
    most_bytes: int = MOST_BYTES  # of one request
    most_waiting: int = MOST_WAITING  # requests that may wait for their turn, over all processes
    grace: float = 30.0  # seconds in which requests under way are answered at the end
    drain: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.processes <= _MOST_PROCESSES:
            raise GuardError(f"processes must be 1 to {_MOST_PROCESSES}, got {self.processes}")
        if self.processes > 1 and sys.platform != "linux":
            raise GuardError(
                "several processes can share one guard only on Linux; drop --processes, and "
                "start several servers with one --memory instead"
            )
        for name in ("most_rows", "most_bytes", "most_waiting"):
            if getattr(self, name) < 1:
                raise GuardError(f"{name.replace('_', ' ')} must be at least 1")
        for name in ("grace", "drain"):
            if not 0 <= getattr(self, name) <= _LONGEST:
                raise GuardError(f"{name} must be 0 to {_LONGEST:g} seconds")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise GuardError(
                    f"{host!r} is not a host name; write e.g. labels.example.org, without a "
                    "port, or * for any"
                )
        if self.rate is None and self.burst is not None:
            raise GuardError("--burst needs --rate")
        for name in ("rate", "burst"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise GuardError(f"the {name} must be above 0 rows, got {value}")

    @property
    def allowance(self) -> float:
        """The rows an asker may ask for at once."""
        if self.burst is not None:
            return self.burst
        return max(1.0, _BURST * (self.rate or 0.0))
