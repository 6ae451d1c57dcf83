"""Results without the rows and inputs that they name."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from leaveout.verifier.page.evidence import SHOWN_BY
from leaveout.verifier.page.model import Page
from leaveout.verifier.records import ExampleRecord, FactsRecord, GroupsRecord, WitnessRecord
from leaveout.verifier.report import Report, Result

LEFT_OUT = "An input was found that shows it. It is left out of this page, as are names of rows."


def without_names(page: Page) -> Page:
    """Return a page that names no training row, no input and no range of a column."""
    runs = tuple(replace(each, report=_report(each.report)) for each in page.runs)
    return replace(page, runs=runs, named=False)


def _report(report: Report) -> Report:
    return structs.replace(
        report,
        results=tuple(map(_result, report.results)),
        answers=tuple(structs.replace(each, outside=()) for each in report.answers),
        by_row=(),
        models=tuple(structs.replace(each, columns=()) for each in report.models),
    )


def _result(result: Result) -> Result:
    return structs.replace(
        result,
        witness=None if result.witness is None else _witness(result.witness),
        example=None if result.example is None else _example(result.example),
        facts=tuple(map(_facts, result.facts)),
        groups=tuple(map(_groups, result.groups)),
    )


def _witness(witness: WitnessRecord) -> WitnessRecord:
    """Return a witness of which its confidence is left, and which model it is of."""
    return structs.replace(
        witness, x=(), member=-1, removed=-1, scores=(), member_scores=(), words=LEFT_OUT,
        cells=(), removed_id="", group="",
    )  # fmt: skip


def _example(example: ExampleRecord) -> ExampleRecord:
    return structs.replace(
        example, points={}, scores={}, labels={}, members={}, removed={}, words=LEFT_OUT,
        facts={}, removed_ids={}, features=(),
    )  # fmt: skip


def _facts(record: FactsRecord) -> FactsRecord:
    """Return facts without rows: deleted ones, and of functions of others all that may be."""
    known = record.name in SHOWN_BY and record.name != "unlearn"
    kept = {
        name: fact
        for name, fact in record.facts.items()
        if known or (name != "rows" and not isinstance(fact, str | tuple))
    }
    return structs.replace(record, facts=kept)


def _groups(tree: GroupsRecord) -> GroupsRecord:
    groups = tuple(structs.replace(each, rows=(), ids=()) for each in tree.groups)
    return structs.replace(tree, groups=groups)
