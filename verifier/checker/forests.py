"""Claims about forests: what the manifest says of them, handed to the kernel in plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import CertificateError, RejectedError
from leaveout.kernel import deletion, forest_members, forests
from leaveout.kernel.boxes import Inputs, read_box
from leaveout.kernel.deletion import Forest
from leaveout.kernel.forest_file import Answering, Exact, read_forest
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Given as Arguments
from leaveout.verifier.certify.forests import rules_of_boxes
from leaveout.verifier.checker.files import BoxPart, FilePart, found_file
from leaveout.verifier.checker.forest_claims import (
    ForestQuestionPart,
    ForestResultPart,
    ForestSubject,
)
from leaveout.verifier.checker.readers import Given


@dataclass(frozen=True, eq=False)
class ForestQuestion:
    """Forests over a set of inputs, read and trained again."""

    parts: list[forest_members.Forests]
    inputs: forest_members.Inputs
    columns: list[int]  # index of each of the forest's labels among those of both
    names: list[str]  # of members
    subject: ForestSubject


def read_forests(part: ForestQuestionPart, folder: Path, given: Given) -> ForestQuestion:
    """Read the forests of a question, and train them again if necessary."""
    where, one = _forest(part.forest, folder, given)
    inputs = read_box(part.box, one.features, str(where), single=False)
    said: tuple[Path, str] | None = None
    group = ""
    try:
        if part.other is None:
            found, names = _deletions(one)
            columns = list(range(len(one.labels)))
            group = one.group if isinstance(one, Exact) else ""
        else:
            beside, other = _forest(part.other, folder, given)
            found, names = [forest_members.pair(one, other)], ["the other forest"]
            every = forest_members.every_label(one, other)
            columns, said = (
                [every.index(label) for label in one.labels],
                (beside, part.other.sha256),
            )
    except Rejected as error:
        raise RejectedError(f"{where}: {error}") from None
    count = len(names)
    if part.members != count:
        raise RejectedError(
            f"{where}: {count} forests, but the certificate is about {part.members}"
        )
    subject = ForestSubject(where, part.forest.sha256, said, count, one.labels, inputs, group)
    return ForestQuestion(found, _plain(inputs), columns, names, subject)


def _deletions(forest: Exact | Answering) -> tuple[list[forest_members.Forests], list[str]]:
    """Return a forest without each row, and what it is without, in words."""
    if not isinstance(forest, Exact):
        raise Rejected("stores no rows, so the effect of each is unknown")
    return forest_members.members(forest), [f"without {name}" for name, _ in forest.units]


def _plain(inputs: Inputs) -> forest_members.Inputs:
    tables = tuple((table.columns, table.values) for table in inputs.tables)
    return forest_members.Inputs(inputs.lower, inputs.upper, tables)


def _forest(part: FilePart, folder: Path, given: Given) -> tuple[Path, Exact | Answering]:
    where = found_file(part, folder, given.files, "files", given.roots)
    return where, _read(where, lambda: read_forest(where, part.sha256))


def _read(path: Path, read: Callable[[], Any]) -> Any:
    """Read a file; what it is not is an error of the file, not of the proof."""
    try:
        return read()
    except OSError as error:
        raise CertificateError(f"{path}: cannot read: {error.strerror or error}") from None
    except Rejected as error:
        raise CertificateError(f"{path}: {error}") from None


def check_forest(
    part: ForestResultPart,
    question: ForestQuestion,
    proof: Mapping[str, NDArray[Any]],
    progress: Callable[[int, int], None],
) -> int:
    """Prove one claim; return the number of boxes used."""
    if not 0 <= part.label < len(question.columns):
        raise RejectedError(f"the forest has no label {part.label}")
    label = question.columns[part.label]
    claim = forests.Claim(label, part.upper, question.parts, question.inputs, question.names)
    total = len(proof.get("feature", np.zeros(0)))
    return forests.prove(claim, proof, rules_of_boxes, lambda done: progress(done, total))


def forest(given: Arguments) -> Forest:
    """Read a forest file."""
    found: Forest = _read(given.file().path, lambda: deletion.forest(given))
    return found


def points(given: Arguments) -> list[tuple[int, ...]]:
    """Read the table of deleted rows."""
    found: list[tuple[int, ...]] = _read(given.file().path, lambda: deletion.points(given))
    return found


def same_function(given: Arguments) -> bool | None:
    """Return whether two forests agree on all inputs; None if that is unknown."""
    one, other = (given.value_of_kind(name, Forest, "forest") for name in ("forest", "other"))
    part = given.value_of_kind("inputs", BoxPart, "set of inputs")
    if not given.proof:
        return None
    inputs = read_box(part, one.held.features, str(one.held.path), single=False)
    return forests.same_function(one.held, other.held, _plain(inputs), given.proof, given.ask)
