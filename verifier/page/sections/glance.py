"""The overview table with one row per result."""

from __future__ import annotations

from leaveout.verifier.amounts import MISSING, duration, ends
from leaveout.verifier.page.icons import verdict
from leaveout.verifier.page.markup import Child, Html, code, tag
from leaveout.verifier.page.model import Page, Statement, label
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.report import Result


def glance(page: Page) -> Html | None:
    """Return the table of results; None if there are none."""
    results = [result for run in page.runs for result in run.report.results]
    if not results:
        return None
    labels = any(result.label is not None for result in results)
    columns = [Column("Statement"), Column("Verdict")]
    columns += [Column("File")] if page.several else []
    columns += [Column("Label", number=True)] if labels else []
    columns += [Column(name, number=True) for name in ("Lower", "Upper", "Time")]
    rows = [
        _row(statement, result, run.name if page.several else None, labels)
        for run in page.runs
        for statement in run.statements
        for result in statement.results
    ]
    return table("Verdicts and bounds", columns, rows)


def _short_verdict(statement: Statement, result: Result) -> Html:
    sure = result.verdict != "unknown"
    return verdict(result.verdict, statement.confidence if sure else None)


def _row(statement: Statement, result: Result, file: str | None, labels: bool) -> list[Child]:
    name = tag("a", code(result.name), href=f"#{statement.anchor}")
    cells: list[Child] = [name, _short_verdict(statement, result)]
    if file is not None:
        cells.append(file)
    if labels:
        cells.append(label(result))
    cells += [*ends(result.lower, result.upper, MISSING), duration(result.seconds)]
    return cells
