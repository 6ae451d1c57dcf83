"""What a claim about leaks is about: the files it names, and its box, read anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leaveout.models import Family, Members, Network, load_network
from leaveout.verifier.checker.files import found_file
from leaveout.verifier.checker.inputs import Inputs, read_box
from leaveout.verifier.checker.manifest import QuestionPart
from leaveout.verifier.checker.readers import Given, read_members
from leaveout.verifier.checker.subject import Subject

__all__ = ["Question", "read_question"]


@dataclass(frozen=True, eq=False)
class Question:
    """A network, its family and a box.

    Attributes
    ----------
    network : Network
    family : Family
    members : Members
    subject : Subject
    """

    network: Network
    family: Family
    members: Members
    subject: Subject

    @property
    def inputs(self) -> Inputs:
        """The box, and what is listed of it."""
        return self.subject.inputs


def read_question(part: QuestionPart, folder: Path, given: Given) -> Question:
    """Load the files of a question, from where the certificate or the caller says they are.

    Raises
    ------
    LeaveoutError
        If a file is missing or cannot be read.
    RejectedError
        If a file is not the one the certificate is about.
    """
    where = found_file(part.network, folder, given.networks, "network", given.roots)
    other = found_file(part.family, folder, given.families, "family", given.roots)
    loaded = load_network(where)
    members = read_members(part.family, other, part.members, loaded, where)
    subject = Subject(
        where,
        part.network.sha256,
        other,
        part.family.sha256,
        len(members),
        loaded.labels,
        read_box(part.box, loaded.inputs, loaded.source),
    )
    return Question(loaded, members, Members(loaded.graph, members), subject)
