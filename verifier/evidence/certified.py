"""Results checked against their specification and against a certificate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from leaveout.bab import agree
from leaveout.bab.native.files.certificate import question_part
from leaveout.bab.native.files.manifest_parts import box_part, file_part
from leaveout.encoders import Box
from leaveout.kernel.boxes import Inputs
from leaveout.kernel.claims.check import Checked
from leaveout.kernel.claims.forests import ForestSubject
from leaveout.kernel.claims.linear import LinearSubject
from leaveout.kernel.claims.networks import Subject
from leaveout.kernel.claims.parts import (
    BoxPart,
    FilePart,
    Part,
    QuestionPart,
    StatementPart,
)
from leaveout.kernel.claims.samples import SampledSubject
from leaveout.kernel.claims.statements import ValueSubject
from leaveout.kernel.records import convert, plain
from leaveout.kernel.values import HeldFile
from leaveout.specs import Find
from leaveout.verifier.amounts import bound
from leaveout.verifier.evidence.asked import Resolved
from leaveout.verifier.evidence.statement import TamperedError
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.leak_decider import LeakJob, floor_of
from leaveout.verifier.points.leak_statements import IdpStatement
from leaveout.verifier.points.network_leaks import NetworkJob, file_facts
from leaveout.verifier.points.sampled_leaks import SampledJob
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.records import BoxRecord, WitnessRecord
from leaveout.verifier.report import SAMPLE, Report, Result
from leaveout.verifier.tasks import Statement
from leaveout.verifier.tasks import Subject as AskedOf
from leaveout.verifier.values.certified import Uncertified
from leaveout.verifier.values.decider import ValueJob

if TYPE_CHECKING:
    from leaveout.verifier.points.forest_leaks import ForestJob  # noqa: F401 - of `_Forests`

J = TypeVar("J")

_CLOSE = 1e-6  # claims are padded by less than this when written

_AGREE = 0.01
"""Largest relative gap of a find that counts as proved: float32 rounding may explain it."""

OTHER = "differs in the certificate"
_OF_MEMBER = ("removed", "removed_id", "group", "other", "member_label", "model")
"""What a leak says of its member."""
_OF_ROWS = ("model", "rows", "ids", "members", "group", "network_sha256", "family_sha256")
"""What the bounds of rows say of the rows."""


@dataclass(frozen=True)
class Standing:
    """How far a certificate supports a result."""

    result: Result
    words: str  # what was proved of it; empty if it is unsupported
    proved: bool  # whether that covers the whole result
    why: str = ""  # why it cannot be compared with its specification; empty if it was


def standings(
    report: Report, checked: Sequence[Checked], spec: Resolved, attestation: Path
) -> tuple[Standing, ...]:
    """Compare every result with its statement and with the certificate's claims."""
    claims: dict[str, list[Checked]] = {name: [] for name in spec.names}
    for claim in checked:
        for name in _names(claim):
            if name not in claims:
                raise TamperedError(
                    f"{attestation}: the certificate claims {name}, which the specification does "
                    "not contain"
                )
            claims[name].append(claim)
    sampled = [each for each in spec.tasks.values() if each.engine.subject == "samples"]
    samples = sum(each.job.results for each in sampled)
    found: dict[int, Standing] = {}
    for name, own in claims.items():
        results = [each for each in report.results if each.name == name]
        if name not in spec.tasks:
            found |= {id(each): Standing(each, "", False, spec.why[name]) for each in results}
            continue
        task = spec.tasks[name]
        asked = QUESTIONS[task.engine.subject](task.statement, task.job, spec.folder, samples)
        wrong = asked.other_results(results) or asked.other_rows(report)
        wrong = wrong or next(filter(None, map(asked.other_claim, own)), "")
        if wrong:
            raise TamperedError(f"{attestation}: statement {name!r}: {wrong}")
        for result in results:
            if wrong := asked.contradiction(result, own):
                raise TamperedError(f"{attestation}: statement {result.title!r}: {wrong}")
            found[id(result)] = asked.assess(result, own)
    return tuple(found[id(each)] for each in report.results)


def _names(claim: Checked) -> Iterator[str]:
    """Yield the statements that a claim covers."""
    if isinstance(claim.subject, Subject | ForestSubject | LinearSubject):
        # One search can answer several statements.
        yield from claim.name.split(", ")
    else:
        yield claim.name.partition(", ")[0]


