"""Numbers as a page shows them: bounds are rounded outwards, so that they stay bounds."""

from __future__ import annotations

from leaveout.verifier.amounts import bound as rounded
from leaveout.verifier.report import Result

__all__ = ["MISSING", "bound", "counted", "duration", "label", "percent", "plain", "same", "span"]

MISSING = "–"
_DIGITS = 6
_SAME = 1e-9


def bound(value: float | None, up: bool = False) -> str:
    """Return six digits, rounded down, or up for an upper bound; a dash for None."""
    return MISSING if value is None else rounded(value, up)


def plain(value: float) -> str:
    """Return a number that is no bound."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.5g} %"


def same(lower: float, upper: float) -> bool:
    """Whether two bounds differ by no more than what rounding of a float explains."""
    return abs(upper - lower) <= _SAME * max(abs(lower), abs(upper))


def span(lower: float | None, upper: float | None) -> str:
    """Return what two bounds say of a number, as the end of a sentence that says what it is."""
    if lower is None and upper is None:
        return "not known"
    if lower is None:
        return f"at most {bound(upper, up=True)}"
    if upper is None:
        return f"at least {bound(lower)}"
    low, high = bound(lower), bound(upper, up=True)
    if low == high:
        return low
    if same(lower, upper):
        return f"about {upper:.{_DIGITS}g}"
    return f"between {low} and {high}"


def duration(seconds: float) -> str:
    """Return a time in seconds."""
    return "under 0.1 s" if seconds < 0.05 else f"{seconds:,.1f} s"


def label(result: Result) -> str:
    """Return what label a result is of; a dash where it is not about inputs at all."""
    if result.label is not None:
        return str(result.label)
    return "all" if result.box.lower else "–"


def counted(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
