"""Statements about linear models next to a certificate's claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leaveout.bab.native.files.manifest_parts import file_part
from leaveout.kernel.claims.check import Checked
from leaveout.kernel.claims.linear import LinearSubject
from leaveout.verifier.amounts import bound
from leaveout.verifier.evidence.certified import (
    OTHER,
    LeakCheck,
    Standing,
    StatementCheck,
    inputs_part,
    is_closed,
    limit_words,
    other_extent,
    reaches,
    searched_ends,
)
from leaveout.verifier.points.linear_changes import ChangeJob
from leaveout.verifier.points.linear_leaks import LinearJob, Linears
from leaveout.verifier.points.linear_scores import ScoreJob
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.records import BoxRecord
from leaveout.verifier.report import Result


class LinearCheck(LeakCheck[LinearJob]):
    """A statement about leaks of a linear model."""

    def other_claim(self, claim: Checked) -> str:
        said = claim.subject.claim if isinstance(claim.subject, LinearSubject) else None
        return OTHER if said is not None else _other_linear(self.job.compared, self.folder, claim)


def _other_linear(about: Linears, folder: Path, claim: Checked) -> str:
    """Return how a claim about a linear model differs from a statement in its model or inputs."""
    subject = claim.subject
    if not isinstance(subject, LinearSubject):
        return OTHER
    if file_part(about.fitted.file, folder, "file")["sha256"] != subject.sha256:
        return "is about another linear model than the certificate"
    return other_extent(subject, about.members, inputs_part(about.box))


class ScoreCheck(StatementCheck[ScoreJob]):
    """A statement about the scores of a linear model and its members."""

    @property
    def facts(self) -> tuple[BoxRecord, int]:
        return box_record(self.job.about.box), self.job.about.members

    def other_claim(self, claim: Checked) -> str:
        wrong = _other_linear(self.job.about, self.folder, claim)
        if wrong or not isinstance(claim.subject, LinearSubject):
            return wrong
        said = claim.subject.claim
        own = self.job.claim_fields
        if said is None or any(getattr(said, name) != value for name, value in own.items()):
            return OTHER
        return ""

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        uppers = [each.upper for each in claims if each.upper is not None]
        lower, _ = searched_ends(result, self.job.asked.sign)
        if not uppers or lower is None or lower <= min(uppers):
            return ""
        return (
            f"has an input at {bound(lower)} in the results, but the certificate proves that none "
            f"exceeds {bound(min(uppers), up=True)}"
        )

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        if result.verdict == "refuted":
            again = self.job.replays(result)
            return Standing(result, "refuted" if again else "", again)
        uppers = [each.upper for each in claims if each.upper is not None]
        if not uppers:
            return Standing(result, "", False)
        upper, floor = min(uppers), self.job.floor
        told = limit_words(upper, self.job.asked.sign)
        if floor is not None:
            return Standing(result, told, result.verdict != "proved" or upper <= floor)
        lower, most = searched_ends(result, self.job.asked.sign)
        reached = reaches(upper, most)
        if result.verdict == "proved":
            reached = reached and lower is not None and self.job.replays(result)
            reached = reached and is_closed(lower or 0.0, most)
        return Standing(result, told, reached)


class ChangeCheck(StatementCheck[ChangeJob]):
    """A statement about any few rows of a linear model."""

    @property
    def facts(self) -> tuple[BoxRecord, int]:
        return box_record(self.job.about.box), 0

    @property
    def labels(self) -> list[int | None]:
        return self.job.labels

    def label_name(self, label: int | None) -> str:
        return self.job.about.label_name(label)

    def other_claim(self, claim: Checked) -> str:
        wrong = _other_linear(self.job.about, self.folder, claim)
        if wrong or not isinstance(claim.subject, LinearSubject):
            return wrong
        said, job = claim.subject.claim, self.job
        within = None if job.within is None else inputs_part(job.within)
        for label in job.labels:
            own = {**job.claim_fields(label), "within": within}
            if said is not None and all(getattr(said, k) == each for k, each in own.items()):
                return ""
        return OTHER

    def _upper(self, result: Result, claims: Sequence[Checked]) -> float | None:
        """Return what is proved of all labels of a result; None if not of all."""
        labels = self.job.labels if result.label is None else [result.label]
        found = {each.label: each.upper for each in claims}
        uppers = [found.get(label) for label in labels]
        return None if None in uppers else max(each for each in uppers if each is not None)

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        upper = self._upper(result, claims)
        if upper is None or result.lower is None or result.lower <= upper:
            return ""
        return f"has an input at {bound(result.lower)}, above what the certificate proves"

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        replayed = result.example is not None and self.job.replays(result)
        if result.verdict == "refuted":
            return Standing(result, "refuted" if replayed else "", replayed)
        upper, floor = self._upper(result, claims), self.job.floor
        if upper is None:
            return Standing(result, "", False)
        told = f"at most {bound(upper, up=True)}"
        if floor is not None:
            return Standing(result, told, result.verdict != "proved" or upper <= floor)
        reached = reaches(upper, result.upper) and (replayed or not result.lower)
        if result.verdict == "proved":
            reached = reached and is_closed(result.lower or 0.0, result.upper)
        return Standing(result, told, reached)
