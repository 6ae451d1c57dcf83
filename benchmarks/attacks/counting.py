"""How many cases of which class there were, and what was answered."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import get_args

from attacks.kind import Answer, Outcome

__all__ = ["Table"]

_ANSWERS: tuple[str, ...] = get_args(Answer)


class Table:
    """Counts of outcomes by kind and class."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._seconds: Counter[str] = Counter()
        self._begun = time.monotonic()

    def add(self, kind: str, outcome: Outcome, seconds: float) -> None:
        """Count one case."""
        counts = self._counts[kind, outcome.label]
        counts[outcome.answer] += 1
        counts["wrong"] += outcome.wrong is not None
        self._seconds[kind] += seconds

    @property
    def cases(self) -> int:
        """How many cases were counted."""
        return sum(self._of(counts, _ANSWERS) for counts in self._counts.values())

    @property
    def wrong(self) -> int:
        """How many of them were wrong."""
        return sum(counts["wrong"] for counts in self._counts.values())

    @staticmethod
    def _of(counts: Counter[str], names: tuple[str, ...]) -> int:
        return sum(counts[name] for name in names)

    def line(self) -> str:
        """Say in one line how far it got."""
        passed = time.monotonic() - self._begun
        return f"{self.cases:,} cases, {self.wrong} wrong, {self.cases / passed:.1f} a second"

    def text(self) -> str:
        """Return the table: a line a class, and a line a kind."""
        head = ("kind", "class", "cases", *_ANSWERS, "wrong", "ms a case")
        rows: list[tuple[str, ...]] = []
        for kind in sorted({kind for kind, _ in self._counts}):
            total: Counter[str] = Counter()
            for (own, label), counts in sorted(self._counts.items()):
                if own == kind:
                    rows.append((kind, label, *self._numbers(counts), ""))
                    total += counts
            cases = self._of(total, _ANSWERS)
            pace = f"{1000 * self._seconds[kind] / max(cases, 1):.1f}"
            rows.append((kind, "all", *self._numbers(total), pace))
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        return "\n".join([*lines, self.line()])

    def _numbers(self, counts: Counter[str]) -> tuple[str, ...]:
        shown = [self._of(counts, _ANSWERS), *(counts[name] for name in _ANSWERS), counts["wrong"]]
        return tuple(f"{each:,}" for each in shown)
