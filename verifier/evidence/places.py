"""Where evidence's files lie; evidence is untrusted, so few folders are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leaveout.verifier.evidence.errors import EvidenceError


@dataclass(frozen=True)
class Places:
    """Finder of files by the names in records."""

    own: Path  # the folder of the results
    folder: str  # the specification's, as the results see it
    given: tuple[Path, ...] = ()
    trusted: bool = False

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders whose files may be opened: the results', the working, the given."""
        return (self.own, Path.cwd(), *self.given)

    def find(self, path: str) -> Path:
        """Return the path of a file; it need not exist.

        Parameters
        ----------
        path : str
            As a record has it.

        Raises
        ------
        EvidenceError
            If it is said to lie where evidence is not to look.
        """
        said = self.own / self.folder / path
        near = [said, *(each / path for each in self.given)]
        near = [each for each in near if self._may_open(each)]
        if "\0" in path or not near:
            raise EvidenceError(
                f"{path!r}: is said to be {str(said)!r}, outside the evidence's folder and the "
                "working directory; say with --files DIR that it may be opened"
            )
        return _short(next((each for each in near if each.exists()), near[0]))

    def _may_open(self, path: Path) -> bool:
        if self.trusted:
            return True
        where = path.resolve()
        return any(where.is_relative_to(each.resolve()) for each in self.roots)


def _short(path: Path) -> Path:
    """Return a path without redundant parts, relative to the working directory if below."""
    where, here = path.resolve(), Path.cwd()
    return where.relative_to(here) if where.is_relative_to(here) else where


def folders(given: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders among the given paths."""
    return tuple(each for each in given if each.is_dir())
