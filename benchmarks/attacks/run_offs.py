"""Attacks on run-offs, of parts and of spread parts, each alone and all together.

What is true is known by trying every ranking of every member.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.errors import LeaveoutError
from leaveout.verifier.certify.check import check
from leaveout.verifier.run import verify

from attacks.kind import Case, Outcome
from attacks.votes import Votes, _claim, _mistake, _text, _write
from attacks.warm import entry_points_kept, memory_folder

__all__ = ["RunOffs", "drawn"]

_SHAPES = [(2, 7), (3, 6), (3, 6), (3, 6), (4, 4)]
"""Labels, and most parts."""

_KINDS = ["collective", "collective", "collective", "certified", "median", "radius", "right"]


class RunOffs:
    """Random ballots with scores, many of them tied, and a claim near what is true of them."""

    name = "run_offs"

    def __init__(self) -> None:
        entry_points_kept()

    def make(self, rng: np.random.Generator) -> Case:
        """See `Kind.make`."""
        case = drawn(rng)
        return case | {"claim": _claim(rng, case, _KINDS)}

    def check(self, case: Case) -> Outcome:
        """See `Kind.check`."""
        spread = "spread " if case["offsets"] else ""
        label = f"{spread}run-off, {case['claim']['kind']}, {case['certificate']}"
        with tempfile.TemporaryDirectory(dir=memory_folder()) as at:
            spec, certificate = Path(at) / "a.spec", Path(at) / "a.cert"
            _write(case, Path(at) / "ballots.npz")
            spec.write_text(_text(case))
            try:
                (result,) = verify(spec, certificate=certificate).results
            except LeaveoutError as error:
                known = "does not state whether" in str(error)
                return Outcome(label, "refused", None if known else f"refused: {error}")
            wrong = _mistake(case, result)
            if wrong is None and certificate.exists():
                try:
                    check(certificate)
                except LeaveoutError as error:
                    wrong = f"certificate: {error}"
            elif wrong is None and result.verdict != "unknown":
                wrong = "certificate: there is none"
        return Outcome(label, result.verdict, wrong)

    def shrink(self, case: Case) -> Iterator[Case]:
        """See `Kind.shrink`."""
        yield from Votes.shrink(self, case)  # type: ignore[arg-type]


def drawn(rng: np.random.Generator, most: int = 7) -> Case:
    """Draw ballots without a claim.

    Parameters
    ----------
    rng : numpy.random.Generator
    most : int
        Parts there may be.
    """
    labels, parts = _SHAPES[rng.integers(len(_SHAPES))]
    parts = int(rng.integers(2, min(most, parts) + 1))
    points = int(rng.integers(1, 8))
    scores = np.array([_scores(rng, parts, labels) for _ in range(points)])
    spread = rng.random() < 0.5
    offsets = sorted(rng.choice(parts, int(rng.integers(1, min(3, parts) + 1)), replace=False))
    case: Case = {
        "vote": "run_off",
        "votes": scores.argmax(axis=2).tolist(),
        "scores": scores.tolist(),
        "truth": [],
        "labels": labels,
        "offsets": [int(each) for each in offsets] if spread else [],
        "hash_reads_label": [None, True, False, False][rng.integers(4)],
        "method": "finite_aggregation" if spread and rng.random() < 0.3 else None,
        "certificate": ["exact", "exact", "exact", "published"][rng.integers(4)],
        "families": [],
        "damage": None,
    }
    case["truth"] = _truth(rng, case)
    return case


def _scores(rng: np.random.Generator, parts: int, labels: int) -> Any:
    """Draw one point's scores: a few that are high often, and ties, or a close race."""
    if rng.random() < 0.4:
        share = rng.dirichlet(np.full(labels, rng.choice([0.5, 2.0, 20.0])))
        votes = rng.choice(labels, parts, p=share)
        scores = rng.integers(0, 3, (parts, labels)) + 2 * rng.integers(0, 2, labels)
        scores[np.arange(parts), votes] = 9
        return scores.astype(float)
    scores = rng.integers(0, int(rng.integers(2, 5)), (parts, labels)).astype(float)
    for _ in range(rng.integers(3)):
        scores[rng.random(parts) < rng.random(), rng.integers(labels)] += rng.integers(1, 4)
    return scores


def _truth(rng: np.random.Generator, case: Case) -> list[int]:
    """Return true labels, most of which are answered."""
    from attacks.vote_truth import Truth

    points = len(case["votes"])
    answers = [each.before for each in Truth(case | {"truth": [0] * points}).ballots]
    drawn = rng.integers(0, case["labels"], points)
    return [int(d) if rng.random() < 0.15 else a for a, d in zip(answers, drawn, strict=True)]
