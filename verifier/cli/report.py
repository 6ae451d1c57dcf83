"""``leaveout report``: results as a page or as a Markdown summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leaveout.errors import SpecError
from leaveout.verifier.cli.output import write_out
from leaveout.verifier.cli.parameters import argument, flag, option


def report(
    results: list[str] = argument(
        "Results, as verify --json writes them. Several share one page and their curves one "
        "chart; '-' reads standard input.",
        metavar="RESULT.json",
    ),
    output: str = option(
        "Output file: an HTML page, or by its suffix .md (a summary for a model card), .sarif "
        "(SARIF for code scanning) or .cdx.json (a CycloneDX ML-BOM). An existing file is "
        "replaced only if it is of that kind.",
        "-o",
        "--output",
        default="report.html",
        metavar="FILE",
    ),
    data: str | None = option(
        "Points to compare with the bounds: an NPZ with X_test (or X) and, if known, y_test (or "
        "y), or a CSV in the units of the training data.",
        "--data",
        metavar="FILE",
    ),
    date: str = option(
        "Date of results that do not state it, e.g. 2026-11-23, for the first page; without it "
        "the page leaves a blank line for it.",
        "--date",
        default="",
        metavar="DATE",
    ),
    without_names: bool = flag(
        "--without-names",
        "Leave out names of training rows, the inputs that were found, and the ranges of columns: "
        "for readers who may not see the training data.",
    ),
    guard: Path | None = option(
        "Folder that leaveout guard serves: the page says how many questions it has answered with "
        "noise, and at which epsilon.",
        metavar="DIR",
    ),
) -> None:
    """Make an HTML page of results, to read, print, sign or send.

    The first page says in plain sentences what was found, what that covers and what it does not,
    with lines for signatures. Each statement follows with its bounds, its leak or counter-example,
    and curves of what is certified. The page needs only a browser, no network, and is reproducible.
    Statements are shown if the specification is where the results say, or next to them.

    It also answers what is asked next: whether a guard runs (--guard), whether the page holds
    personal data (--without-names leaves it out), how the figures compare, what is unknown.

    With --data the page also shows how confidently the network answers your points, and how many of
    the answers the proved bound alone protects.

    For example: leaveout verify idp.spec --json result.json, then leaveout report result.json

    Exit status: 0 the page is written, 2 bad input.
    """
    from leaveout.verifier.evidence.exports import export, is_export

    if is_export(output):
        given = {"--data": data, "--without-names": without_names or None, "--guard": guard}
        for name in (name for name, value in given.items() if value is not None):
            raise SpecError(f"{name} needs a page: drop it, or name a page with -o")
        export(results, output)
        write_out(f"{output}\n")
        return
    from leaveout.verifier.page import Page, load
    from leaveout.verifier.page.loading import check_day, day, guard_accounts
    from leaveout.verifier.page.target import is_markdown, open_page, page_bytes

    if guard is not None and is_markdown(Path(output)):
        raise SpecError("--guard needs a page: drop it, or name a page with -o, e.g. report.html")
    target = open_page(output)
    when = day(date)
    runs = load(results)
    check_day(when, runs)
    accounts = None if guard is None else guard_accounts(guard, runs)
    page = Page(runs, date=when, guard=accounts)
    if data is not None:
        from leaveout.verifier.page.confidences import confidences
        from leaveout.verifier.points.given import GivenPoints

        found, left_out = confidences(runs, GivenPoints.open(data))
        page = replace(page, confidences=found, left_out=left_out, data=Path(data).name)
    if without_names:
        from leaveout.verifier.page.without_names import without_names as redacted

        page = redacted(page)
    target.write(page_bytes(page, Path(output)))
    write_out(f"{output}\n")
