"""Atomic deletion and addition of rows in a forest's folder."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import read_whole
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import COLUMNS, FOREST, SPEC, ForestColumns
from leaveout.models.forest.folders.folder import (
    ForestFolder,
    lock_folder,
    open_for_change,
    put_forest,
)
from leaveout.models.forest.folders.training import label_values
from leaveout.models.reading import FURTHER, read_table
from leaveout.models.table import Table
from leaveout.models.train.data import refuse_empty_cells, row_ids
from leaveout.models.train.encoding import is_missing_value

_SHOWN = 3
_LOOKED_THROUGH = 2**26
"""Most bytes of a file that is looked through."""

T = TypeVar("T")


@dataclass(frozen=True)
class Deletion:
    """The result of a deletion.

    Attributes
    ----------
    rows : tuple of str
        What the table called them.
    left : int
        Rows that the forest still holds.
    seconds : float
        Of the deletion itself, without reading and writing the folder.
    retraining : float or None
        Seconds that training anew took, where the two were compared.
    kept : Path or None
        The specification, where it was not rewritten because it is not as it was written.
    files : tuple of Path
    is_finished : bool
        Whether an earlier run had made this very change, and was ended before it could say so.
    naming : tuple of Path
        Files of others in the folder, such as results, that still say what a row was called.
    """

    rows: tuple[str, ...]
    left: int
    seconds: float
    retraining: float | None
    kept: Path | None
    files: tuple[Path, ...]
    is_finished: bool = False
    naming: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Addition:
    """The result of an addition: as `Deletion`, with the new names in ``rows``."""

    rows: tuple[str, ...]
    held: int
    seconds: float
    kept: Path | None
    files: tuple[Path, ...]
    is_finished: bool = False


def delete_rows(
    directory: Path | str,
    rows: Sequence[str],
    check: bool = False,
    tell: Callable[[Deletion], None] = lambda done: None,
) -> Deletion:
    """Delete rows exactly, leaving bit for bit the forest of the remaining rows.

    Parameters
    ----------
    directory : Path or str
        That `train_forest` wrote.
    rows : sequence of str
        As the table names them; where it does not, their numbers in it, from 0. Where rows leave
        together, the cells that name them.
    check : bool
        Whether to train anew on the rows left and compare, before anything is written.
    tell : callable, optional
        Told once the change is on the disk. Only then is it forgotten that it was asked for, so
        that a program that is killed before finds it done when it asks again.

    Raises
    ------
    ForestError
        If a row is not there, or none would be left, or the folder cannot be read or written; the
        folder is then as it was.
    """
    with open_for_change(Path(directory)) as folder:
        forest = folder.forest
        asked = tuple(row.strip() for row in rows)
        request = msgspec.json.encode(["delete", *sorted(asked)])
        known = _rows_by_name(folder)
        if asked and not known.keys() & set(asked) and folder.was_asked(request):
            seconds, kept, is_finished = 0.0, folder.own_spec(), True
            retraining = _time_retraining(folder) if check else None
        else:
            names, before, is_finished = _named_rows(folder, asked, known), folder.spec(), False
            began = time.perf_counter()
            forest.delete(names)
            seconds = time.perf_counter() - began
            retraining = _time_retraining(folder) if check else None
            kept = _write_folder(folder, folder.columns, before, request)
        done = Deletion(
            asked, len(forest.rows_), seconds, retraining, kept, folder.files,
            is_finished, _files_with_names(folder, asked),
        )  # fmt: skip
        tell(done)
        folder.acknowledge()
        return done


def add_rows(
    directory: Path | str,
    source: Path | str,
    tell: Callable[[Addition], None] = lambda done: None,
) -> Addition:
    """Add the rows of a table with the same columns, under the next numbers.

    Parameters
    ----------
    directory : Path or str
        That `train_forest` wrote from a table.
    source : Path or str
        CSV with a header: the features' columns, the label's, and the one that names rows.
    tell : callable, optional
        As of `delete_rows`.

    Raises
    ------
    ForestError, TrainingError
        If the table cannot be used, a row's name is taken, or the folder cannot be read or
        written; the folder is then as it was.
    """
    with open_for_change(Path(directory)) as folder:
        columns, forest = folder.columns, folder.forest
        if columns.encoding is None:
            raise ForestError(f"{directory}: trained on plain arrays, so no table can be added")
        encoding = columns.encoding
        table, label = (
            read_table(
                Path(source),
                reading=encoding.to_reading,
                only={*encoding.columns_read, columns.identity or "", folder.group},
            ),
            encoding.label,
        )
        table.require(label, "it contains the forest's labels")
        refuse_empty_cells(table, encoding.fills)
        if not len(table):
            raise ForestError(f"{source}: no rows below the header")
        places = [f"{source}, line {line}" for line in table.lines]
        X = columns.encode(table.records(), places)
        y = _labels(table, label, forest)
        ids = () if columns.identity is None else row_ids(table, columns.identity)
        cells = None
        if folder.group:
            table.require(folder.group, "its equal cells name rows that leave together")
            cells = _group_cells(table, folder.group)
        request = msgspec.json.encode(["add", X.tolist(), y.tolist(), cells or ids])
        if folder.was_asked(request) and _ends_with(forest, X, y):
            names, seconds, kept = forest.rows_[-len(table) :], 0.0, folder.own_spec()
            is_finished = True
        else:
            _refuse_held(table, ids, columns)
            before, is_finished = folder.spec(), False
            began = time.perf_counter()
            names = forest.add(X, y, groups=cells)
            seconds = time.perf_counter() - began
            named = dict(zip(names.tolist(), ids, strict=True)) if ids else {}
            columns = msgspec.structs.replace(columns, ids={**columns.ids, **named})
            kept = _write_folder(folder, columns, before, request)
        called = tuple(dict.fromkeys(cells or map(columns.name_of, names.tolist())))
        done = Addition(called, len(forest.rows_), seconds, kept, folder.files, is_finished)
        tell(done)
        folder.acknowledge()
        return done


def change_forest(directory: Path, change: Callable[[DareForestClassifier], T]) -> T:
    """Change the forest of a folder and everything derived from it."""
    with lock_folder(directory):
        if (directory / COLUMNS).exists():
            folder = ForestFolder.read(directory)
            before = folder.spec()
            found = change(folder.forest)
            _write_folder(folder, folder.columns, before)
            return found
        forest = DareForestClassifier.load(directory / FOREST)
        found = change(forest)
        put_forest(directory, forest, {}, is_new=False)
        return found


def rows_of_table(path: Path, directory: Path) -> tuple[str, ...]:
    """Return the rows listed in a CSV's naming column, or else in ``row``."""
    folder = ForestFolder.read(directory)
    columns = folder.columns
    identity = columns.identity or folder.group or "row"
    table = read_table(
        path, reading=FURTHER if columns.encoding is None else columns.encoding.to_reading
    )
    table.require(identity, "it names the rows to delete")
    cells = table.column(identity)
    return tuple(dict.fromkeys(cells) if folder.group else cells)


