"""Statements over points next to a certificate's claims."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.attack.counterexamples import ClaimReplayer, Found
from leaveout.bab.joint_claim import join_claim
from leaveout.bab.native.files.certificate import claim_part
from leaveout.kernel.claims.check import Checked
from leaveout.kernel.claims.parts import ClaimPart
from leaveout.kernel.claims.words import PointsSubject
from leaveout.kernel.records import convert, plain
from leaveout.specs import Find
from leaveout.verifier.evidence.certified import (
    OTHER,
    Standing,
    StatementCheck,
    is_about,
    is_closed,
    limit_words,
    reaches,
    searched_ends,
)
from leaveout.verifier.points.decide import example_of
from leaveout.verifier.points.job import Asked, FormulaJob, trees_part
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.records import BoxRecord, ExampleRecord
from leaveout.verifier.report import Result
from leaveout.verifier.tasks import Statement

_NOTHING = -1e290  # a bound this low means that no point counts at all
_SAID = ("points", "applications", "cases", "reals", "decides", "missing")
"""What a claim over points says, besides its bound."""


class PointsCheck(StatementCheck[FormulaJob]):
    """A claim over points."""

    def __init__(self, statement: Statement, job: FormulaJob, folder: Path, samples: int) -> None:
        super().__init__(statement, job, folder, samples)
        self._questions = [(each, self._key(self._part(each))) for each in self._asked_cases]
        self._last: tuple[Result, list[tuple[Asked, Found]]] | None = None

    @property
    def _asked_cases(self) -> list[Asked]:
        return [each for each in self.job.questions if each.cases]

    @property
    def _is_trees(self) -> bool:
        return any(each.trees for each in self._asked_cases)

    @property
    def facts(self) -> tuple[BoxRecord, int]:
        return box_record(self.job.boxes[0]), self.job.members

    @property
    def labels(self) -> list[int | None]:
        return list(self.job.labels)

    def _part(self, asked: Asked) -> ClaimPart:
        """Return the claim that a certificate must make for a question."""
        decides = not isinstance(self.statement, Find)
        if asked.trees:
            part = trees_part(asked, self.job.missing, self.folder, decides=decides)
        else:
            claim = join_claim(asked.query, asked.cases)
            part = claim_part(claim, asked.sources, self.folder, decides=decides)
        return convert(
            {"name": "", "upper": 0.0, "decides": decides, "tree": "", **part}, ClaimPart
        )

    def _key(self, part: ClaimPart) -> bytes:
        """Return the content of a claim, without bound, tree and layout."""
        said: dict[str, Any] = plain(part)
        for case in said["cases"]:
            for layout in ("sums", "near", "origin"):
                del case[layout]
        for applied in said["applications"]:
            del applied["network"]["path"]
            if applied["family"] is not None:
                del applied["family"]["file"]["path"]
        own = {name: said[name] for name in _SAID}
        return msgspec.json.encode(own, order="sorted")

    def other_claim(self, claim: Checked) -> str:
        if not isinstance(claim.subject, PointsSubject):
            return OTHER
        key = self._key(claim.subject.points.part)
        return "" if any(key == own for _, own in self._questions) else OTHER

    def _uppers(self, result: Result, claims: Sequence[Checked]) -> list[float] | None:
        """Return the proved bound of each question, or None if one is missing."""
        proved: dict[bytes, float] = {}
        for each in claims:
            assert isinstance(each.subject, PointsSubject) and each.upper is not None
            key = self._key(each.subject.points.part)
            proved[key] = min(each.upper, proved.get(key, math.inf))
        # If the text alone excludes all counter-examples, there is nothing to prove.
        own = [key for asked, key in self._questions if asked.label == result.label]
        return [proved[key] for key in own] if all(key in proved for key in own) else None

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        if wrong := self._example_error(result):
            return wrong
        uppers = self._uppers(result, claims)
        if uppers is None:
            return ""
        if result.kind == "guarantee":
            refuted = result.verdict == "refuted"
            return "is refuted in the results, but the certificate proves it" * refuted
        upper, lower = max(uppers, default=_NOTHING), searched_ends(result, self.job.sign)[0]
        if lower is not None and lower > upper:
            sign = self.job.sign
            sides = ("least", "most") if sign > 0 else ("most", "least")
            return (
                f"is at {sides[0]} {sign * lower:g} in the results, at {sides[1]} "
                f"{sign * upper:g} in the certificate"
            )
        return ""

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        if result.verdict == "refuted":
            again = self._replayed_value(result) is not None
            return Standing(result, "refuted" if again else "", again)
        uppers = self._uppers(result, claims)
        if uppers is None:
            return Standing(result, "", False)
        if result.kind == "guarantee":
            return Standing(result, "proved", result.verdict == "proved")
        upper, (lower, told) = max(uppers, default=_NOTHING), searched_ends(result, self.job.sign)
        if upper <= _NOTHING:
            return Standing(result, "no point is a counter-example", lower is None and told is None)
        words = limit_words(upper, self.job.sign)
        if lower is not None and not is_about(self._replayed_value(result), lower):
            return Standing(result, f"{words}; its example does not replay", False)
        if told is None:
            return Standing(result, words, result.verdict == "unknown")
        proved = reaches(upper, told)
        if result.verdict == "proved":
            # Searches of trees find what their certificates prove.
            near = is_closed(lower, upper) if lower is not None and not self._is_trees else False
            proved = lower is not None and is_closed(lower, told) and (proved or near)
        return Standing(result, words, proved)

    def _example_error(self, result: Result) -> str:
        """Return how an example differs from what the models answer at its points."""
        from leaveout.verifier.points.tree_claims import example_at

        example, points = result.example, self._points(result)
        if example is None or points is None:
            return ""
        at = dict(zip(self.job.points, points, strict=True))
        for asked in self._asked_cases:
            if not _names_members(asked, result):
                continue
            if wrong := _told_otherwise(example, example_at(asked, at)):
                return wrong
        told = {name: tuple(point.tolist()) for name, point in at.items()}
        for asked, found in self._known_replay(result):
            names = [each.name for each in asked.query.applications]
            if wrong := _scores_error(example, dict(zip(names, found.scores, strict=True))):
                return wrong
            own = example_of(asked, told, example.scores, example.labels, found.member)
            if wrong := _told_otherwise(example, own):
                return wrong
        return ""

    def _points(self, result: Result) -> list[Floats] | None:
        """Return the points of a result's example; None if there are none, or other ones."""
        example, job = result.example, self.job
        if example is None or set(example.points) != set(job.points):
            return None
        points = [
            np.array([math.nan if v is None else v for v in example.points[name]])
            for name in job.points
        ]
        widths = [box.dimension for box in job.boxes]
        return points if [len(each) for each in points] == widths else None

    def _replayed_value(self, result: Result) -> float | None:
        """Return the value of a replayed counter-example, or None."""
        points = self._points(result)
        if result.example is None or points is None:
            return None
        values = [found.value for _, found in self._known_replay(result)]
        for asked in self._asked_cases:
            if _names_members(asked, result):
                values += _replayed_in_trees(asked, self.job, points)
        return max(values, default=None)

    def _known_replay(self, result: Result) -> list[tuple[Asked, Found]]:
        """Return what networks make of an example, in each case that it is a counter-example of."""
        if self._last is not None and self._last[0] is result:
            return self._last[1]
        self._last = result, list(self._replay(result))
        return self._last[1]

    def _replay(self, result: Result) -> Iterator[tuple[Asked, Found]]:
        from scipy import sparse

        example, points = result.example, self._points(result)
        for asked in self._asked_cases:
            if example is None or points is None or asked.trees or asked.label != result.label:
                continue
            chosen = {name: index for name, index, _ in asked.members}
            if any(example.members.get(name) != index for name, index in chosen.items()):
                continue
            member = 0
            if asked.shared:
                ((name, family),) = asked.shared
                member = example.members.get(name, -1)
                if not 0 <= member < len(family):
                    continue
            claim = join_claim(asked.query, asked.cases)
            matrix = sparse.vstack([point[0] for point in claim.joint.points], format="csc")
            place = sparse.linalg.spsolve(matrix, np.concatenate(points))
            replayer = ClaimReplayer(claim)
            found = (replayer.replay(place, case, member) for case in range(len(claim.cases)))
            yield from ((asked, each) for each in found if each is not None)


