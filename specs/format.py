"""Canonical layout of specifications, comments included."""

from __future__ import annotations

import bisect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from leaveout.errors import SpecError
from leaveout.specs.text.build import position
from leaveout.specs.text.expressions import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    ForAll,
    Implies,
    ListOf,
    Negate,
    Node,
    Not,
    Number,
    Option,
    Or,
    binds,
)
from leaveout.specs.text.parse import parse, tokens
from leaveout.specs.text.tree import WIDTH, Find, Guarantee, Include, Let, Param, Spec, Statement

STEP = 4
"""Columns by which continuation lines are indented."""


@dataclass(frozen=True)
class Comment:
    """A one-line comment, after a token or on its own line."""

    text: str
    alone: bool


@dataclass(frozen=True)
class Word:
    """Text that stays together."""

    text: str
    token: int = -1  # number of its last token; -1 for a parenthesis, which is not counted
    tokens: int = 1  # 2 for a negative number


@dataclass(frozen=True)
class Break:
    """A possible line end, printed as ``flat`` if the line goes on."""

    flat: str = " "


@dataclass(frozen=True)
class Group:
    """Parts on one line, or broken at every `Break` with inner lines indented."""

    parts: tuple[Part, ...]
    indented: bool = False


@dataclass(frozen=True)
class Fill:
    """Items separated by a `Break` that ends a line only if necessary."""

    items: tuple[Group, ...]


Part: TypeAlias = Word | Break | Group | Fill

_CLOSING = frozenset({")", "]", ",", ":"})


def _words(part: Part) -> list[Word | Break]:
    match part:
        case Group():
            return [word for each in part.parts for word in _words(each)]
        case Fill():
            found: list[Word | Break] = []
            for item in part.items:
                found += [*([Break()] if found else []), *_words(item)]
            return found
        case _:
            return [part]


@dataclass
class _Printer:
    """Printer of parts; comments keep the token they follow and end the line."""

    width: int
    comments: Mapping[int, Sequence[Comment]]
    lines: list[str] = field(default_factory=lambda: [""])
    waiting: list[Comment] = field(default_factory=list)
    gap: str = ""

    def word(self, word: Word, indent: int) -> None:
        if word.text == " ":
            self.gap = " "
            return
        if self.waiting and word.text not in _CLOSING:
            self.end_line(max(indent, STEP))
        self.lines[-1] += self.gap + word.text
        self.gap = ""
        self.waiting += self.after(word)

    def after(self, word: Word) -> list[Comment]:
        """Return the comments after a word."""
        first = word.token - word.tokens + 1
        return [
            comment
            for token in range(first, word.token + 1)
            for comment in self.comments.get(token, ())
        ]

    def end_line(self, indent: int, before: int = 0) -> None:
        """Start a new line after pending comments, whose indent may differ."""
        own = self.waiting
        if own and not own[0].alone:
            self.lines[-1] += f"  {own[0].text}"
            own = own[1:]
        self.lines += [" " * max(indent, before) + comment.text for comment in own]
        self.lines.append(" " * indent)
        self.waiting, self.gap = [], ""

    def fits(self, part: Part, after: int = 0) -> bool:
        """Return whether a part fits in the line with no comment inside it."""
        used = len(self.lines[-1]) + len(self.gap) + after
        commented = False
        for each in _words(part):
            if isinstance(each, Break):
                used += len(each.flat)
                continue
            if commented and each.text not in _CLOSING:
                return False
            found = self.after(each)
            if any(comment.alone for comment in found) and each.text not in _CLOSING:
                return False
            commented = commented or bool(found)
            used += len(each.text)
        return used <= self.width

    def flat(self, part: Part, indent: int) -> None:
        for each in _words(part):
            if isinstance(each, Word):
                self.word(each, indent)
            else:
                self.gap = each.flat

    def print(self, part: Part, indent: int, broken: bool, after: int = 0) -> None:
        match part:
            case Word():
                self.word(part, indent)
            case Break() if broken:
                self.end_line(indent)
            case Break():
                self.gap = part.flat
            case Fill():
                self.fill(part, indent)
            case Group():
                self.group(part, indent, after)

    def group(self, group: Group, indent: int, after: int) -> None:
        if self.fits(group, after):
            self.flat(group, indent)
            return
        inner = indent + STEP if group.indented else indent
        for i, part in enumerate(group.parts):
            # The closing bracket goes where the group's line began.
            closes = group.indented and i >= len(group.parts) - 2 and _is_closing(group.parts[-1])
            if closes and isinstance(part, Break):
                self.end_line(indent, inner)
                continue
            follows = _closers(group.parts[i + 1 :])
            self.print(part, indent if closes else inner, True, follows)

    def fill(self, fill: Fill, indent: int) -> None:
        for i, item in enumerate(fill.items):
            if i and self.waiting:
                self.end_line(indent)
            elif i:
                self.gap = " "
                if not self.fits(item):
                    self.end_line(indent)
            self.group(item, indent, 0)


