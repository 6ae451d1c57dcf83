"""Claims about forests: their files, read for the kernel, and what they are about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import deletion, forest_members, forests
from ..boxes import Inputs, read_box
from ..deletion import Forest
from ..forest_file import Answering, Exact, read_forest
from ..numbers import need
from ..refusal import Rejected, Unreadable
from ..values import Ask, Given
from .networks import label_text
from .parts import BoxPart, FilePart, ForestQuestionPart, ForestResultPart
from .places import Places


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
        return label_text(labels, len(self.names))


@dataclass(frozen=True, eq=False)
class ForestQuestion:
    """Forests over a set of inputs, read and trained again."""

    parts: list[forest_members.Forests]
    inputs: forest_members.Inputs
    columns: list[int]  # index of each of the forest's labels among those of both
    names: list[str]  # of members
    subject: ForestSubject


def read_forests(part: ForestQuestionPart, places: Places) -> ForestQuestion:
    """Read the forests of a question, and train them again if necessary."""
    where, one = _forest(part.forest, places)
    inputs = read_box(part.box, one.features, str(where), single=False)
    said: tuple[Path, str] | None = None
    group = ""
    try:
        if part.other is None:
            found, names = _deletions(one)
            columns = list(range(len(one.labels)))
            group = one.group if isinstance(one, Exact) else ""
        else:
            beside, other = _forest(part.other, places)
            found, names = [forest_members.pair(one, other)], ["the other forest"]
            every = forest_members.every_label(one, other)
            columns = [every.index(label) for label in one.labels]
            said = beside, part.other.sha256
    except Rejected as error:
        raise Rejected(f"{where}: {error}") from None
    count = len(names)
    same = part.members == count
    need(same, f"{where}: {count} forests, but the certificate is about {part.members}")
    subject = ForestSubject(where, part.forest.sha256, said, count, one.labels, inputs, group)
    return ForestQuestion(found, forest_members.Inputs(**vars(inputs)), columns, names, subject)


def _deletions(forest: Exact | Answering) -> tuple[list[forest_members.Forests], list[str]]:
    """Return a forest without each row, and what it is without, in words."""
    if not isinstance(forest, Exact):
        raise Rejected("stores no rows, so the effect of each is unknown")
    return forest_members.members(forest), [f"without {name}" for name, _ in forest.units]


def _forest(part: FilePart, places: Places) -> tuple[Path, Exact | Answering]:
    where = places.find(part, "files")
    return where, _read(where, lambda: read_forest(where, part.sha256))


def _read(path: Path, read: Callable[[], Any]) -> Any:
    """Read a file; what it is not is an error of the file, not of the proof."""
    try:
        return read()
    except OSError as error:
        raise Unreadable(f"{path}: cannot read: {error.strerror or error}") from None
    except Rejected as error:
        raise Unreadable(f"{path}: {error}") from None


def check_forest(
    part: ForestResultPart,
    question: ForestQuestion,
    proof: Mapping[str, NDArray[Any]],
    ask: Ask,
    progress: Callable[[int, int], None],
) -> int:
    """Prove one claim; return the number of boxes used."""
    need(0 <= part.label < len(question.columns), f"the forest has no label {part.label}")
    label = question.columns[part.label]
    claim = forests.Claim(label, part.upper, question.parts, question.inputs, question.names)
    total = np.size(proof.get("feature", np.zeros(0)))
    return forests.prove(claim, proof, ask, lambda done: progress(done, total))


def forest(given: Given) -> Forest:
    """Read a forest file."""
    found: Forest = _read(given.file().path, lambda: deletion.forest(given))
    return found


def points(given: Given) -> list[tuple[int, ...]]:
    """Read the table of deleted rows."""
    found: list[tuple[int, ...]] = _read(given.file().path, lambda: deletion.points(given))
    return found


def same_function(given: Given) -> bool | None:
    """Return whether two forests agree on all inputs; None if that is unknown."""
    one, other = (given.value_of_kind(name, Forest, "forest") for name in ("forest", "other"))
    part = given.value_of_kind("inputs", BoxPart, "set of inputs")
    if not given.proof:
        return None
    inputs = read_box(part, one.held.features, str(one.held.path), single=False)
    return forests.same_function(
        one.held, other.held, forest_members.Inputs(**vars(inputs)), given.proof, given.ask
    )