def _write_folder(
    folder: ForestFolder, columns: ForestColumns, before: str, request: bytes = b""
) -> Path | None:
    """Write a folder after its forest changed; return the specification if it is kept."""
    held = folder.forest.ensemble()
    changed = ForestFolder(
        folder.directory, folder.forest, columns.restrict_to_rows(held.names, held.X)
    )
    return None if changed.write(before, request) else folder.directory / SPEC


def _ends_with(forest: DareForestClassifier, X: NDArray[np.float64], y: NDArray[Any]) -> bool:
    """Return whether these are the rows added last."""
    held = forest.ensemble()
    labels = held.classes[held.y[-len(X) :]]
    return np.array_equal(held.X[-len(X) :], X) and labels.tolist() == y.tolist()


def _files_with_names(folder: ForestFolder, rows: Sequence[str]) -> tuple[Path, ...]:
    """Return the files beside the forest that contain a row's name as a word."""
    if folder.columns.identity is None and not folder.group:
        return ()
    words = b"|".join(re.escape(row.encode()) for row in rows)
    pattern = re.compile(rb"(?<![\w-])(?:" + words + rb")(?![\w-])")
    found = []
    for path in sorted(set(folder.directory.rglob("*")) - {*folder.files[:2]}):
        # What cannot be read, or is larger than what people write, is theirs to look through.
        with suppress(OSError):
            if path.is_file() and pattern.search(read_whole(path, _LOOKED_THROUGH)):
                found.append(path)
    return tuple(found)


