"""Names of the grammar's tokens in messages, and cures for unsupported syntax."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """Return in words which tokens are allowed."""
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
"""Names, in lower case, that other languages have as words."""

_DOUBLE = 'a text stands in double quotes: "full.onnx"'
_LIST = "a list stands in square brackets, as in [0, 1]"

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
    "^": "there are no powers: write x * x",
    "%": "write 0.05 for 5 %",
    ";": "a statement needs no end mark: the next one begins with its own keyword",
    "{": _LIST,
    "}": _LIST,
    ".": "a number is written 0.5, and after 'forall x in X' comes ':'",
    "\\": "a text, such as a path, stands in double quotes",
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
    "−": "write '-', the minus of the keyboard",
    "–": "write '-', the minus of the keyboard",
    "×": "write '*'",
    "·": "write '*'",
}
"""Characters outside the grammar, and what to write instead."""
