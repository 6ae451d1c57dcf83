"""The folder of a model with its rows: files changed together, by one program at a time."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import (
    OWNER_ONLY,
    SETTINGS,
    commit,
    hold_folder,
    make_folder,
    partial_folder,
    read_whole,
    refuse_unread,
    refuse_unwritten,
    settle,
)
from leaveout.models.family import FAMILY
from leaveout.models.table import Table
from leaveout.models.train.columns import Subject, TableColumns
from leaveout.models.train.receipts import SALT, Receipts

_OF_ROWS = FAMILY  # what others keep here that is made of the model alone, and of the rows it held
_EARLIER = "receipt.json"  # the one receipt that earlier versions kept
REQUEST = ".leaveout-request"
"""A seed and salted digest of what was last asked for, until the program said that it is done."""
SEED = 16


Rows = tuple[NDArray[Any], ...]
"""Features, labels, and whatever else a model knows of each row."""


class Held(Protocol):
    """The rows that a model holds: their names, which never shift, features and groups."""

    @property
    def names(self) -> NDArray[np.int64]: ...
    @property
    def X(self) -> NDArray[np.float64]: ...  # noqa: N802
    @property
    def groups(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class ModelFolder(ABC):
    """A model, with what its file does not record about its table.

    Attributes
    ----------
    directory : Path
    columns : TableColumns
    """

    subject: ClassVar[Subject]
    directory: Path
    columns: TableColumns
    receipts: Receipts = field(default_factory=Receipts, kw_only=True)

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the folder.

        Raises
        ------
        LeaveoutError
            If it holds no such model, or a file is damaged or of another one.
        """
        subject = cls.subject
        with _refuse_os_errors(subject, directory, "read"):
            settle(directory)
        if not (directory / subject.model).exists():
            raise subject.error(
                f"{directory}: no {subject.model}; leaveout {subject.word} train creates such a "
                "folder"
            )
        found = cls.load(directory)
        receipts = Receipts.read(directory, lambda: found.digest, subject.error)
        return replace(found, receipts=receipts)

    @classmethod
    @abstractmethod
    def load(cls, directory: Path) -> Self:
        """Read the folder's files."""

    @property
    @abstractmethod
    def rows(self) -> Held:
        """The rows held."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of the model and its rows."""

    def distances(self) -> tuple[float, float]:
        """Bound how far coefficients, and scores, are from those of a training on these rows."""
        return 0.0, 0.0

    def scales_left(self) -> tuple[str, ...]:
        """Return the columns of numbers whose scale was set by rows that are gone."""
        return ()

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write the model's file."""

    @abstractmethod
    def inputs(self) -> str:
        """Return the inputs section of the specification."""

    @abstractmethod
    def without(self, names: Sequence[int]) -> Self:
        """Return the folder after the deletion of rows."""

    @property
    def columns_read(self) -> frozenset[str]:
        """Names of the columns that are read of further tables, but for the rows' names."""
        assert self.columns.encoding is not None
        return self.columns.encoding.columns_read

    @abstractmethod
    def rows_of(self, table: Table, X: NDArray[np.float64]) -> Rows:
        """Return the rows of a further table, given its encoded cells."""

    @abstractmethod
    def with_rows(self, rows: Rows, cells: Sequence[str] | None) -> tuple[Self, NDArray[np.int64]]:
        """Return the folder after the addition of rows, perhaps with groups, and their names."""

    @abstractmethod
    def ends_with(self, rows: Rows) -> bool:
        """Return whether these are the rows added last."""

    @abstractmethod
    def check(self) -> float:
        """Train on the rows held, compare, and return the seconds that took; raise if unequal."""

    @property
    def group(self) -> str:
        """The column whose equal cells name rows that leave together; empty if none does."""
        groups = self.rows.groups
        return "" if groups is None else groups.column

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are written."""
        subject = self.subject
        names = subject.model, subject.columns, subject.spec, *self.more()
        return tuple(self.directory / name for name in names if name != SALT)

    def more(self) -> Mapping[str, bytes]:
        """Return further files by name."""
        return self.receipts.files()

    @property
    def claim(self) -> str:
        """What the specification asks."""
        of = self.subject.letter
        return (
            "find bound: least b per label such that\n"
            f"    forall x in X, M in F: confidence({of}, x) > b => label(M, x) == label({of}, x)\n"
        )

    def around_inputs(self) -> tuple[str, str]:
        """Return the specification above and below the lines about the inputs."""
        about, group = (" ".join(each.split()) for each in (self.columns.source, self.group))
        lacks = f"all rows of one {group}, for each" if group else "one row, for each row it holds"
        word, of = self.subject.word, self.subject.letter
        return (
            f"# what any one {group or 'row'} of {about} can change\n"
            f'let {of} = {word}("{self.subject.model}")\n'
            f"let F = leave_one_out({of})  # {of} without {lacks}\n",
            f"\n\n{self.claim}",
        )

    def spec(self) -> str:
        """Return an initial specification: what any one row, or group, can change."""
        above, below = self.around_inputs()
        return above + self.inputs() + below

    def write(self, before: str | None = None, request: bytes = b"") -> bool:
        """Write the files atomically; the caller holds the folder's lock.

        What was made of a model that was there before, such as its deletions, goes.

        Parameters
        ----------
        before : str or None
            The specification that was written last: another one is the user's own, and kept, but
            for the lines about the inputs where they still stand. None where there was no model.
        request : bytes
            What was asked for (`new_request`), for `asked_before` to know it again where this
            program is killed before it says that it is done, and calls `acknowledge`.

        Returns
        -------
        bool
            Whether the specification was written.

        Raises
        ------
        LeaveoutError
            If one cannot be written; the folder is then as it was.
        """
        files = {self.subject.columns: self.subject.columns_bytes(self.columns), **self.more()}
        own = None if before is None else _text(self.directory / self.subject.spec)
        spec = self.spec()
        if before is not None and own is not None and own != before:
            above, below = self.around_inputs()
            spec = own.replace(before.removeprefix(above).removesuffix(below), self.inputs())
        is_kept = own == spec != self.spec()
        if not is_kept:
            files[self.subject.spec] = spec.encode()
        if request:
            files[REQUEST] = request
        put_model(self.subject, self.directory, self.save, files, is_new=before is None)
        return not is_kept

    def own_spec(self) -> Path | None:
        """Return the specification file if it is not the default one."""
        path = self.directory / self.subject.spec
        return None if _text(path) in {None, self.spec()} else path

    def asked_before(self, request: bytes) -> bytes | None:
        """Return the seed of the last change if it was this request, left unacknowledged."""
        with _refuse_os_errors(self.subject, self.directory, "read"):
            return seed_of(self.directory, request)

    def acknowledge(self) -> None:
        """Forget the last request once its result was reported."""
        # The change stands, whatever becomes of this.
        with suppress(OSError):
            (self.directory / REQUEST).unlink(missing_ok=True)


def put_model(
    subject: Subject,
    directory: Path,
    save: Callable[[Path], None],
    files: Mapping[str, bytes],
    *,
    is_new: bool,
) -> None:
    """Write a model and other files into its folder atomically; the caller locks it."""
    gone = {REQUEST, *(() if is_new else (_OF_ROWS, _EARLIER))} - set(files)
    with _refuse_os_errors(subject, directory, "written"), new_files(directory, files, gone) as new:
        try:
            save(new / subject.model)
        except LeaveoutError as error:
            # The user knows of no such folder.
            raise subject.error(str(error).replace(str(new), str(directory))) from None


@contextmanager
def new_files(directory: Path, files: Mapping[str, bytes], gone: Iterable[str]) -> Iterator[Path]:
    """Write files, and what is put into the folder yielded, all at once; delete others."""
    with partial_folder(directory) as new:
        for name, content in files.items():
            (new / name).touch(OWNER_ONLY if name == REQUEST else 0o666)
            (new / name).write_bytes(content)
        yield new
        commit(new, directory, gone)


F = TypeVar("F", bound=ModelFolder)


@contextmanager
def open_for_change(kind: type[F], directory: Path) -> Iterator[F]:
    """Open a folder for changes, locking out other programs."""
    with lock_folder(kind.subject, directory):
        yield kind.read(directory)


@contextmanager
def lock_folder(subject: Subject, directory: Path) -> Iterator[None]:
    """Lock a folder against other programs; finish or undo interrupted changes."""
    with ExitStack() as stack:
        try:
            with _refuse_os_errors(subject, directory, "read"):
                stack.enter_context(hold_folder(directory))
        except BlockingIOError:
            raise subject.error(
                f"{directory}: another program is changing this {subject.noun}; wait for it"
            ) from None
        yield


@contextmanager
def _refuse_os_errors(subject: Subject, directory: Path, what: str) -> Iterator[None]:
    """Turn operating system errors on a folder into refusals."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise subject.error(f"{directory}: cannot be {what}: {error.strerror or error}") from None


