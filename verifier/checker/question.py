"""Questions about leaks: their files and box, read again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Family, Members, Network, load_network
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.files import found_file
from leaveout.verifier.checker.inputs import Inputs, read_box
from leaveout.verifier.checker.manifest import QuestionPart
from leaveout.verifier.checker.readers import Given, read_members
from leaveout.verifier.checker.subject import Subject


@dataclass(frozen=True, eq=False)
class Question:
    """A network, its family and a box."""

    network: Network
    family: Family
    members: Members
    subject: Subject
    removed: NDArray[np.int64]  # shape (all,)

    @property
    def inputs(self) -> Inputs:
        """The box, and what is listed of it."""
        return self.subject.inputs


def read_question(part: QuestionPart, folder: Path, given: Given) -> Question:
    """Load the files of a question, from where the certificate or the caller says they are."""
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
        raise RejectedError("the members that are left out are not some of the family's")
    rest = np.delete(np.arange(len(family)), without)
    return Family(family.take(rest), family.removed[rest], family.manifest, family.source)