class StatementCheck(ABC, Generic[J]):
    """The question of a statement, from its text and the attested files."""

    def __init__(self, statement: Statement, job: J, folder: Path, samples: int) -> None:
        self.statement, self.job, self.folder, self.samples = statement, job, folder, samples

    @property
    @abstractmethod
    def facts(self) -> tuple[BoxRecord, int]:
        """The inputs and number of members that results must state."""

    @property
    def labels(self) -> list[int | None]:
        """The labels of its results, in order; None for a result about all labels."""
        return [None]

    def label_name(self, label: int | None) -> str:
        """Return the name of a label."""
        return ""

    @abstractmethod
    def other_claim(self, claim: Checked) -> str:
        """Return how a claim differs from the statement; empty if it does not."""

    def other_rows(self, report: Report) -> str:
        """Return how the results' rows differ from those of the files; empty if they do not."""
        return ""

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        """Return how claims contradict a result; empty if they do not."""
        return ""

    @abstractmethod
    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        """Return how far claims prove a result."""

    @property
    def per_label(self) -> bool:
        """Whether each label has a separate result."""
        return isinstance(self.statement, Find) and self.statement.per_label

    refutes_finds: ClassVar[bool] = False  # whether a find may have no value at all

    def other_results(self, results: Sequence[Result]) -> str:
        """Return how results differ from the statement; empty if they do not."""
        labels = [each.label for each in results]
        if self.per_label and labels != self.labels:
            return f"has results for labels {labels}, the specification asks for {self.labels}"
        if not self.per_label and (len(labels) != 1 or labels[0] not in (None, *self.labels)):
            return f"has results for labels {labels}, the specification asks for one result"
        box, members = self.facts
        for each in results:
            if each.kind == "find" and each.verdict == "refuted" and not self.refutes_finds:
                return "is refuted in the results, but it is a find, which has bounds"
            if each.members != members:
                return f"is about {each.members:,} members in the results, but {members:,} are read"
            if each.box != box:
                return "is about other inputs in the results than in the specification"
            if each.label_name != self.label_name(each.label):
                return (
                    f"names label {each.label} {each.label_name!r}, but the model names it "
                    f"{self.label_name(each.label)!r}"
                )
        return ""