def seed_of(directory: Path, request: bytes) -> bytes | None:
    """Return the seed of a folder's last change if it was this request."""
    try:
        found = read_whole(directory / REQUEST, SETTINGS)
    except FileNotFoundError:
        return None
    return found[:SEED] if found == new_request(found[:SEED], request) else None


def new_request(seed: bytes, request: bytes) -> bytes:
    """Return a seed and digest of a request, which may name deleted rows, salted by it."""
    return seed + hashlib.blake2b(request, salt=seed, digest_size=32).digest()


def _text(path: Path) -> str | None:
    try:
        return read_whole(path, SETTINGS).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""


_MODELS = {
    "full.onnx": "a network and its family",
    "forest.npz": "a forest",
    "linear.npz": "a linear model",
    "trees.npz": "a model of trees",
}


def refuse_taken(subject: Subject, directory: Path) -> None:
    """Refuse to overwrite a model: rows may have been deleted from it."""
    if directory.exists() and not directory.is_dir():
        raise subject.error(f"{directory}: is a file; choose another folder")
    with refuse_unread(subject.error, directory):
        settle(directory)
    if (directory / subject.model).exists():
        raise subject.error(
            f"{directory}: already contains a {subject.noun}; choose another folder, or remove "
            "this one"
        )
    for name, what in _MODELS.items():
        if (directory / name).exists():
            raise subject.error(f"{directory}: contains {what}; choose another folder")


def write_new(folder: F) -> F:
    """Write the folder of a new model, and return it with its first receipt."""
    subject, target, held = folder.subject, folder.directory, len(folder.rows.names)
    receipts = Receipts().then("train", held, held, folder.digest, folder.distances(), {})
    folder = replace(folder, receipts=receipts)
    with refuse_unwritten(subject.error, target):
        make_folder(target)
    with lock_folder(subject, target):
        refuse_taken(subject, target)
        folder.write()
    return folder
