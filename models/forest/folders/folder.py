"""The folder of a forest: three files changed together, by one program at a time."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import (
    OWNER_ONLY,
    SETTINGS,
    commit,
    hold_folder,
    partial_folder,
    read_whole,
    settle,
)
from leaveout.models.family import FAMILY, DataFacts
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import (
    COLUMNS,
    FOREST,
    SPEC,
    ForestColumns,
    columns_bytes,
    load_columns,
)
from leaveout.models.train.encoding import CategoryColumn
from leaveout.models.train.export import inputs_text

_OF_ROWS = FAMILY
"""What others keep here that is made of the forest alone, and of the rows it held."""
REQUEST = ".leaveout-request"
"""A salted digest of what was last asked for, until the program has said that it is done."""


@dataclass(frozen=True, eq=False)
class ForestFolder:
    """A forest, with what its file does not record about its table.

    Attributes
    ----------
    directory : Path
    forest : DareForestClassifier
    columns : ForestColumns
    """

    directory: Path
    forest: DareForestClassifier
    columns: ForestColumns

    @classmethod
    def read(cls, directory: Path) -> ForestFolder:
        """Read the folder.

        Raises
        ------
        ForestError
            If it holds no forest, or a file is damaged or of another one.
        """
        path = directory / FOREST
        with _refuse_os_errors(directory, "read"):
            settle(directory)
        if not path.exists():
            raise ForestError(
                f"{directory}: no {FOREST}; leaveout forest train creates such a folder"
            )
        forest = DareForestClassifier.load(path)
        columns = load_columns(directory / COLUMNS, forest.n_features_in_)
        return cls(directory, forest, columns)

    @property
    def group(self) -> str:
        """The column whose equal cells name rows that leave together; empty if none does."""
        groups = self.forest.ensemble().groups
        return "" if groups is None else groups.column

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are written."""
        return tuple(self.directory / name for name in (FOREST, COLUMNS, SPEC))

    def spec(self) -> str:
        """Return an initial specification: what any one row, or group, can change."""
        above, below = self._around_inputs()
        return above + self._inputs() + below

    def write(self, before: str | None = None, request: bytes = b"") -> bool:
        """Write the three files atomically; the caller holds the folder's lock.

        What was made of a forest that was there before, such as its deletions, goes.

        Parameters
        ----------
        before : str or None
            The specification that was written last: another one is the user's own, and kept, but
            for the lines about the inputs where they still stand. None where there was no forest.
        request : bytes
            What was asked for, for `was_asked` to know it again where this program is killed before
            it says that it is done, and calls `acknowledge`.

        Returns
        -------
        bool
            Whether the specification was written.

        Raises
        ------
        ForestError
            If one cannot be written; the folder is then as it was.
        """
        files = {COLUMNS: columns_bytes(self.columns)}
        own = None if before is None else _text(self.directory / SPEC)
        spec = self.spec()
        if before is not None and own is not None and own != before:
            above, below = self._around_inputs()
            spec = own.replace(before.removeprefix(above).removesuffix(below), self._inputs())
        is_kept = own == spec != self.spec()
        if not is_kept:
            files[SPEC] = spec.encode()
        if request:
            files[REQUEST] = _request_digest(secrets.token_bytes(_SALT), request)
        put_forest(self.directory, self.forest, files, is_new=before is None)
        return not is_kept

    def own_spec(self) -> Path | None:
        """Return the specification file if it is not the default one."""
        path = self.directory / SPEC
        return None if _text(path) in {None, self.spec()} else path

    def was_asked(self, request: bytes) -> bool:
        """Return whether the last change was this request, left unacknowledged."""
        with _refuse_os_errors(self.directory, "read"):
            try:
                found = read_whole(self.directory / REQUEST, SETTINGS)
            except FileNotFoundError:
                return False
        return found == _request_digest(found[:_SALT], request)

    def acknowledge(self) -> None:
        """Forget the last request once its result was reported."""
        # The change stands, whatever becomes of this.
        with suppress(OSError):
            (self.directory / REQUEST).unlink(missing_ok=True)

    def _around_inputs(self) -> tuple[str, str]:
        about = " ".join(self.columns.source.split())
        group = " ".join(self.group.split())
        lacks = f"all rows of one {group}, for each" if group else "one row, for each row it holds"
        return (
            f"# what any one {group or 'row'} of {about} can change\n"
            f'let T = forest("{FOREST}")\n'
            f"let F = leave_one_out(T)  # T without {lacks}\n",
            "\n\n"
            "find bound: least b per label such that\n"
            "    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)\n",
        )

    def _inputs(self) -> str:
        """Return the inputs section of the specification, which depends on the rows."""
        X = self.forest.ensemble().X
        minimum, maximum = X.min(axis=0), X.max(axis=0)
        if self.columns.encoding is not None:
            # Any category may be asked about, also one that no row has any more.
            words = self._of_words()
            minimum, maximum = np.where(words, 0.0, minimum), np.where(words, 1.0, maximum)
        facts = DataFacts(
            sha256="", rows=len(X), minimum=tuple(minimum.tolist()), maximum=tuple(maximum.tolist())
        )
        inside = bool(minimum.min() >= 0 and maximum.max() <= 1)
        return inputs_text(facts, inside, self.columns.encoding)

    def _of_words(self) -> NDArray[np.bool_]:
        assert self.columns.encoding is not None
        return np.array(
            [
                isinstance(column, CategoryColumn)
                for column in self.columns.encoding.columns
                for _ in column.features
            ]
        )


def put_forest(
    directory: Path, forest: DareForestClassifier, files: Mapping[str, bytes], *, is_new: bool
) -> None:
    """Write a forest and other files into its folder atomically; the caller locks it."""
    gone = {REQUEST, *(() if is_new else (_OF_ROWS,))} - set(files)
    with _refuse_os_errors(directory, "written"), partial_folder(directory) as staged:
        for name, content in files.items():
            (staged / name).touch(OWNER_ONLY if name == REQUEST else 0o666)
            (staged / name).write_bytes(content)
        try:
            forest.save(staged / FOREST)
        except ForestError as error:
            # The user knows of no such folder.
            raise ForestError(str(error).replace(str(staged), str(directory))) from None
        commit(staged, directory, gone)


@contextmanager
def open_for_change(directory: Path) -> Iterator[ForestFolder]:
    """Open a folder for changes, locking out other programs."""
    with lock_folder(directory):
        yield ForestFolder.read(directory)


@contextmanager
def lock_folder(directory: Path) -> Iterator[None]:
    """Lock a folder against other programs; finish or undo interrupted changes."""
    with ExitStack() as stack:
        try:
            with _refuse_os_errors(directory, "read"):
                stack.enter_context(hold_folder(directory))
        except BlockingIOError:
            raise ForestError(
                f"{directory}: another program is changing this forest; wait for it"
            ) from None
        yield


@contextmanager
def _refuse_os_errors(directory: Path, what: str) -> Iterator[None]:
    """Turn operating system errors on a folder into refusals."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        raise ForestError(f"{directory}: cannot be {what}: {error.strerror or error}") from None


_SALT = 16


def _request_digest(salt: bytes, request: bytes) -> bytes:
    """Return a salt and salted digest of a request, which may name deleted rows."""
    return salt + hashlib.blake2b(request, salt=salt, digest_size=32).digest()


def _text(path: Path) -> str | None:
    try:
        return read_whole(path, SETTINGS).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""
