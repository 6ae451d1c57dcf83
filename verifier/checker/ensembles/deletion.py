"""Functions of statements about deleted rows, computed by the checker itself."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field

import numpy as np

from leaveout.files import TABLE, open_text_file
from leaveout.verifier.checker.ensembles.answering import Answering, read_forest
from leaveout.verifier.checker.ensembles.changes import hold_against, path_to, read_changes
from leaveout.verifier.checker.ensembles.held import Exact, Tree
from leaveout.verifier.checker.ensembles.training import train, without
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.expressions.given import Compared, Given, HeldFile


@dataclass(frozen=True, eq=False)
class Forest(Compared):
    """A forest as a statement has it; two are equal if every array of them is."""

    held: Exact | Answering
    _trained: dict[tuple[int, ...], Exact] = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        one, two = self.held, other.held
        if isinstance(one, Exact) and isinstance(two, Exact):
            return one is two or first_apart(one, two) is None
        if isinstance(one, Answering) and isinstance(two, Answering):
            return _same_answering(one, two)
        return False

    def __hash__(self) -> int:
        return id(self)

    def exact(self) -> Exact:
        """Return the forest as one with training rows."""
        if not isinstance(self.held, Exact):
            raise RejectedError(f"{self.held.path}: keeps no rows, so none can be deleted")
        return self.held

    def trained_without(self, rows: tuple[int, ...]) -> Exact:
        """Return the forest retrained without some rows, with the last one cached."""
        if rows not in self._trained:
            self._trained.clear()
            held = self.exact()
            self._trained[rows] = train(without(held, rows) if rows else held)
        return self._trained[rows]


def forest(given: Given) -> Forest:
    """Read a forest file."""
    file = given.file()
    return Forest(read_forest(file.path))


def points(given: Given) -> list[tuple[int, ...]]:
    """Read which rows are deleted: of each line the column ``row``, blanks between several."""
    file = given.file()
    found = []
    try:
        with open_text_file(file.path, TABLE) as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            head = [name.strip() for name in next(reader, [])]
            for cells in reader:
                if cells and (len(cells) != len(head) or head.count("row") != 1):
                    raise CertificateError(f"{file.path}, line {reader.line_num}: is no record")
                if cells:
                    found.append(_record(cells[head.index("row")], file, reader.line_num))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CertificateError(f"{file.path}: cannot be read: {error}") from None
    if not found:
        raise CertificateError(f"{file.path}: names no row to delete")
    return found


def _record(cell: str, file: HeldFile, line: int) -> tuple[int, ...]:
    words = cell.split()
    if not words or not all(re.fullmatch("[0-9]{1,18}", word) for word in words):
        raise CertificateError(f"{file.path}, line {line}: {cell!r} names no rows")
    return tuple(map(int, words))


def unlearn(given: Given) -> Forest:
    """Return the recorded forest after a deletion, proved equal to the retrained one."""
    whole, rows = _forest_and_record(given)
    anew = whole.trained_without(rows)
    hold_against(whole.exact(), read_changes(given.proof), anew)
    given.tell(
        "what a deletion gave is as recorded by the program that deletes; each record is held "
        "against a forest that was trained anew here"
    )
    return Forest(anew)


def retrain(given: Given) -> Forest:
    """Retrain without the rows of a record."""
    whole, rows = _forest_and_record(given)
    return Forest(whole.trained_without(rows))


def caches_sound(given: Given) -> bool:
    """Retrain on the rows held, and compare every array with the file's."""
    whole = given.value_of_kind("forest", Forest, "forest")
    apart = first_apart(whole.exact(), whole.trained_without(()))
    if apart is not None:
        raise RejectedError(f"{whole.exact().path}: {apart}")
    return True


def _forest_and_record(given: Given) -> tuple[Forest, tuple[int, ...]]:
    """Return the forest and the record of rows that a call is about."""
    whole, record = (
        given.value_of_kind("forest", Forest, "forest"),
        given.value_of_kind("record", tuple, "record"),
    )
    if not all(type(row) is int for row in record):
        raise RejectedError("'record' is no record")
    return whole, record


def first_apart(one: Exact, two: Exact) -> str | None:
    """Return the first difference of two forests in words, or None."""
    if one.settings != two.settings:
        return "the settings differ"
    if one.labels != two.labels:
        return "the labels differ"
    for name in ("names", "y", "X"):
        if not np.array_equal(getattr(one, name), getattr(two, name)):
            return f"the rows differ in their {name}"
    for i, (a, b) in enumerate(zip(one.trees, two.trees, strict=True)):
        for part in Tree.__dataclass_fields__:
            if not np.array_equal(getattr(a, part), getattr(b, part)):
                return f"tree {i}{_where(a, b, part)}: {part} is not what the rows give"
    return None


def _where(a: Tree, b: Tree, part: str) -> str:
    """Return the node at which two trees differ, if arrays have a row per node."""
    one, two = getattr(a, part), getattr(b, part)
    if part in ("feature", "threshold", "counts") and one.shape == two.shape:
        apart = one != two
        first = apart.any(axis=1) if apart.ndim > 1 else apart
        return f", {path_to(b.feature, int(np.flatnonzero(first)[0]))}"
    return ""


def _same_answering(one: Answering, two: Answering) -> bool:
    if one.labels != two.labels or one.features != two.features:
        return False
    if one.rounds_inputs != two.rounds_inputs:
        return False
    leaf = one.feature < 0
    if not all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("roots", "feature", "left", "right", "threshold")
    ):
        return False
    return np.array_equal(one.shares[leaf], two.shares[leaf])