def _told_otherwise(example: ExampleRecord, own: ExampleRecord) -> str:
    """Return what an example tells otherwise than its models and points do."""
    for what in ExampleRecord.__struct_fields__:
        said, right = getattr(example, what), getattr(own, what)
        if said != right:
            return f"has {what} {said!r} in its example, expected {right!r}"
    return ""


_NEAR = 1e-4  # scores differ by no more, relative to the largest, where sums are in another order


def _scores_error(example: ExampleRecord, own: Mapping[str, NDArray[np.floating]]) -> str:
    """Return how an example's scores and labels differ from those of networks at its points."""
    for what, said in (("scores", example.scores), ("labels", example.labels)):
        if said.keys() != own.keys():
            return (
                f"has {what} of {', '.join(said) or 'nothing'}; expected those of {', '.join(own)}"
            )
    for name, found in own.items():
        scores, stated = found.astype(np.float64), np.array(example.scores[name])
        near = _NEAR * (1.0 + float(np.abs(scores).max()))
        if stated.shape != scores.shape or not (np.abs(stated - scores) <= near).all():
            return f"has scores {stated.tolist()} of {name}, which answers {scores.tolist()}"
        label = example.labels[name]
        if not 0 <= label < len(scores) or scores[label] < scores.max() - 2 * near:
            return f"has label {label} of {name}, which answers {int(scores.argmax())}"
    return ""


def _names_members(asked: Asked, result: Result) -> bool:
    """Return whether a question is about the label and the members of trees of an example."""
    example = result.example
    if example is None or not asked.trees or asked.label != result.label:
        return False
    members = {name: index for name, index, _ in asked.members}
    removed = {name: row for name, _, row in asked.members}
    return (members, removed) == (example.members, example.removed)


def _replayed_in_trees(asked: Asked, job: FormulaJob, points: Sequence[Floats]) -> Iterator[float]:
    """Yield the value of a counter-example in each case, as the trees compute it."""
    from leaveout.verifier.points.tree_claims import TreeQuestion, missing_of

    for case in asked.cases:
        found = TreeQuestion.of(asked, case, missing_of(job)).replay(points)
        if found is not None:
            yield found.value
