"""The output path of a page or summary: a new file, or an earlier page or summary."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.files import RESULTS, open_atomically, open_file
from leaveout.verifier.page.document import MARK, document
from leaveout.verifier.page.markdown import MARK as SUMMARY_MARK
from leaveout.verifier.page.markdown import markdown
from leaveout.verifier.page.model import Page


class PageError(LeaveoutError):
    """A result file that cannot be shown, or a page that cannot be written."""


_LOOKED_AT = 4096
_MARKDOWN = frozenset({".md", ".markdown"})


@dataclass(frozen=True)
class PageTarget:
    """A file that may be written."""

    path: Path  # if it ends in ``.md`` or ``.markdown`` it is the summary's, else the page's

    @staticmethod
    def open(text: str) -> PageTarget:
        """Read the value of ``--output``."""
        path = Path(text)
        if text in {"", "-"}:
            raise PageError(f"-o {text}: name a file")
        try:
            _refuse_unusable(path)
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except (OSError, ValueError) as error:
            raise _write_error(path, error) from None
        return PageTarget(path)

    def write(self, page: Page) -> None:
        """Write the page or summary atomically."""
        made = markdown(page) if _is_markdown(self.path) else document(page)
        try:
            with open_atomically(self.path) as stream:
                stream.write(made.encode())
        except OSError as error:
            raise _write_error(self.path, error) from None


def _write_error(path: Path, error: OSError | ValueError) -> PageError:
    """Return the error for a page that cannot be written."""
    return PageError(f"-o {path}: cannot write: {getattr(error, 'strerror', None) or error}")


def _is_markdown(path: Path) -> bool:
    return path.suffix.lower() in _MARKDOWN


def _refuse_unusable(path: Path) -> None:
    if path.is_dir():
        raise PageError(f"-o {path}: is a folder; name a file")
    if not path.resolve().parent.is_dir():
        raise PageError(f"-o {path}: no such folder; create it first")
    if not path.exists():
        return
    if not path.is_file():
        raise PageError(f"-o {path}: not a regular file")
    with open_file(path, RESULTS) as stream:
        start = stream.read(_LOOKED_AT)
    mark, what = (SUMMARY_MARK, "summary") if _is_markdown(path) else (MARK, "page")
    if start and mark.encode() not in start:
        raise PageError(
            f"-o {path}: exists and is not a {what} of leaveout; choose another name, or remove it"
        )
