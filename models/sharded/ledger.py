"""The durable account of predictions: charged first, then recorded, then given out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from leaveout.errors import ShardedError
from leaveout.models.sharded.settings import ServiceSettings

__all__ = ["ExhaustedError", "Ledger", "MovedError", "Opened", "Position"]

_BUSY = 60.0
"""Seconds to wait for another process."""
_TABLES = """
CREATE TABLE service (settings BLOB NOT NULL, epoch INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, secret BLOB NOT NULL, charged INTEGER NOT NULL);
CREATE TABLE lines (
    epoch INTEGER NOT NULL, line INTEGER NOT NULL, version INTEGER NOT NULL,
    query BLOB NOT NULL, answer INTEGER, PRIMARY KEY (epoch, line)
) WITHOUT ROWID;
CREATE INDEX asked ON lines (epoch, version, query);
"""


class ExhaustedError(ShardedError):
    """A budget that does not cover what is asked."""


class MovedError(ShardedError):
    """Models that are not the ones the ledger counts for any more."""


@dataclass(frozen=True)
class Position:
    """Which models answer.

    Attributes
    ----------
    epoch : int
        Full retrainings before; each has a budget of its own.
    version : int
        Changes of points or seeds before.
    """

    epoch: int
    version: int


@dataclass(frozen=True)
class Opened:
    """What a request finds.

    Attributes
    ----------
    known : dict of bytes to int
        Answers that were given before, by query.
    lines : dict of bytes to int
        Lines charged now, by query.
    """

    known: dict[bytes, int]
    lines: dict[bytes, int]


class Ledger:
    """An account in one SQLite file, shared by any number of processes.

    The file holds the secret of every epoch that still answers; only its owner can read it.

    Parameters
    ----------
    path : Path
        Made by `create`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, settings: ServiceSettings, key: bytes) -> Ledger:
        """Write an account of nothing, at epoch 0 and version 0.

        Raises
        ------
        ShardedError
            If there is a file already, or none can be written.
        """
        try:
            path.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise ShardedError(f"{path}: cannot be made: {error.strerror}") from None
        ledger = cls(path)
        with ledger._connection() as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript("BEGIN IMMEDIATE;" + _TABLES)
            coded = msgspec.json.encode(settings)
            database.execute("INSERT INTO service VALUES (?, 0, 0)", (coded,))
            database.execute("INSERT INTO epochs VALUES (0, ?, 0)", (key,))
            database.execute("COMMIT")
        return ledger

    def settings(self) -> ServiceSettings:
        """Return the settings the account was made with."""
        with self._connection() as database:
            (coded,) = _row(database, "SELECT settings FROM service")
        try:
            return msgspec.json.decode(coded, type=ServiceSettings)
        except msgspec.ValidationError as error:
            raise ShardedError(f"{self.path}: damaged settings: {error}") from None

    def position(self) -> Position:
        """Return which models answer now."""
        with self._connection() as database:
            return _position(database)

    def charged(self) -> int:
        """Return how many predictions of this epoch are charged."""
        with self._connection() as database:
            return _charged(database, _position(database).epoch)

    @contextmanager
    def held(self) -> Iterator[tuple[Position, bytes]]:
        """Keep everyone else from changing anything; gives the position and the secret."""
        with self._transaction() as database:
            at = _position(database)
            (key,) = _row(database, "SELECT secret FROM epochs WHERE epoch = ?", at.epoch)
            yield at, key

    @contextmanager
    def moving(self, at: Position, key: bytes | None = None) -> Iterator[Position]:
        """Move on to other models, once what is within the block is done.

        Parameters
        ----------
        at : Position
            Where the caller's models are.
        key : bytes or None
            The secret of a new epoch; None to stay in this one.

        Raises
        ------
        MovedError
            If another process moved on before.
        """
        with self._transaction() as database:
            _expect(database, at)
            new = Position(at.epoch + (key is not None), at.version + 1)
            if key is not None:
                # An epoch that is over must not be told of by a file that is stolen later.
                database.execute("UPDATE epochs SET secret = x''")
                database.execute("INSERT INTO epochs VALUES (?, ?, 0)", (new.epoch, key))
            database.execute("UPDATE service SET epoch = ?, version = ?", (new.epoch, new.version))
            # Another process may still write down what it charged just now.
            database.execute("DELETE FROM lines WHERE answer NOT NULL OR epoch < ?", (at.epoch,))
            yield new

    def open(
        self, at: Position, queries: Sequence[bytes], limit: int, *, partly: bool = False
    ) -> Opened:
        """Look distinct queries up, and charge those that were not answered before.

        Once this returns, the charge is on the disk.

        Parameters
        ----------
        at : Position
            Of the models that will answer.
        queries : sequence of bytes
        limit : int
            Predictions in an epoch.
        partly : bool
            Charge the first ones if not all can be.

        Raises
        ------
        ExhaustedError
            If the budget does not cover all, and none is charged.
        MovedError
            If other models answer now.
        """
        with self._transaction() as database:
            _expect(database, at)
            known = {}
            for query in queries:
                row = database.execute(
                    "SELECT answer FROM lines WHERE epoch = ? AND version = ? AND query = ? "
                    "AND answer IS NOT NULL ORDER BY line LIMIT 1",
                    (at.epoch, at.version, query),
                ).fetchone()
                if row is not None:
                    known[query] = int(row[0])
            new = [query for query in queries if query not in known]
            charged = _charged(database, at.epoch)
            left = max(0, limit - charged)
            if len(new) > left and not partly:
                raise ExhaustedError(
                    f"{len(new):,} predictions asked for, {left:,} of {limit:,} left until the "
                    "next full retraining: call retrain(), or set on_exhausted to 'retrain'"
                )
            lines = {query: charged + place for place, query in enumerate(new[:left], start=1)}
            database.executemany(
                "INSERT INTO lines VALUES (?, ?, ?, ?, NULL)",
                [(at.epoch, line, at.version, query) for query, line in lines.items()],
            )
            database.execute(
                "UPDATE epochs SET charged = charged + ? WHERE epoch = ?", (len(lines), at.epoch)
            )
        return Opened(known, lines)

    def record(self, epoch: int, answers: Mapping[int, int], remembered: int) -> None:
        """Write answers down; only then may they be given out.

        Parameters
        ----------
        epoch : int
        answers : mapping of int to int
            By line; each line is written once.
        remembered : int
            Lines kept; those before them can be asked for anew at a new charge.

        Raises
        ------
        ShardedError
            If a line has an answer already, or is forgotten.
        """
        with self._transaction() as database:
            for line, answer in answers.items():
                written = database.execute(
                    "UPDATE lines SET answer = ? WHERE epoch = ? AND line = ? AND answer IS NULL",
                    (answer, epoch, line),
                )
                if written.rowcount != 1:
                    raise ShardedError(
                        f"{self.path}: line {line} of epoch {epoch} takes no answer any more; ask "
                        "again, at a new charge"
                    )
            database.execute(
                "DELETE FROM lines WHERE answer IS NOT NULL AND (epoch < ? OR line <= ?)",
                (epoch, _charged(database, epoch) - remembered),
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
        except sqlite3.Error as error:
            raise ShardedError(
                f"{self.path}: cannot be used as a ledger: {error}; restore it, or take another "
                "folder"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise


def _row(database: sqlite3.Connection, query: str, *values: int) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = database.execute(query, values).fetchone()
    if found is None:
        raise sqlite3.DatabaseError("what it counts with is missing")
    return found


def _position(database: sqlite3.Connection) -> Position:
    return Position(*_row(database, "SELECT epoch, version FROM service"))


def _charged(database: sqlite3.Connection, epoch: int) -> int:
    return int(_row(database, "SELECT charged FROM epochs WHERE epoch = ?", epoch)[0])


def _expect(database: sqlite3.Connection, at: Position) -> None:
    now = _position(database)
    if now != at:
        raise MovedError(
            f"another process moved the service to epoch {now.epoch}, version {now.version}; "
            "try again"
        )
