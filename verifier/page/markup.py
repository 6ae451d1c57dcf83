"""HTML in which all text is escaped unless it was made here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from leaveout.verifier.amounts import plain

_VOID = frozenset({"br", "col", "hr", "link", "meta"})
# Control characters have no meaning in a page, and those that turn the direction of writing round
# could make a name look like another one.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
"""What an element may hold; a text that is no `Html` is escaped, None is nothing."""


def clean(text: str) -> str:
    """Return a text without unprintable characters."""
    return _UNPRINTABLE.sub("\ufffd", text)


def join_children(*children: Child) -> Html:
    """Return the markup of several children."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(html.escape(clean(child)))
        else:
            parts.append(join_children(*child))
    return Html("".join(parts))


def tag(name: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """Return an element."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{html.escape(clean(str(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{join_children(*children)}</{name}>")


def code(text: str) -> Html:
    """Return a piece of the language, or a file name, as code."""
    return tag("code", text)


def collapsible(summary: Child, *children: Child) -> Html:
    """Return content that expands when its summary is clicked."""
    return tag("details", tag("summary", summary), tag("div", *children, class_="folded"))


_SHAPES = {
    # A circle with a tick, a square with a cross, a circle that is half empty.
    "proved": ("M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1z", "M4.6 8.3l2.3 2.4 4.5-5.1"),
    "refuted": ("M2 2h12v12H2z", "M5.2 5.2l5.6 5.6M10.8 5.2l-5.6 5.6"),
    "unknown": ("M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm0 2.2a4.8 4.8 0 0 1 0 9.6z", ""),
}


def icon(word: str) -> Html:
    """Return the decorative symbol of a verdict; its word stands beside it."""
    outer, inner = _SHAPES[word]
    return tag(
        "svg",
        tag("path", d=outer, class_="shape"),
        tag("path", d=inner, class_="sign") if inner else None,
        viewBox="0 0 16 16",
        class_="icon",
        aria_hidden="true",
        focusable="false",
    )


def verdict(word: str, confidence: float | None = None) -> Html:
    """Return a verdict as symbol and coloured word, with its confidence."""
    return tag("span", icon(word), word + confidence_suffix(confidence), class_=f"verdict {word}")


def confidence_suffix(confidence: float | None) -> str:
    """Return the confidence of a verdict that rests on samples; empty if certain."""
    return "" if confidence is None else f" with confidence {plain(confidence)}"


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
