"""Reading of text files as tables: separators, decimal commas, character sets, columns to drop."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TextIO

from leaveout.errors import TrainingError
from leaveout.files import TABLE, open_file, why_unread
from leaveout.models.table import Cells, CellsReader, Table, check_header, require_column

OnRead = Callable[[float], None]
"""Receives the share of a file read so far, from time to time."""

OnHeader = Callable[[Table], object]
"""Receives the table without rows after reading the header; an exception ends the reading."""

_CHUNK = 2**10  # rows converted to columns at once

_SEPARATORS = (",", ";", "\t", "|")
KEEP = "keep"
"""The mode in which missing numbers stay so."""

_MODES = ("drop", "mark", KEEP)
_ESCAPES = {"utf-7", "unicode-escape", "raw-unicode-escape"}
"""Character sets in which text can be none that UTF-8 has."""
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PACKED = (b"PK\x03", b"\x1f\x8b", b"\xd0\xcf\x11")
_COLUMNAR = (b"PAR1", b"ARROW1", b"FEA1")  # the first bytes of Parquet, Arrow and Feather files
_BEGIN = 8

_WITH_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?")
_WITH_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Reading:
    """How a text file is read as a table.

    Nothing of it is guessed from the rows: a single row could then change how all others are read.

    Attributes
    ----------
    separator : str
        Between cells; empty: a comma, or else the ``;``, tab or ``|`` that the header has instead.
    decimal : str
        The decimal separator of numbers: ``.`` or ``,``.
    charset : str
        As Python names it; empty: UTF-8, or UTF-16 if the file begins with its byte-order mark.
    drop : tuple of str
        Columns to leave out.
    group : str
        The column of those whose rows leave together, such as ``patient``; empty: each row alone.
    missing : tuple of str
        What becomes of missing values: ``drop`` leaves their rows out, ``mark`` makes a word the
        category ``(missing)`` and a number the column's least, with a column that says so; ``keep``
        leaves a number missing, for boosted trees, and marks a word. Each for all columns, or as
        ``COLUMN=MODE`` for one. Without any they are refused.
    words : tuple of str
        Columns of words, even if all are numbers.
    fixed : bool
        Whether the table must be written as an earlier one was, so that no option can help.

    Raises
    ------
    TrainingError
        If a value is out of range or unknown.
    """

    separator: str = ""
    decimal: str = "."
    charset: str = ""
    drop: tuple[str, ...] = ()
    group: str = ""
    missing: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    fixed: bool = False

    def __post_init__(self) -> None:
        if self.separator not in {"", *_SEPARATORS}:
            raise TrainingError(f"--sep {self.separator}: expected ',', ';', '|' or a tab")
        if self.decimal not in {".", ","}:
            raise TrainingError(f"--decimal {self.decimal}: expected . or ,")
        if self.charset:
            try:
                known = codecs.lookup(self.charset)
                "".encode(self.charset)
                "a".encode(self.charset).decode(self.charset)
            except (LookupError, UnicodeError):
                known = None
            if known is None or known.name in _ESCAPES:
                raise TrainingError(
                    f"--charset {self.charset}: unknown; expected e.g. cp1252, latin-1 or utf-16"
                )
        for text in self.missing:
            if text.rpartition("=")[2] not in _MODES:
                raise TrainingError(
                    f"--missing {text}: expected drop, mark or keep, or such as COLUMN=drop"
                )

    def missing_mode(self, column: str) -> str:
        """Return what becomes of a column's missing values: ``drop``, ``mark``, or empty."""
        modes = {name: mode for name, _, mode in (text.rpartition("=") for text in self.missing)}
        return modes.get(column, modes.get("", ""))

    @property
    def set_options(self) -> tuple[tuple[str, object], ...]:
        """The options, each with its value; false where it is not set."""
        return (
            ("--sep", self.separator),
            ("--decimal", self.decimal != "."),
            ("--charset", self.charset),
            ("--drop", self.drop),
            ("--group", self.group),
            ("--missing", self.missing),
        )

    def open(self, path: Path) -> TextIO:
        """Open a file as text, its line ends unchanged."""
        stream = open_file(path, TABLE)
        begin, charset = stream.read(_BEGIN), self.charset
        stream.seek(0)
        if begin.startswith(_PACKED):
            raise TrainingError(f"{path}: is a workbook or compressed; save or unpack it as CSV")
        if begin.startswith(_COLUMNAR):
            raise TrainingError(
                f"{path}: is a Parquet or Arrow file; save it as CSV, e.g. with pandas: "
                "frame.to_csv('table.csv', index=False)"
            )
        if not charset:
            charset = "utf-16" if begin.startswith(_WIDE_MARKS) else "utf-8-sig"
        return io.TextIOWrapper(stream, encoding=charset, newline="")

    def separator_of(self, header: str) -> str:
        """Return what separates the cells of a header line."""
        if self.separator:
            return self.separator
        outside = re.sub(r'"[^"]*"', "", header)
        return next((each for each in _SEPARATORS if each in outside), ",")

    def rows(self, stream: TextIO, place: str) -> Rows:
        """Return a reader of a stream's rows, from the header on; ``place`` begins messages."""
        header = stream.readline()
        if "\0" in header:
            cure = "save it as UTF-8" if self.fixed else "add --charset utf-16-le"
            raise TrainingError(f"{place}: looks like UTF-16; {cure}")
        if header.startswith("sep=") and len(header.strip()) == len("sep=;"):
            raise TrainingError(
                f"{place}, line 1: {header.strip()!r} is for Excel alone; remove the line"
            )
        separator = self.separator_of(header)
        return Rows(chain([header], stream), separator)

    def number_text(self, word: str) -> str:
        """Return a cell, with a decimal point if it is a number with a decimal comma.

        Raises
        ------
        ValueError
            If commas are decimal, and the cell is a number with a point, which may separate
            thousands.
        """
        if self.decimal == ".":
            return word
        if _WITH_COMMA.fullmatch(word):
            return word.replace(",", ".")
        if _WITH_POINT.fullmatch(word):
            raise ValueError(
                f"{word!r} has a decimal point, but the table has decimal commas; write a comma"
            )
        if _THOUSANDS.fullmatch(word):
            raise ValueError(f"{word!r} has points between thousands; remove them")
        return word

    def why_not_text(self, error: UnicodeDecodeError) -> str:
        """Return why bytes are not text, and the cure."""
        charset = self.charset or "UTF-8"
        if self.fixed:
            return (
                f"byte {error.start} is not {charset} text, as the training table is; save the "
                f"table as {charset}"
            )
        if b"\0" in error.object:
            return "looks like UTF-16; add --charset utf-16-le"
        if self.charset:
            return f"byte {error.start} is not {self.charset} text; name another --charset"
        return (
            f"byte {error.start} is not UTF-8 text; add --charset cp1252 (as Excel often writes), "
            "or save the table as UTF-8"
        )


