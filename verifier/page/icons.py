"""Words, symbols and colours of verdicts; colour never stands alone."""

from __future__ import annotations

from leaveout.verifier.amounts import plain
from leaveout.verifier.page.markup import Html, tag

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
