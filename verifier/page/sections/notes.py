"""What a reader should know of the results: what was assumed, and what was set."""

from __future__ import annotations

from collections.abc import Container

from leaveout.verifier.page.markup import Html, code, joined, tag
from leaveout.verifier.page.model import Page, Run

__all__ = ["notes"]


def notes(page: Page) -> Html | None:
    """Return the notes of all runs, None where there are none."""
    found = [_run(page, run) for run in page.runs if run.report.notes or run.unread]
    return joined(found) if found else None


def _run(page: Page, run: Run) -> Html:
    said = [tag("li", note) for note in _gathered(run.report.notes, page.functions)]
    if run.unread:
        names = ", ".join(run.unread)
        said.append(tag("li", f"The file holds what this page does not show: {names}."))
    return joined(
        tag("h3", code(run.name)) if page.several else None, tag("ul", said, class_="notes")
    )


def _gathered(notes: tuple[str, ...], functions: Container[str]) -> list[str]:
    """Return notes, each once; what several functions say alike is said once of all of them."""
    about: dict[str, dict[str, None]] = {}
    for note in notes:
        head, colon, rest = note.partition(": ")
        known = colon and head in functions
        about.setdefault(rest if known else note, {}).update({head: None} if known else {})
    return [f"{', '.join(heads)}: {text}" if heads else text for text, heads in about.items()]
