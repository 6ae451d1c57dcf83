"""Canonical layout of specifications, comments included."""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from leaveout.errors import SpecError
from leaveout.specs.printing.layout import Comment, render_lines
from leaveout.specs.printing.pieces import pieces
from leaveout.specs.text.build import position
from leaveout.specs.text.parse import parse, tokens
from leaveout.specs.text.tree import WIDTH, Spec, Statement

_QUOTED_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(#[^\n]*)')
_ROUNDS = 5
_PARENTHESES = ("LPAR", "RPAR")


@dataclass(frozen=True)
class _Place:
    """A comment and its position."""

    comment: Comment
    line: int
    column: int


@dataclass(frozen=True)
class _Block:
    """Lines to print, with the lines of the old text they come from."""

    lines: tuple[str, ...]
    first: int
    last: int


def formatted(text: str, name: str = "<text>") -> str:
    """Return a specification in its canonical layout.

    Every comment is kept, and one blank line where there are some between statements or
    comments. Lines are broken to have at most 100 columns.

    Parameters
    ----------
    text : str
    name : str
        What messages call the text, such as its path.

    Raises
    ------
    SpecError
        If the text is no specification.
    """
    spec = parse(text, name)
    result, before = _laid_out(spec), text
    # A comment may end up behind its statement, which then has more room.
    for _ in range(_ROUNDS):
        again = parse(result, name)
        if again != spec or _count_comments(result) != _count_comments(before):
            break
        result, before = _laid_out(again), result
        if result == before:
            return result
    raise SpecError(f"{name}: left as it is, because another layout would change what it says")


def _laid_out(spec: Spec) -> str:
    lines: list[str] = []
    last = 0
    for block in _blocks(spec):
        if lines and block.first > last + 1:
            lines.append("")
        lines += block.lines
        last = block.last
    return "\n".join(lines) + "\n"


def _comments(text: str) -> Iterator[_Place]:
    line, start = 1, 0
    for match in _QUOTED_OR_COMMENT.finditer(text):
        line += text.count("\n", start, match.start())
        start = max(start, text.rfind("\n", start, match.start()) + 1)
        if match[1] is not None:
            comment = Comment(match[1].rstrip(), not text[start : match.start()].strip())
            yield _Place(comment, line, match.start() - start + 1)


def _count_comments(text: str) -> Counter[str]:
    """Return how often each comment text occurs."""
    return Counter(each.comment.text for each in _comments(text))


def _blocks(spec: Spec) -> Iterator[_Block]:
    """Yield statements and the comments between them, in order."""
    found = [(position(token), token.type) for token in tokens(spec.source.text)]
    starts = [(at.line, at.column) for at, _ in found]
    comments = list(_comments(spec.source.text))
    written = [(each.line, each.column) for each in comments]
    done = 0
    for statement in spec.statements:
        at = statement.at
        first = bisect.bisect_left(starts, (at.line, at.column))
        last = bisect.bisect_left(starts, (at.end_line, at.end_column))
        # What stands behind it on its last line belongs to it, up to the next statement.
        end = min([(at.end_line + 1, 0), *starts[last : last + 1]])
        begins = bisect.bisect_left(written, starts[first])
        ends = bisect.bisect_left(written, end)
        yield from map(_alone, comments[done:begins])
        counted = [
            start
            for start, (_, kind) in zip(starts[first:last], found[first:last], strict=True)
            if kind not in _PARENTHESES
        ]
        yield _block(statement, comments[begins:ends], counted)
        done = ends
    yield from map(_alone, comments[done:])


def _alone(comment: _Place) -> _Block:
    return _Block((comment.comment.text,), comment.line, comment.line)


def _block(statement: Statement, comments: list[_Place], starts: list[tuple[int, int]]) -> _Block:
    by_token: dict[int, list[Comment]] = defaultdict(list)
    for each in comments:
        before = bisect.bisect_left(starts, (each.line, each.column))
        # Only the first can stand behind the token.
        alone = each.comment.alone or before in by_token
        by_token[before].append(Comment(each.comment.text, alone))
    lines = render_lines(pieces(statement), WIDTH, by_token)
    return _Block(lines, statement.at.line, statement.at.end_line)
