"""Write what the table of functions and the keywords say into the grammar and the reference.

Run it after a function or a keyword was added: ``python editors/refresh.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from leaveout.specs.table.functions import BUILT_IN
from leaveout.specs.text.tokens import KEYWORDS, STATEMENTS

ROOT = Path(__file__).resolve().parent.parent
GRAMMAR = ROOT / "editors" / "leaveout.tmLanguage.json"
REFERENCE = ROOT / "docs" / "language.md"

_BEGIN = "<!-- functions: written by editors/refresh.py -->\n"
_END = "<!-- end of functions -->\n"


def words_of(names: frozenset[str]) -> str:
    """Return keywords in lower case, joined for a regular expression."""
    return "|".join(sorted(name.lower() for name in names))


def grammar() -> dict[str, object]:
    """Return the TextMate grammar."""
    functions = "|".join(sorted(function.name for function in BUILT_IN))
    name = "[A-Za-z_][A-Za-z0-9_]*"
    define = {"1": {"name": "keyword.control.leaveout"}, "2": {"name": "entity.name.leaveout"}}
    patterns = [
        {"name": "comment.line.number-sign.leaveout", "match": "#.*$"},
        {
            "name": "string.quoted.double.leaveout",
            "begin": '"',
            "end": '"|$',
            "patterns": [
                {
                    "name": "constant.character.escape.leaveout",
                    "match": '\\\\(["\\\\]|u[0-9a-fA-F]{4})',
                },
                {"name": "invalid.illegal.escape.leaveout", "match": "\\\\."},
            ],
        },
        {
            "match": rf"\b({words_of(STATEMENTS - {'INCLUDE'})})\s+({name})",
            "captures": define,
        },
        {"name": "keyword.control.leaveout", "match": rf"\b({words_of(KEYWORDS)})\b"},
        {"name": "support.function.leaveout", "match": rf"\b({functions})\b(?=\s*\()"},
        {"name": "entity.name.function.leaveout", "match": rf"\b{name}(?=\s*\()"},
        {
            "name": "variable.parameter.leaveout",
            "match": rf"\b{name}(?=\s*=(?![=>]))",
        },
        {
            "name": "constant.numeric.leaveout",
            "match": r"(?<![A-Za-z0-9_])([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?",
        },
        {"name": "keyword.operator.leaveout", "match": "=>|==|!=|<=|>=|[-<>+*/=]"},
    ]
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "Leaveout specification",
        "scopeName": "source.leaveout",
        "fileTypes": ["spec"],
        "patterns": patterns,
    }


def table() -> str:
    """Return the built-in functions in Markdown."""
    lines = []
    for function in BUILT_IN:
        lines += [f"### `{function.name}`", "", "```", function.signature, "```", "", function.doc]
        if function.threat:
            lines += ["", f"What may change: {function.threat}."]
        lines += ["", "```", function.example, "```", ""]
    return "\n".join(lines)


def with_table(page: str) -> str:
    """Return the reference with the functions of today."""
    pattern = re.escape(_BEGIN) + ".*" + re.escape(_END)
    return re.sub(pattern, lambda _: f"{_BEGIN}\n{table()}\n{_END}", page, flags=re.DOTALL)


def main() -> None:
    """Write both files."""
    GRAMMAR.write_text(json.dumps(grammar(), indent=2) + "\n", "utf-8")
    REFERENCE.write_text(with_table(REFERENCE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
