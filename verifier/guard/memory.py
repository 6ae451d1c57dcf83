"""The durable memory of noised answers and the account of their cost."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from threading import Lock

from leaveout.databases import DAMAGED, blob, expect_tables, is_blank, reason, whole
from leaveout.errors import GuardError, StateError
from leaveout.files import OWNER_ONLY, refuse_unusual, sync_folder
from leaveout.user_key import mark


class SpentError(GuardError):
    """The privacy budget covers no further noised answer."""


class FullError(GuardError):
    """The memory has reached its limit of answers."""


class UnusableError(GuardError):
    """The file of the memory cannot be read or written."""


@dataclass(frozen=True)
class Account:
    """The privacy cost of all noised answers.

    Attributes
    ----------
    answers : int
        Distinct inputs with a noised answer.
    spent : tuple of (float, int)
        Epsilon of an answer, and how many cost that much; 0 for uniform ones.
    """

    answers: int
    spent: tuple[tuple[float, int], ...]

    @property
    def epsilon(self) -> float:
        """The total epsilon: pure epsilons add up, whoever asks for what."""
        return float(self.exact)

    @property
    def exact(self) -> Fraction:
        """The same total, unrounded."""
        return sum((_decimal_fraction(each) * count for each, count in self.spent), Fraction(0))

    def afford(self, epsilon: float, cap: float | None, remember: int, path: Path) -> None:
        """Raise FullError or SpentError if one more answer exceeds a limit."""
        if self.answers >= remember:
            raise FullError(f"{path}: stores {self.answers:,} answers, its limit; raise the limit")
        if cap is not None and self.exact + _decimal_fraction(epsilon) > _decimal_fraction(cap):
            raise SpentError(
                f"{path}: noised answers have cost epsilon = {self.epsilon:g}, and one more "
                f"would exceed the cap of {cap:g}; raise the cap, or let further answers be "
                "uniform"
            )


def _decimal_fraction(number: float) -> Fraction:
    """Return a float as the decimal it prints as, so ten times 0.2 is 2."""
    return Fraction(repr(number))


_BUSY = 60.0  # seconds to wait for another process

_FORMAT = 2

_SECRET = _MARK = 32

_TABLES = """
CREATE TABLE guard (format INTEGER NOT NULL, network TEXT NOT NULL, family TEXT NOT NULL,
    box TEXT NOT NULL, epsilon REAL NOT NULL, secret BLOB NOT NULL, mark BLOB NOT NULL);
CREATE TABLE answers (input BLOB PRIMARY KEY, answer INTEGER NOT NULL, mark BLOB NOT NULL)
    WITHOUT ROWID;
CREATE TABLE spent (epsilon REAL PRIMARY KEY, answers INTEGER NOT NULL) WITHOUT ROWID;
"""
"""A mark is of this user: that of an answer is of its row, that of the guard of all the rest."""

_UNMARKED = """
CREATE TABLE guard (format INTEGER NOT NULL, network TEXT NOT NULL, family TEXT NOT NULL,
    box TEXT NOT NULL, epsilon REAL NOT NULL, secret BLOB NOT NULL);
