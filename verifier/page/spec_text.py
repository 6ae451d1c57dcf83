"""What the specification says: its statements as written, if it is where the results say."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Find, Guarantee, Let, Name, Node, load
from leaveout.specs.text.parse import parse, read_bytes
from leaveout.specs.text.tree import Spec, children

__all__ = ["Specification", "Written", "read_specification"]


@dataclass(frozen=True)
class Written:
    """A statement of the specification.

    Attributes
    ----------
    statement : Guarantee or Find
    definitions : tuple of Let
        What it is made of, in the order of the specification.
    """

    statement: Guarantee | Find
    definitions: tuple[Let, ...] = ()


@dataclass(frozen=True)
class Specification:
    """The statements that could be read.

    Attributes
    ----------
    statements : dict of str to Written
        By name.
    digest : str
        sha256 of the file, in hexadecimal; empty where none was read.
    missing : str
        Why there are no statements; empty where there are.
    path : Path or None
        The file; None where none was read.
    """

    statements: dict[str, Written] = field(default_factory=dict)
    digest: str = ""
    missing: str = ""
    path: Path | None = None

    def statement(self, name: str, kind: str) -> Written | None:
        """Return a statement by name, None if there is none of that kind."""
        found = self.statements.get(name)
        if found is None or isinstance(found.statement, Find) != (kind == "find"):
            return None
        return found


def read_specification(spec: str, folder: Path | None, digest: str = "") -> Specification:
    """Look for the specification of a run and read it.

    Parameters
    ----------
    spec : str
        What the results name: a file, or a text.
    folder : Path or None
        Where the results lie.
    digest : str
        sha256 of the file that was decided, empty where it is not known.
    """
    if "\n" in spec:
        try:
            return _read(parse(spec, "<text>"), spec.encode())
        except (LeaveoutError, RecursionError):
            return Specification(missing="the results hold a text that is no specification")
    path = _found(spec, folder)
    if path is None:
        return Specification(missing=f"there is no file {spec} beside the results")
    try:
        # No message of the parser is shown: it would quote a file that may be another one.
        data = read_bytes(path)
        if digest and hashlib.sha256(data).hexdigest() != digest:
            return Specification(missing=f"{spec} was changed since it was decided")
        return _read(load(path), data, path)
    except (LeaveoutError, OSError, RecursionError):
        return Specification(missing=f"{spec} does not parse, or cannot be read")


def _found(spec: str, folder: Path | None) -> Path | None:
    if not spec or "\0" in spec:
        return None
    named = Path(spec)
    near: tuple[Path, ...] = () if folder is None else (folder / named, folder / named.name)
    for path in (*near, named):
        try:
            if path.is_file():
                return path
        except OSError:
            continue
    return None


def _read(spec: Spec, data: bytes, path: Path | None = None) -> Specification:
    lets = {each.name: each for each in spec.statements if isinstance(each, Let)}
    found = {
        each.name: Written(each, _definitions(each, lets))
        for each in spec.statements
        if isinstance(each, Guarantee | Find)
    }
    return Specification(found, hashlib.sha256(data).hexdigest(), path=path)


def _definitions(statement: Guarantee | Find, lets: dict[str, Let]) -> tuple[Let, ...]:
    used: set[str] = set()
    waiting: list[Node] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name) and node.name in lets and node.name not in used:
            used.add(node.name)
            waiting.append(lets[node.name])
        waiting.extend(children(node))
    return tuple(let for name, let in lets.items() if name in used)
