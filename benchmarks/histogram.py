"""Draw the confidences of the demo's patients against what is proved, and what a guard does."""

from __future__ import annotations

import csv
import math
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from svg import Panel, Sheet

import leaveout
from leaveout.models import confidence, load_family, load_network
from leaveout.verifier.guard import Guard

__all__ = ["Answered", "answered", "histogram"]

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "breast_cancer"

WIDTH = 0.25
"""Of a bar, in confidence."""

KINDS = (
    (1, "blue", "above the bound: given as they are"),
    (2, "soft", "below it, but all {members} members agree: given as they are"),
    (3, "orange", "below it, and some member answers otherwise: noised"),
)
"""Tiers of the guard in the order in which they are stacked, from the axis up."""


@dataclass(frozen=True, eq=False)
class Answered:
    """What a network answers rows, and how a guard would find each answer.

    Attributes
    ----------
    labels, tiers : ndarray of int64, shape (rows,)
        Tier 3 is noised.
    confidences : ndarray of float64, shape (rows,)
        Of the label that the network gives.
    names : tuple of str
        Of the labels.
    uppers : tuple of float
        The bound proved of each label.
    members : int
    """

    labels: NDArray[np.int64]
    tiers: NDArray[np.int64]
    confidences: NDArray[np.float64]
    names: tuple[str, ...]
    uppers: tuple[float, ...]
    members: int


def answered() -> Answered:
    """Verify the bundled example and ask its guard about each patient of its table."""
    with tempfile.TemporaryDirectory() as folder:
        example = Path(shutil.copytree(EXAMPLE, Path(folder) / "example"))
        bounds = example / "family" / "bounds.npz"
        report = leaveout.verify(example / "breast_cancer.spec", bounds=bounds)
        network = load_network(example / "family" / "full.onnx")
        family = load_family(example / "family" / "family.npz", network)
        with Guard.load(example / "family", epsilon=0.2) as guard:
            X = guard.encode(_patients(example / "patients.csv"))
            seen = guard.inspect(X)
            names = tuple(guard.names)
    scores = network.runner().scores(X).astype(np.float64)
    own = [confidence(row[None], int(c))[0] for row, c in zip(scores, seen.labels, strict=True)]
    uppers = {each.label: each.upper for each in report.results if each.name == "bound"}
    proved = [uppers[label] for label in range(network.labels)]
    assert all(upper is not None for upper in proved)
    return Answered(
        labels=seen.labels,
        tiers=seen.tiers,
        confidences=np.asarray(own),
        names=names,
        uppers=tuple(upper for upper in proved if upper is not None),
        members=len(family),
    )


def _patients(path: Path) -> list[dict[str, float]]:
    """Return the rows of a table without its label."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: float(v) for k, v in row.items() if k != "diagnosis"} for row in rows]


def histogram(path: Path, found: Answered) -> None:
    """Draw a histogram of confidences a label, with the bound that is proved of it."""
    last = float(np.ceil(found.confidences.max()))
    edges = np.arange(0.0, last + WIDTH / 2, WIDTH)
    counts = [
        [
            np.histogram(found.confidences[(found.labels == label) & (found.tiers == tier)], edges)[
                0
            ]
            for tier, _, _ in KINDS
        ]
        for label in range(len(found.names))
    ]
    most = 10 * -(-max(int(np.sum(each, axis=0).max()) for each in counts) // 10)
    rows = len(found.labels)
    sheet = Sheet(480, 92 + 172 * len(counts), f"Confidences of {rows} answers, and the bounds")
    y = 24.0
    for tier, colour, words in KINDS:
        number = int(np.count_nonzero(found.tiers == tier))
        sheet.shapes([_box(24, y - 10, 36, y + 2)], colour, 1)
        sheet.text((44, y), f"{number}  {words.format(members=found.members)}", size=13)
        y += 20
    for label, own in enumerate(counts):
        panel = Panel(sheet, 42, 108 + 172 * label, 416, 112, (0, last), (0, most))
        _bars(panel, edges, own)
        panel.axes(np.arange(0, last + 1, 2).tolist(), np.linspace(0, most, 3).tolist())
        upper = found.uppers[label]
        x, _ = panel.at(upper, 0)
        sheet.line([(x, panel.top - 4), (x, panel.top + panel.height)], "ink", 1.5, dash="4 3")
        sheet.text((x + 6, panel.top + 6), f"proved bound {_up(upper)}", size=13)
        sheet.text((458, panel.top + 6), found.names[label], anchor="end", size=14)
    low = 108 + 172 * (len(counts) - 1) + 112
    sheet.text((458, low + 32), "confidence of the answer", anchor="end", size=12)
    sheet.text((24, 96), "answers", size=12)
    sheet.save(path)


def _up(value: float) -> str:
    """Return a bound to six digits behind the point, rounded up."""
    return f"{math.ceil(value * 1e6) / 1e6:.6f}"


def _bars(panel: Panel, edges: NDArray[np.float64], counts: Sequence[NDArray[np.int64]]) -> None:
    """Draw bars, a colour a tier, one on top of the other."""
    below = np.zeros(len(edges) - 1)
    for (_, colour, _), own in zip(KINDS, counts, strict=True):
        boxes = []
        for place in np.flatnonzero(own):
            left, bottom = panel.at(float(edges[place]), float(below[place]))
            right, top = panel.at(float(edges[place + 1]), float(below[place] + own[place]))
            boxes.append(_box(left + 0.5, top, right - 0.5, bottom))
        panel.sheet.shapes(boxes, colour, 1)
        below += own


def _box(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
