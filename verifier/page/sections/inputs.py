"""The sets of inputs that the results are about, each once."""

from __future__ import annotations

from leaveout.verifier.amounts import count_noun, plain
from leaveout.verifier.page.first_page.scope import columns_of, ranges_of
from leaveout.verifier.page.markup import Child, Html, collapsible, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.records import BoxRecord, ChoicesRecord

_MOST = 1000
_LISTED = 50
_OPEN = 12
"""Columns whose ranges are not folded."""


def inputs(page: Page) -> Html | None:
    """Return the sets of inputs; None if no result is about inputs."""
    if not page.boxes:
        return None
    return join_children(
        _box(box, number, ranges_of(box, columns_of(page.runs, box)))
        for box, number in page.boxes.items()
    )


def _box(box: BoxRecord, number: int, units: list[str]) -> Html:
    sides = set(zip(box.lower, box.upper, strict=True))
    listed = sum(len(each.columns) for each in box.choices)
    if len(sides) == 1:
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
    more = tag("p", f"{left:,} more features are in the file of results.") if left > 0 else None
    ranges = collapsible(
        "Range of each feature", table("Range of each feature", columns, rows), more
    )
    return tag(
        "div",
        tag("h3", f"Set {number}"),
        tag("p", f"{said[:1].upper()}{said[1:]}. Nothing is claimed about inputs outside it."),
        _units(units),
        ranges,
        [_choices(each) for each in box.choices],
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
    more = tag("p", f"{left:,} more are in the file of results.") if left > 0 else None
    return collapsible(title, table(title, columns, rows), more)
