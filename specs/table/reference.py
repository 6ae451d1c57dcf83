"""Reference of the functions for documentation and editors, generated from their declarations."""

from __future__ import annotations

from collections.abc import Iterable

from leaveout.specs.table.signatures import Function
from leaveout.specs.text.errors import KEYWORDS, STATEMENTS


def describe_function(function: Function, language: str = "") -> str:
    """Return a reference section on a function in Markdown."""
    lines = [f"### `{function.name}`", "", f"```{language}", function.signature, "```"]
    lines += ["", function.doc]
    if function.threat:
        lines += ["", f"What may change: {function.threat}."]
    limited = [each for each in function.parameters if each.whole or each.least is not None]
    if limited:
        lines += ["", "; ".join(f"`{each.name}` is {each.range}" for each in limited) + "."]
    return "\n".join([*lines, "", f"```{language}", function.example, "```", ""])


def grammar(functions: Iterable[str]) -> dict[str, object]:
    """Return the TextMate grammar of the language, for editors."""
    known = "|".join(sorted(functions))
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
            "match": rf"\b({_words(STATEMENTS - {'INCLUDE'})})\s+({name})",
            "captures": define,
        },
        {"name": "keyword.control.leaveout", "match": rf"\b({_words(KEYWORDS)})\b"},
        {"name": "support.function.leaveout", "match": rf"\b({known})\b(?=\s*\()"},
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


def _words(names: Iterable[str]) -> str:
    """Return keywords in lower case as alternatives of a regular expression."""
    return "|".join(sorted(name.lower() for name in names))
