"""``leaveout report``: results as a page."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT.json",
            help="What verify --json wrote; several are shown on one page, their curves in one "
            "chart. '-' reads standard input.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The page. A file that exists is replaced only if it is such a page.",
        ),
    ] = "report.html",
) -> None:
    """Make one HTML page of results, to read, print or send.

    The verdict comes first, then each statement: what it says, its bounds, the leak or the
    counter-example, and curves of what is certified. The page needs no network and no program but
    a browser, and is the same for the same files. What a statement says is shown if the
    specification lies where the results say, or beside them.

    For example: leaveout verify idp.spec --json result.json, then leaveout report result.json

    Curves need matplotlib, which the extra 'report' installs.

    Exit status: 0 the page is written, 2 bad input.
    """
    from leaveout.verifier.cli.target import reader_may_leave
    from leaveout.verifier.page import Page, document, load
    from leaveout.verifier.page.target import PageTarget

    target = PageTarget.open(output)
    target.write(document(Page(load(results))))
    with reader_may_leave():
        sys.stdout.write(f"{output}\n")
