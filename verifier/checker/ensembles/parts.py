"""Manifest entries on leaks of forests, none of which is trusted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from leaveout.verifier.checker.basic_parts import BoxPart, FilePart


class ForestQuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forest, what it is compared with, and a set of inputs."""

    forest: FilePart
    other: FilePart | None  # one other forest; None where it is the forest without each of its rows
    members: int  # how many forests it is compared with
    box: BoxPart


class ForestResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: no leak with the label has a confidence above ``upper``."""

    question: int
    name: str
    label: int  # of the forest's labels, in order
    upper: float  # below 0 where there is no leak at all
    proof: str  # what the names of the arrays of its trees of boxes begin with


class ForestsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is said of leaks of forests."""

    questions: tuple[ForestQuestionPart, ...]
    results: tuple[ForestResultPart, ...]


def forest_texts(part: ForestsPart) -> Iterator[str]:
    """Yield what is shown on a terminal."""
    for result in part.results:
        yield from (result.name, result.proof)
    for question in part.questions:
        for file in (question.forest, question.other):
            if file is not None:
                yield from (file.path, file.sha256, file.kind)