class LeakCheck(StatementCheck[J]):
    """A statement about leaks of networks, forests or linear models."""

    def other_rows(self, report: Report) -> str:
        stated = [each for each in report.by_row if self.statement.name in each.statements]
        for record in stated:
            own = self.leaks.compared.row_record(record.statements, {})
            for name in _OF_ROWS:
                if getattr(own, name) != getattr(record, name):
                    return f"names other rows in the results than the files do ({name})"
        return ""

    @property
    def leaks(self) -> LeakJob[Any]:
        """The statement about members only."""
        return cast("LeakJob[Any]", self.job)

    @property
    def facts(self) -> tuple[BoxRecord, int]:
        return box_record(self.leaks.compared.box), self.leaks.compared.members

    @property
    def labels(self) -> list[int | None]:
        return list(self.leaks.labels)

    def label_name(self, label: int | None) -> str:
        return str(self.leaks.compared.label_name(label))

    def replay(self, result: Result) -> WitnessRecord | None:
        """Return a result's leak as the models compute it and the data name it, or None."""
        witness, compared = result.witness, self.leaks.compared
        if witness is None or not 0 <= witness.member < compared.members:
            return None
        if witness.label not in self.leaks.labels or result.label not in (None, witness.label):
            return None
        if len(witness.x) != compared.box.dimension:
            return None
        found = compared.replay(np.asarray(witness.x), witness.member, witness.label)
        return None if found is None else compared.witness_record(found)

    def uppers(self, result: Result, claims: Sequence[Checked]) -> dict[int, float]:
        """Return the proved bound of each label of a result."""
        uppers: dict[int, float] = {}
        for each in claims:
            label, upper = each.label, each.upper
            assert label is not None and upper is not None
            if label == result.label if self.per_label else label in self.leaks.labels:
                uppers[label] = min(upper, uppers.get(label, upper))
        return uppers

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        leak, stated = self.replay(result), result.witness
        for name in _OF_MEMBER if leak is not None else ():
            own, other = getattr(leak, name), getattr(stated, name)
            if own != other:
                return f"says of its leak {name}: {other!r}, but the files say {own!r}"
        uppers = self.uppers(result, claims)
        if result.label is not None:
            uppers = {label: upper for label, upper in uppers.items() if label == result.label}
        elif len(uppers) < len(self.leaks.labels):
            # The leak may have a label without a claim.
            return ""
        # Before any leak is found, 0 is a lower bound of confidences.
        if not uppers or result.lower is None or result.lower <= max(*uppers.values(), 0.0):
            return ""
        return (
            f"has a leak at {bound(result.lower)} in the results, but the certificate proves "
            f"that none exceeds {bound(max(uppers.values()), up=True)}"
        )

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        statement: IdpStatement = self.leaks.statement
        if result.verdict == "refuted":
            leak = self.replay(result)
            again = leak is not None and leak.confidence > floor_of(statement)
            return Standing(result, "refuted" if again else "", again)
        uppers = self.uppers(result, claims)
        if not uppers:
            return Standing(result, "", False)
        upper = max(uppers.values())
        told = "no answer changes" if upper < 0 else f"at most {bound(upper, up=True)}"
        asked = 1 if self.per_label else len(self.leaks.labels)
        if len(uppers) < asked:
            listed = ", ".join(map(str, sorted(uppers)))
            told += f", of label{'s' * (len(uppers) > 1)} {listed}"
            return Standing(result, told, False)
        lower = result.lower or 0.0
        leak, stated = self.replay(result), result.witness
        if lower > 0 or stated is not None:
            if (
                leak is None
                or stated is None
                or (lower > 0 and not is_about(leak.confidence, lower))
            ):
                return Standing(result, f"{told}; its leak does not replay", False)
            if leak.words != stated.words:
                return Standing(result, f"{told}; its leak is worded otherwise", False)
        if not reaches(upper, result.upper):
            told += f" (not {result.upper:.6g}, as the results state)"
        if result.kind == "guarantee" and result.verdict == "proved":
            threshold = -math.inf if statement.threshold is None else statement.threshold
            return Standing(result, told, upper < 0 or upper <= threshold)
        proved = reaches(upper, result.upper)
        if result.kind == "find" and result.verdict == "proved":
            # A result closed within a gap is confirmed within it.
            proved = is_closed(lower, result.upper) and (
                proved or agree(lower, upper - _padding(upper), VerifyOptions().gap)
            )
        return Standing(result, told, proved)


class _Networks(LeakCheck[NetworkJob]):
    def other_claim(self, claim: Checked) -> str:
        if not isinstance(claim.subject, Subject):
            return OTHER
        return _other_question(self.job, self.folder, claim.subject)


def _other_question(job: NetworkJob, folder: Path, subject: Subject, left_out: int = 0) -> str:
    """Return how a claim about leaks differs from a question; samples leave out ``left_out``."""
    part = question_part(job.compared.instance, file_facts(job), folder)
    expected = convert(part, QuestionPart)
    for what, own, digest in (
        ("network", expected.network, subject.network_sha256),
        ("family", expected.family, subject.family_sha256),
    ):
        if own.sha256 != digest:
            return f"is about another {what} than the certificate"
    return other_extent(subject, expected.members - left_out, expected.box, left_out)


def other_extent(
    subject: Subject | ForestSubject | LinearSubject, members: int, box: BoxPart, left_out: int = 0
) -> str:
    """Return how a claim differs from a question in its members or inputs."""
    if subject.members != members:
        return (
            f"is about {members + left_out:,} members, the certificate about "
            f"{subject.members + left_out:,}"
        )
    if not _same_inputs(subject.inputs, box):
        return "is about other inputs than the certificate"
    return ""


def _same_inputs(inputs: Inputs, box: BoxPart) -> bool:
    """Return whether an input set of a certificate equals the specification's."""
    tables = [{"columns": t.columns.tolist(), "values": t.values.tolist()} for t in inputs.tables]
    ends = {"lower": inputs.lower.tolist(), "upper": inputs.upper.tolist()}
    return bool(plain(box) == {**ends, "choices": tables})


def inputs_part(box: Box) -> BoxPart:
    """Return an input set as certificates state it."""
    return convert(box_part(box), BoxPart)


class _Forests(LeakCheck["ForestJob"]):
    def other_claim(self, claim: Checked) -> str:
        subject, compared = claim.subject, self.job.compared
        if not isinstance(subject, ForestSubject):
            return OTHER
        forest, other = (file_part(each, self.folder, "file")["sha256"] for each in compared.files)
        if (forest, other if compared.pair else None) != (
            subject.sha256,
            subject.other and subject.other[1],
        ):
            return "is about another forest than the certificate"
        return other_extent(subject, compared.members, inputs_part(compared.box))


