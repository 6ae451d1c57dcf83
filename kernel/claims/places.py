"""Files of a claim: where they are, and whether they are unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from ..files import digest_of
from ..refusal import Rejected, Unreadable
from .parts import FilePart

SERVED = ("full.onnx", "family.npz", "bounds.npz")
"""Files of a served folder that a guard's answers depend on."""

What = Literal["network", "family", "files"]
"""The option that says where a file is."""

_NETWORKS = ("network", "family", "folder")
_KINDS: dict[str, tuple[str, ...]] = {
    "network": (*_NETWORKS, "trees"),
    "family": (*_NETWORKS, "tree members"),
    "files": ("file", "access"),
}
"""The kinds of files, by the option that locates them."""

_CALLED = {"network": "network", "family": "family", "files": "file"}


def only_file(path: Path) -> list[Path]:
    """Return the files of a network that stores no weights elsewhere."""
    return [path]


@dataclass(frozen=True)
class Places:
    """Where the files of a certificate are, unless where it says."""

    folder: Path  # the certificate's
    networks: tuple[Path, ...] = ()
    families: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()  # files, and folders that the certificate may refer to
    files_of: Callable[[Path], Sequence[Path]] = only_file  # a network's file, then its weights
    bundled: bool = False  # whether the folder is an unpacked bundle
    used: set[str] = field(default_factory=set)  # SHA-256 of what was found

    def find(self, part: FilePart, what: What) -> Path:
        """Return the location of a file whose digest matches the certificate."""
        self.used.add(part.sha256)
        return self._find(part, what)

    def refuse_unused(self) -> None:
        """Raise at a bundle of more than was needed: nothing else in it was looked at."""
        for each in self.folder.iterdir():
            if each.is_dir() and each.name not in self.used:
                raise Rejected(f"{each}: the certificate names no such file")

    def _find(self, part: FilePart, what: What) -> Path:
        files = [each for each in self.others if not each.is_dir()]
        given = {"network": self.networks, "family": self.families}.get(what, ())
        if self.bundled and (self.folder / part.sha256).exists():
            # What a bundle has must be what it says, whatever else is passed.
            files, given = [], ()
        for each in files if what == "files" else []:
            if each.is_file() and digest_of(each) == part.sha256:
                return each
        # Some of several files may be given, the rest is where the certificate says.
        if len(given) < 2:
            inside = self._in_bundle if self.bundled else self._below
            where = given[0] if given else inside(part, what)
            self._same(where, part, what, inside=not given)
            return where
        for each in given:
            try:
                self._same(each, part, what)
            except Rejected:
                continue
            return each
        raise Rejected(
            f"none of the files passed is the {what} that the certificate names as {part.path!r} "
            f"(SHA-256 {part.sha256[:12]})"
        )

    def _same(self, path: Path, part: FilePart, what: What, *, inside: bool = False) -> None:
        if part.kind not in _KINDS[what]:
            raise Unreadable(f"{path}: the certificate lists it as a {part.kind!r}")
        try:
            there = path.exists()
        except OSError as error:
            raise Unreadable(f"{str(path)[:80]}: cannot read: {error.strerror}") from None
        if not there:
            raise Unreadable(f"{path}: no such file; pass its location with --{what}")
        if path.is_dir() != (part.kind in ("folder", "access")):
            raise Rejected(f"{path}: the certificate needs a {part.kind}")
        try:
            for each in self._files(path, part.kind) if inside and not self.bundled else []:
                self._refuse_outside(each, part.path, what)
            found = self._digest(path, part.kind)
        except OSError as error:
            raise Unreadable(f"{path}: cannot read: {error.strerror}") from None
        if found != part.sha256:
            raise Rejected(
                f"{path}: not the {what} that the certificate is about (SHA-256 {found[:12]}, "
                f"expected {part.sha256[:12]})"
            )

    def _files(self, path: Path, kind: str) -> list[Path]:
        """Return the files that a network, a family, or a folder consists of."""
        if kind == "folder":
            files = sorted(path.glob("*.onnx"))
            if not all(file.name.isprintable() for file in files):
                # A line break in a name could disguise one file as two.
                raise Rejected(
                    f"{path}: the name of a file in it contains an unprintable character"
                )
            return list(dict.fromkeys(each for file in files for each in self.files_of(file)))
        if kind == "access":
            return [*self.files_of(path / SERVED[0]), *(path / name for name in SERVED[1:])]
        # A network may store weights in other files; one without them is a single file.
        return list(self.files_of(path)) if kind == "network" else [path]

    def _digest(self, path: Path, kind: str) -> str:
        files = self._files(path, kind)
        alone = kind not in ("folder", "access") and len(files) == 1
        return digest_of(path) if alone else _digest_of(files)

    def _in_bundle(self, part: FilePart, what: What) -> Path:
        """Return the location of a file in a bundle, all of whose files must be its own."""
        held = [each for each in self.folder.glob("*/*") if each.parent.name == part.sha256]
        if not held:
            raise Unreadable(
                f"no {what} with SHA-256 {part.sha256}, called {part.path!r}; ask "
                f"whoever made the bundle for it, and pass it with --{what}"
            )
        where = held[0].parent if part.kind in ("folder", "access") else held[0]
        if {*held} != {*self._files(where, part.kind)}:
            raise Rejected(f"{held[0].parent}: does not hold the {what}, or not it alone")
        return where

    def _below(self, part: FilePart, what: What) -> Path:
        """Return the location of a file, which must be below the certificate or a root."""
        path = part.path
        named = self.folder / path
        where = self._refuse_outside(named, path, what)
        return named if where.is_relative_to(self.folder.resolve()) else where

    def _refuse_outside(self, named: Path, path: str, what: What) -> Path:
        """Return where a file is; certificates are untrusted, and must not select others."""
        try:
            roots = [each for each in self.others if each.is_dir()]
            allowed = [each.resolve() for each in (self.folder, *roots)]
            where = named.resolve()
        except (OSError, RuntimeError):
            raise Unreadable(
                f"{str(named)[:80]}: cannot be resolved; is it a link to itself?"
            ) from None
        if PurePath(path).is_absolute() or not any(where.is_relative_to(each) for each in allowed):
            raise Unreadable(
                f"the certificate refers to its {_CALLED[what]} as {path!r}, outside its own "
                f"folder; pass the location with --{what}, or allow it with --files "
                f"{named.parent}"
            )
        return where


def _digest_of(files: Sequence[Path]) -> str:
    lines = [f"{digest_of(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
