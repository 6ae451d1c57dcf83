"""The text of a query, read up to a size limit, and positions in it."""

from __future__ import annotations

import gzip
import re
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

from leaveout.errors import SpecError
from leaveout.files import UnusualFileError, open_file
from leaveout.specs.text.errors import Position, Slip

LARGEST = 128 * 2**20
"""Most bytes of an unpacked query."""
DEEPEST = 200
"""Most levels of brackets."""

_COMMENT = re.compile(r'"[^"]*"|\|[^|]*\||;[^\n]*')
_UNUSUAL = re.compile(r"[^\x20-\x7e\t\r\n\f]")
_BRACKET = re.compile(r"[()]")


def read_text(path: Path) -> str:
    """Read a query, gzip-compressed or not, whatever its file name."""
    try:
        with open_file(path, LARGEST) as stream:
            packed = stream.read(2) == b"\x1f\x8b"
            stream.seek(0)
            # A GzipFile is a stream of bytes, too.
            source = cast("IO[bytes]", gzip.GzipFile(fileobj=stream)) if packed else stream
            content = source.read(LARGEST + 1)
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SpecError(f"{path}: is a folder, expected a VNN-LIB query") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SpecError(f"{path}: not a complete gzip file") from None
    except UnusualFileError as error:
        raise SpecError(f"{path}: {error}") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot read: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise SpecError(f"{path}: too long for a query, at most {LARGEST // 2**20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text (byte {error.start})") from None


class Lines:
    """Starts of the lines of a text."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(self, start: int, end: int) -> Position:
        """Return the position of a span, taken to end on its line."""
        line = bisect_right(self.starts, start)
        column = start - self.starts[line - 1] + 1
        return Position(line, column, line, column + max(1, end - start))


def place(text: str, start: int, end: int) -> Position:
    """Return the position of a span of a text."""
    return Lines(text).place(start, end)


def _blank_comment(match: re.Match[str]) -> str:
    """Return a matched comment as spaces, and anything else unchanged."""
    # A semicolon in quotes does not start a comment.
    found = match.group()
    return " " * len(found) if found.startswith(";") else found


def without_comments(text: str) -> str:
    """Replace comments by spaces, keeping all positions."""
    bare = _COMMENT.sub(_blank_comment, text)
    unusual = _UNUSUAL.search(bare)
    if unusual is not None:
        wrong = f"the character {unusual.group()!a} has no meaning outside of a comment"
        raise Slip(place(bare, *unusual.span()), wrong)
    depth = 0
    for bracket in _BRACKET.finditer(bare):
        depth += 1 if bracket.group() == "(" else -1
        if depth > DEEPEST:
            wrong = f"brackets are nested more than {DEEPEST} levels deep"
            raise Slip(place(bare, *bracket.span()), wrong)
    return bare


def one_line(name: str, slip: Slip) -> SpecError:
    """Return the error ``file:line:column: what is wrong; the remedy``."""
    wrong = f"{slip.wrong}; {slip.cure}" if slip.cure else slip.wrong
    return SpecError(f"{name}:{slip.at.line}:{slip.at.column}: {' '.join(wrong.split())}")


_TOKEN = re.compile(
    r"""[()]
    | "(?:[^"]|"")*" | \|[^|]*\|
    | [A-Za-z]\w*+\s*+\[[^\][()"|]*\]  # a name and what stands in square brackets after it
    | <\d+\.\d+>
    | [<>=!]= | => | [<>=*/] | [-+](?![\d.])  # operators, which need no space after them
    | [^\s()"|]+
    | ["|]""",
    re.ASCII | re.VERBOSE,
)


@dataclass(slots=True)
class Word:
    """A name, number, operator or quoted text, as written, with its start."""

    text: str
    start: int


@dataclass(slots=True)
class Bracketed:
    """A bracketed list, with its start."""

    items: list[Tree]
    start: int

    @property
    def head(self) -> str:
        """The first word; empty if there is none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Word) else ""


Tree: TypeAlias = Word | Bracketed


def read_lists(bare: str) -> list[Bracketed]:
    """Read the lists of a text without comments or deep nesting."""
    found: list[Bracketed] = []
    open_lists: list[Bracketed] = []
    for match in _TOKEN.finditer(bare):
        text = match.group()
        if text == "(":
            open_lists.append(Bracketed([], match.start()))
        elif text == ")":
            if not open_lists:
                raise Slip(place(bare, *match.span()), "this ')' closes nothing")
            done = open_lists.pop()
            (open_lists[-1].items if open_lists else found).append(done)
        elif text in {'"', "|"}:
            raise Slip(place(bare, *match.span()), f"this {text} is not closed")
        elif not open_lists:
            wrong = f"'{text[:40]}' is outside all brackets"
            raise Slip(place(bare, *match.span()), wrong)
        else:
            open_lists[-1].items.append(Word(text, match.start()))
    if open_lists:
        start = open_lists[-1].start
        raise Slip(place(bare, start, start + 1), "this '(' is not closed")
    return found
