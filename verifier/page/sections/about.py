"""The sets of inputs that the results are about, each once."""

from __future__ import annotations

import shlex
from collections.abc import Container

from leaveout.verifier.amounts import MISSING, count_noun, plain
from leaveout.verifier.page.first_page.scope import columns_of, named_files, ranges_of
from leaveout.verifier.page.first_page.sentences import Assumption, assumptions, is_assumption
from leaveout.verifier.page.markup import (
    Child,
    Column,
    Html,
    code,
    collapsible,
    join_children,
    table,
    tag,
    verdict,
)
from leaveout.verifier.page.model import Page, Run
from leaveout.verifier.points.sentences import NOUNS
from leaveout.verifier.records import BoxRecord, ChoicesRecord

_MOST = 1000
_LISTED = 50
_OPEN = 12  # columns whose ranges are not folded


def inputs(page: Page) -> Html | None:
    """Return the sets of inputs; None if no result is about inputs."""
    if not page.boxes:
        return None
    return join_children(
        _box(page, box, number, ranges_of(box, columns_of(page.runs, box)))
        for box, number in page.boxes.items()
    )


def _box(page: Page, box: BoxRecord, number: int, units: list[str]) -> Html:
    sides = set(zip(box.lower, box.upper, strict=True))
    listed = sum(len(each.columns) for each in box.choices)
    shown = page.shows(box)
    if len(sides) == 1 and shown:
        ((low, high),) = sides
        said = f"every input in [{plain(low)}, {plain(high)}]^{len(box.lower)}"
    else:
        said = f"every input in a box of {count_noun(len(box.lower), 'feature')}"
    if listed:
        said += f", of which {listed} take listed values only"
    rows: list[list[Child]] = [
        [str(at), plain(low), plain(high)]
        for at, (low, high) in enumerate(zip(box.lower[:_MOST], box.upper[:_MOST], strict=True))
    ]
    columns = [Column("Feature"), Column("least", number=True), Column("greatest", number=True)]
    left = len(box.lower) - _MOST
    more = tag("p", f"The results file has {left:,} more features.") if left > 0 else None
    ranges = collapsible(
        "Range of each feature", table("Range of each feature", columns, rows), more
    )
    return tag(
        "div",
        tag("h3", f"Set {number}"),
        tag("p", f"{said[:1].upper()}{said[1:]}. Nothing is claimed about other inputs."),
        _units(units),
        ranges if shown else tag("p", "Its ranges are left out of this page."),
        [_choices(each) for each in box.choices if page.named],
        id=f"inputs-{number}",
    )


def _units(named: list[str]) -> Html | None:
    """Return the same sets in the table's units, where the encoding is known."""
    if not named:
        return None
    said = "; ".join(named[:_MOST])
    if len(named) <= _OPEN:
        return tag("p", f"In the units of the table: {said}.")
    return collapsible(f"In the units of the table: {count_noun(len(named), 'column')}", f"{said}.")


def _choices(choices: ChoicesRecord) -> Html:
    names = ", ".join(map(str, choices.columns))
    plural = "s" if len(choices.columns) > 1 else ""
    takes = "take together" if plural else "takes"
    rows: list[list[Child]] = [
        [str(at), *(plain(value) for value in row)]
        for at, row in enumerate(choices.values[:_LISTED], start=1)
    ]
    columns = [Column("Row"), *(Column(f"feature {at}", number=True) for at in choices.columns)]
    count = count_noun(len(choices.values), "row" if plural else "value")
    title = f"Feature{plural} {names} {takes} one of {count}"
    left = len(choices.values) - _LISTED
    more = tag("p", f"The results file has {left:,} more.") if left > 0 else None
    return collapsible(title, table(title, columns, rows), more)


