"""Text to tree: the one parser, and what bounds it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.errors import SpecError
from leaveout.specs.errors import Slip, pointing
from leaveout.specs.source import Source
from leaveout.specs.tree import Node, Spec, children

if TYPE_CHECKING:
    from lark import Lark

__all__ = ["DEEPEST", "LONGEST", "load", "parse", "refuse_too_deep"]

DEEPEST = 200
LONGEST = 200_000


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    from leaveout.specs.build import builder

    grammar = resources.files("leaveout.specs").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        transformer=builder(),
        keep_all_tokens=True,
        maybe_placeholders=True,
    )


def refuse_too_deep(statements: Sequence[Node]) -> None:
    """Raise a `Slip` for a tree that recursion could not walk."""
    stack = [(node, 1) for node in statements]
    while stack:
        node, depth = stack.pop()
        if depth > DEEPEST:
            raise Slip(
                node.at,
                f"this expression is nested more than {DEEPEST} levels deep",
                "give a part of it a name with 'let'",
            )
        stack.extend((child, depth + 1) for child in children(node))


def parse(text: str, name: str = "<text>") -> Spec:
    """Parse the text of a specification.

    Parameters
    ----------
    text : str
    name : str
        What messages call the text, such as its path.

    Returns
    -------
    Spec

    Raises
    ------
    SpecError
        If the text is not a specification; the message points at the place.
    """
    from lark.exceptions import UnexpectedInput

    from leaveout.specs.unexpected import explain

    if len(text) > LONGEST:
        raise SpecError(f"{name}: too long for a specification, at most {LONGEST:,} characters")
    if not text.strip():
        raise SpecError(f"{name}: the specification is empty, expected a statement such as 'let'")
    source = Source(name, text)
    try:
        statements = _parser().parse(text)
        refuse_too_deep(statements)  # type: ignore[arg-type]
    except UnexpectedInput as error:
        raise pointing(source, explain(error, text, _parser())) from None
    except Slip as slip:
        raise pointing(source, slip) from None
    return Spec(statements, source)  # type: ignore[arg-type]


def load(path: str | Path) -> Spec:
    """Read and parse a specification file.

    Parameters
    ----------
    path : str or Path
        A UTF-8 file.

    Returns
    -------
    Spec
        Its source is named as the path was given.

    Raises
    ------
    SpecError
        If there is no such file, it is not UTF-8 text, or it is not a specification.
    """
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise SpecError(f"{path}: is a folder, expected a specification file") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from None
    return parse(text, str(path))
