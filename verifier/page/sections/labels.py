"""The accuracy of votes per label, which one overall share would hide."""

from __future__ import annotations

from leaveout.specs.deciders import Accuracy
from leaveout.verifier.accuracy_tables import (
    AccuracyTable,
    baseline,
    label_text,
    no_better,
    right_share,
    tables,
)
from leaveout.verifier.amounts import share
from leaveout.verifier.page.markup import Child, Html, code, collapsible, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.tables import Column, table

_MOST = 10
"""Labels that are shown unfolded: those of which the least is certified."""

_READING = (
    "A share of all test points can be high where a rare label is nearly always answered wrong. "
    "Each number is the share of the test points of one true label that are answered right, "
    "whatever so many changes do."
)
_TOGETHER = (
    "Where one attack is on all test points, the lower end of a label is that of attacks on each "
    "point by itself, the upper end that of the worst attack found."
)


def labels(page: Page) -> Html | None:
    """Return a table per vote that statements are about, or None."""
    found = [
        _vote(each, run.name if page.several else "")
        for run in page.runs
        for each in tables(run.report.results)
    ]
    return join_children(tag("p", _READING), join_children(found)) if found else None


def _vote(found: AccuracyTable, file: str) -> Html:
    record = found.record
    where = f" ({file})" if file else ""
    together = any(each.together for _, each in found.columns)
    order = found.worst_first()
    shown, rest = order[:_MOST], order[_MOST:]
    return join_children(
        tag("h3", code(record.votes), ", ", code(record.file), where),
        tag("p", f"{baseline(record)}."),
        [tag("p", _warning(*each)) for each in found.columns if no_better(each[1])],
        tag("p", _TOGETHER) if together else None,
        _table(found, shown) if shown else None,
        collapsible(f"The other {len(rest):,} labels", _table(found, rest)) if rest else None,
    )


def _table(found: AccuracyTable, chosen: list[int]) -> Html:
    columns = [
        Column("True label"),
        Column("Test points", number=True),
        Column("Right", number=True),
        *(Column(title, number=True) for title in found.titles()),
    ]
    rows: list[list[Child]] = [
        [
            label_text(each.label, each.name),
            f"{each.points:,}",
            right_share(each),
            *found.cells(each.label),
        ]
        for each in found.only(chosen)
    ]
    return table(f"Labels of {found.record.votes}, {found.record.file}", columns, rows)


def _warning(name: str, record: Accuracy) -> Html:
    assert record.lower is not None
    common = label_text(record.common, record.common_name)
    return join_children(
        tag("strong", "No better than one answer to everything: "),
        code(name),
        f" certifies {share(record.lower / record.points)}; always answering {common} is right for "
        f"{share(record.common_points / record.points, up=True)}, which no change makes less.",
    )
