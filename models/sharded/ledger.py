"""The durable ledger of predictions: charged first, then recorded, then returned."""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from leaveout.databases import DAMAGED, blob, expect_tables, is_blank, reason, whole
from leaveout.errors import ShardedError
from leaveout.models.sharded.settings import ServiceSettings
from leaveout.models.sharded.shards import KEY_BYTES

DIGEST_BYTES = 32
_SERIAL = 8
_CHECK = 8
_SLOT = _SERIAL + DIGEST_BYTES + _CHECK


@dataclass(frozen=True)
class Seal:
    """A link of the ledger's hash chain."""

    serial: int  # number of earlier charges and changes
    digest: bytes  # of all of these

    @classmethod
    def of(cls, serial: int, previous: bytes, salt: bytes, content: bytes) -> Seal:
        """Return the link that follows a digest."""
        found = hashlib.sha256(previous + salt + serial.to_bytes(_SERIAL, "big") + content)
        return cls(serial, found.digest())


def begin_seals(stream: BinaryIO, seal: Seal) -> None:
    """Append a seal to a newly written archive."""
    # An archive ends with the length of its comment, so far 0 (APPNOTE, 4.3.16).
    stream.seek(-2, os.SEEK_END)
    stream.write((2 * _SLOT).to_bytes(2, "little") + 2 * _encode(seal))


def note_seal(path: Path, seal: Seal) -> None:
    """Overwrite the older of two seals durably; the other survives a crash."""
    with path.open("r+b", buffering=0) as stream:
        stream.seek(-_SLOT * (1 + seal.serial % 2), os.SEEK_END)
        stream.write(_encode(seal))
        os.fsync(stream.fileno())


def read_seal(path: Path) -> Seal:
    """Return the last seal of a file."""
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 2 * _SLOT))
        end = stream.read()
    slots = [end[:_SLOT], end[_SLOT:]]
    found = [seal for seal in map(_decode, slots) if seal is not None]
    if not found:
        raise ShardedError(
            f"{path}: damaged, or from a version without seals: its link to the ledger is "
            "missing; fit again in another folder"
        )
    return max(found, key=lambda seal: seal.serial)


def _encode(seal: Seal) -> bytes:
    """Return a seal as bytes with a checksum."""
    content = seal.serial.to_bytes(_SERIAL, "big") + seal.digest
    return content + hashlib.sha256(content).digest()[:_CHECK]


def _decode(slot: bytes) -> Seal | None:
    """Return the seal in a slot; None if damaged."""
    seal = Seal(int.from_bytes(slot[:_SERIAL], "big"), slot[_SERIAL : _SERIAL + DIGEST_BYTES])
    return seal if len(slot) == _SLOT and _encode(seal) == slot else None


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
    """The ledger has moved on to other models than these."""


@dataclass(frozen=True)
class Position:
    """Identifies the models that answer."""

    epoch: int  # earlier full retrainings; each starts a new budget
    version: int  # earlier changes of points or seeds


def row(database: sqlite3.Connection, query: str, *values: int) -> tuple[Any, ...]:
    """Return the only row of a query; without it the ledger is damaged."""
    found: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    if found is None:
        raise sqlite3.DatabaseError("its counters are missing")
    return found


def position(database: sqlite3.Connection) -> Position:
    """Return which models are current."""
    epoch, version = row(database, "SELECT epoch, version FROM service")
    return Position(whole(epoch, "the epoch"), whole(version, "the version"))


def charged_count(database: sqlite3.Connection, epoch: int) -> int:
    """Return how many predictions of an epoch are charged."""
    (count,) = row(database, "SELECT charged FROM epochs WHERE epoch = ?", epoch)
    return whole(count, "the number of charged predictions")


def secret(database: sqlite3.Connection, epoch: int) -> bytes:
    """Return the secret of an epoch that is not over."""
    (found,) = row(database, "SELECT secret FROM epochs WHERE epoch = ?", epoch)
    return blob(found, "the secret of the epoch", KEY_BYTES)


def seals(database: sqlite3.Connection) -> tuple[Seal, bytes]:
    """Return the chain's current link and the previous digest."""
    serial, previous, salt = row(database, "SELECT serial, previous, salt FROM seal")
    (coded,) = row(database, "SELECT settings FROM service")
    if not isinstance(coded, bytes):
        raise sqlite3.DatabaseError("the settings are not bytes")
    at = position(database)
    counted = f"{at.epoch} {at.version} {charged_count(database, at.epoch)} "
    content = counted.encode() + secret(database, at.epoch) + coded
    previous = blob(previous, "a digest", DIGEST_BYTES)
    salt = blob(salt, "a salt", SALT)
    return Seal.of(whole(serial, "the serial number"), previous, salt, content), previous