CREATE TABLE answers (input BLOB PRIMARY KEY, answer INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE spent (epsilon REAL PRIMARY KEY, answers INTEGER NOT NULL) WITHOUT ROWID;
"""
"""The tables of format 1."""


@dataclass(frozen=True)
class _Limits:
    """Limits on the cost of an answer."""

    epsilon: float
    cap: float | None
    uniform: bool
    remember: int


class Memory:
    """Noised answers in an SQLite file, shared by threads and processes.

    An answer is on disk before it is returned, so a crash forgets none. Inputs are stored as keyed
    digests only.
    """

    def __init__(
        self,
        path: Path,
        model: str,
        family: str,
        inputs: str,
        epsilon: float,
        labels: int,
        turn: AbstractContextManager[None] | None = None,
        *,
        adopt: Sequence[str] | None = None,
    ) -> None:
        self.path, self.adopted = path, False
        self._turn = nullcontext() if turn is None else turn
        self._labels = labels
        self._lock = Lock()
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        self._size = 0
        with self._errors():
            self._database = self._open_database()
            self._secret, self.inputs = self._begin(model, family, inputs, epsilon, adopt)
            self._refuse_if_replaced()

    def close(self) -> None:
        """Close the file."""
        if os.getpid() == self._process:
            with self._lock:
                self._database.close()

    def recall(self, inputs: Sequence[bytes]) -> list[int | None]:
        """Return the remembered answers to inputs; None where there is none."""
        keys = [self._key(each) for each in inputs]
        with self._errors(), self._lock:
            return [self._stored_answer(key) for key in keys]

    def answer(
        self,
        inputs: Sequence[bytes],
        draw: Callable[[int, float], int],
        *,
        epsilon: float,
        cap: float | None,
        uniform: bool,
        remember: int,
    ) -> list[int]:
        """Return remembered answers; draw, charge and store the missing ones.

        On return all answers are on disk; if it raises, none is.
        """
        limits = _Limits(epsilon, cap, uniform, remember)
        keys = [self._key(each) for each in inputs]
        with self._errors(), self._lock, self._transaction():
            return [
                self._answer_one(key, lambda cost, at=at: draw(at, cost), limits)  # type: ignore[misc]
                for at, key in enumerate(keys)
            ]

    def rehearse(self) -> None:
        """Write to disk as `answer` does, but store nothing."""
        with self._errors(), self._lock, self._transaction():
            self._database.execute("UPDATE guard SET format = format")

    def move(self, inputs: str) -> None:
        """Continue with other inputs that may be noised; answers stay."""
        with self._errors(), self._lock:
            if self.inputs != inputs:
                self._forget_inputs()
                self.inputs = ""

    def account(self) -> Account:
        """Return the number and the cost of the remembered answers."""
        with self._errors(), self._lock:
            return _account(self._database)

    @staticmethod
    def read(path: Path, *, adopt: bool = False) -> Account:
        """Return the account of a memory file without answering; empty if missing."""
        try:
            refuse_unusual(path)
        except OSError as error:
            raise GuardError(f"{path}: {error.strerror}") from None
        if not path.exists():
            return Account(0, ())
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, timeout=_BUSY, uri=True)) as database:
                # All of one moment: a server may be writing.
                database.execute("BEGIN")
                if not (adopt or _is_own(database)):
                    raise GuardError(_not_own(path))
                return _checked_account(database)
        except DAMAGED as error:
            raise GuardError(f"{path}: not a memory of answers: {reason(error)}") from None

    def _answer_one(self, key: bytes, draw: Callable[[float], int], limits: _Limits) -> int:
        """Return a remembered answer, or draw, charge and store one."""
        known = self._stored_answer(key)
        if known is not None:
            return known
        cost = limits.epsilon
        try:
            _account(self._database).afford(cost, limits.cap, limits.remember, self.path)
        except SpentError:
            if not limits.uniform:
                raise
            cost = 0.0
        answer = draw(cost)
        execute = self._database.execute
        execute("INSERT INTO answers VALUES (?, ?, ?)", (key, answer, self._row(key, answer)))
        execute(
            "INSERT INTO spent VALUES (?, 1) "
            "ON CONFLICT (epsilon) DO UPDATE SET answers = answers + 1",
            (cost,),
        )
        self._mark()
        return answer

    def _stored_answer(self, key: bytes) -> int | None:
        """Return the authenticated answer of a key; None if there is none."""
        row = self._database.execute(
            "SELECT answer, mark FROM answers WHERE input = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        answer = whole(row[0], "an answer", self._labels)
        if blob(row[1], "the mark of an answer", _MARK) != self._row(key, answer):
            raise sqlite3.DatabaseError("an answer was changed")
        return answer

    def _row(self, key: bytes, answer: int) -> bytes:
        return _mark_of_row(self._rows, key, answer)

    def _mark(self) -> None:
        """Authenticate all but the answers anew, within a transaction."""
        self._database.execute("UPDATE guard SET mark = ?", (_mark_of(self._database),))

    def _key(self, given: bytes) -> bytes:
        return hashlib.blake2b(given, key=self._secret, digest_size=32).digest()

    def _open_database(self) -> sqlite3.Connection:
        """Open the database file, readable by its owner only."""
        refuse_unusual(self.path)
        if not self.path.exists():
            # Only its owner may read who asked what.
            self.path.touch(mode=OWNER_ONLY)
            sync_folder(self.path.resolve().parent)
        database = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            timeout=_BUSY,
            isolation_level=None,
            uri=True,
            check_same_thread=False,
        )
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA secure_delete = ON")
        return database

    def _begin(
        self, model: str, family: str, inputs: str, epsilon: float, adopt: Sequence[str] | None
    ) -> tuple[bytes, str]:
        self._database.execute("PRAGMA journal_mode = WAL")
        with self._transaction():
            if is_blank(self._database):
                secret = secrets.token_bytes(_SECRET)
                self._make((_FORMAT, model, family, inputs, epsilon, secret), (), ())
            if not _is_own(self._database):
                if adopt is None:
                    raise GuardError(_not_own(self.path))
                self._adopt(model, adopt)
            _checked_account(self._database)
            row = self._database.execute(
                "SELECT format, network, family, box, epsilon, secret FROM guard"
            ).fetchone()
        if row is None:
            raise sqlite3.DatabaseError("its owner record is missing")
        if whole(row[0], "the format") != _FORMAT:
            raise GuardError(f"{self.path}: was written by another version; name another file")
        if (row[1], row[2]) != (model, family):
            raise GuardError(
                f"{self.path}: stores answers of another network or family, or of a forest with "
                "other settings or labels; name another file, or delete this one if that model "
                "is retired"
            )
        if _read_epsilon(row[4]) != epsilon:
            raise GuardError(
                f"{self.path}: stores answers drawn with epsilon = {row[4]:g}, not {epsilon:g}; "
                "use that epsilon, or name another file with --memory (the cost of these answers "
                "stays spent)"
            )
        if row[3] != inputs:
            self._forget_inputs()
        secret = blob(row[5], "the secret", _SECRET)
        self._rows = _rows_key(secret)
        return secret, inputs if row[3] == inputs else ""

    def _make(
        self,
        guard: Sequence[object],
        answers: Iterable[tuple[bytes, int]],
        spent: Iterable[Sequence[object]],
    ) -> None:
        """Create and authenticate all tables, within a transaction."""
        execute = self._database.execute
        for statement in _TABLES.split(";")[:-1]:
            execute(statement)
        execute("INSERT INTO guard VALUES (?, ?, ?, ?, ?, ?, ?)", (*guard, bytes(_MARK)))
        self._rows = _rows_key(blob(guard[-1], "the secret", _SECRET))
        for key, answer in answers:
            execute("INSERT INTO answers VALUES (?, ?, ?)", (key, answer, self._row(key, answer)))
        for row in spent:
            execute("INSERT INTO spent VALUES (?, ?)", tuple(row))
        self._mark()

    def _adopt(self, model: str, earlier: Sequence[str]) -> None:
        """Accept the content as it is, in any format, and authenticate it."""
        execute = self._database.execute
        row = execute("SELECT format, network, family, box, epsilon, secret FROM guard").fetchone()
        if row is None:
            raise sqlite3.DatabaseError("its owner record is missing")
        if whole(row[0], "the format") > _FORMAT:
            raise GuardError(f"{self.path}: was written by another version; name another file")
        answers = [
            (blob(key, "an input", _MARK), whole(answer, "an answer", self._labels))
            for key, answer in execute("SELECT input, answer FROM answers")
        ]
        spent = execute("SELECT epsilon, answers FROM spent").fetchall()
        for table in ("guard", "answers", "spent"):
            execute(f"DROP TABLE {table}")
        known = model if row[1] in earlier else row[1]
        self._make((_FORMAT, known, *row[2:]), answers, spent)
        self.adopted = True

    def _forget_inputs(self) -> None:
        """Record for good that the inputs that may be noised are unknown."""
        with self._transaction():
            self._database.execute("UPDATE guard SET box = ''")
            self._mark()
        # What it was told by is a digest of rows that may be gone: it goes from the log, too.
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._turn:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                if self._file is not None and not _bears_marks(self._database):
                    raise sqlite3.DatabaseError("it was changed by another program")
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _refuse_if_replaced(self) -> None:
        """Raise if the file was deleted, replaced or truncated."""
        now = self.path.stat()
        file = (now.st_dev, now.st_ino)
        if (self._file or file) != file or now.st_size < self._size:
            raise UnusableError(
                f"{self.path}: the opened file was replaced; restore it and load the guard again"
            )
        self._file, self._size = file, now.st_size

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise UnusableError(
                f"{self.path}: was opened by the parent process; load the guard in each process"
            )
        try:
            if self._file is not None:
                self._refuse_if_replaced()
            yield
        except OSError as error:
            raise UnusableError(f"{self.path}: cannot be used: {error.strerror}") from None
        except StateError as error:
            raise UnusableError(str(error)) from None
        except DAMAGED as error:
            raise UnusableError(
                f"{self.path}: cannot be used as a memory of answers: {reason(error)}; restore "
                "its last state, or name another file"
            ) from None


def memories(folder: Path) -> tuple[Path, ...]:
    """Return the files in a folder called ``*.sqlite``, but databases of other programs."""
    return tuple(each for each in sorted(folder.glob("*.sqlite")) if not _is_other(each))


def _is_other(path: Path) -> bool:
    """Return whether a file is a whole database without a guard's table."""
    try:
        refuse_unusual(path)
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, timeout=_BUSY, uri=True)) as database:
            found = database.execute("SELECT name FROM sqlite_master").fetchall()
    except (OSError, *DAMAGED):
        return False
    return bool(found) and ("guard",) not in found


