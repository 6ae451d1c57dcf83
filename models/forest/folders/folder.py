"""The folder of a forest: three files that are written together, and by one program at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import PARTIALS, SETTINGS, lock, read_whole, written_whole
from leaveout.models.family import DataFacts
from leaveout.models.family_file import FAMILY
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

__all__ = ["ForestFolder", "changing", "locked"]

_MADE = (FAMILY,)
"""What others keep here that is made of the forest alone, and of the rows it held."""


@dataclass(frozen=True, eq=False)
class ForestFolder:
    """A forest, and what its file does not say of the table it was trained on.

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
        if not path.exists():
            raise ForestError(
                f"{directory}: there is no {FOREST}; leaveout forest train writes such a folder"
            )
        forest = DareForestClassifier.load(path)
        columns = load_columns(directory / COLUMNS, forest.n_features_in_)
        return cls(directory, forest, columns)

    @property
    def files(self) -> tuple[Path, ...]:
        """What is written."""
        return tuple(self.directory / name for name in (FOREST, COLUMNS, SPEC))

    def spec(self) -> str:
        """Return the specification to start from: what any one row can change."""
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
        about = " ".join(self.columns.source.split())
        return (
            f"# what any one row of {about} can change\n"
            f'let T = forest("{FOREST}")\n'
            "let F = leave_one_out(T)  # T without one row, for each row it holds\n"
            f"{inputs_text(facts, inside, self.columns.encoding)}\n"
            "\n"
            "find bound: least b per label such that\n"
            "    forall x in X, M in F: confidence(T, x) > b => label(M, x) == label(T, x)\n"
        )

    def write(self, before: str | None = None) -> bool:
        """Write the three files, the forest first; before that, none is replaced.

        What was made of a forest that was there before, such as its deletions, is removed.

        Parameters
        ----------
        before : str or None
            The specification that was written last: another one is the user's own, and kept.
            None where there was no forest.

        Returns
        -------
        bool
            Whether the specification was written.

        Raises
        ------
        ForestError
            If one cannot be written; the folder is then as it was.
        """
        forest, columns, spec = self.files
        kept = before is not None and _text(spec) not in {None, before}
        try:
            for name in _MADE if before is not None else ():
                (self.directory / name).unlink(missing_ok=True)
            with written_whole(columns) as stream:
                stream.write(columns_bytes(self.columns))
                if kept:
                    self.forest.save(forest)
                else:
                    with written_whole(spec) as text:
                        text.write(self.spec().encode())
                        # On the disk when the others are about to be.
                        self.forest.save(forest)
        except OSError as error:
            raise ForestError(
                f"{self.directory}: cannot be written: {error.strerror or error}"
            ) from None
        return not kept

    def _of_words(self) -> NDArray[np.bool_]:
        assert self.columns.encoding is not None
        return np.array(
            [
                isinstance(column, CategoryColumn)
                for column in self.columns.encoding.columns
                for _ in column.features
            ]
        )


@contextmanager
def changing(directory: Path) -> Iterator[ForestFolder]:
    """Open a folder for changes that no other program makes meanwhile.

    Raises
    ------
    ForestError
        If it cannot be read, or another program is changing it.
    """
    with locked(directory):
        yield ForestFolder.read(directory)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other programs from changing the forest in a folder; remove what they left half written.

    Raises
    ------
    ForestError
        If the folder cannot be read, or another program is changing the forest.
    """
    if sys.platform == "win32":  # where no folder can be opened
        yield
        return
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise ForestError(f"{directory}: cannot be read: {error.strerror or error}") from None
    try:
        try:
            lock(descriptor)
        except BlockingIOError:
            raise ForestError(
                f"{directory}: another program is changing this forest; wait for it"
            ) from None
        # What a program that was killed had begun to write: it may hold rows deleted since.
        for partial in directory.glob(PARTIALS):
            partial.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


def _text(path: Path) -> str | None:
    try:
        return read_whole(path, SETTINGS).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        return ""
