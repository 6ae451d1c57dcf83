"""Results held against what a certificate was found to prove of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from leaveout.verifier.amounts import bound
from leaveout.verifier.checker import Checked
from leaveout.verifier.checker.claim_words import PointsSubject
from leaveout.verifier.checker.ensembles.subject import ForestSubject
from leaveout.verifier.checker.expressions.statements import ValueSubject
from leaveout.verifier.checker.inputs import Inputs
from leaveout.verifier.checker.sampled import SampledSubject
from leaveout.verifier.checker.subject import Subject
from leaveout.verifier.evidence.errors import TamperedError
from leaveout.verifier.evidence.leak_claims import asked_of_leaks
from leaveout.verifier.evidence.same_claim import is_same
from leaveout.verifier.evidence.sampled_claims import other_sample, over_sample
from leaveout.verifier.report import BoxRecord, Report, Result, StatementRecord

__all__ = ["Standing", "standings"]

_CLOSE = 1e-6
"""Claims are padded by less when they are written."""


@dataclass(frozen=True)
class Standing:
    """How a result stands to a certificate.

    Attributes
    ----------
    result : Result
    words : str
        What the certificate proves of it; empty where nothing.
    proved : bool
        Whether that is all that the result says.
    """

    result: Result
    words: str
    proved: bool


def standings(
    report: Report, checked: Sequence[Checked], attestation: Path
) -> tuple[Standing, ...]:
    """Hold every result against the claims of a certificate.

    Parameters
    ----------
    report : Report
    checked : sequence of Checked
        The claims, each proved again.
    attestation : Path
        For messages.

    Raises
    ------
    TamperedError
        If a claim is about no statement of the results, or contradicts one.
    """
    directions = {each.name: _direction(each) for each in report.statements}
    said = {each.name: each for each in report.statements}
    by_result: dict[int, list[Checked]] = {}
    for claim in checked:
        for name in _names(claim):
            own = [
                at
                for at, result in enumerate(report.results)
                if result.name == name and _is_about(claim, result)
            ]
            if not own:
                label = "" if claim.label is None else f", label {claim.label}"
                raise TamperedError(
                    f"{attestation}: the certificate claims {name}{label}, of which the results "
                    "say nothing"
                )
            for at in own:
                by_result.setdefault(at, []).append(claim)
    found = []
    for at, result in enumerate(report.results):
        claims = by_result.get(at, [])
        for claim in claims:
            wrong = _contradiction(claim, result, directions.get(result.name, ""))
            wrong = wrong or _another(claim, result, said.get(result.name), report)
            if wrong:
                raise TamperedError(f"{attestation}: statement {_called(result)!r}: {wrong}")
        if wrong := _bounded(claims, result):
            raise TamperedError(f"{attestation}: statement {_called(result)!r}: {wrong}")
        found.append(
            _standing(result, claims, said.get(result.name), directions.get(result.name, ""))
        )
    return tuple(found)


def _names(claim: Checked) -> Iterator[str]:
    """Yield the statements that a claim is of."""
    if isinstance(claim.subject, Subject | ForestSubject):
        # One search may answer several statements.
        yield from claim.name.split(", ")
    else:
        yield claim.name.partition(", ")[0]


def _is_about(claim: Checked, result: Result) -> bool:
    """Whether a claim is of a result's label; a guarantee is about all, and may name the worst."""
    own = result.label if result.kind == "find" else None
    if isinstance(claim.subject, SampledSubject):
        # Of several labels it is about all of them together.
        return own is None or claim.label == own
    return claim.label is None or own is None or claim.label == own


def _called(result: Result) -> str:
    return result.name if result.label is None else f"{result.name}, label {result.label}"


def _contradiction(claim: Checked, result: Result, direction: str) -> str:
    """Return in what a claim cannot be true beside a result; empty where it can."""
    match claim.subject:
        case Subject() | SampledSubject() | ForestSubject() as subject:
            if subject.members != result.members:
                return (
                    f"is about {result.members:,} members, the certificate about "
                    f"{subject.members:,}"
                )
            return _box(subject.inputs, result.box)
        case PointsSubject() as subject:
            inside = subject.points.inputs
            box = _box(inside[0], result.box) if inside else ""
            if box:
                return box
            if subject.points.part.decides and result.verdict == "refuted":
                return "is refuted in the results, the certificate proves it"
            return "" if subject.points.part.decides else _beside(claim, result, direction)
        case ValueSubject() as subject:
            return _value(subject, result)


def _another(claim: Checked, result: Result, said: StatementRecord | None, report: Report) -> str:
    """Return in what a claim is about something else than a statement; empty where in nothing.

    Of results of earlier versions that is not known.
    """
    match claim.subject:
        case ValueSubject() as subject if said is not None and not is_same(subject, said, report):
            return "says something else in the certificate"
        case Subject() | ForestSubject() as subject if said is not None:
            return _other_files(subject, said, report)
        case SampledSubject() as subject:
            wrong = other_sample(subject, result, report)
            return wrong or ("" if said is None else _other_files(subject.base, said, report))
    return ""


def _other_files(subject: Subject | ForestSubject, said: StatementRecord, report: Report) -> str:
    """Return in what a claim is about files that the statement does not name."""
    if any(each.kind in ("weights", "member") for each in report.files):
        # Of several files a certificate has a digest of all together.
        return ""
    named = {each.sha256 for each in report.files if set(each.called) & set(said.names)}
    # What is named in the claim itself has no name of its own.
    named |= {each.sha256 for each in report.files if f'"{each.path}"' in said.text}
    if isinstance(subject, Subject):
        about = [("network", subject.network_sha256), ("family", subject.family_sha256)]
    else:
        others = [] if subject.other is None else [("forest", subject.other[1])]
        about = [("forest", subject.sha256), *others]
    for what, digest in about:
        if digest not in named:
            return f"is about another {what} than the certificate"
    return ""