def _not_own(path: Path) -> str:
    return (
        f"{path}: was not written by this user on this machine, or was changed, so none of its "
        "answers is reused: restore it, or accept it with --adopt; a new memory would draw "
        "these answers again"
    )


def _is_unmarked(database: sqlite3.Connection) -> bool:
    """Return whether a memory has the format before authentication; raise on others."""
    try:
        expect_tables(database, _TABLES)
    except sqlite3.DatabaseError:
        expect_tables(database, _UNMARKED)
        return True
    return False


def _is_own(database: sqlite3.Connection) -> bool:
    """Return whether this user's guard left the memory so, each answer at its own input."""
    if _is_unmarked(database) or not _bears_marks(database):
        return False
    (secret,) = database.execute("SELECT secret FROM guard").fetchone()
    rows = _rows_key(blob(secret, "the secret", _SECRET))
    every = database.execute("SELECT input, answer, mark FROM answers")
    try:
        return all(marked == _mark_of_row(rows, key, answer) for key, answer, marked in every)
    except (AttributeError, TypeError, OverflowError):
        # A column takes values of any type.
        return False


def _mark_of_row(rows: bytes, key: bytes, answer: int) -> bytes:
    row = answer.to_bytes(8, "big") + key
    return hashlib.blake2b(row, key=rows, digest_size=_MARK).digest()