class Rows:
    """The rows of a CSV, with the line that each ends on."""

    def __init__(self, lines: Iterator[str], separator: str) -> None:
        self._reader = csv.reader(
            lines, delimiter=separator, skipinitialspace=separator != "\t", strict=True
        )

    @property
    def line(self) -> int:
        """The line that the last row ends on, from 1."""
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        return iter(self._reader)

    def header(self) -> list[str]:
        """Return the first row, without surrounding blanks."""
        return [name.strip().removeprefix("\ufeff") for name in next(self._reader, [])]


PLAIN = Reading()
FURTHER = Reading(fixed=True)
"""Of a model whose training table was plain."""


def read_table(
    path: Path,
    on_read: OnRead | None = None,
    on_header: OnHeader | None = None,
    reading: Reading = PLAIN,
    only: Container[str] | None = None,
) -> Table:
    """Read a table, or ``only`` some of its columns."""
    lines = array("q")
    last = 0
    try:
        with reading.open(path) as stream:
            size = path.stat().st_size
            reader = reading.rows(stream, str(path))
            every = reader.header()
            check_header(path, every)
            header, kept = drop_columns(path, every, reading.drop)
            if only is not None:
                kept = [at for at in kept if every[at] in only]
                header = [every[at] for at in kept]
            if on_header is not None:
                on_header(Table.of_rows(path, header, [], []))
            columns = [CellsReader() for _ in every]
            rows: list[list[str]] = []
            last = reader.line
            for row in reader:
                first, last = last + 1, reader.line
                if len(row) != len(every):
                    if is_blank(row):
                        continue
                    raise TrainingError(
                        f"{path}, {_lines(first, last)}: {len(row)} cells; expected "
                        f"{len(every)} as in the header; fix the line"
                    )
                rows.append(row)
                lines.append(last)
                if len(rows) == _CHUNK:
                    _take(columns, rows)
                    if on_read is not None:
                        on_read(os.lseek(stream.fileno(), 0, os.SEEK_CUR) / size)
            _take(columns, rows)
    except OSError as error:
        raise TrainingError(f"{path}: {why_unread(error)}") from None
    except UnicodeDecodeError as error:
        raise TrainingError(f"{path}: {reading.why_not_text(error)}") from None
    except UnicodeError as error:
        raise TrainingError(f"{path}: not {reading.charset} text: {error}") from None
    except csv.Error as error:
        raise TrainingError(f"{path}, {_flaw(error, last + 1, reader.line)}") from None
    table = Table(path, header, tuple(columns[at].cells() for at in kept), lines)
    return table if reading.decimal == "." else _with_points(table, reading)


