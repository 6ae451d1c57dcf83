"""Warnings for readers of the numbers, on problematic parts and labels."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from leaveout.models.table import number
from leaveout.models.votes.accuracy import Accuracy
from leaveout.models.votes.findings import Findings
from leaveout.models.votes.samples import NO_LABEL, Samples

_SMALL = 10
"""Fewer rows than these teach a member little."""
_RARELY = 0.1
"""A label answered this much less often than it is true is called almost never answered."""
_MANY = 50
"""More labels that are numbers are asked whether they are measurements."""
_NAMED = 5
_LONGEST = 30


def part_cautions(samples: Samples, findings: Findings) -> list[str]:
    """Return warnings on parts: empty, one label, few rows, failed members."""
    sizes, names = findings.sizes, samples.labels
    of = f"of {len(sizes):,} members"
    said = []
    if findings.failed:
        count = len(findings.failed)
        said.append(
            f"{count:,} {of} cannot be trained and always answer {_name(names[0])}; the first: "
            f"{findings.failed[0]}"
        )
    if findings.empty:
        said.append(f"{findings.empty:,} {of} have no rows and always answer {_name(names[0])}")
    if findings.single:
        counts = [(_name(names[label]), count) for label, count in findings.single]
        each = ", ".join(f"{name} ({count:,})" for name, count in counts[:_NAMED])
        more = ", ..." if len(counts) > _NAMED else ""
        total = sum(count for _, count in counts)
        said.append(
            f"{total:,} {of} have rows of one label only and always answer it: {each}{more}"
        )
    small = [size for size in sizes if 0 < size < _SMALL]
    if small:
        said.append(
            f"{len(small):,} {of} have fewer than {_SMALL} rows, {min(small)} the fewest; take "
            "fewer --parts"
        )
    middle = statistics.median(sizes)
    if _SMALL <= middle < len(names):
        said.append(
            f"a member has {middle:,.10g} rows (median), of {len(names):,} labels: it never saw "
            "most of them; take fewer --parts, or predict something coarser"
        )
    return said


def label_cautions(samples: Samples, given: bool) -> list[str]:
    """Return warnings on the data's labels; ``given`` if they were named beforehand."""
    names = samples.labels
    counts = np.bincount(samples.y[samples.y != NO_LABEL], minlength=len(names))
    absent = [names[label] for label in np.flatnonzero(counts == 0)]
    said = []
    if absent:
        said.append(f"no training row has the label {_names(absent)}")
    if not given and len(names) > _MANY and all(number(name) is not None for name in names):
        said.append(
            f"there are {len(names):,} labels, all of them numbers: if they are measurements, "
            "predict a few ranges of them instead"
        )
    return said


def vote_cautions(samples: Samples, accuracy: Accuracy) -> list[str]:
    """Return warnings on what the ensemble's accuracy alone does not show."""
    names, said = samples.labels, []
    if accuracy.ensemble <= accuracy.majority:
        said.append(
            f"the ensemble ({accuracy.ensemble:.2%} right) is no better than always answering "
            f"{_name(names[accuracy.most])} ({accuracy.majority:.2%}): an accuracy certified of it "
            "shows little"
        )
    present = accuracy.points > 0
    rare = present & (accuracy.answers <= _RARELY * accuracy.points)
    for label in np.flatnonzero(rare)[:_NAMED].tolist():
        said.append(
            f"{_name(names[label])} is {_often(int(accuracy.answers[label]))} and true of "
            f"{int(accuracy.points[label]):,} test rows"
        )
    if rare.sum() > _NAMED:
        said.append(f"so it is with {int(rare.sum()) - _NAMED:,} more labels")
    missing = [names[label] for label in np.flatnonzero(~present)]
    if missing:
        said.append(f"no test row has the label {_names(missing)}: nothing is measured of it")
    return said


def _often(answers: int) -> str:
    return f"answered {answers:,} time{'s' * (answers != 1)} only" if answers else "never answered"


def _names(labels: Sequence[str]) -> str:
    more = f" or {len(labels) - _NAMED:,} others" if len(labels) > _NAMED else ""
    return ", ".join(map(_name, labels[:_NAMED])) + more


def _name(label: str) -> str:
    return repr(label if len(label) <= _LONGEST else f"{label[: _LONGEST - 3]}...")
