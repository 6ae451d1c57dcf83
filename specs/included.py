"""Included files: their statements, in the place of the ``include``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

from leaveout.errors import SpecError
from leaveout.specs.errors import Slip, pointing
from leaveout.specs.parse import parse, read, with_text
from leaveout.specs.source import Position, Source
from leaveout.specs.tree import Include, Node, Spec, Statement, Text

__all__ = ["MOST", "expand", "load"]

MOST = 100
"""Most files that one specification may include."""

AnyNode = TypeVar("AnyNode", bound=Node)


def load(path: str | Path) -> Spec:
    """Read and parse a specification file, and what it includes.

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
    file = Path(path)
    spec = parse(read(path), str(path))
    return expand(spec, file.parent, file)


def expand(spec: Spec, folder: Path, file: Path | None = None) -> Spec:
    """Put the statements of included files in the place of every ``include``.

    Parameters
    ----------
    spec : Spec
    folder : Path
        What its relative paths are relative to.
    file : Path, optional
        Where it was read, so that it is not included by what it includes.

    Returns
    -------
    Spec
        The same one where nothing is included. Texts of a file in another folder, which are
        paths, are rewritten so that they are relative to ``folder`` as well.

    Raises
    ------
    SpecError
        If a file cannot be read or includes itself, or is included twice.
    """
    if not any(isinstance(each, Include) for each in spec.statements):
        return spec
    spec = with_text(spec)
    reader = _Reader(spec.source.lines)
    chain = () if file is None else (file.resolve(),)
    found = tuple(reader.statements(_File(spec, folder, PurePath(), 0, chain)))
    return Spec(found, replace(spec.source, included=tuple(reader.sources)))


@dataclass(frozen=True)
class _File:
    """A file as parsed: its folder, also as seen from the first file's, and its first line."""

    spec: Spec
    folder: Path
    prefix: PurePath
    lines: int
    chain: tuple[Path, ...]


@dataclass
class _Reader:
    lines: int
    sources: list[Source] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def statements(self, file: _File) -> Iterator[Statement]:
        for each in file.spec.statements:
            if isinstance(each, Include):
                try:
                    inner = self.open(each.path, file)
                except Slip as slip:
                    raise pointing(file.spec.source, slip) from None
                yield from self.statements(inner)
            else:
                yield _moved(each, file)

    def open(self, path: Text, file: _File) -> _File:
        if not path.value:
            raise Slip(path.at, "'include' needs a path", 'as in: include "other.spec"')
        target = file.folder / path.value
        try:
            known = target.resolve()
        except (OSError, RuntimeError) as error:
            raise Slip(path.at, f"{target}: cannot be read: {error}") from None
        if known in file.chain:
            raise Slip(path.at, f"{target} includes itself", "leave this 'include' out")
        if known in self.seen:
            cure = "leave this 'include' out: what it defines is known here"
            raise Slip(path.at, f"{target} is included twice", cure)
        if len(self.seen) == MOST:
            raise Slip(path.at, f"more than {MOST} files are included")
        self.seen.add(known)
        try:
            text = read(target)
        except SpecError as error:
            raise Slip(path.at, str(error), "it is looked for beside this file") from None
        spec = parse(text, str(target))
        start = self.lines
        self.lines += spec.source.lines
        self.sources.append(spec.source)
        inner = file.prefix / PurePath(path.value).parent
        return _File(spec, target.parent, inner, start, (*file.chain, known))


def _moved(node: AnyNode, file: _File) -> AnyNode:
    """Return a node with its position among all files, and paths as the first file sees them."""
    changes: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Position):
            changes[each.name] = value.moved(file.lines)
        elif isinstance(value, Node):
            changes[each.name] = _moved(value, file)
        elif isinstance(value, tuple):
            changes[each.name] = tuple(_moved(child, file) for child in value)
    if isinstance(node, Text) and node.value and file.prefix.parts:
        changes["value"] = str(file.prefix / node.value)
    return replace(node, **changes)
