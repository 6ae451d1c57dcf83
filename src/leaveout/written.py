"""Output text: JSON of any value, lists in words, and spreadsheet cells."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, TextIO

import msgspec

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def printable(value: Any) -> Any:
    r"""Return text that UTF-8 can encode: undecodable bytes of file names become ``\xe9``.

    Applies to all text in lists and tables.
    """
    match value:
        case str():
            return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        case dict():
            return {printable(key): printable(each) for key, each in value.items()}
        case list() | tuple():
            return [printable(each) for each in value]
    return value


def as_json(value: object) -> bytes:
    """Encode a value as indented JSON, even if it names files with invalid names."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(printable(msgspec.to_builtins(value)))
    return msgspec.json.format(encoded, indent=2) + b"\n"


def first_few(items: Iterable[object], most: int) -> str:
    """Return the first items, separated by commas; ``...`` stands for the rest."""
    shown = list(map(str, islice(items, most + 1)))
    return ", ".join(shown if len(shown) <= most else [*shown[:most], "..."])


def harmless(cell: str) -> str:
    """Return a cell that spreadsheets do not read as a formula: ``'=1+1`` for ``=1+1``.

    Numbers stay; removing one apostrophe restores the text, so ``'=1+1`` becomes ``''=1+1``.
    """
    if cell.lstrip("'").startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


class TableWriter:
    """A CSV writer that makes text cells `harmless`."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = csv.writer(stream, lineterminator="\n")

    def row(self, cells: Iterable[object]) -> None:
        """Write a row."""
        self._writer.writerow(
            [harmless(printable(each)) if isinstance(each, str) else each for each in cells]
        )
