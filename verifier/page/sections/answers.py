"""How many answers to a run's rows no single record can change."""

from __future__ import annotations

from leaveout.verifier.amounts import bound
from leaveout.verifier.page.markup import Child, Html, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.records import AnswersRecord

_COLUMNS = ("Answers", "Bound", "Owe nothing", "Not above the bound", "Bound unknown", "Outside")


def answers(page: Page) -> Html | None:
    """Return a sentence and table per network that rows were given to, or None."""
    found = [each for run in page.runs for each in run.report.answers]
    return join_children(_answers_table(each) for each in found) if found else None


def _answers_table(found: AnswersRecord) -> Html:
    """Return the table of the answers of one network."""
    rows: list[list[Child]] = [
        [
            f"{each.label} ({each.name})" if each.name else str(each.label),
            f"{each.answers:,}",
            bound(each.upper, up=True),
            *(f"{n:,}" for n in (each.owe_nothing, each.not_above, each.unknown, each.outside)),
        ]
        for each in found.labels
    ]
    columns = [Column("Label"), *(Column(title, number=True) for title in _COLUMNS)]
    outside = [tag("li", each) for each in found.outside]
    return join_children(
        tag("p", f"{found.words}."),
        table(f"Answers to {found.data}", columns, rows),
        tag("p", "Outside the set of inputs, where nothing is proved:") if outside else None,
        tag("ul", outside) if outside else None,
    )
