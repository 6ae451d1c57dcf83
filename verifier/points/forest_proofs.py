"""Proofs of bounds on leaks of forests, for a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from leaveout.bab.forests import Question
from leaveout.bab.forests.proving import BoxTrees, record_boxes
from leaveout.bab.native.files.file_parts import box_part, file_part

_MOST = 2**22
"""Boxes of one label, at most: some 40 MB."""


@dataclass(frozen=True)
class ForestFiles:
    """The files of a question's forests."""

    forest: Path
    other: Path | None  # None where it is the forest without each of its rows


@dataclass(eq=False)
class _Claim:
    names: list[str]
    question: int
    label: int
    upper: float
    trees: BoxTrees


@dataclass(eq=False)
class ForestBook:
    """Collects trees of boxes, once per question and label."""

    threads: int  # that record them
    _questions: list[tuple[Question, ForestFiles]] = field(default_factory=list)
    _claims: list[_Claim] = field(default_factory=list)

    def add(
        self, name: str, label: int, upper: float, question: Question, files: ForestFiles
    ) -> None:
        """Store the proof that no leak of a label exceeds a bound."""
        place = self._place(question, files)
        for claim in self._claims:
            if (claim.question, claim.label) == (place, label) and claim.upper <= upper:
                if name not in claim.names:
                    claim.names.append(name)
                return
        trees = record_boxes(question, label, upper, most=_MOST, threads=self.threads)
        self._claims.append(_Claim([name], place, label, upper, trees))

    def _place(self, question: Question, files: ForestFiles) -> int:
        for i, (known, _) in enumerate(self._questions):
            if known is question:
                return i
        self._questions.append((question, files))
        return len(self._questions) - 1

    def __bool__(self) -> bool:
        return bool(self._claims)

    @property
    def files(self) -> list[Path]:
        """The files of the claims."""
        found: dict[Path, None] = {}
        for claim in self._claims:
            files = self._questions[claim.question][1]
            found |= {each: None for each in (files.forest, files.other) if each is not None}
        return list(found)

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and the arrays of each claim's trees."""
        for i, claim in enumerate(self._claims):
            trees = claim.trees
            yield str(i), {"size": trees.size, "feature": trees.feature, "value": trees.value}

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return the claims' part of a manifest."""
        questions = []
        for question, files in self._questions:
            other = None if files.other is None else file_part(files.other, folder, "file")
            questions.append(
                {
                    "forest": file_part(files.forest, folder, "file"),
                    "other": other,
                    "members": question.members,
                    "box": box_part(question.overlay.cells.box),
                }
            )
        results = [
            {
                "question": claim.question,
                "name": ", ".join(claim.names),
                "label": claim.label,
                "upper": claim.upper,
                "proof": prefixes[str(i)],
            }
            for i, claim in enumerate(self._claims)
        ]
        return {"questions": questions, "results": results}
