"""Tables that scroll inside their own frame on narrow pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaveout.verifier.page.markup import Child, Html, join_children, tag


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: Child
    number: bool = False  # whether it holds numbers, which stand at its right


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Child]],
    seen: bool = False,
    header: int = 0,
) -> Html:
    """Return a table."""
    head = tag(
        "tr",
        [tag("th", each.title, scope="col", class_=_kind(each)) for each in columns],
    )
    body = [
        tag(
            "tr",
            [
                tag("th", cell, scope="row", class_=_kind(column))
                if at == header
                else tag("td", cell, class_=_kind(column))
                for at, (column, cell) in enumerate(zip(columns, row, strict=True))
            ],
        )
        for row in rows
    ]
    inner = tag(
        "table",
        tag("caption", caption, class_=None if seen else "unseen"),
        tag("thead", head),
        tag("tbody", join_children(body)),
    )
    # Whoever uses a keyboard must be able to reach what scrolls.
    return tag("div", inner, class_="scroll", role="group", aria_label=caption, tabindex=0)


def _kind(column: Column) -> str | None:
    return "number" if column.number else None
