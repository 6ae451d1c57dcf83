"""Atomic deletion and addition of rows in a model's folder."""

from __future__ import annotations

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import read_whole
from leaveout.kernel.receipts import Receipt
from leaveout.models.reading import FURTHER, read_table
from leaveout.models.table import Table
from leaveout.models.train.data import refuse_empty_cells, row_ids
from leaveout.models.train.encoding import is_missing_value
from leaveout.models.train.folder import SEED, ModelFolder, new_request, open_for_change
from leaveout.models.train.receipts import Sign, openings
from leaveout.written import first_few

_SHOWN = 3
_LOOKED_THROUGH = 2**26  # most bytes of a file that is looked through


@dataclass(frozen=True)
class Deletion:
    """The result of a deletion.

    Attributes
    ----------
    rows : tuple of str
        What the table called them.
    left : int
        Rows that the model still holds.
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
    former : tuple of Path
        Of a network's folder, what is about the network before.
    receipt : Receipt or None
        What the folder now says of the change.
    openings : dict of str to str
        By row, what shows that the receipt is about it: for who asked, and kept nowhere.
    line : bytes
        The receipt as it stands in the folder.
    """

    rows: tuple[str, ...]
    left: int
    seconds: float
    retraining: float | None
    kept: Path | None
    files: tuple[Path, ...]
    is_finished: bool = False
    naming: tuple[Path, ...] = ()
    former: tuple[Path, ...] = ()
    receipt: Receipt | None = None
    openings: Mapping[str, str] = field(default_factory=dict)
    line: bytes = b""


@dataclass(frozen=True)
class Addition:
    """The result of an addition: as `Deletion`, with the new names in ``rows``."""

    rows: tuple[str, ...]
    held: int
    seconds: float
    kept: Path | None
    files: tuple[Path, ...]
    is_finished: bool = False
    receipt: Receipt | None = None


def delete_rows(
    kind: type[ModelFolder],
    directory: Path,
    rows: Sequence[str],
    check: bool,
    tell: Callable[[Deletion], None],
    sign: Sign | None = None,
) -> Deletion:
    """Delete rows from the model of a folder.

    Parameters
    ----------
    kind : type of ModelFolder
    directory : Path
    rows : sequence of str
        As the table names them; where it does not, their numbers in it, from 0. Where rows leave
        together, the cells that name them.
    check : bool
        Whether to train anew on the rows left and compare, before anything is written.
    tell : callable
        Told once the change is on the disk. Only then is it forgotten that it was asked for, so
        that a program that is killed before finds it done when it asks again.
    sign : callable or None
        Signs the receipt.

    Raises
    ------
    LeaveoutError
        If a row is not there, or none would be left, or the folder cannot be read or written; the
        folder is then as it was.
    """
    with open_for_change(kind, directory) as folder:
        asked = tuple(row.strip() for row in rows)
        request = msgspec.json.encode(["delete", *sorted(asked)])
        former, seed = Former.of(folder), folder.asked_before(request)
        known = former.units
        if asked and not known.keys() & set(asked) and seed is not None:
            seconds, kept, is_finished = 0.0, folder.own_spec(), True
            retraining = folder.check() if check else None
        else:
            names, is_finished, seed = _named_rows(folder, asked, known), False, new_seed()
            began = time.perf_counter()
            folder = folder.without(names)
            seconds = time.perf_counter() - began
            retraining = folder.check() if check else None
            folder, kept = write_changed(folder, former, seed, request, sign)
        done = Deletion(
            asked, len(folder.rows.names), seconds, retraining, kept, folder.files,
            is_finished, _files_with_names(folder, asked), (), folder.receipts.last,
            openings(seed, asked), folder.receipts.lines[-1].content,
        )  # fmt: skip
        tell(done)
        folder.acknowledge()
        return done


def add_rows(
    kind: type[ModelFolder], directory: Path, source: Path, tell: Callable[[Addition], None]
) -> Addition:
    """Add the rows of a table with the same columns, under the next numbers.

    Parameters
    ----------
    kind : type of ModelFolder
    directory : Path
        Of a model that was trained on a table.
    source : Path
        CSV with a header: the features' columns, the label's, and the one that names rows.
    tell : callable
        As of `delete_rows`.

    Raises
    ------
    LeaveoutError
        If the table cannot be used, a row's name is taken, or the folder cannot be read or
        written; the folder is then as it was.
    """
    with open_for_change(kind, directory) as folder:
        columns, error = folder.columns, kind.subject.error
        if columns.encoding is None:
            raise error(f"{directory}: trained on plain arrays, so no table can be added")
        encoding = columns.encoding
        only = {*folder.columns_read, columns.identity or "", folder.group}
        table = read_table(source, reading=encoding.to_reading, only=only)
        table.require(encoding.label, f"it contains the {kind.subject.noun}'s labels")
        refuse_empty_cells(table, encoding.fills)
        if not len(table):
            raise error(f"{source}: no rows below the header")
        places = [f"{source}, line {line}" for line in table.lines]
        rows = folder.rows_of(table, columns.encode(table.records(), places))
        ids = () if columns.identity is None else row_ids(table, columns.identity)
        cells = None
        if folder.group:
            table.require(folder.group, "its equal cells name rows that leave together")
            cells = _group_cells(table, folder.group, error)
        request = msgspec.json.encode(["add", *(each.tolist() for each in rows), cells or ids])
        if folder.asked_before(request) is not None and folder.ends_with(rows):
            names, seconds, kept = folder.rows.names[-len(table) :], 0.0, folder.own_spec()
            is_finished = True
        else:
            _refuse_held(table, ids, folder)
            former, is_finished = Former.of(folder), False
            began = time.perf_counter()
            folder, names = folder.with_rows(rows, cells)
            seconds = time.perf_counter() - began
            named = dict(zip(names.tolist(), ids, strict=True)) if ids else {}
            columns = msgspec.structs.replace(columns, ids={**columns.ids, **named})
            folder = replace(folder, columns=columns)
            folder, kept = write_changed(folder, former, new_seed(), request)
        called = tuple(dict.fromkeys(cells or map(columns.name_of, names.tolist())))
        done = Addition(
            called, len(folder.rows.names), seconds, kept, folder.files, is_finished,
            folder.receipts.last,
        )  # fmt: skip
        tell(done)
        folder.acknowledge()
        return done


