"""Claims about leaks of forests: read the files, retrain the forests, walk the boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from leaveout.verifier.checker.ensembles.boxes import Boxes, listed_of, prove, read_boxes
from leaveout.verifier.checker.ensembles.deletion import first_apart
from leaveout.verifier.checker.ensembles.files import Answering, Exact, read_forest
from leaveout.verifier.checker.ensembles.members import members_of
from leaveout.verifier.checker.ensembles.pairs import every_label, pair_of
from leaveout.verifier.checker.ensembles.training import train
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.files import FilePart, found_file
from leaveout.verifier.checker.forest_claims import (
    ForestQuestionPart,
    ForestResultPart,
    ForestSubject,
)
from leaveout.verifier.checker.inputs import Inputs, read_box
from leaveout.verifier.checker.readers import Given


@dataclass(frozen=True, eq=False)
class ForestQuestion:
    """Forests over a set of inputs, read and retrained."""

    boxes: Boxes
    columns: list[int]  # index of each of the forest's labels among those of both
    subject: ForestSubject


def read_forests(part: ForestQuestionPart, folder: Path, given: Given) -> ForestQuestion:
    """Read the forests of a question, and retrain them if necessary."""
    where, one = _forest(part.forest, folder, given)
    inputs = read_box(part.box, one.features, str(where), single=False)
    if part.other is not None:
        beside, other = _forest(part.other, folder, given)
        if other.features != one.features:
            raise RejectedError(f"{beside}: reads a different number of features than {where}")
        boxes = pair_boxes(one, other, inputs)
        every = every_label(one, other)
        columns = [every.index(label) for label in one.labels]
        said: tuple[Path, str] | None = beside, part.other.sha256
    else:
        boxes, columns, said = _deletions(one, where, inputs), list(range(len(one.labels))), None
    count = len(boxes.members.others)
    if part.members != count:
        raise RejectedError(
            f"{where}: {count} forests, but the certificate is about {part.members}"
        )
    group = one.group if isinstance(one, Exact) and part.other is None else ""
    subject = ForestSubject(where, part.forest.sha256, said, count, one.labels, inputs, group)
    return ForestQuestion(boxes, columns, subject)


def pair_boxes(one: Exact | Answering, other: Exact | Answering, inputs: Inputs) -> Boxes:
    """Return two forests over a set of inputs."""
    return Boxes(pair_of(one, other, listed_of(inputs)), inputs, lambda member: "the other forest")


def _deletions(forest: Exact | Answering, where: Path, inputs: Inputs) -> Boxes:
    if not isinstance(forest, Exact):
        raise RejectedError(f"{where}: stores no rows, so the effect of each is unknown")
    apart = first_apart(forest, train(forest))
    if apart is not None:
        raise RejectedError(f"{where}: {apart}")
    names = [name for name, _ in forest.units]
    members = members_of(forest, listed_of(inputs))
    return Boxes(members, inputs, lambda member: f"without {names[member]}")


def _forest(part: FilePart, folder: Path, given: Given) -> tuple[Path, Exact | Answering]:
    where = found_file(part, folder, given.files, "files", given.roots)
    return where, read_forest(where)


def check_forest(
    part: ForestResultPart,
    question: ForestQuestion,
    proof: Mapping[str, NDArray[Any]],
    progress: Callable[[int, int], None],
) -> int:
    """Prove one claim; return the number of boxes used."""
    if not 0 <= part.label < len(question.columns):
        raise RejectedError(f"the forest has no label {part.label}")
    trees = read_boxes(proof, question.subject.members)
    total = len(trees.feature)
    column = question.columns[part.label]
    return prove(question.boxes, column, part.upper, trees, lambda done: progress(done, total))
