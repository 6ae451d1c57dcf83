"""Checks of the tables and values of SQLite files, which other programs may have changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache

DAMAGED = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What a damaged file raises; the last if an error message quotes invalid text."""

_MOST = 2**53  # limit of all counts; a larger one means damage

_SHOWN = 40
_LONGEST = 200


def is_blank(database: sqlite3.Connection) -> bool:
    """Return whether a database has no tables, as when its creation was interrupted."""
    return not _tables(database)


def expect_tables(database: sqlite3.Connection, script: str) -> None:
    """Raise if a database does not have exactly a script's tables."""
    odd = {name for name, _ in _tables(database) ^ _made_by(script)}
    if odd:
        raise sqlite3.DatabaseError(
            f"{_short_text(min(odd))} is missing, was changed, or belongs to another program"
        )


def reason(error: Exception) -> str:
    """Return an error's message in one short line; it may quote the file's content."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def whole(value: object, name: str, most: int = _MOST) -> int:
    """Return a column value as an integer from 0 to below ``most``."""
    if type(value) is not int or not 0 <= value < most:
        raise sqlite3.DatabaseError(f"{name} is {_short_text(value)}, expected 0 to {most - 1}")
    return value


def blob(value: object, name: str, size: int) -> bytes:
    """Return a column value as ``size`` bytes."""
    if not isinstance(value, bytes) or len(value) != size:
        # The value is not shown: such bytes are secrets.
        raise sqlite3.DatabaseError(f"{name} is not a text of {size} bytes")
    return value


def _short_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def _tables(database: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    rows = database.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return frozenset((str(name), str(sql)) for name, sql in rows)


@cache
def _made_by(script: str) -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(script)
        return _tables(database)