def _is_closing(part: Part) -> bool:
    return isinstance(part, Word) and part.text in _CLOSING


def _closers(parts: Sequence[Part]) -> int:
    """Return the width of the text up to the next possible line end."""
    width = 0
    for part in parts:
        if not isinstance(part, Word):
            break
        width += len(part.text)
    return width


def render_lines(
    part: Part, width: int, comments: Mapping[int, Sequence[Comment]]
) -> tuple[str, ...]:
    """Return the lines of a statement and of its comments."""
    printer = _Printer(width, comments)
    printer.print(part, 0, False)
    printer.end_line(0)
    return tuple(printer.lines[:-1])


def pieces(statement: Statement) -> Part:
    """Return the parts of a statement; on one line they are its canonical text."""
    return _Pieces().statement(statement)


class _Pieces:
    """Converter from a statement to parts; it counts tokens from 1, except parentheses."""

    def __init__(self) -> None:
        self.tokens = 0

    def word(self, text: str, tokens: int = 1) -> Word:
        self.tokens += tokens
        return Word(text, self.tokens, tokens)

    def words(self, text: str) -> list[Part]:
        """Return words joined by unbreakable spaces."""
        found: list[Part] = []
        for each in text.split():
            found += [*([Word(" ")] if found else []), self.word(each)]
        return found

    def statement(self, node: Statement) -> Part:
        match node:
            case Let():
                word = "param" if isinstance(node, Param) else "let"
                head = [*self.words(f"{word} {node.name} ="), Word(" ")]
                return Group((*head, self.node(node.value)))
            case Include():
                return Group((*self.words("include"), Word(" "), self.node(node.path)))
            case Guarantee():
                head = [*self.words(f"guarantee {node.name}"), self.word(":")]
            case Find():
                head = [*self.words(f"find {node.name}"), self.word(":"), Word(" ")]
                each = " per label" if node.per_label else ""
                head += self.words(f"{node.direction} {node.variable}{each} such that")
        return Group((*head, Break(), self.node(node.claim)), indented=True)

    def inside(self, node: Node, tight: int) -> Part:
        """Return an operand, in parentheses if it binds looser than its place."""
        if binds(node) >= tight:
            return self.node(node)
        return Group((Word("("), Break(""), self.node(node), Break(""), Word(")")), indented=True)

    def node(self, node: Node) -> Part:
        match node:
            case Number():
                return self.word(str(node), 2 if str(node).startswith("-") else 1)
            case Negate():
                return self.negate(node)
            case ListOf():
                return self.listing(node)
            case Option():
                return Group((*self.words(f"{node.name} ="), Word(" "), self.node(node.value)))
            case Call():
                return self.call(node)
            case Not():
                return Group((self.word("not"), Word(" "), self.inside(node.claim, 4)))
            case Arithmetic():
                tight = binds(node)
                return self.chain(node, tight, tight + 1, node.operator)
            case Compare():
                return self.chain(node, 6, 6, node.operator)
            case And():
                return self.chain(node, 3, 4, "and")
            case Or():
                return self.chain(node, 2, 3, "or")
            case Implies():
                left = self.inside(node.left, 2)
                arrow = self.word("=>")
                return Group((left, Word(" "), arrow, Break(), self.inside(node.right, 1)))
            case Binder():
                head = [*self.words(f"{node.name} in"), Word(" ")]
                domain = self.inside(node.domain, 6)
                if node.but is None:
                    return Group((*head, domain))
                rest = [Word(" "), self.word("but"), Word(" "), self.node(node.but)]
                return Group((*head, domain, *rest))
            case ForAll():
                return self.for_all(node)
            case Confident():
                claim = self.inside(node.claim, 1)
                words = self.words("with confidence")
                return Group((claim, Break(), *words, Word(" "), self.node(node.level)))
            case _:
                return self.word(str(node))

    def negate(self, node: Negate) -> Part:
        minus = self.word("-")
        digits = isinstance(node.operand, Number) and not str(node.operand).startswith("-")
        tight = 9 if digits else 8
        return Group((minus, self.inside(node.operand, tight)))

    def chain(self, node: And | Or | Compare | Arithmetic, left: int, right: int, by: str) -> Part:
        """Return two operands, with a possible break before their operator."""
        first = self.inside(node.left, left)
        # A chain of the same operator is one group: all of it is broken, or none.
        parts: tuple[Part, ...] = (first,)
        if _continues(node) and isinstance(first, Group):
            parts = first.parts
        return Group((*parts, Break(), self.word(by), Word(" "), self.inside(node.right, right)))

    def listing(self, node: ListOf) -> Part:
        opening = self.word("[")
        items = self.comma_groups(node.items)
        return Group((opening, Break(""), Fill(items), Break(""), self.word("]")), indented=True)

    def comma_groups(self, nodes: tuple[Node, ...]) -> tuple[Group, ...]:
        """Return nodes as groups, each but the last with a comma."""
        found = []
        for i, each in enumerate(nodes):
            part = self.node(each)
            comma = [self.word(",")] if i < len(nodes) - 1 else []
            found.append(Group((part, *comma)))
        return tuple(found)

    def call(self, node: Call) -> Part:
        opening = [self.word(node.function), Word("(")]
        items = self.comma_groups((*node.arguments, *node.options))
        if not items:
            return Group((*opening, Word(")")))
        spread: list[Part] = [Break("")]
        for i, item in enumerate(items):
            spread += [*([Break()] if i else []), item]
        return Group((*opening, *spread, Break(""), Word(")")), indented=True)

    def for_all(self, node: ForAll) -> Part:
        head: list[Part] = [self.word("forall"), Word(" ")]
        for i, binder in enumerate(node.binders):
            if i:
                head += [self.word(","), Break()]
            head.append(self.node(binder))
        head.append(self.word(":"))
        return Group((Group(tuple(head)), Break(), self.inside(node.body, 1)), indented=True)


def _continues(node: And | Or | Compare | Arithmetic) -> bool:
    left = node.left
    return type(left) is type(node) and binds(left) == binds(node)


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
    """Lines to print, and their line range in the old text."""

    lines: tuple[str, ...]
    first: int
    last: int


def format_specification(text: str, name: str = "<text>") -> str:
    """Return a specification in its canonical layout.

    Keeps all comments, reduces blank lines between statements or comments to one, and breaks lines
    at 100 columns.
    """
    spec = parse(text, name)
    result, before = _laid_out(spec), text
    # A comment may end up after its statement, which then has more room.
    for _ in range(_ROUNDS):
        again = parse(result, name)
        if again != spec or _count_comments(result) != _count_comments(before):
            break
        result, before = _laid_out(again), result
        if result == before:
            return result
    raise SpecError(f"{name}: left unchanged, because another layout would change its meaning")


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
        # Comments after it on its last line belong to it, up to the next statement.
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
        # Only the first can follow the token on its line.
        alone = each.comment.alone or before in by_token
        by_token[before].append(Comment(each.comment.text, alone))
    lines = render_lines(pieces(statement), WIDTH, by_token)
    return _Block(lines, statement.at.line, statement.at.end_line)
