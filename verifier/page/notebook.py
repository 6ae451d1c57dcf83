"""Results in a notebook: a table and notes in the markup of the page."""

from __future__ import annotations

from leaveout.verifier.amounts import MISSING, duration, ends
from leaveout.verifier.page.markup import (
    Child,
    Column,
    code,
    confidence_suffix,
    join_children,
    table,
    tag,
)
from leaveout.verifier.page.model import label
from leaveout.verifier.report import Report, Result


def fragment(report: Report) -> str:
    """Return the results of a run as an HTML fragment without its own styles."""
    columns = [Column("Statement"), Column("Label"), Column("Verdict")]
    columns += [Column(name, number=True) for name in ("Lower", "Upper", "Time")]
    rows: list[list[Child]] = [
        [
            code(result.name),
            label(result),
            result.verdict
            + confidence_suffix(None if result.verdict == "unknown" else result.confidence),
            *ends(result.lower, result.upper, MISSING),
            duration(result.seconds),
        ]
        for result in report.results
    ]
    said = [line for result in report.results for line in _result_notes(result)]
    for answers in report.answers:
        said += [answers.words, *(each.words for each in answers.labels if each.words)]
    return join_children(
        table("Verdicts and bounds", columns, rows),
        tag("ul", [tag("li", line) for line in said]) if said else None,
        tag("ul", [tag("li", note) for note in report.notes], class_="notes")
        if report.notes
        else None,
    )


def _result_notes(result: Result) -> list[str]:
    """Return the notes on a result: what shows it, why it is unknown, advice."""
    shown = [each.words for each in (result.witness, result.example) if each is not None]
    quiet = result.kind == "guarantee" and result.verdict == "proved"
    reasons = [] if result.reason is None else [f"unknown: {result.reason}"]
    reasons += [f"advice: {each}" for each in result.advice]
    return [f"{result.title}: {each}" for each in (*(() if quiet else shown), *reasons)]
