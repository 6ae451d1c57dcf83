"""The output path of a page or summary: a new file, or an earlier page or summary."""

from __future__ import annotations

from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.files import RESULTS, open_file
from leaveout.verifier.output_file import OutputFile
from leaveout.verifier.page.document import MARK, document
from leaveout.verifier.page.markdown import MARK as SUMMARY_MARK
from leaveout.verifier.page.markdown import markdown
from leaveout.verifier.page.model import Page


class PageError(LeaveoutError):
    """A result file that cannot be shown, or a page that cannot be written."""


_LOOKED_AT = 4096
_MARKDOWN = frozenset({".md", ".markdown"})


def open_page(name: str) -> OutputFile:
    """Return the file of a page or summary, which may be an earlier one."""
    if name in {"", "-"}:
        raise PageError(f"-o {name}: name a file")
    if Path(name).suffix.lower() == ".pdf":
        raise PageError(f"-o {name}: a page is HTML; name a .html file, and print it as PDF")
    mark, kind = (SUMMARY_MARK, "summary") if is_markdown(Path(name)) else (MARK, "page")

    def is_one(path: Path) -> bool:
        """Return whether a file is empty, or was written by this program."""
        with open_file(path, RESULTS) as stream:
            start = stream.read(_LOOKED_AT)
        return not start or mark.encode() in start

    return OutputFile.open("-o", name, PageError, kind=f"a {kind} of leaveout", is_one=is_one)


def page_bytes(page: Page, path: Path) -> bytes:
    """Return a page, or its summary if the path ends in ``.md`` or ``.markdown``."""
    return (markdown(page) if is_markdown(path) else document(page)).encode()


def is_markdown(path: Path) -> bool:
    """Return whether a path is that of a summary."""
    return path.suffix.lower() in _MARKDOWN
