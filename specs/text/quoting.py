r"""Texts in quotes: the escapes are ``\\``, ``\"`` and ``\uXXXX``.

Short escapes such as ``\n`` are left out: with them ``"C:\new"`` would mean something else,
in silence.
"""

from __future__ import annotations

import json
import re

_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f]')
_RIGHT = re.compile(r'\\(["\\]|u[0-9a-fA-F]{4})')


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"


def quote_text(value: str) -> str:
    """Return a text in quotes with control characters escaped."""
    return f'"{_ESCAPED.sub(_escape, value)}"'


def unquote_text(text: str) -> str:
    """Return the value of a quoted text that has no wrong escapes."""
    value = json.loads(text, strict=False)
    assert isinstance(value, str)
    return value


def wrong_escape(text: str) -> int | None:
    """Return the index of the first invalid backslash, or None."""
    index = text.find("\\")
    while index >= 0:
        right = _RIGHT.match(text, index)
        if right is None:
            return index
        index = text.find("\\", right.end())
    return None
