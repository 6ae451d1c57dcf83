"""The output of ``leaveout partition``: accuracies and their baselines."""

from __future__ import annotations

import statistics
import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.counting import counts_of
from leaveout.kernel.schemes import answers_of, label_radii

if TYPE_CHECKING:
    from leaveout.models.votes import Ballots, PartitionReport


_NAME = 24
_WIDTH = 80
_INDENT = 16
_MOST_LABELS = 20
_SHARE_CHANGED = 10


def partition_table(report: PartitionReport) -> str:
    """Return the table: training, accuracy, labels, warnings and files."""
    from leaveout.models.votes.samples import path_text

    accuracy, names = report.accuracy, _names(report.ballots)
    middle = statistics.median(report.sizes)
    rows = [
        ("rows", f"{report.rows:,}"),
        ("test rows", f"{report.points:,}"),
        ("labels", f"{report.labels:,}"),
        ("members", f"{report.members:,}"),
        (
            "rows per member",
            f"{min(report.sizes):,} to {max(report.sizes):,}, median {middle:,.10g}",
        ),
        ("majority", f"{accuracy.majority:.2%}, by always answering {names[accuracy.most]}"),
        ("base accuracy", f"{accuracy.base:.2%}, of a member (mean)"),
        ("ensemble", f"{accuracy.ensemble:.2%}"),
    ]
    right = report.ballots.origin.undefended_right
    if right is not None:
        rows.append(("undefended", f"{right / report.points:.2%}, one model on all rows"))
    rows.append(("seconds", f"{report.seconds:.1f}"))
    lines = [_line(*row) for row in rows]
    lines += ["", *_labels(report, names), ""]
    for warning in report.warnings:
        wrapped = textwrap.wrap(warning, _WIDTH - _INDENT, break_on_hyphens=False)
        lines += [_line("" if index else "warning", each) for index, each in enumerate(wrapped)]
    for title, values in (("notes", report.notes), ("files", map(path_text, report.files))):
        lines += [_line("" if index else title, value) for index, value in enumerate(values)]
    lines.append(_line("next", f"leaveout verify {path_text(report.directory / 'poisoning.spec')}"))
    return "\n".join(lines)


def _line(name: str, value: str) -> str:
    return f"{name:<{_INDENT}}{value}"


def _labels(report: PartitionReport, names: list[str]) -> list[str]:
    """Return a line per label: test rows, accuracy and certified shares."""
    accuracy, ballots = report.accuracy, report.ballots
    change, radii = _radii(ballots)
    recall = accuracy.right / np.maximum(accuracy.points, 1)
    shown = np.arange(ballots.labels)
    if len(shown) > _MOST_LABELS:
        present = np.flatnonzero(accuracy.points)
        shown = np.sort(present[np.argsort(recall[present], kind="stable")][:_MOST_LABELS])
    edits = _edits(ballots, radii)
    certified = [np.bincount(ballots.truth[radii >= r], minlength=ballots.labels) for r in edits]
    width = max(len("label"), *(len(names[label]) for label in shown))
    heads = [f"{count:,} {change.removesuffix('s' * (count == 1))}" for count in edits]
    lines = [
        f"{'':<{width + 22}}certified against",
        f"{'label':<{width}}{'test rows':>11}{'recall':>8}" + "".join(f"{h:>12}" for h in heads),
    ]
    for label in shown.tolist():
        points = int(accuracy.points[label])
        shares = [_share(each[label], points) for each in (accuracy.right, *certified)]
        cells = f"{shares[0]:>8}" + "".join(f"{share:>12}" for share in shares[1:])
        lines.append(f"{names[label]:<{width}}{points:>11,}{cells}")
    if len(shown) < ballots.labels:
        lines.append(
            f"and {ballots.labels - len(shown):,} labels with higher recall, or without test rows"
        )
    return lines


def _radii(ballots: Ballots) -> tuple[str, NDArray[np.int32]]:
    """Return the unit, and radii if every member that is reached changes; -1: a wrong answer."""
    origin, votes, labels = ballots.origin, ballots.votes, ballots.labels
    radii = label_radii(votes, labels, origin.offsets or (0,), origin.families).min(axis=1)
    right = answers_of(counts_of(votes, labels)) == ballots.truth
    change = "relabels" if origin.method == "ss_dpa" else "edits"
    return change, np.where(right, radii, -1).astype(np.int32)


def _edits(ballots: Ballots, radii: NDArray[np.int32]) -> list[int]:
    """Return the numbers of changes to show: one, the first guarantee's, the median."""
    parts = ballots.parts // max(1, len(ballots.origin.offsets), len(ballots.origin.families))
    middle = int(np.sort(radii)[::-1][(len(radii) - 1) // 2])
    return sorted({1, parts // _SHARE_CHANGED, middle} - {-1, 0})


def _share(count: int, points: int) -> str:
    """Return a share rounded down, as certified shares must be."""
    return f"{int(count) * 1000 // points / 10:.1f}%" if points else "-"


def _names(ballots: Ballots) -> list[str]:
    given = ballots.origin.label_names or map(str, range(ballots.labels))
    words = (" ".join(name.split()) for name in given)
    return [name if len(name) <= _NAME else f"{name[: _NAME - 3]}..." for name in words]