class _Samples(LeakCheck[SampledJob]):
    """A statement about all rows that is decided on a sample of members."""

    @property
    def leaks(self) -> NetworkJob:
        return self.job.job

    def other_results(self, results: Sequence[Result]) -> str:
        sampled = self.job
        for each in results:
            if each.confidence != sampled.level:
                return (
                    f"holds with {each.confidence} in the results, with {sampled.level} in the "
                    "specification"
                )
        return super().other_results(results)

    def other_claim(self, claim: Checked) -> str:
        subject, sampled = claim.subject, self.job
        if not isinstance(subject, SampledSubject):
            return OTHER
        part = subject.part
        left = len(subject.left_out)
        wrong = _other_question(self.leaks, self.folder, subject.base, left)
        if wrong:
            return wrong
        drawn = self.leaks.compared.instance.family.manifest.sample
        own = plain(part.sample)
        if own != {name: getattr(drawn, name) for name in own}:
            return "is about another draw than the certificate"
        level = Fraction(repr(sampled.level))
        if (subject.share, subject.confidence) != (sampled.sampling.share, level):
            return OTHER
        if part.results < self.samples:
            return (
                f"shares its failure probability among {part.results} results in the "
                f"certificate, but {self.samples} rest on samples"
            )
        if {each.label for each in part.bounds} not in map(set, sampled.label_groups):
            return OTHER
        return ""

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        """Return how claims contradict a result; claims give no lower bound for all rows."""
        lower, upper = result.lower, result.upper
        if lower is not None and upper is not None and lower > upper:
            return f"is at least {lower} and at most {upper} in the results"
        facts = next((each.facts for each in result.facts if each.name == SAMPLE), None)
        if facts is None:
            return "" if result.verdict == "unknown" else "is about its members in the results"
        for claim in self._own(result, claims):
            subject = claim.subject
            assert isinstance(subject, SampledSubject)
            drawn, results = subject.part.sample, subject.part.results
            own = {
                "rows": drawn.rows,
                "sample": drawn.size,
                "share": float(subject.share),
                "draw": drawn.draw,
                "draws": drawn.draws,
            }
            for name, value in own.items():
                if facts.get(name) != value:
                    return (
                        f"has {name} {facts.get(name)} in the results, {value} in the certificate"
                    )
            error = float((1 - subject.confidence) / (results * drawn.draws))
            if facts.get("error") != error:
                return (
                    f"has failure probability {facts.get('error')} in the results, {error} in "
                    "the certificate"
                )
        return ""

    def _own(self, result: Result, claims: Sequence[Checked]) -> list[Checked]:
        """Return the claims about exactly the labels of a result."""
        labels = {result.label} if self.per_label else set(self.leaks.labels)
        return [
            each
            for each in claims
            if isinstance(each.subject, SampledSubject)
            and {own.label for own in each.subject.part.bounds} == labels
        ]

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        own = self._own(result, claims)
        if not own:
            return Standing(result, "", False)
        upper = min(each.upper for each in own if each.upper is not None)
        told = "no answer changes" if upper < 0 else f"at most {bound(upper, up=True)}"
        told = f"at {self.job.level:g} over the draw, {told}"
        if result.kind == "guarantee" and result.verdict == "proved":
            threshold = self.leaks.statement.threshold
            asked = -math.inf if threshold is None else threshold
            return Standing(result, told, upper < 0 or upper <= asked)
        return Standing(result, told, result.verdict != "refuted" and reaches(upper, result.upper))


class _Values(StatementCheck[ValueJob]):
    """A claim about values of functions."""

    refutes_finds = True

    @property
    def facts(self) -> tuple[BoxRecord, int]:
        return BoxRecord(lower=(), upper=()), 0

    def other_claim(self, claim: Checked) -> str:
        """Return how a claim differs in kind; `contradiction` compares content."""
        return "" if isinstance(claim.subject, ValueSubject) else OTHER

    def contradiction(self, result: Result, claims: Sequence[Checked]) -> str:
        for claim in claims:
            subject = claim.subject
            assert isinstance(subject, ValueSubject)
            if wrong := _other_value(subject, result):
                return wrong
            try:
                expected = self.job.decider.certificate_part(self.statement, result, self.folder)
            except Uncertified:
                return OTHER
            wanted = dict(enumerate(expected.files))
            (own,) = expected.statements
            if _normal_form(own, expected.lets, wanted) != _normal_form(
                subject.statement, subject.lets, subject.files
            ):
                return OTHER
        return ""

    def assess(self, result: Result, claims: Sequence[Checked]) -> Standing:
        if not claims:
            return Standing(result, "", False)
        lower, upper = result.lower, result.upper
        if (result.kind, result.verdict) == ("find", "proved") and (
            lower is None or upper is None or not self.job.decider.closes(result.name, lower, upper)
        ):
            return Standing(result, f"between {lower} and {upper}", False)
        return Standing(result, result.verdict, True)


