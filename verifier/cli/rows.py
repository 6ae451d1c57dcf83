"""``leaveout rows``: what is proved of each training row."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.errors import SpecError
from leaveout.files import refuse_unwritten
from leaveout.verifier.cli.output import reader_may_leave, say_notes, write_parts
from leaveout.verifier.cli.parameters import argument, flag, option
from leaveout.verifier.cli.progress import live_line
from leaveout.verifier.output_file import OutputFile

if TYPE_CHECKING:
    from leaveout.verifier.cli.rows_table import InputWords
    from leaveout.verifier.report import Report


class _Order(StrEnum):
    BOUND = "bound"
    LEAK = "leak"
    CHANGED = "changed"
    ROW = "row"
    NAME = "name"


def rows(
    result: Path = argument("Results, as verify --json writes them.", metavar="RESULT.json"),
    data: Path | None = option(
        "Points, as for verify --data: report which answers to them change without each row. "
        "Every member is evaluated.",
        metavar="FILE",
    ),
    json: str | None = option("Write all rows as JSON; '-' is standard output.", metavar="FILE"),
    csv: str | None = option("Write all rows as CSV; '-' is standard output.", metavar="FILE"),
    sort: _Order = option(
        "Sort order: highest bound, worst known leak, most answers changed, or row number or name.",
        default=_Order.BOUND,
    ),
    row: str | None = option(
        "Show only this row, by name or number, with everything known about it.", metavar="NAME"
    ),
    top: int = option("Rows to show in the table.", default=20, min=1),
    time: float | None = option(
        "Seconds to search rows one at a time, highest bounds first, for a bound and a leak of "
        "their own.",
        min=0,
        shown="no search",
    ),
    update: bool = flag("--update", "Write what --time finds into RESULT.json."),
    network: Path | None = option("The network or forest, if it has moved; it must be the same."),
    family: Path | None = option("The family, if it has moved; it must be the same."),
) -> None:
    """List what is proved about each training row: its bound and its worst known leak.

    No answer with a confidence above a row's bound changes without that row; a leak is an answer
    that does. Rows that were not left out are listed too: nothing is proved about them. The list is
    personal data: protect it like the training table.

    For example: leaveout rows result.json --data patients.csv --csv rows.csv

    Exit status: 0 done, 2 bad input.
    """
    from leaveout.verifier.cli.rows_table import all_rows, single_rows
    from leaveout.verifier.page import load
    from leaveout.verifier.report import write_json
    from leaveout.verifier.rows.known import find_rows, in_order, to_csv, to_json
    from leaveout.verifier.rows.known import rows as every

    if update and time is None:
        raise SpecError("--update needs --time SECONDS: it writes what that search finds")
    if json == "-" and csv == "-":
        raise SpecError("--json - and --csv -: only one can be standard output")
    as_json, as_csv = (
        None if file is None else OutputFile.open(name, file, stdout=True)
        for name, file in (("--json", json), ("--csv", csv))
    )
    (run,) = load([str(result)])
    report, folder = run.report, result.parent
    from leaveout.verifier.points.sentences import group_notes

    say_notes(group_notes(report.training))
    if time is not None:
        report = _search(report, time, network, family, folder)
        if update:
            with refuse_unwritten(SpecError, result):
                write_json(report, result)
    found = every(report, data=data, network=network, family=family, folder=folder)
    if row is not None:
        found = find_rows(found, row)
    found = in_order(found, sort.value)
    with reader_may_leave():
        if as_json is not None:
            as_json.write(to_json(found))
        if as_csv is not None:
            as_csv.write(to_csv(found).encode())
    if "-" in (json, csv):
        return
    if row is not None:
        write_parts(single_rows(found, _inputs(report, network, family, folder)))
    else:
        write_parts(all_rows(found, top))


def _inputs(
    report: Report, network: Path | None, family: Path | None, folder: Path
) -> dict[str, InputWords]:
    """Return by model how inputs are written; as its numbers, with a note, if files are amiss."""
    from leaveout.errors import LeaveoutError
    from leaveout.models.train.encoding import cell_text
    from leaveout.verifier.rows.known import folders_of
    from leaveout.verifier.rows.points import input_words

    found: dict[str, InputWords] = {}
    for record in report.by_row:
        if record.network in found:
            continue
        try:
            found[record.network] = input_words(record, network, family, folders_of(report, folder))
        except LeaveoutError as error:
            typer.echo(f"note: inputs are shown as the model reads them: {error}", err=True)
            found[record.network] = lambda x: f"({', '.join(map(cell_text, x))})"
    return found


def _search(
    report: Report, seconds: float, network: Path | None, family: Path | None, folder: Path
) -> Report:
    """Search rows one at a time, sharing the time among models."""
    from msgspec import structs

    from leaveout.verifier.rows.known import folders_of
    from leaveout.verifier.rows.search import search_rows

    by_row = []
    with live_line("searching rows") as tell:
        for at, record in enumerate(report.by_row):
            share = seconds / (len(report.by_row) - at)
            closer, done = search_rows(
                record, share, network=network, family=family,
                folders=folders_of(report, folder),
                progress=lambda done, count: tell(f"{done:,} of {count:,} rows searched"),
            )  # fmt: skip
            by_row.append(closer)
            count = sum(map(bool, record.members))
            sys.stderr.write(f"{record.network}: {done:,} of {count:,} rows were searched\n")
            seconds -= share
    return structs.replace(report, by_row=tuple(by_row))
