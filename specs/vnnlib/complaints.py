"""What the package ``vnnlib`` complains of, as a slip with its place."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position

__all__ = ["slip_of"]

_SYNTAX = re.compile(r"Parse error: .* at line (\d+), column (\d+): '(.*)'", re.DOTALL)
_EXPONENT = re.compile(r"[eE]\d*")


def slip_of(error: Exception, bare: str) -> Slip:
    """Return what is wrong with a text and where.

    Parameters
    ----------
    error : Exception
        From the package, or from the C++ below it.
    bare : str
        The text it was given.
    """
    lines = bare.split("\n")
    match = _SYNTAX.fullmatch(str(error))
    if match is not None:
        return _of_syntax(match, lines)
    try:
        first = msgspec.json.decode(str(error))["errors"][0]
        return _of_types(first, lines)
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        pass
    if isinstance(error, (IndexError, ValueError)):
        wrong = "a number is too large or too small for the package vnnlib"
    else:
        wrong = f"the package vnnlib cannot read this: {str(error)[:80] or type(error).__name__}"
    return Slip(Position(1, 1, 1, 1), wrong)


def _of_syntax(match: re.Match[str], lines: list[str]) -> Slip:
    line, column, found = int(match.group(1)), int(match.group(2)), match.group(3)
    # Only of the first line does the parser count columns from 1.
    column += line > 1
    at = Position(line, max(1, column), line, max(1, column) + max(1, len(found)))
    if not found:
        return Slip(at, "the query is not complete")
    cure = "numbers of version 2.0 have no exponent" if _EXPONENT.fullmatch(found) else ""
    return Slip(at, f"'{found[:40]}' is not expected here", cure)


def _of_types(first: dict[str, Any], lines: list[str]) -> Slip:
    symbol, line = str(first["offendingSymbol"]), int(first["line"])
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    column = text.find(symbol)
    if column < 0:
        column = text.find(symbol.split("[")[0])
    at = Position(line, max(0, column) + 1, line, max(0, column) + 1 + len(symbol))
    return Slip(at, f"'{symbol[:40]}': {first['message']}", str(first["hint"]))