_LINEAR = "leaveout.verifier.evidence.linear_claims"  # which rests on this file
_POINTS = "leaveout.verifier.evidence.point_claims"  # so does this
QUESTIONS: Mapping[AskedOf, Callable[[Statement, Any, Path, int], StatementCheck[Any]]] = {
    "networks": _Networks,
    "forests": _Forests,
    "linear": lambda *asked: import_module(_LINEAR).LinearCheck(*asked),
    "linear scores": lambda *asked: import_module(_LINEAR).ScoreCheck(*asked),
    "linear changes": lambda *asked: import_module(_LINEAR).ChangeCheck(*asked),
    "samples": _Samples,
    "points": lambda *asked: import_module(_POINTS).PointsCheck(*asked),
    "values": _Values,
}
"""Classes of questions, by what the engine decides."""


def _other_value(subject: ValueSubject, result: Result) -> str:
    """Return how a certificate's statement differs from a result in its outcome."""
    statement = subject.statement
    if statement.verdict != result.verdict and not (
        statement.find is not None and result.verdict == "unknown"
    ):
        return f"is {result.verdict} in the results, {statement.verdict} in the certificate"
    level = None if statement.confidence is None else float(Fraction(statement.confidence))
    if level != result.confidence:
        return f"holds with {result.confidence} in the results, with {level} in the certificate"
    if statement.find is not None and result.verdict != "refuted":
        ends = (statement.find.lower, statement.find.upper)
        own = tuple(None if end is None else float(Fraction(end)) for end in ends)
        if own != (result.lower, result.upper):
            return (
                f"is between {result.lower} and {result.upper} in the results, between {own[0]} "
                f"and {own[1]} in the certificate"
            )
    return ""


def _normal_form(
    statement: StatementPart,
    lets: Mapping[str, Part],
    files: Mapping[int, FilePart] | Mapping[int, HeldFile],
) -> object:
    """Return a statement with files named by digest and calls unnumbered."""

    def normalize(node: Any) -> Any:
        if isinstance(node, dict):
            if node.get("type") == "file":
                return {"type": "file", "sha256": files[node["file"]].sha256}
            if node.get("type") == "call":
                node = {**node, "number": 0}
            return {key: normalize(each) for key, each in node.items()}
        return [normalize(each) for each in node] if isinstance(node, list | tuple) else node

    return normalize(plain({"statement": statement, "lets": dict(lets)}))


def searched_ends(result: Result, sign: float) -> tuple[float | None, float | None]:
    """Return the bounds as certificates count them: of a greatest number those of its negative."""
    if sign > 0:
        return result.lower, result.upper
    low, high = result.upper, result.lower
    return (None if low is None else -low), (None if high is None else -high)


def limit_words(upper: float, sign: float) -> str:
    """Return a proved bound in words, of a greatest number what its negative is at least."""
    return f"at most {bound(upper, up=True)}" if sign > 0 else f"at least {bound(-upper)}"


def reaches(proved: float, told: float | None) -> bool:
    """Return whether a proved bound reaches a stated one, up to a claim's padding."""
    return told is None or proved <= told + _padding(told)


def is_about(found: float | None, told: float) -> bool:
    """Return whether a replayed value equals the stated one, up to rounding of runtimes."""
    return found is not None and found >= told - _padding(told)


def _padding(bound: float) -> float:
    """Return the most by which a claim's bound may be raised when written."""
    return _CLOSE * (1 + abs(bound))


def is_closed(lower: float, upper: float | None) -> bool:
    """Return whether the bounds of a find are close enough to call it proved."""
    if upper is None:
        return False
    return upper - lower <= max(1e-9, _AGREE * max(abs(lower), abs(upper)))
