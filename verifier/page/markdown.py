"""The Markdown summary for a model card: sentences, bounds and digests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from leaveout.verifier.amounts import MISSING, ends
from leaveout.verifier.page.first_page.scope import models, named_files
from leaveout.verifier.page.first_page.sentences import state
from leaveout.verifier.page.first_page.show import Summary, summary
from leaveout.verifier.page.markup import clean, confidence_suffix
from leaveout.verifier.page.model import Page, label
from leaveout.verifier.report import Result

# What any common reader of Markdown gives a meaning, wherever in a line it stands. A dot or a
# bracket after a number, a hyphen and a plus have one at the start of a line only, where no text
# of others stands.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$&!^@]")
_FENCE = re.compile("`+")


def text(words: str) -> str:
    """Return a text on one line with all Markdown and HTML syntax escaped."""
    line = clean(" ".join(words.split()))
    return _SPECIAL.sub(_escape_sign, line)


def _escape_sign(found: re.Match[str]) -> str:
    sign = found[0]
    # As HTML these are safe in readers that know no backslash before them, too.
    return {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}.get(sign, f"\\{sign}")


def code_span(words: str) -> str:
    """Return a name as a code span, safe against backquotes and table bars."""
    line = clean(" ".join(words.split())) or " "
    if "|" in line:
        # Within a table a bar ends the cell even in code.
        return text(line)
    longest = max((len(each) for each in _FENCE.findall(line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return f"{fence}{room}{line}{room}{fence}"


def list_items(lines: Iterable[str], numbered: bool = False) -> str:
    """Return a list of lines that are already Markdown."""
    return "".join(
        f"{f'{at}.' if numbered else '-'} {line}\n" for at, line in enumerate(lines, start=1)
    )


def rows(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """Return table rows of cells that are already Markdown."""
    head = f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in cells)


MARK = "<!-- leaveout report: summary -->"
"""What every summary begins with, so that it is known again."""


def markdown(page: Page) -> str:
    """Return the Markdown summary of a page; equal results give equal text.

    It names no training record and no input, because anyone can read a model card.
    """
    said = summary(page)
    parts = [MARK, f"## {text(state(page))}", _subject(page)]
    if said.answers:
        parts.append("\n\n".join(f"**{text(each)}**" for each in said.answers))
    if said.lines:
        parts += ["### What was found", _finding_lines(said)]
    results = [result for run in page.runs for result in run.report.results]
    if any(each.lower is not None or each.upper is not None for each in results):
        parts += ["### Bounds", _bounds(page)]
    for title, lines in (
        ("What this covers", said.scope.covered),
        ("What it does not cover", said.scope.not_covered),
    ):
        if lines:
            parts += [f"### {title}", list_items(map(text, lines))]
    if said.assumptions:
        trusted = [
            text(f"{', '.join(each.about)}: {each.words}." if each.about else f"{each.words}.")
            for each in said.assumptions
        ]
        parts += ["### What the results rest on", list_items(trusted, numbered=True)]
    files = [
        (
            text(each.role),
            code_span(each.name),
            code_span(each.digest) if each.digest else "not known",
        )
        for each in named_files(page, everything=True)
    ]
    parts += ["### Files", rows(("File", "Name", "sha256"), files)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _subject(page: Page) -> str:
    lines = [f"{text(each.role)} {code_span(each.name)}" for each in models(page)]
    about = [f"Of: {'; '.join(lines)}."] if lines else []
    versions = ", ".join(dict.fromkeys(run.report.leaveout for run in page.runs))
    days = f" on {' and '.join(page.days)}" if page.days else ""
    return " ".join([*about, f"Decided with leaveout {text(versions + days)}."])


def _finding_lines(said: Summary) -> str:
    lines = []
    for each in said.lines:
        rests = ", ".join(map(str, each.rests_on))
        refers = f" (Rests on {rests}.)" if rests else ""
        of = f" ({code_span(each.file)})" if each.file else ""
        verdict = each.statement.verdict + confidence_suffix(each.statement.confidence)
        lines.append(
            f"**{verdict}** {text(each.words)} {code_span(each.statement.name)}{of}{refers}"
        )
    return list_items(lines)


def _verdict(result: Result) -> str:
    sure = None if result.verdict == "unknown" else result.confidence
    return result.verdict + confidence_suffix(sure)


def _bounds(page: Page) -> str:
    cells = []
    for run in page.runs:
        for result in run.report.results:
            if result.lower is None and result.upper is None:
                continue
            file = [code_span(run.name)] if page.several else []
            shown = ends(result.lower, result.upper, MISSING)
            said = code_span(result.name), text(label(result)), _verdict(result)
            cells.append([*file, *said, *shown])
    file = ["File"] if page.several else []
    return rows([*file, "Statement", "Label", "Verdict", "Lower", "Upper"], cells)
