"""The whole page: head, verdict and sections in order."""

from __future__ import annotations

from collections import Counter
from importlib import resources

import leaveout
from leaveout.verifier.page.first_page.scope import SHORT
from leaveout.verifier.page.first_page.sentences import empty_claims, state
from leaveout.verifier.page.first_page.show import findings, form, subject, summary
from leaveout.verifier.page.markup import Html, clean, code, icon, join_children, tag
from leaveout.verifier.page.model import Page, overall
from leaveout.verifier.page.sections import SECTIONS
from leaveout.verifier.report import Verdict

MARK = '<meta name="generator" content="leaveout report">'
"""What every page holds near its start, so that it is known again."""

# Should a name ever slip through as markup, it can neither run nor load anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"

_STYLES = ("chart", "style", "print")

_SHEET = 4  # digests at the foot of a printed sheet

_FOLDED = (
    "In the file of this page but not printed: the statements as written, charts of their "
    "bounds, inputs where one record changes an answer with their scores, smaller groups of "
    "members, bounds over time, all numbers of the charts, how each statement was decided, and "
    "a glossary."
)


def document(page: Page) -> str:
    """Return a page as HTML; equal results give an equal page."""
    shown = [(each, found) for each in SECTIONS if (found := each.show(page)) is not None]
    links = [tag("li", tag("a", each.title, href=f"#{each.anchor}")) for each, _ in shown]
    sections = [
        tag(
            "section",
            tag("h2", each.title, id=f"{each.anchor}-title"),
            found,
            id=each.anchor,
            aria_labelledby=f"{each.anchor}-title",
        )
        for each, found in shown
    ]
    skip = tag("a", "To the verdict", href="#verdict", class_="skip")
    header = tag("header", skip, tag("p", tag("strong", "leaveout"), " report"), class_="masthead")
    nav = tag("nav", tag("ul", links), aria_label="Sections")
    first = tag(
        "div",
        _verdict(page),
        subject(page),
        findings(summary(page)) if page.statements else None,
        form() if page.statements else None,
        class_="first",
    )
    main = tag("main", first, nav, _lines(sections), id="verdict")
    made = f"Made by leaveout {leaveout.__version__}."
    folded = tag("p", _FOLDED, class_="on-paper")
    body = tag("body", header, main, tag("footer", folded, tag("p", made)))
    return f'<!DOCTYPE html>\n<html lang="en">\n{_head(page)}\n{body}\n</html>\n'


def _head(page: Page) -> Html:
    folder = resources.files("leaveout.verifier.page")
    style = "".join(folder.joinpath(f"{each}.css").read_text("utf-8") for each in _STYLES)
    title = ", ".join(clean(run.report.spec.partition("\n")[0]) for run in page.runs[:3])
    return tag(
        "head",
        Html('\n<meta charset="utf-8">\n'),
        Html(f"{MARK}\n"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
        Html('<meta name="color-scheme" content="light dark">\n'),
        # Without it a browser asks for one.
        Html('<link rel="icon" href="data:,">\n'),
        tag("title", f"{state(page)}: {title[:120]} – leaveout"),
        Html(f"\n<style>\n{style}{_footer(page)}</style>\n"),
    )


def _footer(page: Page) -> str:
    """Return the style that prints digests on each sheet: hexadecimal digits, no foreign text."""
    digests = ", ".join(run.digest[:SHORT] for run in page.runs[:_SHEET])
    more = f" and {len(page.runs) - _SHEET}" if len(page.runs) > _SHEET else ""
    said = f'content: "Results {digests}{more}"; font: 7.5pt sans-serif; color: #57606a;'
    return f"@page {{ @bottom-left {{ {said} }} }}\n"


def _verdict(page: Page) -> Html:
    worst = overall(statement.verdict for statement in page.statements)
    if worst == "proved" and empty_claims(page):
        worst = "unknown"
    known = bool(page.statements)
    specs = ", ".join(dict.fromkeys(run.report.spec.partition("\n")[0] for run in page.runs))
    counts = Counter(statement.verdict for statement in page.statements)
    words: tuple[Verdict, ...] = ("proved", "refuted", "unknown")
    tally = [
        tag(
            "li",
            icon(word),
            tag("span", f"{counts[word]:,}", class_="count"),
            f" {word}",
            class_=word if counts[word] else f"{word} none",
        )
        for word in words
    ]
    return tag(
        "div",
        icon(worst) if known else None,
        tag("h1", f"{state(page)}."),
        tag("p", code(specs[:400]), class_="spec"),
        tag("ul", tally, class_="tally") if known else None,
        class_=f"hero {worst}" if known else "hero",
    )


def _lines(parts: list[Html]) -> Html:
    return Html("\n" + "\n".join(join_children(part) for part in parts) + "\n")
