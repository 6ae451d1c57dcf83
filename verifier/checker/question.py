"""Questions about leaks: their files and box, read again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import RejectedError
from leaveout.kernel.boxes import Inputs, read_box, runs
from leaveout.kernel.leaks import Leaks
from leaveout.models import Family, Members, Network, load_network
from leaveout.models.lowering import program_of
from leaveout.verifier.certify.networks import lines_only
from leaveout.verifier.checker.files import found_file
from leaveout.verifier.checker.manifest import QuestionPart
from leaveout.verifier.checker.readers import Given, Programs, read_members


@dataclass(frozen=True, eq=False)
class Subject:
    """The files and inputs of claims about leaks."""

    network: Path  # as read
    network_sha256: str
    family: Path  # as read
    family_sha256: str
    members: int
    labels: int  # number of the network's labels
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
            f"claims label{'s' * (len(own) > 1)} {runs(own)} of {self.labels}; nothing is "
            f"claimed about label{'s' * (len(others) > 1)} {runs(others)}"
        )


@dataclass(frozen=True, eq=False)
class Question:
    """A network, its family and a box."""

    network: Network
    family: Family
    members: Members
    subject: Subject
    removed: NDArray[np.int64]  # shape (all,)

    def leaks(self) -> Leaks:
        """Bound what claims about all labels share."""
        network, graph = self.network, self.network.graph
        program = program_of(graph, {k: value[None] for k, value in network.parameters.items()})
        return Leaks.of(program, Programs(graph, self.family), self.inputs, lines_only)

    @property
    def inputs(self) -> Inputs:
        """The box with its listed values."""
        return self.subject.inputs


def read_question(part: QuestionPart, folder: Path, given: Given) -> Question:
    """Load a question's files from where the certificate or the caller says they are."""
    where = found_file(part.network, folder, given.networks, "network", given.roots)
    other = found_file(part.family, folder, given.families, "family", given.roots)
    loaded = load_network(where)
    whole = read_members(part.family, other, part.members + len(part.without), loaded, where)
    members = _some(whole, part.without)
    subject = Subject(
        where,
        part.network.sha256,
        other,
        part.family.sha256,
        len(members),
        loaded.labels,
        read_box(part.box, loaded.inputs, loaded.source),
    )
    return Question(loaded, members, Members(loaded.graph, members), subject, whole.removed)


def _some(family: Family, without: tuple[int, ...]) -> Family:
    """Return a family without some of its members."""
    if not without:
        return family
    ascending = all(a < b for a, b in pairwise(without))
    if not (ascending and without[0] >= 0 and without[-1] < len(family) > len(without)):
        raise RejectedError(
            "the members left out are not a proper subset of the family, in ascending order"
        )
    rest = np.delete(np.arange(len(family)), without)
    return Family(family.take(rest), family.removed[rest], family.manifest, family.source)
