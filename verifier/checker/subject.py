"""Descriptions of claims about leaks: files, members and inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from leaveout.verifier.checker.inputs import Inputs, runs


@dataclass(frozen=True, eq=False)
class Subject:
    """The files and the inputs that claims about leaks are about."""

    network: Path  # as read
    network_sha256: str
    family: Path  # as read
    family_sha256: str
    members: int
    labels: int  # how many the network gives
    inputs: Inputs

    def lines(self) -> Iterator[str]:
        """Yield a line per file and a line per range of inputs."""
        yield f"no confidence above upper is a leak, over all {self.members:,} members and every x"
        yield f"network {self.network} (SHA-256 {self.network_sha256})"
        yield f"family {self.family} (SHA-256 {self.family_sha256})"
        yield from self.inputs.lines()

    def claim_text(self, labels: Collection[int]) -> str:
        """Return in words which labels are claimed."""
        own = sorted(set(labels))
        others = [label for label in range(self.labels) if label not in own]
        if not others:
            return f"claims all {self.labels} labels"
        return (
            f"claims label{'s' * (len(own) > 1)} {runs(own)} of {self.labels}; nothing is claimed "
            f"of label{'s' * (len(others) > 1)} {runs(others)}"
        )
