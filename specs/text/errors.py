"""Error messages with the line, carets under the token, and the remedy."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaveout.errors import SpecError
from leaveout.names import nearest_name


@dataclass(frozen=True)
class Position:
    """Position of a node, counted from 1, with an exclusive end; 0 if built in Python."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def to(self, last: Position) -> Position:
        """Return the span from the start of this position to the end of another."""
        return Position(self.line, self.column, last.end_line, last.end_column)

    def shift_down(self, lines: int) -> Position:
        """Return the same position that many lines further down."""
        return Position(self.line + lines, self.column, self.end_line + lines, self.end_column)


@dataclass(frozen=True)
class Source:
    """The text of a specification, and its name in messages."""

    name: str
    text: str
    included: tuple[Source, ...] = ()  # included files

    @property
    def lines(self) -> int:
        """The number of lines, without those of included files."""
        return self.text.count("\n") + 1

    def find(self, at: Position) -> tuple[Source, Position]:
        """Return the file of a position, and the position within that file."""
        before = 0
        for file in (self, *self.included):
            if at.line - before <= file.lines:
                return file, at.shift_down(-before)
            before += file.lines
        return self, at


# Only the part of a longer line around the token is shown.
LONGEST = 160
AROUND = 60
WORDIEST = 300


class Slip(Exception):  # noqa: N818 - it never reaches a user; `error_in_source` makes the error
    """An error and its position, before its source is known."""

    def __init__(self, at: Position, wrong: str, cure: str = "") -> None:
        super().__init__(wrong)
        self.at = at
        self.wrong = wrong
        self.cure = cure


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...?`` for the most similar known name, or an empty string."""
    near = nearest_name(name, known)
    return "" if near is None else f"did you mean '{near}'?"


def _printable(character: str) -> str:
    """Return the character, or a replacement if it is not printable."""
    return (
        character if character == "\t" or character.isprintable() else "\N{REPLACEMENT CHARACTER}"
    )


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pad(before: str) -> str:
    # Tabs are kept, so that the carets stay aligned.
    return "".join("\t" if character == "\t" else " " * _width(character) for character in before)


def error_in_source(source: Source, slip: Slip) -> SpecError:
    """Return the error that shows a slip in its source."""
    at = slip.at
    lines = source.text.split("\n")
    # Only a carriage return at the end belongs to the line end.
    line = lines[at.line - 1].removesuffix("\r") if 0 < at.line <= len(lines) else ""
    line = "".join(map(_printable, line))
    start = at.column - 1
    end = at.end_column - 1 if at.end_line == at.line else len(line)
    if len(line) > LONGEST:
        first, last = max(0, start - AROUND), min(len(line), start + AROUND)
        left, right = "…" * (first > 0), "…" * (last < len(line))
        line = left + line[first:last] + right
        start, end = start - first + len(left), min(end, last) - first + len(left)
    carets = "^" * max(1, sum(map(_width, line[start:end])))
    wrong = slip.wrong if len(slip.wrong) <= WORDIEST else f"{slip.wrong[:WORDIEST]}…"
    message = [
        f"{source.name}:{at.line}:{at.column}: {''.join(map(_printable, wrong))}",
        line,
        _pad(line[:start].ljust(start)) + carets,
    ]
    if slip.cure:
        message += ["".join(map(_printable, each)) for each in slip.cure.split("\n")]
    return SpecError("\n".join(message))


def error_in_file(source: Source, slip: Slip) -> SpecError:
    """Return the error that shows a slip in its file."""
    file, at = source.find(slip.at)
    return error_in_source(file, Slip(at, slip.wrong, slip.cure))


def place(source: Source, at: Position, seen_from: Position) -> str:
    """Return ``line:column``, prefixed by the file name if it is another file."""
    file, local = source.find(at)
    here, _ = source.find(seen_from)
    where = f"{local.line}:{local.column}"
    return where if file is here else f"{file.name}:{where}"


STATEMENTS = frozenset({"LET", "PARAM", "INCLUDE", "GUARANTEE", "FIND"})

KEYWORDS = STATEMENTS | {
    "AND",
    "BUT",
    "FORALL",
    "GREATEST",
    "IN",
    "LEAST",
    "NOT",
    "OR",
    "PER",
    "SUCH",
    "THAT",
    "WITH",
}

_HUMAN = {
    "$END": "the end",
    "COLON": "':'",
    "COMMA": "','",
    "COMPARISON": "'=='",
    "EQUAL": "'='",
    "IMPLIES": "'=>'",
    "LPAR": "'('",
    "LSQB": "'['",
    "MINUS": "'-'",
    "NAME": "a name",
    "NUMBER": "a number",
    "PLUS": "'+'",
    "RPAR": "')'",
    "RSQB": "']'",
    "TEXT": "a text in quotes",
    **{word: f"'{word.lower()}'" for word in KEYWORDS},
}

_STATEMENTS = "'let', 'param', 'include', 'guarantee', 'find'"
_BEGINS = {"NAME", "NUMBER", "LPAR", "LSQB", "MINUS", "NOT", "FORALL", "TEXT"}
_CONTINUES = {"LPAR", "COMPARISON", "PLUS", "MINUS", "TIMES", "DIVIDE", "WITH", "EQUAL"}


def join_alternatives(words: Sequence[str]) -> str:
    """Return ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def describe_expected(terminals: Iterable[str]) -> str:
    """Return the allowed tokens in words."""
    left = set(terminals)
    words = []
    if {"NAME", "NUMBER", "LPAR"} <= left:
        left -= _BEGINS
        words = ["a name", "a number", "'('"]
    elif "IMPLIES" in left or "PLUS" in left:
        shown = [each for each in ("IMPLIES", "AND", "COMPARISON", "PLUS") if each in left]
        left -= _CONTINUES | {"IMPLIES", "AND", "OR"}
        words = [f"an operator ({', '.join(_HUMAN[each] for each in shown)}, ...)"]
    if left >= STATEMENTS:
        left -= STATEMENTS | {"$END"}
        words.append("the next statement" if words else f"a statement ({_STATEMENTS})")
    return join_alternatives(
        words + [_HUMAN.get(each, f"'{each.lower()}'") for each in sorted(left)]
    )


