"""Manifest entries on leaks of forests, all of them untrusted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from leaveout.kernel.boxes import Inputs, runs
from leaveout.verifier.checker.files import BoxPart, FilePart


class ForestQuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A forest, the forests it is compared with, and a set of inputs."""

    forest: FilePart
    other: FilePart | None  # one other forest; None for the forest without each of its rows
    members: int  # number of forests it is compared with
    box: BoxPart


class ForestResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: no leak with the label has confidence above ``upper``."""

    question: int
    name: str
    label: int  # index among the forest's labels
    upper: float  # negative if there is no leak at all
    proof: str  # prefix of the array names of its trees of boxes


class ForestsPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All claims and questions about leaks of forests."""

    questions: tuple[ForestQuestionPart, ...]
    results: tuple[ForestResultPart, ...]


def forest_texts(part: ForestsPart) -> Iterator[str]:
    """Yield the texts that are printed."""
    for result in part.results:
        yield from (result.name, result.proof)
    for question in part.questions:
        for file in (question.forest, question.other):
            if file is not None:
                yield from (file.path, file.sha256, file.kind)


@dataclass(frozen=True, eq=False)
class ForestSubject:
    """The forests and inputs of claims about leaks."""

    path: Path
    sha256: str
    other: tuple[Path, str] | None
    members: int
    names: list[Any]  # labels
    inputs: Inputs
    group: str  # the column whose equal cells name rows that leave together; or empty

    def lines(self) -> Iterator[str]:
        """Yield a line per file and a line per range of inputs."""
        if self.other is None:
            yield (
                f"no confidence above upper is a leak, over all {self.members:,} forests without "
                f"{self._absent_rows('one')} and every x"
            )
        else:
            yield "no confidence above upper is a leak, over the other forest and every x"
        yield f"forest {self.path} (SHA-256 {self.sha256})"
        if self.other is not None:
            yield f"other forest {self.other[0]} (SHA-256 {self.other[1]})"
        else:
            yield (
                f"  the forest, and the forest without {self._absent_rows('each')}, were retrained "
                "from the rows in the file"
            )
        known = ", ".join(f"{at} is {label!r}" for at, label in enumerate(self.names))
        yield f"labels: {known}; values and thresholds are float64"
        yield from self.inputs.lines()

    def _absent_rows(self, which: str) -> str:
        """Return what a member lacks, in words."""
        return f"all rows of {which} {self.group!r}" if self.group else f"{which} row"

    def claim_text(self, labels: Collection[int]) -> str:
        """Return the claimed labels in words."""
        own = sorted(set(labels))
        others = [label for label in range(len(self.names)) if label not in own]
        if not others:
            return f"claims all {len(self.names)} labels"
        return (
            f"claims label{'s' * (len(own) > 1)} {runs(own)} of {len(self.names)}; nothing is "
            f"claimed about label{'s' * (len(others) > 1)} {runs(others)}"
        )
