"""The first page as markup: findings, scope, and lines to sign."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import leaveout
from leaveout.verifier.page.first_page.scope import (
    SHORT,
    NamedFile,
    Scope,
    models,
    named_files,
    of_model,
    scope,
)
from leaveout.verifier.page.first_page.sentences import (
    Assumption,
    assumption_numbers,
    assumptions,
    of_answers,
    of_statement,
)
from leaveout.verifier.page.markup import Child, Html, code, join_children, tag, verdict
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


_ROOM = 3  # people who can sign


def subject(page: Page) -> Html:
    """Return the subject of the page: models, files with short digests, and the date."""
    named = [join_children(f"{each.role} ", _file(each)) for each in models(page)]
    rows: list[tuple[str, Child]] = [("Models" if len(named) > 1 else "Model", _bullet_list(named))]
    if not named:
        rows = []
    reports = [run.report for run in page.runs]
    found = [
        *((each.quality, "the training rows", each.file) for r in reports for each in r.models),
        *((each.quality, each.data, each.network) for r in reports for each in r.answers),
    ]
    measured = [
        tag("span", f"of {rows}{of_model(page, file)}: {each.words}")
        for each, rows, file in found
        if each is not None
    ]
    rows += [("Accuracy", _bullet_list(measured))] if measured else []
    by_role: dict[str, list[NamedFile]] = {}
    for each in named_files(page):
        by_role.setdefault(each.role, []).append(each)
    rows += [
        (role.capitalize(), _bullet_list(_file(each) for each in found))
        for role, found in by_role.items()
    ]
    day = ", ".join(page.days) or _blank("not in the results; to be filled in")
    rows.append(("Date of the run", day))
    versions = dict.fromkeys(run.report.leaveout for run in page.runs)
    rows.append(("Decided with", f"leaveout {', '.join(versions)}"))
    if list(versions) != [leaveout.__version__]:
        rows[-1] = (rows[-1][0], f"leaveout {', '.join(versions)}; page: {leaveout.__version__}")
    return tag(
        "dl",
        [join_children(tag("dt", name), tag("dd", value)) for name, value in rows],
        class_="subject",
    )


def findings(said: Summary) -> Html:
    """Return one sentence per statement, and the scope of all of them."""
    answers = [tag("p", _bind_percent_signs(each), class_="answers") for each in said.answers]
    lines = tag("ol", [_line(each) for each in said.lines], class_="found-list")
    covered, missing = said.scope.covered, said.scope.not_covered
    columns = [
        _list("covered", "What this covers", covered),
        _list("not-covered", "What it does not cover", missing),
    ]
    return join_children(
        tag("h2", "What was found", id="found"),
        answers,
        lines if said.lines else None,
        tag("div", columns, class_="scope") if covered or missing else None,
    )


def form() -> Html:
    """Return the lines to sign on."""
    titles = ("Name", "Role", "Date", "Signature")
    head = tag("tr", [tag("th", each, scope="col") for each in titles])
    # What is written by hand has no text yet.
    row = tag("tr", [tag("td", tag("span", f"{each}, to be filled in", class_="unseen"))
                     for each in titles])  # fmt: skip
    table = tag(
        "table",
        tag("caption", "Signatures", class_="unseen"),
        tag("thead", head),
        tag("tbody", [row] * _ROOM),
    )
    return tag(
        "section",
        tag("h2", "Signatures", id="signatures-title"),
        tag(
            "p",
            "I have read this page, including what it does not cover and what the results rest on.",
        ),
        tag("div", table, class_="scroll", role="group", aria_label="Signatures", tabindex=0),
        class_="form",
        aria_labelledby="signatures-title",
    )


def _line(line: Line) -> Html:
    statement = line.statement
    name = tag("a", code(statement.name), href=f"#{statement.anchor}")
    rests = [tag("a", str(each), href=f"#rests-on-{each}") for each in line.rests_on]
    refers = join_children("; rests on ", _with_commas(rests)) if rests else None
    file = f" ({line.file})" if line.file else ""
    return tag(
        "li",
        verdict(statement.verdict, statement.confidence),
        tag(
            "p",
            _bind_percent_signs(line.words),
            " ",
            tag("small", "Details: ", name, file, refers, "."),
        ),
    )


def _bind_percent_signs(words: str) -> str:
    """Keep each percent sign on the line of its number."""
    return words.replace(" %", "\u00a0%")


def _with_commas(found: list[Html]) -> list[Html]:
    return [join_children(each, ", ") for each in found[:-1]] + found[-1:]


def _list(anchor: str, title: str, lines: Iterable[str]) -> Html | None:
    shown = [tag("li", each) for each in lines]
    if not shown:
        return None
    return tag("div", tag("h2", title, id=anchor), tag("ul", shown))


def _bullet_list(parts: Iterable[Html]) -> Child:
    return tag("ul", [tag("li", each) for each in parts])


def _file(each: NamedFile) -> Html:
    digest = (
        join_children(" ", tag("span", each.digest[:SHORT], class_="digest"))
        if each.digest
        else None
    )
    return join_children(code(each.name), digest)


def _blank(why: str) -> Html:
    return tag("span", tag("span", why, class_="unseen"), class_="blank")
