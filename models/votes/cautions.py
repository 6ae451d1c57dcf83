"""Warnings about parts and labels for readers of the results."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

import numpy as np

from leaveout.kernel.counting import Counts, counts_of
from leaveout.kernel.schemes import answers_of
from leaveout.models.ballots import Ballots
from leaveout.models.reading import comma_cure, comma_number, odd_notation
from leaveout.models.table import number
from leaveout.models.train.encoding import is_missing_value
from leaveout.models.votes.features import TableFeatures
from leaveout.models.votes.samples import NO_LABEL, Samples
from leaveout.written import first_few


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Counts of correctly answered test points."""

    base: float  # members' mean share of correctly labelled test points, in [0, 1]
    points: Counts  # shape (labels,)
    right: Counts  # shape (labels,)
    answers: Counts  # shape (labels,)

    @property
    def ensemble(self) -> float:
        """Share of the test points that the plurality answers correctly."""
        return int(self.right.sum()) / int(self.points.sum())

    @property
    def most(self) -> int:
        """The most frequent true label; the smaller one if tied."""
        return int(self.points.argmax())

    @property
    def majority(self) -> float:
        """Accuracy of always answering the most frequent label."""
        return int(self.points.max()) / int(self.points.sum())


def accuracy_of(ballots: Ballots) -> Accuracy:
    """Return the accuracy of the members' plurality."""
    answers = answers_of(counts_of(ballots.votes, ballots.labels))
    counts = (
        np.bincount(labels, minlength=ballots.labels)
        for labels in (ballots.truth, ballots.truth[answers == ballots.truth], answers)
    )
    return Accuracy(float(np.mean(ballots.votes == ballots.truth[:, None])), *counts)


@dataclass(frozen=True)
class Findings:
    """Observations made in training."""

    sizes: tuple[int, ...]  # rows per member
    empty: int = 0  # members without rows
    single: tuple[tuple[int, int], ...] = ()
    failed: tuple[str, ...] = ()  # of each member that could not be trained, why
    warned: tuple[tuple[str, int], ...] = ()  # reason for each member that could not be trained
    exported: int = 0  # members written as ONNX
    reasons: tuple[tuple[str, int], ...] = ()  # reasons against export, and how many members each
    differing: int = 0  # votes that replayed models change
    differing_members: int = 0  # members with such votes
    undefended_right: int | None = None


_SMALL = 10  # with fewer rows than this, a member learns little
_RARELY = 0.1
"""A label answered at most this often relative to its test points is "almost never answered"."""
_MANY = 50  # with more numeric labels, a warning suggests that they are measurements
_NAMED = 5
_FEW_ROWS = 20  # with fewer rows, words unique to each row do not suggest names
_LONGEST = 30


def part_cautions(samples: Samples, findings: Findings) -> list[str]:
    """Return warnings on parts: empty, with one label, with few rows, or failed members."""
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
        each = first_few((f"{name} ({count:,})" for name, count in counts), _NAMED)
        total = sum(count for _, count in counts)
        said.append(f"{total:,} {of} have rows of only one label and always answer it: {each}")
    small = [size for size in sizes if 0 < size < _SMALL]
    if small:
        said.append(
            f"{len(small):,} {of} have fewer than {_SMALL} rows, the smallest {min(small)}; use "
            "fewer --parts"
        )
    middle = statistics.median(sizes)
    if _SMALL <= middle < len(names):
        said.append(
            f"a member has {middle:,.10g} rows (median) for {len(names):,} labels: it never saw "
            "most of them; use fewer --parts, or predict something coarser"
        )
    return said


def column_cautions(samples: Samples) -> list[str]:
    """Return what looks like a mistake in the columns of a table."""
    said: list[str] = []
    rows = len(samples.y)
    features = samples.features
    for column in features.table if isinstance(features, TableFeatures) else ():
        counts = np.bincount(column.codes[:rows], minlength=len(column.words))
        words = np.isnan(column.values) & (counts > 0)
        present = [word for word, count in zip(column.words, counts, strict=True) if count]
        commas = [word for word in present if comma_number(word)]
        pairs = {*zip(column.codes[:rows].tolist(), samples.y.tolist(), strict=True)}
        where = f"column {column.name!r}"
        if 2 * len(commas) > len(present):
            said.append(f"{where}: {commas[0]!r} is read as a word; {comma_cure(commas[0])}")
        elif odd := odd_notation(present):
            said.append(f"{where}: {odd}")
        elif rows >= _FEW_ROWS and 2 * int((counts[words] == 1).sum()) > rows:
            said.append(
                f"{where}: most rows have a word of their own, such as {_name(present[0])}, from "
                f"which nothing can be learned; --drop {quote(column.name)}"
            )
        elif 1 < len(present) == len(pairs) == len(set(samples.y.tolist())):
            said.append(
                f"{where} gives the label away in every row; --drop {quote(column.name)} unless "
                "it is known before the label is"
            )
    return said


def label_cautions(samples: Samples, given: bool) -> list[str]:
    """Return warnings on the data's labels; ``given`` if they were named in advance."""
    names = samples.labels
    counts = np.bincount(samples.y[samples.y != NO_LABEL], minlength=len(names))
    absent = [names[label] for label in np.flatnonzero(counts == 0)]
    said = []
    if absent:
        said.append(f"no training row has the label {_names(absent)}")
    for label, name in enumerate(names):
        if not given and counts[label] and is_missing_value(name, among_numbers=True):
            said.append(
                f"{_name(name)} is the label of {int(counts[label]):,} rows; if it marks a missing "
                "label, remove it from them"
            )
    if not given and len(names) > _MANY and all(number(name) is not None for name in names):
        said.append(
            f"there are {len(names):,} labels, all of them numbers: if they are measurements, "
            "predict a few ranges instead"
        )
    return said


def vote_cautions(samples: Samples, accuracy: Accuracy) -> list[str]:
    """Return warnings on what the ensemble's accuracy does not show."""
    names, said = samples.labels, []
    if accuracy.ensemble <= accuracy.majority:
        said.append(
            f"the ensemble ({accuracy.ensemble:.2%} correct) is no better than always answering "
            f"{_name(names[accuracy.most])} ({accuracy.majority:.2%}): its certified accuracy "
            "means little"
        )
    present = accuracy.points > 0
    rare = present & (accuracy.answers <= _RARELY * accuracy.points)
    for label in np.flatnonzero(rare)[:_NAMED].tolist():
        said.append(
            f"{_name(names[label])} is {_often(int(accuracy.answers[label]))} but is the label "
            f"of {int(accuracy.points[label]):,} test rows"
        )
    if rare.sum() > _NAMED:
        said.append(f"the same holds for {int(rare.sum()) - _NAMED:,} more labels")
    missing = [names[label] for label in np.flatnonzero(~present)]
    if missing:
        said.append(f"no test row has the label {_names(missing)}: nothing is measured for it")
    return said


def _often(answers: int) -> str:
    return f"answered only {answers:,} time{'s' * (answers != 1)}" if answers else "never answered"


def _names(labels: Sequence[str]) -> str:
    more = f" or {len(labels) - _NAMED:,} others" if len(labels) > _NAMED else ""
    return ", ".join(map(_name, labels[:_NAMED])) + more


def _name(label: str) -> str:
    return repr(label if len(label) <= _LONGEST else f"{label[: _LONGEST - 3]}...")