_LEAKS = {
    "network": "An input whose label has a confidence above 0 in the network and at most 0 in a "
    "member: leaving one point out changes the answer, or makes it a tie.",
    "forest": "An input on which a forest and a member answer different labels: leaving one "
    "point out changes the answer.",
    "linear": "An input whose label has a confidence above 0 in the linear model and below 0 in a "
    "member: leaving one point out changes the answer.",
}


def meaning(page: Page) -> Html:
    """Return the words used on this page with their meanings."""
    results = [result for run in page.runs for result in run.report.results]
    words: list[tuple[Child, str]] = [
        (
            verdict("proved"),
            "For a guarantee: it holds. For a find: its lower and upper bound agree.",
        ),
        (verdict("refuted"), "It does not hold, and a counter-example shows it."),
        (
            verdict("unknown"),
            "Neither, with the reason; the bounds hold nevertheless.",
        ),
        ("lower, upper", "The number lies between them, ends included. Both are rounded outwards."),
    ]
    models = {result.witness.model for result in results if result.witness is not None}
    if models:
        kinds = " or ".join(NOUNS[each] for each in sorted(models, reverse=True))
        words += [
            ("member", f"A {kinds} retrained without one training point."),
            ("confidence", "The score of a label minus the best other score."),
        ]
        if "forest" in models:
            words += [("score", "For a forest: the mean share of a label in its trees' leaves.")]
        words += [("leak", " ".join(_LEAKS[model] for model in sorted(models, reverse=True)))]
    rows = [join_children(tag("dt", word), tag("dd", text)) for word, text in words]
    return tag("dl", rows, class_="facts")


def notes(page: Page) -> Html | None:
    """Return the numbered assumptions, then the notes of all runs, or None."""
    trusted = [_assumption(page, each) for each in assumptions(page)]
    found = [each for run in page.runs if (each := _run_notes(page, run)) is not None]
    if not trusted and not found:
        return None
    return join_children(
        tag("p", "Not checked, but assumed:") if trusted else None,
        tag("ol", trusted, class_="notes rests-on") if trusted else None,
        tag("p", "Also note:") if trusted and found else None,
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
        said.append(tag("li", f"The file contains fields that this page does not show: {names}."))
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


_NOT_KEPT = ("--time", "--seed", "--workers", "--kernel", "--variant", "--set")


def reproduce(page: Page) -> Html:
    """Return a command per run and the digests of its files."""
    options = [tag("code", each, class_="whole") for each in _NOT_KEPT]
    kept = (
        "The results file does not record ",
        [(each, ", ") for each in options[:-1]],
        "and ",
        options[-1],
        "; pass them as in the first run. The notes list the value of each param.",
    )
    return join_children([_run_command(run) for run in page.runs], tag("p", kept))


def _run_command(run: Run) -> Html:
    command = _command(run)
    if command is None:
        how = tag("p", "The specification was built in Python: run that program again.")
    else:
        how = tag(
            "pre",
            tag("code", command),
            tabindex=0,
            role="group",
            aria_label=f"The command for {run.name}",
        )
    written = tag("p", f"Written by leaveout {run.report.leaveout}.")
    return join_children(how, written, _files(run))


def _files(run: Run) -> Html:
    """Return a table of a run's files with their full digests."""
    found = named_files(Page((run,)), everything=True)
    rows = [
        [code(each.name), each.role, tag("span", each.digest or MISSING, class_="digest")]
        for each in found
    ]
    columns = [Column("File"), Column("What it is"), Column("sha256")]
    return table(f"Files of {run.name}", columns, rows)


def _command(run: Run) -> str | None:
    spec = run.report.spec
    if "\n" in spec or (spec.startswith("<") and spec.endswith(">")):
        return None
    words = ["leaveout", "verify", spec]
    engines = {result.engine for result in run.report.results} - {"values"}
    solvers = {result.solver for result in run.report.results} - {None}
    if engines == {"lucid"}:
        words += ["--engine", "lucid"]
    words += [word for solver in sorted(map(str, solvers)) for word in ("--solver", solver)]
    return shlex.join([*words, "--json", "result.json"])
