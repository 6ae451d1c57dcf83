"""Tables and times as the scripts about scale print them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["amount", "print_table"]

_UNITS = (
    ("years", 31_557_600.0),
    ("days", 86_400.0),
    ("h", 3600.0),
    ("min", 60.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("µs", 1e-6),
)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def amount(seconds: float) -> str:
    """Return a time in three digits, with its unit."""
    for unit, size in _UNITS:
        if seconds >= size * (2 if size > 1 else 1):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
