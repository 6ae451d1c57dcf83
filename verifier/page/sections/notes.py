"""Notes for the reader: assumptions and settings."""

from __future__ import annotations

from collections.abc import Container

from leaveout.verifier.page.first_page.rests_on import Assumption, assumptions, is_assumption
from leaveout.verifier.page.markup import Html, code, join_children, tag
from leaveout.verifier.page.model import Page, Run


def notes(page: Page) -> Html | None:
    """Return the numbered assumptions, then the notes of all runs, or None."""
    trusted = [_assumption(page, each) for each in assumptions(page)]
    found = [each for run in page.runs if (each := _run_notes(page, run)) is not None]
    if not trusted and not found:
        return None
    return join_children(
        tag("p", "Not checked, but taken as it was told:") if trusted else None,
        tag("ol", trusted, class_="notes rests-on") if trusted else None,
        tag("p", "What else a reader should know:") if trusted and found else None,
        found,
    )


def _assumption(page: Page, each: Assumption) -> Html:
    about = f"{', '.join(each.about)}: " if each.about else ""
    names = [
        join_children(tag("a", code(one.name), href=f"#{one.anchor}"))
        for one in page.statements
        if one.anchor in each.anchors
    ]
    of = [join_children(", " if at else " Of ", name) for at, name in enumerate(names)]
    words = f"{about}{each.words}."
    text = tag("small", of, ".") if of else None
    return tag("li", words, text, id=f"rests-on-{each.number}")


def _run_notes(page: Page, run: Run) -> Html | None:
    said = [tag("li", note) for note in _group_notes(run.report.notes, page.functions)]
    if run.unread:
        names = ", ".join(run.unread)
        said.append(tag("li", f"The file holds what this page does not show: {names}."))
    if not said:
        return None
    return join_children(
        tag("h3", code(run.name)) if page.several else None, tag("ul", said, class_="notes")
    )


def _group_notes(notes: tuple[str, ...], functions: Container[str]) -> list[str]:
    """Return each note once, joining the functions that share it."""
    about: dict[str, dict[str, None]] = {}
    for note in notes:
        if is_assumption(note):
            continue
        head, colon, rest = note.partition(": ")
        known = colon and head in functions
        about.setdefault(rest if known else note, {}).update({head: None} if known else {})
    return [f"{', '.join(heads)}: {text}" if heads else text for text, heads in about.items()]