def _bounded(claims: Sequence[Checked], result: Result) -> str:
    """Hold the worst leak that was found against what is proved of all that may hold it."""
    about = [each for each in claims if isinstance(each.subject, Subject | ForestSubject)]
    if result.label is not None:
        about = [each for each in about if each.label in (None, result.label)]
    elif not _all_labels(about):
        # The leak may be of a label that nothing is claimed of.
        return ""
    uppers = [each.upper for each in about if each.upper is not None]
    # 0 is what is known of confidences before any leak is found.
    if not uppers or result.lower is None or result.lower <= max(*uppers, 0.0):
        return ""
    return (
        f"has a leak at {bound(result.lower)} in the results, the certificate proves that none "
        f"is above {bound(max(uppers), up=True)}"
    )


def _all_labels(claims: Sequence[Checked]) -> bool:
    """Whether claims about leaks are about every label together."""
    labels = {each.label for each in claims}
    for each in claims:
        match each.subject:
            case Subject() as subject if labels == set(range(subject.labels)):
                return True
            case ForestSubject() as subject if labels == set(range(len(subject.names))):
                return True
    return None in labels


def _beside(claim: Checked, result: Result, direction: str) -> str:
    """Hold what a find over points is at least, or at most, against what was found of it."""
    if result.kind != "find":
        return f"is a {result.kind}, the certificate bounds a number"
    if result.label is not None or claim.upper is None:
        # Which label a claim is of, it does not say.
        return ""
    if direction == "least" and result.lower is not None and result.lower > claim.upper:
        return (
            f"is at least {result.lower:g} in the results, at most {claim.upper:g} in the "
            "certificate"
        )
    if direction == "greatest" and result.upper is not None and result.upper < -claim.upper:
        return (
            f"is at most {result.upper:g} in the results, at least {-claim.upper:g} in the "
            "certificate"
        )
    return ""


def _direction(statement: StatementRecord) -> str:
    """Return whether a find asks for the least or the greatest number; empty of a guarantee."""
    return statement.text.removeprefix(f"find {statement.name}: ").partition(" ")[0]


def _box(inputs: Inputs, box: BoxRecord) -> str:
    if tuple(inputs.lower.tolist()) != box.lower or tuple(inputs.upper.tolist()) != box.upper:
        return "is about other inputs than the certificate"
    return ""


def _value(subject: ValueSubject, result: Result) -> str:
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


def _standing(
    result: Result, claims: Sequence[Checked], said: StatementRecord | None, direction: str
) -> Standing:
    if not claims:
        return Standing(result, "", False)
    if any(isinstance(each.subject, ValueSubject) for each in claims):
        # Whose text is not kept may say something else.
        return Standing(result, result.verdict, said is not None)
    of_samples = [each for each in claims if isinstance(each.subject, SampledSubject)]
    if of_samples:
        return Standing(result, *over_sample(of_samples, result, said))
    if any(isinstance(each.subject, PointsSubject) for each in claims):
        return _over_points(result, claims, direction)
    return _over_leaks(result, claims, said)


def _over_leaks(
    result: Result, claims: Sequence[Checked], said: StatementRecord | None
) -> Standing:
    """Say what is proved of a statement about leaks: nothing of one about anything else.

    Results of earlier versions do not say what a statement is.
    """
    asked = None if said is None else asked_of_leaks(said)
    if asked is not None and asked.share is not None:
        # What is known of members for certain is not what is said of all rows.
        asked = None
    whole = (result.kind == "find" and result.label is not None) or _all_labels(claims)
    if asked is not None and asked.label is not None:
        own = [each for each in claims if each.label in (None, asked.label)]
        claims, whole = own or claims, bool(own)
    upper = max(each.upper for each in claims if each.upper is not None)
    told = "no answer changes" if upper < 0 else f"leaks are at most {bound(upper, up=True)}"
    # Of a guarantee whose text is not kept it is not known what it asks.
    if asked is None and (said is not None or result.kind == "guarantee"):
        return Standing(result, told, False)
    told = told.removeprefix("leaks are ")
    labels = {each.label for each in claims}
    if not whole:
        listed = ", ".join(map(str, sorted(labels, key=str)))
        told += f", of label{'s' * (len(labels) > 1)} {listed}"
    # Of a refuted guarantee it bounds the worst leak; that there is one the witness shows.
    proved = whole and result.verdict != "refuted" and _reaches(upper, result.upper)
    if asked is not None and result.verdict == "proved":
        proved = proved and asked.follows(upper)
    return Standing(result, told, proved)


def _over_points(result: Result, claims: Sequence[Checked], direction: str) -> Standing:
    """Say what is proved of a claim over points; of which label a claim is, it does not say."""
    upper = max(each.upper for each in claims if each.upper is not None)
    if all(isinstance(c.subject, PointsSubject) and c.subject.points.part.decides for c in claims):
        return Standing(result, result.verdict, result.verdict == "proved")
    if result.label is not None:
        return Standing(result, "bounds of all labels", True)
    if direction == "greatest":
        told = None if result.lower is None else -result.lower
        return Standing(result, f"at least {bound(-upper)}", _reaches(upper, told))
    return Standing(result, f"at most {bound(upper, up=True)}", _reaches(upper, result.upper))


def _reaches(proved: float, told: float | None) -> bool:
    """Whether what is proved is all that is told, but for what claims are padded by."""
    return told is None or proved <= told + _CLOSE * (1 + abs(told))
