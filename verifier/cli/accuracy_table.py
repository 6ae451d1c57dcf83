"""The accuracy of votes per label, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from leaveout.specs.deciders import Accuracy
from leaveout.verifier.accuracy_tables import (
    AccuracyTable,
    baseline,
    label_text,
    least,
    no_better,
    right_share,
    safe_share,
    tables,
)
from leaveout.verifier.amounts import share
from leaveout.verifier.report import Report

_MOST = 10
"""Labels that are all shown."""
_WORST = 5
"""Of more labels, shown where they differ much."""
_MUCH = 0.1
_NAME = 28
"""Of a label, so many characters: its figures need the rest of a line of 80."""
_COLUMNS = 4
"""Statements side by side."""


def accuracies(report: Report) -> Iterator[RenderableType]:
    """Yield lines and tables for each vote that statements are about."""
    for table in tables(report.results):
        record = table.record
        yield Text(f"{record.votes}, {record.file}: {baseline(record)}")
        for at in range(0, len(table.columns), _COLUMNS):
            yield from _labels(AccuracyTable(table.columns[at : at + _COLUMNS]))
        yield from (Text(_warning(*each)) for each in table.columns if no_better(each[1]))
        yield Text()


def _labels(table: AccuracyTable) -> Iterator[RenderableType]:
    order = table.worst_first()
    if not order:
        return
    if len(order) <= _MOST:
        yield _table(table, order)
        return
    if any(_spread(record) > _MUCH for _, record in table.columns):
        yield _table(table, order[:_WORST])
        yield Text(f"  and {len(order) - _WORST:,} labels of which more is certified")
        return
    for name, record in table.columns:
        worst = least(record) or record.labels[0]
        yield Text(
            f"  {name}: least certified of label {label_text(worst.label, worst.name)}: "
            f"{safe_share(worst)} of its {worst.points:,} test points"
        )


def _table(table: AccuracyTable, labels: list[int]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown.add_column("  true label", no_wrap=True)
    shown.add_column("test points", justify="right", no_wrap=True)
    shown.add_column("right", justify="right", no_wrap=True)
    for title in table.titles():
        shown.add_column(title.replace(": ", "\n"), justify="right", no_wrap=True)
    for each in table.only(labels):
        shown.add_row(
            Text(f"  {_short(label_text(each.label, each.name))}"),
            f"{each.points:,}",
            right_share(each),
            *table.cells(each.label),
        )
    return shown


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _spread(record: Accuracy) -> float:
    shares = [each.lower / each.points for each in record.labels]
    return max(shares) - min(shares) if shares else 0.0


def _warning(name: str, record: Accuracy) -> str:
    assert record.lower is not None
    common = _short(label_text(record.common, record.common_name))
    return (
        f"warning: {name}: {share(record.lower / record.points)} certified is no better than "
        f"always answering {common}, which no change makes wrong more often"
    )
