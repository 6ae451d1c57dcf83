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

import leaveout
from leaveout.models import confidence, load_family, load_network
from leaveout.verifier.guard import Guard
from leaveout.verifier.page.markup import Child, Html, join_children, tag
from leaveout.verifier.page.plot import (
    Axis,
    Frame,
    axes,
    bar,
    chart_frame,
    linear,
    outline,
    picture,
    vertical_marker,
)

__all__ = ["Answered", "answered", "histogram"]

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "breast_cancer"

WIDTH = 0.25
"""Of a bar, in confidence."""

HEIGHT = 240
"""Of the chart of one label."""

KINDS = (
    (1, "filled c0", "above the bound: given as they are"),
    (2, "filled c5", "below it, but all {members} members agree: given as they are"),
    (3, "filled c1", "below it, and some member answers otherwise: noised"),
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
    drawn: list[Child] = []
    for row, (tier, style, words) in enumerate(KINDS):
        number, down = int(np.count_nonzero(found.tiers == tier)), 24 + 20 * row
        drawn.append(tag("path", d=outline(_corners(24, down - 10), closed=True), class_=style))
        said = f"{number}  {words.format(members=found.members)}"
        drawn.append(tag("text", said, x=44, y=down, class_="name"))
    frames = []
    for label, name in enumerate(found.names):
        mine = found.labels == label
        counts = [
            np.histogram(found.confidences[mine & (found.tiers == tier)], edges)[0]
            for tier, _, _ in KINDS
        ]
        x = Axis(0.0, last, tuple(np.arange(0, last + 1, 2).tolist()), "confidence")
        y = linear(0.0, float(np.sum(counts, axis=0).max()), f"answers {name!r}", about=3)
        frame = chart_frame(x, y)
        upper = vertical_marker(
            frame, found.uppers[label], f"proved bound {_up(found.uppers[label])}"
        )
        chart = axes(frame, _bars(frame, edges, counts), upper)
        drawn.append(tag("svg", chart, x=16, y=80 + HEIGHT * label, width=440, height=HEIGHT))
        frames.append(frame)
    said = f"Confidences of {len(found.labels)} answers, and the bounds"
    whole = picture(472, 88 + HEIGHT * len(frames), said, drawn)
    path.write_text(f"{whole}\n", encoding="utf-8")


def _up(value: float) -> str:
    """Return a bound to six digits behind the point, rounded up."""
    return f"{math.ceil(value * 1e6) / 1e6:.6f}"


def _bars(frame: Frame, edges: NDArray[np.float64], counts: Sequence[NDArray[np.int64]]) -> Html:
    """Draw bars, a colour a tier, one on top of the other."""
    below, bars = np.zeros(len(edges) - 1), []
    for (_, style, _), own in zip(KINDS, counts, strict=True):
        for place in np.flatnonzero(own):
            sides = float(edges[place]), float(edges[place + 1])
            ends = float(below[place]), float(below[place] + own[place])
            bars.append(bar(frame, sides, ends, style))
        below += own
    return join_children(*bars)


def _corners(left: float, top: float) -> list[tuple[float, float]]:
    return [(left, top), (left + 12, top), (left + 12, top + 12), (left, top + 12)]