def refuse_for_archive(path: Path, options: Iterable[tuple[str, object]]) -> None:
    """Raise an error if an option that only a CSV can have is set for an NPZ."""
    for flag, value in options:
        if value:
            raise TrainingError(f"{path}: {flag} is about a CSV, and this is an NPZ: drop {flag}")


def drop_columns(path: Path, header: list[str], drop: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return the columns of a header that are kept, and their places."""
    for name in drop:
        require_column(path, header, name, "--drop names one of its columns")
    kept = [at for at, name in enumerate(header) if name not in drop]
    return [header[at] for at in kept], kept


def _with_points(table: Table, reading: Reading) -> Table:
    """Return a table whose numbers have decimal points."""
    columns = []
    for name, cells in zip(table.header, table.columns, strict=True):
        words = []
        for at, word in enumerate(cells.words):
            try:
                words.append(reading.number_text(word))
            except ValueError as error:
                raise TrainingError(f"{table.at(cells.first(at), name)}: {error}") from None
        columns.append(Cells(words, cells.codes))
    return replace(table, columns=tuple(columns))


def comma_cure(word: str) -> str:
    """Return what to do about a number with a comma."""
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", word):
        return "add --decimal , if it is a decimal comma, or remove it if it separates thousands"
    return "add --decimal ,"


_FORMS = (
    (
        re.compile(r"[+-]?\d+([.,]\d+)?\s*%"),
        "is a percentage: remove the % signs",
    ),
    (
        re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}([./])\d{1,2}\2\d{2,4}"),
        "is a date: --drop the column, or write it as a number, such as days since a fixed day",
    ),
)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})*")


def odd_notation(words: Iterable[str]) -> str:
    """Return what a column's numbers look like, and the cure; empty if like numbers."""
    found = [word for word in words if any(map(str.isdigit, word))]
    for form, said in _FORMS:
        like = [word for word in found if form.fullmatch(word)]
        if like and 2 * len(like) > len(found):
            return f"{like[0]!r} {said}"
    points = [word for word in found if "." in word]
    if points and all(map(_GROUPED.fullmatch, found)):
        return f"the point in {points[0]!r} may separate thousands: if so, remove the points"
    zeros = [word for word in found if re.fullmatch(r"0\d+", word)]
    if zeros and all(map(str.isdigit, found)):
        return (
            f"{zeros[0]!r} is read as a number: if such cells are codes, put a letter before them"
        )
    return ""


def comma_number(word: str) -> bool:
    """Return whether a word is a number with a decimal comma."""
    return _WITH_COMMA.fullmatch(word) is not None


def _take(columns: Sequence[CellsReader], rows: list[list[str]]) -> None:
    """Move rows into columns, emptying the list."""
    for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
        column.take(cells)
    rows.clear()


def is_blank(row: Sequence[str]) -> bool:
    """Return whether a row is blank in a table of several columns."""
    return not row or (len(row) == 1 and not row[0].strip())


def _lines(first: int, last: int) -> str:
    return f"line {last}" if first == last else f"lines {first} to {last}"


def _flaw(error: csv.Error, first: int, last: int) -> str:
    if first == last:
        return f"line {last}: not CSV: {error}"
    return (
        f"line {first}: not CSV: a quote opened in this row is not closed properly (reading "
        f"continued to line {last}: {error}); close it, or double it inside a cell"
    )
