"""The specification's statements as written, if the file is where the results say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leaveout.errors import LeaveoutError
from leaveout.specs import Find, Guarantee, Let, Name, Node, expand, load
from leaveout.specs.text.expressions import children
from leaveout.specs.text.parse import parse, read_bytes
from leaveout.specs.text.tree import Spec
from leaveout.specs.typing.params import Value, params, value_text
from leaveout.verifier.resolve_names import Reading, read_spec


@dataclass(frozen=True)
class Written:
    """A statement of the specification."""

    statement: Guarantee | Find
    definitions: tuple[Let, ...] = ()  # what it is made of, in the order of the specification


@dataclass(frozen=True)
class Specification:
    """The statements that could be read."""

    statements: dict[str, Written] = field(default_factory=dict)  # by name
    digest: str = ""  # sha256 of the file, in hexadecimal; empty where none was read
    missing: str = ""  # why there are no statements; empty where there are
    path: Path | None = None  # the file; None where none was read
    reading: Reading | None = None

    def statement(self, name: str, kind: str) -> Written | None:
        """Return a statement by name; None if there is none of that kind."""
        found = self.statements.get(name)
        if found is None or isinstance(found.statement, Find) != (kind == "find"):
            return None
        return found


def read_specification(
    spec: str,
    folder: Path | None,
    digest: str = "",
    notes: Sequence[str] = (),
    included: frozenset[str] | None = None,
) -> Specification:
    """Find and read the specification of a run."""
    if "\n" in spec:
        try:
            tree = parse(spec, "<text>")
            return _read(tree, spec.encode(), reading=_check_spec(tree, Path(), notes))
        except (LeaveoutError, RecursionError):
            return Specification(missing="the results contain a text that is not a specification")
    path = _find_spec(spec, folder)
    if path is None:
        return Specification(missing=f"the file {spec} is not next to the results")
    try:
        # No message of the parser is shown: it would quote a file that may be another one.
        data = read_bytes(path)
        if digest and hashlib.sha256(data).hexdigest() != digest:
            return Specification(missing=f"{spec} has changed since it was decided")
        tree = load(path)
        for each in tree.source.included:
            now = hashlib.sha256(read_bytes(each.name)).hexdigest()
            if included is not None and now not in included:
                name = Path(each.name).name
                return Specification(missing=f"{name} has changed since {spec} was decided")
        return _read(tree, data, path, _check_spec(path, path.parent, notes))
    except (LeaveoutError, OSError, RecursionError):
        return Specification(missing=f"{spec} cannot be read or parsed")


def overridden_params(notes: Sequence[str], written: Mapping[str, Value]) -> dict[str, str]:
    """Return the params that a run set differently from the text."""
    values = {}
    for name, value in written.items():
        start, end = f"param {name} = ", f", not {value_text(value)} as written"
        for note in notes:
            if note.startswith(start) and note.endswith(end):
                values[name] = note.removeprefix(start).removesuffix(end)
    return values


def _check_spec(spec: Path | Spec, folder: Path, notes: Sequence[str]) -> Reading | None:
    """Return a specification as it was decided; None if it fails the check."""
    try:
        tree = spec if isinstance(spec, Spec) else load(spec)
        before = params(expand(tree, folder))
        return read_spec(spec, folder, overridden_params(notes, before))
    except (LeaveoutError, OSError, RecursionError):
        return None


def _find_spec(spec: str, folder: Path | None) -> Path | None:
    """Return the path of the specification file; None if it is missing."""
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


def _read(
    spec: Spec, data: bytes, path: Path | None = None, reading: Reading | None = None
) -> Specification:
    lets = {each.name: each for each in spec.statements if isinstance(each, Let)}
    found = {
        each.name: Written(each, _definitions(each, lets))
        for each in spec.statements
        if isinstance(each, Guarantee | Find)
    }
    digest = hashlib.sha256(data).hexdigest()
    return Specification(found, digest, path=path, reading=reading)


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
