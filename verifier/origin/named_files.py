"""The files a specification names, and files beside them that are also read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leaveout.models.family_file import FAMILY
from leaveout.models.onnx_external import files_of
from leaveout.models.train.export import NETWORK
from leaveout.specs import Call, CheckedSpec, Expression, Name, Text, types
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import walk
from leaveout.specs.typing.arguments import bind
from leaveout.verifier.origin.records import FileKind
from leaveout.verifier.values.reachable import lets_named

MOST = 1000
"""Most files of a folder that a plug-in's function names whose digests are taken."""


@dataclass(frozen=True)
class NamedFile:
    """A file that a run reads because of the specification."""

    path: Path
    kind: FileKind
    called: str = ""  # the let that names it; empty where none does


def named_files(spec: CheckedSpec, folder: Path) -> Iterator[NamedFile]:
    """Yield the files that the statements of a specification read, as the text names them."""
    used = {name for each in spec.statements for name in lets_named(each.claim, spec)}
    if any(spec.type_of(spec.lets[name].value) == types.FAMILY for name in used):
        # Of which architecture its members are, the first network says, whoever else is asked.
        used |= set(itertools.islice(_networks(spec), 1))
    starts = [(let.name, let.value) for let in spec.lets.values() if let.name in used]
    starts += [("", statement.claim) for statement in spec.statements]
    for called, start in starts:
        for node in walk(start):
            if isinstance(node, Call):
                # What a let names is what its whole value stands for, not a part of it.
                own = called if node is start else ""
                for text in _texts(node, spec):
                    yield from _files(node.function, folder / text, own)


def _networks(spec: CheckedSpec) -> Iterator[str]:
    return (each.name for each in spec.lets.values() if spec.type_of(each.value) == types.NETWORK)


def _texts(call: Call, spec: CheckedSpec) -> Iterator[str]:
    function = spec.functions.get(call.function)
    if function is None:
        return
    with suppress(Slip):
        for name, value in bind(call, function).items():
            found = _resolve_lets(value, spec)
            if not isinstance(found, Text) or not function.parameter(name).is_path:
                continue
            if found.value and "\0" not in found.value:
                yield found.value


def _resolve_lets(node: Expression, spec: CheckedSpec) -> Expression:
    """Return the expression that a let stands for."""
    while isinstance(node, Name) and node.name in spec.lets:
        node = spec.lets[node.name].value
    return node


def _network(path: Path, called: str) -> Iterator[NamedFile]:
    first, *weights = files_of(path)
    yield NamedFile(first, "network", called)
    # A network that keeps weights outside its folder is refused when it is loaded.
    yield from (NamedFile(each, "weights") for each in weights)


def _family(path: Path, called: str) -> Iterator[NamedFile]:
    if not path.is_dir():
        yield NamedFile(path, "family", called)
        return
    for member in sorted(path.glob("*.onnx")):
        first, *weights = files_of(member)
        yield NamedFile(first, "member", called)
        yield from (NamedFile(each, "weights") for each in weights)


def _forest(path: Path, called: str) -> Iterator[NamedFile]:
    # Its libraries are loaded once there is a forest.
    from leaveout.models.forest.columns import COLUMNS

    yield NamedFile(path, "forest", called)
    yield NamedFile(path.with_name(COLUMNS), "columns")


def _guard(path: Path, called: str) -> Iterator[NamedFile]:
    # The guard's libraries are loaded once there is one.
    from leaveout.verifier.guard.bounds import BOUNDS

    yield from _network(path / NETWORK, called)
    yield NamedFile(path / FAMILY, "family", called)
    yield NamedFile(path / BOUNDS, "bounds", called)


def _plain(kind: FileKind) -> Callable[[Path, str], Iterator[NamedFile]]:
    return lambda path, called: iter([NamedFile(path, kind, called)])


_BY_FUNCTION: Mapping[str, Callable[[Path, str], Iterator[NamedFile]]] = {
    "network": _network,
    "family": _family,
    "forest": _forest,
    "access": _guard,
    "ballots": _plain("ballots"),
    "sharded": _plain("service"),
    "audit": _plain("audit"),
    "points": _plain("rows"),
    "grid": _plain("rows"),
}


def _files(function: str, path: Path, called: str) -> Iterator[NamedFile]:
    """Yield the files a function reads from a path; a plug-in's if they exist."""
    make = _BY_FUNCTION.get(function)
    with suppress(OSError):
        if make is not None:
            yield from make(path, called)
        elif path.is_dir():
            inside = (each for each in sorted(path.rglob("*")) if each.is_file())
            yield from (
                NamedFile(each, "file", called)
                for each, _ in zip(inside, range(MOST), strict=False)
            )
        elif path.is_file():
            yield NamedFile(path, "file", called)
