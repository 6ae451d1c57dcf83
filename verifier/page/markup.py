"""HTML in which all text is escaped unless it was made here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

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
