"""What CBC proved, read from its log, since its solution file has no dual bound."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
POSSIBLE = re.compile(rf"Partial search - best objective \S+ \(best possible {NUMBER}\)")
LOWER = re.compile(rf"^Lower bound:\s+{NUMBER}", re.MULTILINE)
OBJECTIVE = re.compile(rf"^(?:Objective value:|Optimal objective)\s+{NUMBER}", re.MULTILINE)
NODES = re.compile(r"^Enumerated nodes:\s+(\d+)", re.MULTILINE)
NOTHING = 1e40


@dataclass(frozen=True)
class CbcLog:
    """The log of CBC 2.10 for a minimised problem."""

    text: str

    @property
    def optimal(self) -> bool:
        """Whether CBC reports an optimum (within its gap)."""
        if self.verdict:
            return self.verdict.startswith("Optimal solution found")
        return "Optimal objective" in self.text

    @property
    def at_limit(self) -> bool:
        """Whether CBC reports that it stopped at a limit."""
        return "Result - Stopped on" in self.text or "Stopped due to" in self.text

    @property
    def infeasible(self) -> bool:
        """Whether CBC reports infeasible, not "infeasible or unbounded"."""
        return any(
            words in self.text
            for words in (
                "Result - Problem proven infeasible",
                "Result - Linear relaxation infeasible",
                "Problem is infeasible",
            )
        )

    @property
    def open_ended(self) -> bool:
        """Whether CBC reports unbounded, or cannot tell it from infeasible."""
        return any(
            words in self.text
            for words in (
                "Problem is unbounded",
                "Linear relaxation unbounded",
                "infeasible or unbounded",
                "infeasible! (or unbounded)",
            )
        )

    @property
    def lower_bound(self) -> float:
        """The proved lower bound, moved outwards by its printed precision."""
        candidates = []
        if (found := _last(POSSIBLE, self.text)) is not None:
            candidates.append(found - 1e-7 * max(1.0, abs(found)))
        if (found := _last(LOWER, self.text)) is not None:
            candidates.append(found - 1e-3)
        if not candidates and self.optimal and (found := _last(OBJECTIVE, self.text)) is not None:
            candidates.append(found - 1e-7 * max(1.0, abs(found)))
        best = max(candidates, default=-NOTHING)
        return best if abs(best) < NOTHING else float("-inf")

    @property
    def nodes(self) -> int | None:
        """The number of branch-and-bound nodes."""
        found = NODES.findall(self.text)
        return int(found[-1]) if found else None

    @property
    def verdict(self) -> str:
        """CBC's message on the result."""
        lines = [line for line in self.text.splitlines() if line.startswith("Result - ")]
        return lines[-1].removeprefix("Result - ") if lines else ""


def _last(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.findall(text)
    return float(found[-1]) if found else None