def seal_after(database: sqlite3.Connection, seal: Seal) -> None:
    """Continue the chain with the link after another one."""
    database.execute(
        "UPDATE seal SET serial = ?, previous = ?, salt = ?",
        (seal.serial + 1, seal.digest, secrets.token_bytes(SALT)),
    )


def expect(database: sqlite3.Connection, at: Position) -> None:
    """Raise `MovedError` if other models are current."""
    if position(database) != at:
        raise _moved_error(database)


def _moved_error(database: sqlite3.Connection) -> MovedError:
    """Return the error for a service that another process has changed."""
    now = position(database)
    return MovedError(
        f"another process moved the service to epoch {now.epoch}, version {now.version}; try again"
    )


_BUSY = 60.0  # seconds to wait for another process


class ExhaustedError(ShardedError):
    """The budget does not cover a request."""


@dataclass(frozen=True)
class Opened:
    """The result of opening a request."""

    known: dict[bytes, int]  # earlier answers, by query
    lines: dict[bytes, int]  # new charges, by query


class Ledger:
    """A ledger in an SQLite file, shared by any number of processes.

    The file contains the secrets of all epochs not yet over; only its owner can read it.

    Parameters
    ----------
    path : Path
        A file made by `create`.
    state : Path or None
        The service's file of points, which also records charges, so that an older copy of either is
        refused; None for a ledger alone, where older copies go undetected.
    """

    def __init__(self, path: Path, state: Path | None = None) -> None:
        self.path, self.state = path, state

    @classmethod
    def create(
        cls, path: Path, settings: ServiceSettings, key: bytes, state: Path | None = None
    ) -> Ledger:
        """Create an empty ledger at epoch 0 and version 0, atomically.

        Raises
        ------
        ShardedError
            If there is one already, or it cannot be written.
        """
        try:
            path.touch(mode=0o600)
        except OSError as error:
            raise ShardedError(f"{path}: cannot create: {error.strerror}") from None
        ledger = cls(path, state)
        coded = msgspec.json.encode(settings)
        with ledger._connection() as database:
            database.execute("PRAGMA journal_mode = WAL")
            with _commit_block(database):
                if not is_blank(database):
                    raise ShardedError(f"{path}: cannot create: it already exists")
                for statement in TABLES.split(";")[:-1]:
                    database.execute(statement)
                database.execute("INSERT INTO service VALUES (?, 0, 0)", (coded,))
                database.execute("INSERT INTO epochs VALUES (0, ?, 0)", (key,))
                database.execute(
                    "INSERT INTO seal VALUES (0, ?, ?)",
                    (bytes(DIGEST_BYTES), secrets.token_bytes(SALT)),
                )
        return ledger

    def is_made(self) -> bool:
        """Return whether the ledger exists; `create` may have been interrupted."""
        if not self.path.exists():
            return False
        with self._connection() as database:
            return not is_blank(database)

    def settings(self) -> ServiceSettings:
        """Return the settings with which the ledger was created."""
        with self._transaction() as database:
            (coded,) = row(database, "SELECT settings FROM service")
        try:
            return msgspec.json.decode(coded, type=ServiceSettings)
        except (msgspec.MsgspecError, ShardedError) as error:
            raise ShardedError(f"{self.path}: damaged settings: {error}") from None

    def position(self) -> Position:
        """Return which models are current."""
        with self._connection() as database:
            return position(database)

    def charged_predictions(self) -> int:
        """Return how many predictions of this epoch are charged."""
        with self._transaction() as database:
            return charged_count(database, position(database).epoch)

    @contextmanager
    def lock(self) -> Iterator[tuple[Position, bytes]]:
        """Lock out changes by other processes; yield the position and the secret."""
        with self._transaction() as database:
            at = position(database)
            yield at, secret(database, at.epoch)

    @contextmanager
    def move_on(self, at: Position, key: bytes | None = None) -> Iterator[tuple[Position, Seal]]:
        """Move on to other models if the block succeeds, to a new epoch if there is a ``key``.

        Yields their position, and the current seal to write points with. Raises MovedError if
        another process has moved on from ``at``.
        """
        with self._transaction() as database:
            expect(database, at)
            now, _ = seals(database)
            new = Position(at.epoch + (key is not None), at.version + 1)
            if key is not None:
                # A file stolen later must not reveal an epoch that is over.
                database.execute("UPDATE epochs SET secret = x''")
                database.execute("INSERT INTO epochs VALUES (?, ?, 0)", (new.epoch, key))
            database.execute("UPDATE service SET epoch = ?, version = ?", (new.epoch, new.version))
            # Another process may still record answers that it has just charged.
            database.execute("DELETE FROM lines WHERE answer NOT NULL OR epoch < ?", (at.epoch,))
            seal_after(database, now)
            yield new, now
        self.acknowledge()

    def acknowledge(self) -> None:
        """Wait until the file of points has recorded all charges and changes so far."""
        with self._transaction():
            pass

    def open(
        self,
        at: Position,
        queries: Sequence[bytes],
        limit: int,
        *,
        labels: int,
        partly: bool = False,
    ) -> Opened:
        """Look up distinct queries, and charge those not answered before.

        When this returns, the charge is on disk.

        Parameters
        ----------
        at : Position
            Position of the models that will answer.
        queries : sequence of bytes
        limit : int
            Most predictions per epoch.
        labels : int
            Number of labels; any other answer is an error.
        partly : bool
            Charge the first ones if not all can be.

        Raises
        ------
        ExhaustedError
            If the budget does not cover all, and none is charged.
        MovedError
            If other models are current.
        """
        with self._transaction() as database:
            expect(database, at)
            known = {}
            for query in queries:
                row = database.execute(
                    "SELECT answer FROM lines WHERE epoch = ? AND version = ? AND query = ? "
                    "AND answer IS NOT NULL ORDER BY line LIMIT 1",
                    (at.epoch, at.version, query),
                ).fetchone()
                if row is not None:
                    known[query] = whole(row[0], "an answer", labels)
            new = [query for query in queries if query not in known]
            charged = charged_count(database, at.epoch)
            left = max(0, limit - charged)
            if len(new) > left and not partly:
                raise ExhaustedError(
                    f"{len(new):,} predictions requested, but only {left:,} of {limit:,} are "
                    "left until the next full retraining: call retrain(), or set on_exhausted "
                    "to 'retrain'"
                )
            lines = {query: charged + place for place, query in enumerate(new[:left], start=1)}
            if not lines:
                return Opened(known, lines)
            now, _ = seals(database)
            database.executemany(
                "INSERT INTO lines VALUES (?, ?, ?, ?, NULL)",
                [(at.epoch, line, at.version, query) for query, line in lines.items()],
            )
            database.execute(
                "UPDATE epochs SET charged = charged + ? WHERE epoch = ?", (len(lines), at.epoch)
            )
            seal_after(database, now)
        return Opened(known, lines)

    def record(self, epoch: int, answers: Mapping[int, int], remembered: int) -> None:
        """Store answers; only then may they be returned to users.

        Parameters
        ----------
        epoch : int
        answers : mapping of int to int
            By line; each line is written only once.
        remembered : int
            Lines kept; queries of older lines are charged again.

        Raises
        ------
        MovedError
            If another process has begun new epochs meanwhile, so that a line is gone.
        ShardedError
            If a line has an answer already, or was never charged.
        """
        with self._transaction() as database:
            for line, answer in answers.items():
                written = database.execute(
                    "UPDATE lines SET answer = ? WHERE epoch = ? AND line = ? AND answer IS NULL",
                    (answer, epoch, line),
                )
                if written.rowcount != 1:
                    if position(database).epoch != epoch:
                        raise _moved_error(database)
                    raise ShardedError(
                        f"{self.path}: line {line} of epoch {epoch} no longer accepts an answer; "
                        "ask again, at a new charge"
                    )
            database.execute(
                "DELETE FROM lines WHERE answer IS NOT NULL AND (epoch < ? OR line <= ?)",
                (epoch, charged_count(database, epoch) - remembered),
            )

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            opened = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                timeout=_BUSY,
                isolation_level=None,
                uri=True,
            )
            with closing(opened) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("PRAGMA secure_delete = ON")
                yield database
        except OSError as error:
            raise ShardedError(f"{self.state}: cannot use: {error.strerror}") from None
        except DAMAGED as error:
            raise ShardedError(
                f"{self.path}: not usable as a ledger: {reason(error)}; restore the whole folder "
                "from one point in time, or use another"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as database, _commit_block(database):
            expect_tables(database, TABLES)
            self._compare(database)
            yield database

    def _compare(self, database: sqlite3.Connection) -> None:
        """Raise on an older copy of the ledger or of the points.

        The ledger is written first, then the file of points records it, and only then are answers
        returned or changes acknowledged. So a ledger one step ahead was interrupted in between; its
        step is recorded now, under the lock. A crash has no other outcome.
        """
        now, previous = seals(database)
        if self.state is None:
            return
        if not self.state.exists():
            if position(database).version == 0:
                return
            raise ShardedError(
                f"{self.state}: missing; restore the whole folder from one point in time"
            )
        seen = read_seal(self.state)
        if seen == now:
            return
        if seen.digest == previous and seen.serial == now.serial - 1:
            note_seal(self.state, now)
            return
        older = self.path if seen.serial >= now.serial else self.state
        raise ShardedError(
            f"{older}: an older copy, or from another folder: the ledger counts {now.serial:,} "
            f"charges and changes, {self.state.name} next to it {seen.serial:,}; restore the "
            "whole folder from one point in time"
        )


@contextmanager
def _commit_block(database: sqlite3.Connection) -> Iterator[None]:
    """Commit a transaction if the block succeeds; else roll it back."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
