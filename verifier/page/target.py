"""Where a page goes: a file that does not exist yet, or is such a page itself."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from leaveout.files import RESULTS, open_file, written_whole
from leaveout.verifier.page.document import MARK
from leaveout.verifier.page.errors import PageError

__all__ = ["PageTarget"]

_LOOKED_AT = 4096


@dataclass(frozen=True)
class PageTarget:
    """A file that may be written.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @staticmethod
    def open(text: str) -> PageTarget:
        """Read the value of ``--output``.

        Raises
        ------
        PageError
            If the file could not be written in the end, or is something else than a page.
        """
        path = Path(text)
        if text in {"", "-"}:
            raise PageError(f"-o {text}: give a file name")
        try:
            _refuse_unusable(path)
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except (OSError, ValueError) as error:
            raise _failed(path, error) from None
        return PageTarget(path)

    def write(self, page: str) -> None:
        """Write the page, whole or not at all.

        Raises
        ------
        PageError
            If that fails; what was there is still there.
        """
        try:
            with written_whole(self.path) as stream:
                stream.write(page.encode())
        except OSError as error:
            raise _failed(self.path, error) from None


def _failed(path: Path, error: OSError | ValueError) -> PageError:
    return PageError(f"-o {path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _refuse_unusable(path: Path) -> None:
    if path.is_dir():
        raise PageError(f"-o {path}: is a folder; give a file name")
    if not path.resolve().parent.is_dir():
        raise PageError(f"-o {path}: the folder does not exist; make it first")
    if not path.exists():
        return
    if not path.is_file():
        raise PageError(f"-o {path}: is not an ordinary file")
    with open_file(path, RESULTS) as stream:
        start = stream.read(_LOOKED_AT)
    if start and MARK.encode() not in start:
        raise PageError(
            f"-o {path}: exists and is no page of leaveout; choose another name, or remove it"
        )
