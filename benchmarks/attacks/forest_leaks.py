"""Attacks on the search over forests: leaks of small ones against every cell of their inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attacks.kind import Answer, Case, Outcome
from support.forest_leaks import asked, greatest_leaks, wrong_of

__all__ = ["ForestLeaks"]

_KINDS = ("deleted", "family", "pair")


class ForestLeaks:
    """Bounds and verdicts about families of deleted rows, any families, and two forests."""

    name = "forest_leaks"

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        return {
            "kind": _KINDS[rng.integers(len(_KINDS))],
            "seed": int(rng.integers(2**32)),
            "label": int(rng.integers(4)),
            "threads": int(rng.integers(1, 3)),
        }

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        question = asked(np.random.default_rng(case["seed"]), case["kind"])
        label = case["label"] % len(question.whole.classes)
        wrong = wrong_of(question, label, case["threads"])
        greatest = greatest_leaks(question, label).max(initial=-np.inf)
        answer: Answer = "refuted" if greatest >= 0 else "proved"
        found = "none" if greatest < 0 else "a tie" if greatest == 0 else "a leak"
        return Outcome(f"{case['kind']}, {found}", answer, wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        if case["threads"] > 1:
            yield {**case, "threads": 1}
