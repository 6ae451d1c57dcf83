"""The text of the first page, from which the page and the Markdown summary are made."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.verifier.page.first_page.scope import Scope, scope
from leaveout.verifier.page.first_page.sentences import (
    Assumption,
    assumption_numbers,
    assumptions,
    of_answers,
    of_statement,
)
from leaveout.verifier.page.model import Page, Statement


@dataclass(frozen=True)
class Line:
    """The text for one statement."""

    statement: Statement
    words: str  # one sentence, or few
    rests_on: tuple[int, ...]  # numbers of assumptions
    file: str = ""  # its results, where there are several files; else empty


@dataclass(frozen=True)
class Summary:
    """The text of the first page."""

    answers: tuple[str, ...]  # a sentence for each network that rows were given to
    lines: tuple[Line, ...]  # one a statement
    scope: Scope
    assumptions: tuple[Assumption, ...]


def summary(page: Page) -> Summary:
    """Return the text of a page's first page."""
    rests = assumptions(page)
    lines: list[Line] = []
    topics: list[str] = []
    for run in page.runs:
        for statement in run.statements:
            said = of_statement(page, run, statement)
            topics += said.topics
            file = run.name if page.several else ""
            lines.append(Line(statement, said.words, assumption_numbers(rests, statement), file))
    answers = tuple(of_answers(each) for run in page.runs for each in run.report.answers)
    return Summary(answers, tuple(lines), scope(page, topics), rests)
