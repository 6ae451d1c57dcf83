"""The facts of an example, such as the parts that an attack poisons."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.verifier.amounts import plain
from leaveout.verifier.page.markup import Html, collapsible, join_children, tag
from leaveout.verifier.records import Fact

_NAMES = {
    "point": "Test point",
    "edits": "Edits",
    "poisoned": "Parts poisoned",
    "members": "Members whose vote changes",
    "votes": "What they vote then, in the same order",
    "before": "Label before",
    "after": "Label after",
    "answer": "Answer",
    "truth": "True label",
    "lost": "Test points lost",
}
_OPEN_FACTS = 24
_MOST_VALUES = 2000


def fact_table(found: Mapping[str, Fact]) -> Html | None:
    """Return a list of facts; None if there are none."""
    if not found:
        return None
    rows = [
        join_children(tag("dt", _name(key)), tag("dd", _fact_value(value)))
        for key, value in found.items()
    ]
    return tag("dl", rows, class_="facts")


def _name(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " "))


def _fact_value(value: Fact) -> str | Html:
    if isinstance(value, str):
        return value
    if not isinstance(value, tuple):
        return plain(value)
    text = ", ".join(map(str, value[:_MOST_VALUES]))
    if len(value) > _MOST_VALUES:
        text += f" and {len(value) - _MOST_VALUES:,} more"
    if not value:
        return "none"
    return text if len(value) <= _OPEN_FACTS else collapsible(f"{len(value):,}", text)