def rows_of_table(kind: type[ModelFolder], path: Path, directory: Path) -> tuple[str, ...]:
    """Return the rows listed in a CSV's naming column, or else in ``row``."""
    folder = kind.read(directory)
    columns = folder.columns
    identity = columns.identity or folder.group or "row"
    table = read_table(
        path, reading=FURTHER if columns.encoding is None else columns.encoding.to_reading
    )
    table.require(identity, "it names the rows to delete")
    cells = table.column(identity)
    return tuple(dict.fromkeys(cells) if folder.group else cells)


@dataclass(frozen=True)
class Former:
    """What a folder was before a change, which may change its model in place."""

    spec: str
    units: Mapping[str, list[int]]  # rows by what they, or their groups, are called

    @staticmethod
    def of(folder: ModelFolder) -> Former:
        """Look at a folder before it changes."""
        return Former(folder.spec(), _rows_by_name(folder))

    def changes(self, held: NDArray[np.int64]) -> tuple[str, int, list[str]]:
        """Return what was done where these rows are left: its name, to how many, who is gone."""
        now = set(held.tolist())
        before = {row for rows in self.units.values() for row in rows}
        gone = [name for name, rows in self.units.items() if now.isdisjoint(rows)]
        action = "forget" if now <= before else "add" if before <= now else "change"
        return action, len(before ^ now), gone


def new_seed() -> bytes:
    """Return the random bytes of one change."""
    return secrets.token_bytes(SEED)


F = TypeVar("F", bound=ModelFolder)


def write_changed(
    folder: F,
    former: Former,
    seed: bytes = b"",
    request: bytes = b"",
    sign: Sign | None = None,
) -> tuple[F, Path | None]:
    """Write a folder after its model changed, with a receipt; return the specification if kept."""
    held, seed = folder.rows, seed or new_seed()
    action, rows, gone = former.changes(held.names)
    changed = replace(
        folder,
        columns=folder.columns.restrict_to_rows(held.names, held.X),
        receipts=folder.receipts.then(
            action,
            rows,
            len(held.names),
            folder.digest,
            folder.distances(),
            openings(seed, gone),
            sign,
        ),
    )
    asked = new_request(seed, request) if request else b""
    is_written = changed.write(former.spec, asked)
    return changed, None if is_written else folder.directory / folder.subject.spec


def _files_with_names(folder: ModelFolder, rows: Sequence[str]) -> tuple[Path, ...]:
    """Return the files beside the model that contain a row's name as a word."""
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


def _rows_by_name(folder: ModelFolder) -> dict[str, list[int]]:
    ids, held = folder.columns.ids, folder.rows
    found: dict[str, list[int]] = {}
    if held.groups is not None:
        for row, cell in zip(held.names.tolist(), held.groups.cells.tolist(), strict=True):
            found.setdefault(cell, []).append(row)
        return found
    names = held.names.tolist()
    return {ids[row]: [row] for row in names if row in ids} or {str(row): [row] for row in names}


def _named_rows(
    folder: ModelFolder, rows: Sequence[str], known: Mapping[str, list[int]]
) -> list[int]:
    """Return the model's row numbers; an error mentions no other row's name."""
    error = folder.subject.error
    if not rows:
        raise error("name the rows to delete")
    twice = next((row for row, count in Counter(rows).items() if count > 1), None)
    if twice is not None:
        raise error(f"row {twice!r} is named twice")
    wrong = [row for row in rows if row not in known]
    if wrong:
        shown = first_few(map(repr, wrong), _SHOWN)
        columns = folder.columns
        by = (
            f"rows leave together, and are named by {folder.group!r}"
            if folder.group
            else f"rows are named by {columns.identity!r}"
            if columns.ids
            else "rows are numbered from 0"
        )
        raise error(
            f"{folder.directory}: the {folder.subject.noun} has no row {shown}: it never existed, "
            f"or is already deleted; {by}"
        )
    return [number for row in rows for number in known[row]]


def _group_cells(table: Table, group: str, error: type[LeaveoutError]) -> list[str]:
    """Return whom each row of a table belongs to."""
    cells = table.column(group)
    for row, cell in enumerate(cells):
        if is_missing_value(cell, among_numbers=True):
            raise error(f"{table.at(row, group)}: missing value; remove the row")
    return cells


def _refuse_held(table: Table, ids: Sequence[str], folder: ModelFolder) -> None:
    columns = folder.columns
    taken = set(columns.ids.values()) & set(ids)
    if taken:
        row = next(row for row, name in enumerate(ids) if name in taken)
        raise folder.subject.error(
            f"{table.at(row, columns.identity or '')}: the {folder.subject.noun} already has a row "
            f"{ids[row]!r}"
        )
