"""The durable account of predictions: charged, then recorded, then given out."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.databases import DAMAGED, expect_tables, is_blank, reason, whole
from leaveout.errors import ShardedError
from leaveout.models.sharded import ledger_tables as tables
from leaveout.models.sharded.ledger_tables import Position
from leaveout.models.sharded.seal import DIGEST_BYTES, Seal, note_seal, read_seal
from leaveout.models.sharded.settings import ServiceSettings

_BUSY = 60.0
"""Seconds to wait for another process."""


class ExhaustedError(ShardedError):
    """A budget that does not cover a request."""


@dataclass(frozen=True)
class Opened:
    """What a request finds."""

    known: dict[bytes, int]  # answers that were given before, by query
    lines: dict[bytes, int]  # lines charged now, by query


class Ledger:
    """An account in an SQLite file, shared by any number of processes.

    The file holds the secret of every epoch that still answers; only its owner can read it.

    Parameters
    ----------
    path : Path
        Made by `create`.
    state : Path or None
        The file of points beside it, which notes every charge too, so that an older copy of either
        is refused; None for an account alone, of which nothing tells an older copy.
    """

    def __init__(self, path: Path, state: Path | None = None) -> None:
        self.path, self.state = path, state

    @classmethod
    def create(
        cls, path: Path, settings: ServiceSettings, key: bytes, state: Path | None = None
    ) -> Ledger:
        """Create an empty account at epoch 0 and version 0, atomically.

        Raises
        ------
        ShardedError
            If there is one already, or none can be written.
        """
        try:
            path.touch(mode=0o600)
        except OSError as error:
            raise ShardedError(f"{path}: cannot be made: {error.strerror}") from None
        ledger = cls(path, state)
        coded = msgspec.json.encode(settings)
        with ledger._connection() as database:
            database.execute("PRAGMA journal_mode = WAL")
            with _commit_block(database):
                if not is_blank(database):
                    raise ShardedError(f"{path}: cannot be made: there is one already")
                for statement in tables.TABLES.split(";")[:-1]:
                    database.execute(statement)
                database.execute("INSERT INTO service VALUES (?, 0, 0)", (coded,))
                database.execute("INSERT INTO epochs VALUES (0, ?, 0)", (key,))
                database.execute(
                    "INSERT INTO seal VALUES (0, ?, ?)",
                    (bytes(DIGEST_BYTES), secrets.token_bytes(tables.SALT)),
                )
        return ledger

    def is_made(self) -> bool:
        """Return whether the account exists; `create` may have been interrupted."""
        if not self.path.exists():
            return False
        with self._connection() as database:
            return not is_blank(database)

    def settings(self) -> ServiceSettings:
        """Return the settings the account was created with."""
        with self._transaction() as database:
            (coded,) = tables.row(database, "SELECT settings FROM service")
        try:
            return msgspec.json.decode(coded, type=ServiceSettings)
        except (msgspec.MsgspecError, ShardedError) as error:
            raise ShardedError(f"{self.path}: damaged settings: {error}") from None

    def position(self) -> Position:
        """Return which models answer now."""
        with self._connection() as database:
            return tables.position(database)

    def charged(self) -> int:
        """Return how many predictions of this epoch are charged."""
        with self._transaction() as database:
            return tables.charged_count(database, tables.position(database).epoch)

    @contextmanager
    def held(self) -> Iterator[tuple[Position, bytes]]:
        """Lock out changes by others; yield the position and the secret."""
        with self._transaction() as database:
            at = tables.position(database)
            yield at, tables.secret(database, at.epoch)

    @contextmanager
    def moving(self, at: Position, key: bytes | None = None) -> Iterator[tuple[Position, Seal]]:
        """Move on to other models once the block succeeds.

        Gives where they will be, and the seal to write points with: that of now.

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
            tables.expect(database, at)
            now, _ = tables.seals(database)
            new = Position(at.epoch + (key is not None), at.version + 1)
            if key is not None:
                # An epoch that is over must not be told of by a file that is stolen later.
                database.execute("UPDATE epochs SET secret = x''")
                database.execute("INSERT INTO epochs VALUES (?, ?, 0)", (new.epoch, key))
            database.execute("UPDATE service SET epoch = ?, version = ?", (new.epoch, new.version))
            # Another process may still write down what it charged just now.
            database.execute("DELETE FROM lines WHERE answer NOT NULL OR epoch < ?", (at.epoch,))
            tables.seal_after(database, now)
            yield new, now
        self.acknowledge()

    def acknowledge(self) -> None:
        """Wait until the file of points notes all charges and changes so far."""
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

        Once this returns, the charge is on the disk.

        Parameters
        ----------
        at : Position
            Of the models that will answer.
        queries : sequence of bytes
        limit : int
            Predictions in an epoch.
        labels : int
            How many there are: no answer is another one.
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
            tables.expect(database, at)
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
            charged = tables.charged_count(database, at.epoch)
            left = max(0, limit - charged)
            if len(new) > left and not partly:
                raise ExhaustedError(
                    f"{len(new):,} predictions asked for, {left:,} of {limit:,} left until the "
                    "next full retraining: call retrain(), or set on_exhausted to 'retrain'"
                )
            lines = {query: charged + place for place, query in enumerate(new[:left], start=1)}
            if not lines:
                return Opened(known, lines)
            now, _ = tables.seals(database)
            database.executemany(
                "INSERT INTO lines VALUES (?, ?, ?, ?, NULL)",
                [(at.epoch, line, at.version, query) for query, line in lines.items()],
            )
            database.execute(
                "UPDATE epochs SET charged = charged + ? WHERE epoch = ?", (len(lines), at.epoch)
            )
            tables.seal_after(database, now)
        return Opened(known, lines)

    def record(self, epoch: int, answers: Mapping[int, int], remembered: int) -> None:
        """Store answers, which may be given out only afterwards.

        Parameters
        ----------
        epoch : int
        answers : mapping of int to int
            By line; each line is written once.
        remembered : int
            Lines kept; those before them can be asked for anew at a new charge.

        Raises
        ------
        MovedError
            If another process began new epochs meanwhile, so that a line is forgotten.
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
                    tables.expect_epoch(database, epoch)
                    raise ShardedError(
                        f"{self.path}: line {line} of epoch {epoch} takes no answer any more; ask "
                        "again, at a new charge"
                    )
            database.execute(
                "DELETE FROM lines WHERE answer IS NOT NULL AND (epoch < ? OR line <= ?)",
                (epoch, tables.charged_count(database, epoch) - remembered),
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
            raise ShardedError(f"{self.state}: cannot be used: {error.strerror}") from None
        except DAMAGED as error:
            raise ShardedError(
                f"{self.path}: cannot be used as a ledger: {reason(error)}; put back the whole "
                "folder as it was at one time, or take another"
            ) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as database, _commit_block(database):
            expect_tables(database, tables.TABLES)
            self._compare(database)
            yield database

    def _compare(self, database: sqlite3.Connection) -> None:
        """Raise on an older copy of the account or of the points.

        An account is written first, then the points note it, and only then is anything given out
        or acknowledged. So one that is a step ahead was cut short in between; the step is noted
        now, while nobody else can take another. Nothing else comes of a crash.
        """
        now, previous = tables.seals(database)
        if self.state is None:
            return
        if not self.state.exists():
            if tables.position(database).version == 0:
                return
            raise ShardedError(
                f"{self.state}: is missing; put back the whole folder as it was at one time"
            )
        seen = read_seal(self.state)
        if seen == now:
            return
        if seen.digest == previous and seen.serial == now.serial - 1:
            note_seal(self.state, now)
            return
        older = self.path if seen.serial >= now.serial else self.state
        raise ShardedError(
            f"{older}: is an older copy, or of another folder: the ledger counts {now.serial:,} "
            f"charges and changes, {self.state.name} beside it {seen.serial:,}; put back the whole "
            "folder as it was at one time"
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