WORDS = {
    "and": "write 'and', in lower case",
    "forall": "write 'forall', in lower case",
    "import": 'write: include "other.spec"',
    "if": "write: condition => claim",
    "iff": "write: (a => b) and (b => a)",
    "implies": "write '=>'",
    "is": "write '=='",
    "not": "write 'not', in lower case",
    "parameter": "write: param eps = 0.1",
    "or": "write 'or', in lower case",
    "then": "write: condition => claim",
    "xor": "write: (a or b) and not (a and b)",
}
"""Names, in lower case, that are keywords in other languages."""

_DOUBLE = 'a text is in double quotes: "full.onnx"'
_LIST = "a list is in square brackets, e.g. [0, 1]"

CHARACTERS = {
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not'",
    "~": "write 'not'",
    "'": _DOUBLE,
    "`": _DOUBLE,
    "\N{LEFT DOUBLE QUOTATION MARK}": _DOUBLE,
    "\N{RIGHT DOUBLE QUOTATION MARK}": _DOUBLE,
    "\N{LEFT SINGLE QUOTATION MARK}": _DOUBLE,
    "\N{RIGHT SINGLE QUOTATION MARK}": _DOUBLE,
    "^": "there is no power operator: write x * x",
    "%": "write 0.05 for 5 %",
    ";": "a statement needs no end mark: the next one begins with its own keyword",
    "{": _LIST,
    "}": _LIST,
    ".": "a number is written 0.5, and after 'forall x in X' comes ':'",
    "\\": "a text, such as a path, is in double quotes",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "→": "write '=>'",
    "⇒": "write '=>'",
    "⇔": "write: (a => b) and (b => a)",
    "∀": "write 'forall'",
    "∈": "write 'in'",
    "∧": "write 'and'",
    "∨": "write 'or'",
    "¬": "write 'not'",
    "−": "write '-', the minus sign on the keyboard",
    "–": "write '-', the minus sign on the keyboard",
    "×": "write '*'",
    "·": "write '*'",
}
"""Characters outside the grammar, and what to write instead."""
