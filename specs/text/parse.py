"""The parser from text to tree, and its limits."""

from __future__ import annotations

import errno
import functools
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from leaveout.errors import SpecError
from leaveout.files import UnusualFileError, read_whole
from leaveout.specs.text.errors import Slip, Source, error_in_source
from leaveout.specs.text.expressions import Node, children
from leaveout.specs.text.tree import Spec

if TYPE_CHECKING:
    from lark import Lark, Token


DEEPEST = 200
LONGEST = 200_000


@functools.cache
def _parser() -> Lark:
    from lark import Lark

    from leaveout.specs.text.build import builder

    grammar = resources.files("leaveout.specs.text").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        transformer=builder(),
        keep_all_tokens=True,
        maybe_placeholders=True,
    )


def tokens(text: str) -> list[Token]:
    """Return the tokens of a valid text, except comments."""
    return list(_parser().lex(text))


def refuse_too_deep(statements: Sequence[Node]) -> None:
    """Raise a `Slip` for a tree too deep for recursion."""
    stack = [(node, 1) for node in statements]
    # A tree built in Python may contain one node many times.
    walked: dict[int, int] = {}
    while stack:
        node, depth = stack.pop()
        if walked.get(id(node), 0) >= depth:
            continue
        walked[id(node)] = depth
        if depth > DEEPEST:
            raise Slip(
                node.at,
                f"this expression is nested more than {DEEPEST} levels deep",
                "name a part of it with 'let'",
            )
        stack.extend((child, depth + 1) for child in children(node))


def parse(text: str, name: str = "<text>") -> Spec:
    """Parse the text of a specification.

    Parameters
    ----------
    text : str
    name : str
        Name of the text in messages, such as its path.

    Returns
    -------
    Spec
        As written; `leaveout.specs.expand` replaces each ``include``.

    Raises
    ------
    SpecError
        If the text is not a specification; the message points at the place.
    """
    from lark.exceptions import UnexpectedInput

    from leaveout.specs.text.syntax_errors import explain

    if len(text) > LONGEST:
        raise _too_long(name)
    if not text.strip():
        raise SpecError(f"{name}: the specification is empty, expected a statement such as 'let'")
    source = Source(name, text)
    try:
        statements = _parser().parse(text)
        refuse_too_deep(statements)  # type: ignore[arg-type]
    except UnexpectedInput as error:
        raise error_in_source(source, explain(error, text, _parser())) from None
    except Slip as slip:
        raise error_in_source(source, slip) from None
    return Spec(statements, source)  # type: ignore[arg-type]


def read(path: str | Path) -> str:
    """Return the text of a specification file."""
    return decode_text(read_bytes(path), str(path))


_TABLE = (
    "is a table; train on it ('leaveout train {0} --label COLUMN -o DIR') and verify DIR/idp.spec"
)
_ARRAYS = "is a model or data; name the .spec file that uses it"
_OTHERS = {
    ".json": "is not a specification; 'leaveout report {0}' shows results; name the .spec file to "
    "verify again",
    ".csv": _TABLE,
    ".xlsx": _TABLE,
    ".npz": _ARRAYS,
    ".onnx": _ARRAYS,
}
"""What is mistaken for a specification, and the cure."""


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a specification file."""
    cure = _OTHERS.get(Path(path).suffix.lower())
    if cure is not None and Path(path).is_file():
        raise SpecError(f"{path}: {cure.format(path)}")
    try:
        # A character has at most four bytes.
        return read_whole(Path(path), 4 * LONGEST)
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file") from None
    except IsADirectoryError:
        inside = sorted(Path(path).glob("*.spec"))
        cure = f"; name one in it: {', '.join(map(str, inside[:3]))}" if inside else ""
        raise SpecError(f"{path}: is a folder, expected a specification file{cure}") from None
    except UnusualFileError as error:
        if error.errno == errno.EFBIG:
            raise _too_long(str(path)) from None
        raise SpecError(f"{path}: {error}") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot read: {error.strerror or error}") from None


def _too_long(name: str) -> SpecError:
    return SpecError(f"{name}: too long for a specification, at most {LONGEST:,} characters")


def decode_text(data: bytes, name: str) -> str:
    """Decode a file, with line ends normalised to line feeds."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{name}: not UTF-8 text (byte {error.start}), as a specification must be; it names "
            "networks and tables"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _size(node: Node, known: dict[int, int]) -> int:
    """Return the number of nodes in a tree, visiting shared nodes once."""
    if id(node) not in known:
        known[id(node)] = 1 + sum(_size(child, known) for child in children(node))
    return known[id(node)]


def with_text(spec: Spec) -> Spec:
    """Return a specification with a text: canonical for a tree built in Python."""
    if spec.source.text:
        return spec
    try:
        refuse_too_deep(spec.statements)
    except Slip as slip:
        raise SpecError(f"{spec.source.name}: {slip.wrong}") from None
    sizes: dict[int, int] = {}
    if sum(_size(each, sizes) for each in spec.statements) > LONGEST:
        raise _too_long(spec.source.name)
    return parse(str(spec), spec.source.name)
