"""Results about all rows, of which a sample was left out, against what a certificate proves."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from leaveout.verifier.amounts import bound
from leaveout.verifier.checker import Checked
from leaveout.verifier.checker.sampled import SampledSubject
from leaveout.verifier.evidence.leak_claims import asked_of_leaks
from leaveout.verifier.report import SAMPLE, Report, Result, StatementRecord

__all__ = ["other_sample", "over_sample"]

_CLOSE = 1e-6
"""Claims are padded by less when they are written."""


def other_sample(subject: SampledSubject, result: Result, report: Report) -> str:
    """Return in what a claim is of another sample, or shared otherwise; empty where in nothing."""
    facts = next((each.facts for each in result.facts if each.name == SAMPLE), None)
    if facts is None:
        return "is about its members in the results, about all rows in the certificate"
    drawn = subject.part.sample
    own = {
        "rows": drawn.rows,
        "sample": drawn.size,
        "share": float(subject.share),
        "draw": drawn.draw,
        "draws": drawn.draws,
    }
    for name, value in own.items():
        if facts.get(name) != value:
            return f"has {name} {facts.get(name)} in the results, {value} in the certificate"
    level = float(subject.confidence)
    if result.confidence != level:
        return f"holds with {result.confidence} in the results, with {level} in the certificate"
    shared = sum(each.sampled for each in report.results)
    if subject.part.results < shared:
        return (
            f"shares what may be wrong with {subject.part.results} results in the certificate, and "
            f"{shared} rest on samples"
        )
    error = (1 - subject.confidence) / (subject.part.results * drawn.draws)
    if facts.get("error") != float(error):
        return (
            f"may be wrong with {facts.get('error')} in the results, with {float(error)} in the "
            "certificate"
        )
    return ""


def over_sample(
    claims: Sequence[Checked], result: Result, said: StatementRecord | None
) -> tuple[str, bool]:
    """Return what is proved of a statement about all rows, and whether that is all it says."""
    one = claims[0]
    subject, upper = one.subject, one.upper
    assert isinstance(subject, SampledSubject) and upper is not None
    told = "no answer changes" if upper < 0 else f"at most {bound(upper, up=True)}"
    told = f"at {float(subject.confidence):g} over the draw, {told}"
    asked = None if said is None else asked_of_leaks(said)
    if asked is None or asked.share is None or asked.level is None:
        return told, False
    same = (
        Fraction(repr(asked.share)) == subject.share
        and Fraction(repr(asked.level)) == subject.confidence
    )
    labels = {each.label for each in subject.part.bounds}
    wanted = set(range(subject.base.labels))
    if asked.label is not None:
        wanted = {asked.label}
    elif result.kind == "find" and result.label is not None:
        wanted = {result.label}
    whole = same and wanted <= labels and len(claims) == 1
    if not wanted <= labels:
        told += f", of label{'s' * (len(labels) > 1)} {', '.join(map(str, sorted(labels)))}"
    proved = whole and result.verdict != "refuted" and _reaches(upper, result.upper)
    if result.verdict == "proved":
        proved = proved and asked.follows(upper)
    return told, proved


def _reaches(proved: float, told: float | None) -> bool:
    """Whether what is proved is all that is told, but for what claims are padded by."""
    return told is None or proved <= told + _CLOSE * (1 + abs(told))
