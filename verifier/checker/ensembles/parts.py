"""What a manifest says of leaks of forests; nothing in it is believed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from leaveout.verifier.checker.basic_parts import BoxPart, FilePart

__all__ = ["ForestQuestionPart", "ForestResultPart", "ForestsPart", "forest_texts"]


class ForestQuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forest, what it is compared with, and a set of inputs.

    Attributes
    ----------
    forest : FilePart
    other : FilePart or None
        One other forest; None where it is the forest without each of its rows.
    members : int
        How many forests it is compared with.
    box : BoxPart
    """

    forest: FilePart
    other: FilePart | None
    members: int
    box: BoxPart


class ForestResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: no leak with the label has a confidence above ``upper``.

    Attributes
    ----------
    question : int
    name : str
    label : int
        Of the forest's labels, in order.
    upper : float
        Below 0 where there is no leak at all.
    proof : str
        What the names of the arrays of its trees of boxes begin with.
    """

    question: int
    name: str
    label: int
    upper: float
    proof: str


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