def _time_retraining(folder: ForestFolder) -> float:
    """Retrain on the rows held, check for equality, and return the seconds taken."""
    began = time.perf_counter()
    anew = folder.forest.retrain()
    seconds = time.perf_counter() - began
    wrong = folder.forest.difference(anew)
    if wrong is not None:
        raise ForestError(f"{folder.directory}: differs from retraining: {wrong}")
    return seconds


def _rows_by_name(folder: ForestFolder) -> dict[str, list[int]]:
    """Return the forest's rows by displayed name."""
    ids, held = folder.columns.ids, folder.forest.ensemble()
    found: dict[str, list[int]] = {}
    if held.groups is not None:
        for row, cell in zip(held.names.tolist(), held.groups.cells.tolist(), strict=True):
            found.setdefault(cell, []).append(row)
        return found
    names = held.names.tolist()
    return {ids[row]: [row] for row in names if row in ids} or {str(row): [row] for row in names}


def _named_rows(
    folder: ForestFolder, rows: Sequence[str], known: Mapping[str, list[int]]
) -> list[int]:
    """Return the forest's row numbers; an error mentions no other row's name."""
    if not rows:
        raise ForestError("name the rows to delete")
    twice = next((row for row, count in Counter(rows).items() if count > 1), None)
    if twice is not None:
        raise ForestError(f"row {twice!r} is named twice")
    wrong = [row for row in rows if row not in known]
    if wrong:
        shown = ", ".join(map(repr, wrong[:_SHOWN])) + ", ..." * (len(wrong) > _SHOWN)
        columns = folder.columns
        by = (
            f"rows leave together, and are named by {folder.group!r}"
            if folder.group
            else f"rows are named by {columns.identity!r}"
            if columns.ids
            else "rows are numbered from 0"
        )
        raise ForestError(
            f"{folder.directory}: the forest has no row {shown}: it never existed, or is already "
            f"deleted; {by}"
        )
    return [number for row in rows for number in known[row]]


def _group_cells(table: Table, group: str) -> list[str]:
    """Return whom each row of a table belongs to."""
    cells = table.column(group)
    for row, cell in enumerate(cells):
        if is_missing_value(cell, among_numbers=True):
            raise ForestError(f"{table.at(row, group)}: missing value; remove the row")
    return cells


def _labels(table: Table, label: str, forest: DareForestClassifier) -> NDArray[Any]:
    """Return labels in the forest's form, integers or text."""
    cells = table.column(label)
    if forest.classes_.dtype.kind == "U":
        return np.array(cells, dtype=np.str_)
    values = label_values(cells)
    if values.dtype.kind == "U":
        wrong = next(
            row for row, cell in enumerate(cells) if label_values([cell]).dtype.kind == "U"
        )
        raise ForestError(
            f"{table.at(wrong, label)}: {cells[wrong]!r} is not a label of this forest; labels "
            "are whole numbers"
        )
    return values


def _refuse_held(table: Table, ids: Sequence[str], columns: ForestColumns) -> None:
    taken = set(columns.ids.values()) & set(ids)
    if taken:
        row = next(row for row, name in enumerate(ids) if name in taken)
        raise ForestError(
            f"{table.at(row, columns.identity or '')}: the forest already has a row {ids[row]!r}"
        )
