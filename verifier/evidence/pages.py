"""The readable parts of an evidence folder: page, summary and training rows."""

from __future__ import annotations

from leaveout.verifier.evidence.parts import Given
from leaveout.verifier.page import Page, document, load
from leaveout.verifier.page.markdown import markdown
from leaveout.verifier.row_records import RowRecord as Row
from leaveout.verifier.rows.known import in_order, rows, to_csv, to_json


def page(given: Given) -> bytes:
    """Return the HTML page of the results."""
    return document(_page(given)).encode()


def summary(given: Given) -> bytes:
    """Return the page's summary in Markdown."""
    return markdown(_page(given)).encode()


def rows_csv(given: Given) -> bytes | None:
    """Return the results per training row as CSV; None if there are none."""
    found = _rows(given)
    return to_csv(found).encode() if found else None


def rows_json(given: Given) -> bytes | None:
    """Return the results per training row as JSON; None if there are none."""
    found = _rows(given)
    return to_json(found) if found else None


def _page(given: Given) -> Page:
    return Page(load([str(given.result)]), date=given.report.date.partition("T")[0])


def _rows(given: Given) -> list[Row]:
    return in_order(rows(given.report)) if given.report.by_row else []
