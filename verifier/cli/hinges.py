"""``leaveout hinges``: decisions that one other person's leaving would turn."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from leaveout.verifier.cli.options import ADOPT
from leaveout.verifier.cli.output import lines, say_notes, write_out
from leaveout.verifier.cli.parameters import argument, flag, option
from leaveout.verifier.cli.progress import counter_bar

if TYPE_CHECKING:
    from leaveout.verifier.guard.hinges import Decisions
    from leaveout.verifier.guard.subject import Subject


def hinges(
    folder: Path = argument(
        "A folder that leaveout guard serves: a network with its family and bounds, a forest, a "
        "linear model or boosted trees.",
        metavar="DIR",
    ),
    data: Path = argument(
        "The decisions: a CSV with the training table's columns, or an NPZ with X_test or X.",
        metavar="ROWS",
    ),
    person: str = option(
        "Whose decision a row is, named as the training rows are: that person's own leaving does "
        "not count.",
        "--id",
        default="",
        metavar="COLUMN",
        shown="nobody's",
    ),
    by: str = option(
        "Count by the cells of these columns of ROWS, with 95 % intervals.",
        default="",
        metavar="COLUMN,...",
        shown="all together",
    ),
    output: Path | None = option(
        "Write each decision, and on how many people it hinges.", "-o", "--output", metavar="CSV"
    ),
    names: bool = flag("--names", "Also write who they are: personal data of training rows."),
    adopt: bool = ADOPT,
) -> None:
    """List the decisions that leaving out some one other person would turn.

    Every model without one training row, or group of rows, is either evaluated or proved to agree.
    A decision that some would turn is arbitrary to that degree: the same training on almost the
    same people would have decided otherwise.

    For example: leaveout hinges clinic decisions.csv --by sex,ward -o hinges.csv

    Exit status: 0 whatever hinges, 2 bad input.
    """
    from leaveout.errors import GuardError
    from leaveout.files import write_whole
    from leaveout.verifier.guard.hinges import decisions, shares
    from leaveout.verifier.guard.loading import load_subject

    if names and output is None:
        raise typer.BadParameter("--names is about the file; name it with -o")
    if output is not None and output.exists():
        raise GuardError(f"-o {output}: exists; name a new file")
    subject = load_subject(folder, adopt=adopt)
    with counter_bar("decisions", "rows") as show:
        found = decisions(subject, data, person, show)
    counted = shares(found, [each.strip() for each in by.split(",") if each.strip()])
    if output is not None:
        write_whole(output, _csv_of(found, subject, names=names))
    count, hinging = len(found.labels), int(found.hinge.sum())
    one = sum(len(each) == 1 for each in found.turned_by)
    what = "group" if subject.group else "row"
    said = [
        ("decisions", f"{count:,}"),
        (
            "hinge",
            f"{hinging:,}: {one:,} on exactly one {what}, {hinging - one:,} on more than one",
        ),
        ("hinge on none", f"{count - hinging:,}, proved over {subject.members:,} models"),
    ]
    for each in counted:
        share = each.hinging / max(each.count, 1)
        between = f"between {each.low:.2%} and {each.high:.2%}"
        group = ", ".join(each.words) or "all"
        said.append((group, f"{each.hinging:,} of {each.count:,} hinge, {share:.2%}, {between}"))
    if output is not None:
        said.append(("file", str(output)))
    write_out(lines(said) + "\n")
    say_notes(subject.notes)


def _csv_of(found: Decisions, subject: Subject, *, names: bool) -> bytes:
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["row", "answer", "hinges_on", *(["who"] if names else [])])
    for place, label, by in zip(found.places, found.labels.tolist(), found.turned_by, strict=True):
        answer = subject.names[label] if subject.names else label
        who = ["; ".join(subject.unit_names[k] for k in by.tolist())] if names else []
        table.writerow([place.rpartition(", ")[2], answer, len(by), *who])
    return stream.getvalue().encode()
