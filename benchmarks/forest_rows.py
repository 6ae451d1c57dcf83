"""What a forest owes to single rows, by its depth, its trees, and in how many of them a row is.

    python benchmarks/forest_rows.py [CSV --label COLUMN] [--time SECONDS]

Without a table, the patients of the demo. It prints a table in Markdown, one line a forest:

- test accuracy, of a forest trained without a fifth of the rows, on these;
- the bound of each label over every row and every input that a record can be, as
  ``leaveout verify`` proves it; where it is open, both ends;
- of the answers to the rows themselves, how many are above the bound of their label, and how many
  some row's deletion changes, which a guard noises.

"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import leaveout
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import ForestFolder, ForestReport, train_forest
from leaveout.models.forest.leave_one_out import leave_one_out

PATIENTS = Path(__file__).resolve().parent.parent / "examples" / "breast_cancer" / "patients.csv"
FORESTS = (
    (50, 1, 1.0), (50, 3, 1.0), (50, 5, 1.0), (50, 10, 1.0), (200, 3, 1.0),
    (50, 3, 0.2), (50, 10, 0.2), (50, 10, 0.1), (200, 10, 0.1),
)  # fmt: skip
"""Trees, depth, and the share of the trees that hold a row."""


@dataclass(frozen=True)
class Found:
    """What is printed of a forest.

    Attributes
    ----------
    report : ForestReport
    names : tuple of str
        Of the labels.
    bounds : tuple of (float, float)
        Lower and upper end of each label's bound.
    above, changed : int
        Answers to the rows that are above the bound; that some row's deletion changes.
    """

    report: ForestReport
    names: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    above: int
    changed: int


def look(csv: Path, label: str, trees: int, depth: int, share: float, seconds: float) -> Found:
    """Train a forest, prove its bounds, and count answers."""
    with tempfile.TemporaryDirectory() as name:
        settings = DareForestClassifier(trees, max_depth=depth, random_state=0, n_jobs=-1, q=share)
        report = train_forest(csv, Path(name) / "forest", label=label, forest=settings)
        folder = ForestFolder.read(report.directory)
        proved = leaveout.verify(report.directory / "forest.spec", time=seconds).results
    family = leave_one_out(folder.forest.ensemble())
    X = folder.forest.ensemble().X
    shares = folder.forest.predict_proba(X)
    answers, ordered = shares.argmax(axis=1), np.sort(shares, axis=1)
    changed = np.zeros(len(X), dtype=bool)
    for member in range(len(family)):
        changed |= family.member(member).probabilities(X).argmax(axis=1) != answers
    uppers = np.array([result.upper for result in proved])
    above = ordered[:, -1] - ordered[:, -2] > uppers[answers]
    return Found(
        report=report,
        names=tuple(map(str, folder.forest.classes_)),
        bounds=tuple((result.lower, result.upper) for result in proved),
        above=int(above.sum()),
        changed=int(changed.sum()),
    )


def lines(csv: Path, label: str, seconds: float) -> Iterator[str]:
    """Yield the lines of the table."""
    for at, (trees, depth, share) in enumerate(FORESTS):
        found = look(csv, label, trees, depth, share, seconds)
        if not at:
            bounds = " | ".join(f"bound, {name}" for name in found.names)
            yield (
                f"| trees | depth | share | test accuracy | {bounds} | answers above "
                "| changed by a row |"
            )
            yield "|---" * (6 + len(found.names)) + "|"
        bounds = " | ".join(map(_shown, found.bounds))
        yield (
            f"| {trees} | {depth} | {share:g} | {found.report.test_accuracy:.2%} | {bounds} "
            f"| {found.above:,} of {found.report.rows:,} | {found.changed:,} |"
        )


def _shown(bound: tuple[float, float]) -> str:
    lower, upper = bound
    # Above what is proved of rounding nothing is left: no confidence exceeds 1.
    upper = min(upper, 1.0)
    return f"{upper:.2f}" if upper - lower <= 0.01 * upper else f"{lower:.2f} to {upper:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("csv", nargs="?", type=Path, default=PATIENTS)
    parser.add_argument("--label", default="diagnosis")
    parser.add_argument("--time", type=float, default=60)
    given = parser.parse_args()
    for line in lines(given.csv, given.label, given.time):
        print(line, flush=True)


if __name__ == "__main__":
    main()
