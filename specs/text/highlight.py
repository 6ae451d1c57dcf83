"""Specifications as coloured HTML, for notebooks."""

from __future__ import annotations

import html as markup
import re

from leaveout.specs.text.tokens import KEYWORDS

_STYLES = {
    "comment": "color:#6a737d;font-style:italic",
    "text": "color:#0b6e4f",
    "number": "color:#b35900",
    "keyword": "color:#7b2cbf;font-weight:bold",
    "function": "color:#1f5fa8",
}

_WORDS = "|".join(sorted(word.lower() for word in KEYWORDS))
_TOKENS = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*")'
    rf"|(?P<keyword>\b(?:{_WORDS})\b)"
    r"|(?P<function>[A-Za-z_]\w*(?=\s*\())"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<other>.)",
    re.ASCII | re.DOTALL,
)


def html(text: str) -> str:
    """Return a specification as HTML with coloured words, names and numbers."""
    return (
        f'<pre style="line-height:1.4">{"".join(map(_colour_token, _TOKENS.finditer(text)))}</pre>'
    )


def _colour_token(match: re.Match[str]) -> str:
    """Return the HTML of a matched token."""
    escaped = markup.escape(match.group())
    style = _STYLES.get(match.lastgroup or "")
    return f'<span style="{style}">{escaped}</span>' if style else escaped
