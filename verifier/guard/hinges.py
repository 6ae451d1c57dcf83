"""Decisions that hinge on one other person: whose leaving would turn which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Integers
from leaveout.errors import GuardError
from leaveout.models.reading import FURTHER, read_table
from leaveout.models.table import Table
from leaveout.verifier.audits.intervals import clopper_pearson
from leaveout.verifier.guard.inputs import encode_inputs
from leaveout.verifier.guard.subject import OnProgress, Subject

_BLOCK = 4096  # decisions that are looked at together

_CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Decisions:
    """What a model decides of some rows, and on whom each decision hinges.

    ``turned_by`` has for each row the members that may answer otherwise, that is, which people's
    leaving may turn it, but for the row's own person. Where there are none, none can: proved.
    """

    labels: Integers  # shape (rows,)
    turned_by: tuple[Integers, ...]
    places: tuple[str, ...]  # where each row stands
    table: Table | None  # None for plain arrays

    @property
    def hinge(self) -> NDArray[np.bool_]:
        """Which decisions hinge on somebody else."""
        return np.array([len(each) > 0 for each in self.turned_by], bool)


@dataclass(frozen=True)
class Share:
    """How many decisions of a subgroup hinge, with an interval for the people like them.

    It is Clopper and Pearson's interval of the share, as if rows were drawn from all like them.
    """

    words: tuple[str, ...]  # the subgroup's cells
    count: int
    hinging: int
    low: float
    high: float


def decisions(
    subject: Subject, source: Path, person: str = "", progress: OnProgress | None = None
) -> Decisions:
    """Find on whom each decision of a CSV or NPZ hinges; raise on rows outside what is proved.

    ``person`` is the column that says whose row it is, as training rows, or groups, are named:
    their own leaving does not count.
    """
    table, points, places = read_inputs(subject, source)
    own = _own(subject, table, person) if person and table is not None else None
    if person and table is None:
        raise GuardError(f"{source}: an NPZ names nobody; drop --id")
    for at, point in enumerate(points):
        where = subject.where_outside(point)
        if where:
            raise GuardError(f"{places[at]}: {where}; nothing is proved of it: drop the row")
    labels, turned = np.zeros(len(points), np.int64), [np.empty(0, np.int64)] * len(points)
    for start in range(0, len(points), _BLOCK):
        part = points[start : start + _BLOCK]
        found = subject.leaks.find_all(part)
        labels[start : start + len(part)] = [each.label for each in found]
        open_ = np.array([at for at, each in enumerate(found) if each.leak], np.int64)
        if len(open_):
            by = subject.leaks.dissenters(part[open_], labels[start + open_])
            for at, members in zip((start + open_).tolist(), by, strict=True):
                turned[at] = members if own is None else members[members != own[at]]
        if progress is not None:
            progress(start + len(part), len(points))
    return Decisions(labels, tuple(turned), places, table)


def read_inputs(
    subject: Subject, source: Path
) -> tuple[Table | None, NDArray[Any], tuple[str, ...]]:
    """Read inputs, and say where each stands; of a CSV also its table."""
    if source.suffix == ".npz":
        points = subject.read_arrays(source)
        return None, points, tuple(f"{source}, row {at}" for at in range(len(points)))
    encoding = subject.encoding
    table = read_table(source, reading=FURTHER if encoding is None else encoding.to_reading)
    if not len(table):
        raise GuardError(f"{source}: no rows below the header")
    try:
        points = subject.domain.points(encode_inputs(table.records(), subject.encode))
    except GuardError as error:
        raise GuardError(f"{source}: {error}") from None
    return table, points, tuple(f"{source}, line {line}" for line in table.lines)


def _own(subject: Subject, table: Table, person: str) -> Integers:
    """Return the member that lacks each row's own person; -1 where there is none."""
    table.require(person, "it says whose row it is")
    known = {name: at for at, name in enumerate(subject.unit_names)}
    own = np.array([known.get(cell, -1) for cell in table.column(person)], np.int64)
    if (own < 0).all():
        raise GuardError(
            f"{table.path}, column {person!r}: no cell is a training row's name; name the column "
            "that names them, or drop --id"
        )
    return own


def shares(found: Decisions, columns: Sequence[str]) -> list[Share]:
    """Return how many decisions hinge, by the cells of some columns; all together without any."""
    rows = len(found.labels)
    if columns and found.table is None:
        raise GuardError("an NPZ has no columns; drop --by")
    cells: list[list[str]] = []
    for name in columns:
        assert found.table is not None
        found.table.require(name, "--by names it")
        cells.append(found.table.column(name))
    words = [tuple(each[at] for each in cells) for at in range(rows)]
    hinge, known = found.hinge, []
    for group in sorted(set(words)):
        inside = np.array([each == group for each in words])
        count, hinging = int(inside.sum()), int(hinge[inside].sum())
        known.append(Share(group, count, hinging, *clopper_pearson(hinging, count, _CONFIDENCE)))
    return known
