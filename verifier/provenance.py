"""Provenance of a run: files with digests, training rows and statements."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import sha256_of
from leaveout.models.archive import MANIFEST, read_archive
from leaveout.models.family import FAMILY, Manifest
from leaveout.models.onnx.values import files_of
from leaveout.models.train.export import NETWORK
from leaveout.specs import Call, CheckedSpec, Expression, Find, Guarantee, Name, Text, types
from leaveout.specs.table.signatures import bind
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.expressions import walk
from leaveout.verifier.reachable import lets_named
from leaveout.verifier.records import FileKind, FileRecord, StatementRecord, TrainingRecord

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
    for family, model in ((types.FAMILY, types.NETWORK), (types.TREE_FAMILY, types.TREES)):
        if any(spec.type_of(spec.lets[name].value) == family for name in used):
            # Of which model its members are, the first such let says, whoever else is asked.
            used |= set(itertools.islice(_models(spec, model), 1))
    starts = [(let.name, let.value) for let in spec.lets.values() if let.name in used]
    starts += [("", statement.claim) for statement in spec.statements]
    for called, start in starts:
        for node in walk(start):
            if isinstance(node, Call):
                # What a let names is what its whole value stands for, not a part of it.
                own = called if node is start else ""
                for text in _texts(node, spec):
                    yield from _files(node.function, folder / text, own)


def _models(spec: CheckedSpec, kind: types.Type) -> Iterator[str]:
    return (each.name for each in spec.lets.values() if spec.type_of(each.value) == kind)


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
    while isinstance(node, Name) and node.name in spec.lets:
        node = spec.lets[node.name].value
    return node


def _network(path: Path, called: str, kind: FileKind = "network") -> Iterator[NamedFile]:
    first, *weights = files_of(path)
    yield NamedFile(first, kind, called)
    # A network that keeps weights outside its folder is refused when it is loaded.
    yield from (NamedFile(each, "weights") for each in weights)


def _family(path: Path, called: str) -> Iterator[NamedFile]:
    if not path.is_dir():
        yield NamedFile(path, "family", called)
        return
    for member in sorted(path.glob("*.onnx")):
        yield from _network(member, called, "member")


def _forest(path: Path, called: str) -> Iterator[NamedFile]:
    # Its libraries are loaded once there is a forest.
    from leaveout.models.forest.columns import COLUMNS

    yield NamedFile(path, "forest", called)
    yield NamedFile(path.with_name(COLUMNS), "columns")


def _linear(path: Path, called: str) -> Iterator[NamedFile]:
    yield NamedFile(path, "linear", called)
    yield NamedFile(path.with_name("linear.json"), "columns")


def _guard(path: Path, called: str) -> Iterator[NamedFile]:
    # The guard's libraries are loaded once there is one.
    from leaveout.models.train.export import BOUNDS

    yield from _network(path / NETWORK, called)
    yield NamedFile(path / FAMILY, "family", called)
    yield NamedFile(path / BOUNDS, "bounds", called)


def _plain(kind: FileKind) -> Callable[[Path, str], Iterator[NamedFile]]:
    return lambda path, called: iter([NamedFile(path, kind, called)])


_BY_FUNCTION: Mapping[str, Callable[[Path, str], Iterator[NamedFile]]] = {
    "network": _network,
    "family": _family,
    "forest": _forest,
    "linear": _linear,
    "trees": _plain("trees"),
    "members": _plain("family"),
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


_ROWS = ("X", "y", "classes")
_GROUPS = ("group", "group_column")

Arrays = Mapping[str, NDArray[Any]]


def of_family(file: Path, path: str) -> TrainingRecord | None:
    """Return what a family file states of its training rows; None if nothing."""
    raw = _arrays(file, (MANIFEST,)).get(MANIFEST)
    if raw is None:
        return None
    content = raw.tobytes()
    try:
        facts = msgspec.json.decode(content, type=Manifest).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if facts is None:
        return None
    return TrainingRecord(
        path=path,
        sha256=facts.sha256,
        manifest_sha256=hashlib.sha256(content).hexdigest(),
        rows=facts.rows,
        features=len(facts.minimum),
        labels=facts.labels,
        group=facts.group,
    )


def of_forest(file: Path, path: str) -> TrainingRecord | None:
    """Return what a forest states of its rows; None if the file is not a forest."""
    held = _arrays(file, (*_ROWS, *_GROUPS))
    if not set(_ROWS) <= set(held) or held["X"].ndim != 2:
        return None
    group = " ".join(held["group_column"].tolist()) if set(_GROUPS) <= set(held) else ""
    hashed = ("X", "y", *(("group",) if group else ()))
    return _of_rows(path, held, hashed, tuple(map(str, held["classes"].tolist())), group)


def _of_rows(
    path: str, held: Arrays, hashed: Sequence[str], labels: tuple[str, ...], group: str
) -> TrainingRecord:
    digest = hashlib.sha256()
    for name in hashed:
        array = held[name]
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    rows, features = held["X"].shape
    if group and "group" in held:
        rows = len(np.unique(held["group"]))
    return TrainingRecord(
        path=path,
        sha256=digest.hexdigest(),
        manifest_sha256="",
        rows=rows,
        features=features,
        labels=labels,
        group=group,
    )


def of_linear(file: Path, path: str) -> TrainingRecord | None:
    """Return what a linear model states of its rows; None if the file holds no linear model."""
    held = _arrays(file, ("manifest", "X", "y", "weights", "group"))
    try:
        told = json.loads(held["manifest"].tobytes())
        _, _ = held["X"].shape
        labels, group = tuple(map(str, told["labels"])), str(told["group"] or "")
    except (KeyError, ValueError, TypeError):
        return None
    hashed = [name for name in ("X", "y", "weights", "group") if name in held]
    return _of_rows(path, held, hashed, labels, group)


def _arrays(file: Path, names: tuple[str, ...]) -> Arrays:
    try:
        return read_archive(file, LeaveoutError, only=names)
    except LeaveoutError:
        # Whoever loads it says what is wrong with it.
        return {}


@dataclass(frozen=True)
class FileDigest:
    """The digest of a file, and what reveals a later change."""

    path: Path
    sha256: str  # in hexadecimal
    _marks: tuple[int, ...]

    def is_same(self) -> bool:
        """Return whether the file is unchanged."""
        try:
            return _marks(self.path) == self._marks or sha256_of(self.path) == self.sha256
        except OSError:
            return False


def take_digest(path: Path) -> FileDigest:
    """Return the digest of a file."""
    marks = _marks(path)
    return FileDigest(path, sha256_of(path), marks)


def _marks(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


@dataclass(frozen=True)
class _Held:
    """A file, its digest when the run began, and its names."""

    kind: FileKind
    taken: FileDigest
    called: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """The provenance of a run; digests are taken before anything is loaded."""

    checked: CheckedSpec
    folder: Path  # what relative paths are relative to
    _spec: Path | None
    _named: tuple[NamedFile, ...]
    _held: tuple[_Held, ...]

    @staticmethod
    def of(
        checked: CheckedSpec, folder: Path, spec: Path | None, data: Path | None = None
    ) -> Origin:
        """Take the digests of all files that a run is about to read."""
        named: list[NamedFile] = []
        if spec is not None:
            named.append(NamedFile(spec, "specification"))
        included = (Path(each.name) for each in checked.source.included)
        named += [NamedFile(each, "included specification") for each in included]
        named += named_files(checked, folder)
        if data is not None:
            named.append(NamedFile(data, "given rows"))
        return Origin(checked, folder, spec, tuple(named), tuple(_take_digests(named)))

    def changed_files(self) -> list[str]:
        """Return the files whose content changed since the run began."""
        return [
            self._relative_name(each.taken.path) for each in self._held if not each.taken.is_same()
        ]

    def missing_files(self) -> list[str]:
        """Return the named files that could not be read."""
        held = {each.taken.path.absolute() for each in self._held}
        return [
            self._relative_name(each.path)
            for each in self._named
            # Columns of a table lie beside some models only.
            if each.kind != "columns" and each.path.absolute() not in held
        ]

    def files(self) -> tuple[FileRecord, ...]:
        """Return a record of each file, without the digest of changed ones."""
        changed = set(self.changed_files())
        return tuple(
            FileRecord(
                path=(path := self._relative_name(each.taken.path)),
                kind=each.kind,
                sha256="" if path in changed else each.taken.sha256,
                called=each.called,
            )
            for each in self._held
        )

    def training(self) -> tuple[TrainingRecord, ...]:
        """Return what families, forests and linear models state of their training rows."""
        read = {"family": of_family, "forest": of_forest, "linear": of_linear}
        found = (
            read[each.kind](each.taken.path, self._relative_name(each.taken.path))
            for each in self._held
            if each.kind in read
        )
        return tuple(each for each in found if each is not None)

    def statements(self) -> tuple[StatementRecord, ...]:
        """Return the statements as decided, with their positions."""
        return tuple(self._statement(each) for each in self.checked.statements)

    def _statement(self, statement: Guarantee | Find) -> StatementRecord:
        # Its phrases are loaded only where a statement is to be said.
        from leaveout.verifier.page.prose import in_words

        source, at = self.checked.source.find(statement.at)
        names = lets_named(statement.claim, self.checked)
        if self._spec is None:
            path = ""
        elif source is self.checked.source:
            path = self._relative_name(self._spec)
        else:
            path = self._relative_name(Path(source.name))
        return StatementRecord(
            name=statement.name,
            text=str(statement),
            sentence=in_words(statement, self.checked.functions),
            names=names,
            definitions=tuple(str(self.checked.lets[each]) for each in names),
            path=path,
            line=at.line,
            column=at.column,
            end_line=at.end_line,
            end_column=at.end_column,
        )

    def _relative_name(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.folder)).as_posix()


def _take_digests(named: Sequence[NamedFile]) -> list[_Held]:
    """Take the digest of each file once; its first kind counts."""
    held: dict[Path, _Held] = {}
    for each in named:
        key = each.path.absolute()
        with suppress(OSError, ValueError):
            known = held.get(key) or _Held(each.kind, take_digest(each.path), ())
            more = (each.called,) if each.called and each.called not in known.called else ()
            held[key] = _Held(known.kind, known.taken, known.called + more)
    return list(held.values())
