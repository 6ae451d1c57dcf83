"""Included files, whose statements replace the ``include``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Position, Slip, Source, error_in_source
from leaveout.specs.text.expressions import Node, Text
from leaveout.specs.text.parse import parse, read, with_text
from leaveout.specs.text.tree import Include, Spec, Statement

SUFFIX = ".spec"  # suffix of included files
MOST = 100
"""Most files that one specification can include."""

_STARTS = frozenset({"find", "guarantee", "include", "let", "param"})  # first words of statements
_COMMENT = re.compile(r"#[^\n]*")
_WORD = re.compile(r"[a-z]+\b")

AnyNode = TypeVar("AnyNode", bound=Node)


def load(path: str | Path, allowed: Sequence[Path] = ()) -> Spec:
    """Read and parse a specification file with its includes.

    Parameters
    ----------
    path : str or Path
        A UTF-8 file.
    allowed : sequence of Path
        Folders that files may be included from, besides the file's own.

    Returns
    -------
    Spec
        Its source is named by the given path.

    Raises
    ------
    SpecError
        If there is no such file, it is not UTF-8 text, or not a specification.
    """
    file = Path(path)
    spec = parse(read(path), str(path))
    return expand(spec, file.parent, file, allowed)


def expand(
    spec: Spec, folder: Path, file: Path | None = None, allowed: Sequence[Path] = ()
) -> Spec:
    """Replace every ``include`` by the statements of the included file.

    An included file must be a specification: its name ends in ``.spec``, and with links resolved it
    is in or below ``folder`` or an allowed folder. A specification from someone else thus cannot
    reveal other files of its user.

    Parameters
    ----------
    spec : Spec
    folder : Path
        Base of its relative paths.
    file : Path, optional
        The file it was read from, so that included files cannot include it.
    allowed : sequence of Path
        Further folders that files may be included from.

    Returns
    -------
    Spec
        The same one if it includes nothing. Paths in files from another folder are rewritten
        relative to ``folder``.

    Raises
    ------
    SpecError
        If a file cannot be read, includes itself, is included twice, is not a specification, or is
        outside the allowed folders, or if an allowed folder is not a folder.
    """
    if not any(isinstance(each, Include) for each in spec.statements):
        return spec
    spec = with_text(spec)
    for each in allowed:
        if not each.is_dir():
            raise SpecError(f"{each}: not a folder to include specifications from")
    roots = tuple(each.resolve() for each in (folder, *allowed))
    reader = _Reader(spec.source.lines, roots)
    chain = () if file is None else (file.resolve(),)
    found = tuple(reader.statements(_File(spec, folder, PurePath(), 0, chain)))
    return Spec(found, replace(spec.source, included=tuple(reader.sources)))


@dataclass(frozen=True)
class _File:
    """A parsed file: its folder, also relative to the first file's folder, and its first line."""

    spec: Spec
    folder: Path
    prefix: PurePath
    lines: int
    chain: tuple[Path, ...]


@dataclass
class _Reader:
    lines: int
    roots: tuple[Path, ...]
    sources: list[Source] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def statements(self, file: _File) -> Iterator[Statement]:
        for each in file.spec.statements:
            if isinstance(each, Include):
                try:
                    inner = self.open(each.path, file)
                except Slip as slip:
                    raise error_in_source(file.spec.source, slip) from None
                yield from self.statements(inner)
            else:
                yield _move_node(each, file)

    def open(self, path: Text, file: _File) -> _File:
        if not path.value:
            raise Slip(path.at, "'include' needs a path", 'as in: include "other.spec"')
        target = file.folder / path.value
        try:
            known = target.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise Slip(path.at, f"{target}: cannot read: {error}") from None
        self._refuse_foreign(path, target, known)
        if known in file.chain:
            raise Slip(path.at, f"{target} includes itself", "remove this 'include'")
        if known in self.seen:
            cure = "remove this 'include': its definitions are already known here"
            raise Slip(path.at, f"{target} is included twice", cure)
        if len(self.seen) == MOST:
            raise Slip(path.at, f"more than {MOST} files are included")
        self.seen.add(known)
        try:
            text = read(target)
        except SpecError as error:
            raise Slip(path.at, str(error), "it is looked for in the folder of this file") from None
        spec = _parse_included(text, target, path)
        start = self.lines
        self.lines += spec.source.lines
        self.sources.append(spec.source)
        inner = file.prefix / PurePath(path.value).parent
        return _File(spec, target.parent, inner, start, (*file.chain, known))

    def _refuse_foreign(self, path: Text, target: Path, known: Path) -> None:
        """Refuse includes from other folders, before reading them."""
        if not target.suffix == known.suffix == SUFFIX:
            wrong = f"{target}: not a specification, whose name ends in {SUFFIX}"
            raise Slip(path.at, wrong, f'as in: include "other{SUFFIX}"')
        if not any(known.is_relative_to(root) for root in self.roots):
            wrong = f"{target} is outside {self.roots[0]}, the folder of the first file"
            raise Slip(path.at, wrong, "allow its folder with --allow-include, or copy it there")


def _parse_included(text: str, target: Path, path: Text) -> Spec:
    """Parse an included file; if it is not a specification, show none of its content."""
    try:
        return parse(text, str(target))
    except SpecError:
        word = _WORD.match(_COMMENT.sub("", text).lstrip())
        if word is not None and word.group() in _STARTS:
            raise
        raise Slip(path.at, f"{target}: not a specification") from None


def _move_node(node: AnyNode, file: _File) -> AnyNode:
    """Return a node with positions among all files, and paths relative to the first file."""
    changes: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Position):
            changes[each.name] = value.shift_down(file.lines)
        elif isinstance(value, Node):
            changes[each.name] = _move_node(value, file)
        elif isinstance(value, tuple):
            changes[each.name] = tuple(_move_node(child, file) for child in value)
    if isinstance(node, Text) and node.value and file.prefix.parts:
        changes["value"] = str(file.prefix / node.value)
    return replace(node, **changes)
