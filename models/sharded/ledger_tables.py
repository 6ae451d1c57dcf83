"""The tables of a ledger, and the seal over them."""

from __future__ import annotations

import secrets
import sqlite3
from dataclasses import dataclass
from typing import Any

from leaveout.databases import blob, whole
from leaveout.errors import ShardedError
from leaveout.models.sharded.randomness import KEY_BYTES
from leaveout.models.sharded.seal import DIGEST_BYTES, Seal

TABLES = """
CREATE TABLE service (settings BLOB NOT NULL, epoch INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, secret BLOB NOT NULL, charged INTEGER NOT NULL);
CREATE TABLE lines (
    epoch INTEGER NOT NULL, line INTEGER NOT NULL, version INTEGER NOT NULL,
    query BLOB NOT NULL, answer INTEGER, PRIMARY KEY (epoch, line)
) WITHOUT ROWID;
CREATE INDEX asked ON lines (epoch, version, query);
CREATE TABLE seal (serial INTEGER NOT NULL, previous BLOB NOT NULL, salt BLOB NOT NULL);
"""
SALT = 16


class MovedError(ShardedError):
    """Models that the ledger no longer counts for."""


@dataclass(frozen=True)
class Position:
    """Which models answer."""

    epoch: int  # full retrainings before; each has a budget of its own
    version: int  # changes of points or seeds before


def row(database: sqlite3.Connection, query: str, *values: int) -> tuple[Any, ...]:
    """Return the only row of a query; a ledger without it is damaged."""
    found: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    if found is None:
        raise sqlite3.DatabaseError("what it counts with is missing")
    return found


def position(database: sqlite3.Connection) -> Position:
    """Return which models answer now."""
    epoch, version = row(database, "SELECT epoch, version FROM service")
    return Position(whole(epoch, "the epoch"), whole(version, "the version"))


def charged_count(database: sqlite3.Connection, epoch: int) -> int:
    """Return how many predictions of an epoch are charged."""
    (count,) = row(database, "SELECT charged FROM epochs WHERE epoch = ?", epoch)
    return whole(count, "what was charged")


def secret(database: sqlite3.Connection, epoch: int) -> bytes:
    """Return the secret of an epoch that still answers."""
    (found,) = row(database, "SELECT secret FROM epochs WHERE epoch = ?", epoch)
    return blob(found, "the secret of the epoch", KEY_BYTES)


def seals(database: sqlite3.Connection) -> tuple[Seal, bytes]:
    """Return the chain's current link and the previous digest."""
    serial, previous, salt = row(database, "SELECT serial, previous, salt FROM seal")
    (coded,) = row(database, "SELECT settings FROM service")
    if not isinstance(coded, bytes):
        raise sqlite3.DatabaseError("the settings are no bytes")
    at = position(database)
    counted = f"{at.epoch} {at.version} {charged_count(database, at.epoch)} "
    content = counted.encode() + secret(database, at.epoch) + coded
    previous = blob(previous, "a digest", DIGEST_BYTES)
    salt = blob(salt, "a salt", SALT)
    return Seal.of(whole(serial, "the serial number"), previous, salt, content), previous


def seal_after(database: sqlite3.Connection, seal: Seal) -> None:
    """Begin the link after another one."""
    database.execute(
        "UPDATE seal SET serial = ?, previous = ?, salt = ?",
        (seal.serial + 1, seal.digest, secrets.token_bytes(SALT)),
    )


def expect(database: sqlite3.Connection, at: Position) -> None:
    """Raise `MovedError` if other models answer now."""
    if position(database) != at:
        raise _moved_error(database)


def expect_epoch(database: sqlite3.Connection, epoch: int) -> None:
    """Raise `MovedError` if the epoch is over."""
    if position(database).epoch != epoch:
        raise _moved_error(database)


def _moved_error(database: sqlite3.Connection) -> MovedError:
    """Return the error that another process moved the service."""
    now = position(database)
    return MovedError(
        f"another process moved the service to epoch {now.epoch}, version {now.version}; try again"
    )