def _bears_marks(database: sqlite3.Connection) -> bool:
    """Return whether this user's guard left all but the answer rows unchanged."""
    row = database.execute("SELECT mark FROM guard").fetchone()
    return row is not None and row[0] == _mark_of(database)


def _mark_of(database: sqlite3.Connection) -> bytes:
    guard = database.execute("SELECT format, network, family, box, epsilon, secret FROM guard")
    spent = database.execute("SELECT epsilon, answers FROM spent ORDER BY epsilon")
    return mark("memory", [repr((guard.fetchall(), spent.fetchall())).encode()])


def _rows_key(secret: bytes) -> bytes:
    return mark("answers", [secret])


def _account(database: sqlite3.Connection) -> Account:
    rows = database.execute("SELECT epsilon, answers FROM spent ORDER BY epsilon")
    spent = tuple(
        (_read_epsilon(epsilon), whole(count, "a count of answers")) for epsilon, count in rows
    )
    return Account(sum(count for _, count in spent), spent)


def _checked_account(database: sqlite3.Connection) -> Account:
    """Return the account; raise if it does not match the stored answers."""
    account = _account(database)
    (kept,) = database.execute("SELECT COUNT(*) FROM answers").fetchone()
    if kept != account.answers:
        raise sqlite3.DatabaseError(
            f"{kept:,} answers are stored, but {account.answers:,} are accounted for"
        )
    return account


def _read_epsilon(value: object) -> float:
    """Return an epsilon read from the database; raise if it is invalid."""
    if not isinstance(value, float) or not 0 <= value < math.inf:
        raise sqlite3.DatabaseError(f"an epsilon is {value!r:.40}, expected a number of at least 0")
    return value
