"""Provenance of a run: files with digests, training rows and statements."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from leaveout.specs import CheckedSpec, Find, Guarantee
from leaveout.verifier.origin.digests import FileDigest, take_digest
from leaveout.verifier.origin.named_files import NamedFile, named_files
from leaveout.verifier.origin.records import (
    FileKind,
    FileRecord,
    StatementRecord,
    TrainingRecord,
)
from leaveout.verifier.origin.training import of_family, of_forest
from leaveout.verifier.values.reachable import lets_named


@dataclass(frozen=True)
class _Held:
    """A file, its digest when the run began, and its names."""

    kind: FileKind
    taken: FileDigest
    called: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """The provenance of a run; digests are taken before anything is loaded.

    Attributes
    ----------
    checked : CheckedSpec
    folder : Path
        What relative paths are relative to.
    """

    checked: CheckedSpec
    folder: Path
    _spec: Path | None
    _named: tuple[NamedFile, ...]
    _held: tuple[_Held, ...]

    @staticmethod
    def of(
        checked: CheckedSpec, folder: Path, spec: Path | None, data: Path | None = None
    ) -> Origin:
        """Take the digests of all files that a run is about to read.

        Parameters
        ----------
        checked : CheckedSpec
        folder : Path
            What relative paths are relative to.
        spec : Path or None
            The specification's own file; None where it was built in Python.
        data : Path, optional
            The file of rows that were given.

        Notes
        -----
        A file that is missing or cannot be read has none: whoever loads it says so.
        """
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
            # Columns of a table lie beside some forests only.
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
        """Return what families and forests state of their training rows."""
        read = {"family": of_family, "forest": of_forest}
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
        """Return a path relative to the specification's folder."""
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
