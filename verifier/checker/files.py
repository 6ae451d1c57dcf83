"""Files of a claim: their location, and whether they are unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from leaveout.errors import CertificateError, RejectedError
from leaveout.files import ARCHIVE, open_file
from leaveout.models.onnx.values import files_of


class FilePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a claim."""

    path: str  # relative to the certificate
    sha256: str
    kind: str


class ChoicesPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features that jointly take one of the listed rows."""

    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]


class BoxPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The set of inputs of a question."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    choices: tuple[ChoicesPart, ...] = ()


_BLOCK = 2**22

SERVED = ("full.onnx", "family.npz", "bounds.npz")
"""Files of a served folder that a guard's answers depend on."""

_NETWORKS = ("network", "family", "folder")
_KINDS = {"network": _NETWORKS, "family": _NETWORKS, "files": ("file", "access")}
"""The kinds of files, by the option that locates them."""

_CALLED = {"network": "network", "family": "family", "files": "file"}


def found_file(
    part: FilePart, folder: Path, given: Sequence[Path], what: str, roots: Sequence[Path] = ()
) -> Path:
    """Return the location of a file whose digest matches the certificate."""
    # Some of the other files may be given, the rest is where the certificate says.
    if what == "files" or len(given) < 2:
        for each in given:
            if what == "files" and each.is_file() and _digest(each) == part.sha256:
                return each
        given = () if what == "files" else given
        where = given[0] if given else _below(folder, part.path, what, roots)
        _same(where, part, what)
        return where
    for each in given:
        try:
            _same(each, part, what)
        except RejectedError:
            continue
        return each
    raise RejectedError(
        f"none of the files passed is the {what} that the certificate names as {part.path!r} "
        f"(SHA-256 {part.sha256[:12]})"
    )


def _same(path: Path, part: FilePart, what: str) -> None:
    if part.kind not in _KINDS[what]:
        raise CertificateError(f"{path}: the certificate lists it as a {part.kind!r}")
    try:
        there = path.exists()
    except OSError as error:
        raise CertificateError(f"{str(path)[:80]}: cannot read: {error.strerror}") from None
    if not there:
        raise CertificateError(f"{path}: no such file; pass its location with --{what}")
    if path.is_dir() != (part.kind in ("folder", "access")):
        raise RejectedError(f"{path}: the certificate needs a {part.kind}")
    try:
        found = _part_digest(path, part.kind)
    except OSError as error:
        raise CertificateError(f"{path}: cannot read: {error.strerror}") from None
    if found != part.sha256:
        raise RejectedError(
            f"{path}: not the {what} that the certificate is about (SHA-256 {found[:12]}, "
            f"expected {part.sha256[:12]})"
        )


def _part_digest(path: Path, kind: str) -> str:
    if kind == "folder":
        return _folder_digest(path)
    if kind == "access":
        return _digest_of([*files_of(path / SERVED[0]), *(path / name for name in SERVED[1:])])
    # A network may store weights in other files; one without them is a single file.
    files = files_of(path) if kind == "network" else [path]
    return _digest(path) if len(files) == 1 else _digest_of(files)


def _digest_of(files: Sequence[Path]) -> str:
    lines = [f"{_digest(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path, ARCHIVE) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _folder_digest(folder: Path) -> str:
    files = sorted(folder.glob("*.onnx"))
    if not all(file.name.isprintable() for file in files):
        # A line break in a name could disguise one file as two.
        raise RejectedError(f"{folder}: the name of a file in it contains an unprintable character")
    return _digest_of(list(dict.fromkeys(each for file in files for each in files_of(file))))


def _below(folder: Path, path: str, what: str, roots: Sequence[Path]) -> Path:
    """Return the location of a file, which must be below the certificate or a root.

    Certificates are untrusted, so they must not select other files to be opened.
    """
    named = folder / path
    allowed = [each.resolve() for each in (folder, *roots)]
    where = named.resolve()
    if PurePath(path).is_absolute() or not any(where.is_relative_to(each) for each in allowed):
        raise CertificateError(
            f"the certificate refers to its {_CALLED[what]} as {path!r}, outside its own folder; "
            f"pass the location with --{what}, or allow it with --files {_above(path)}"
        )
    return named if where.is_relative_to(allowed[0]) else where


def _above(path: str) -> str:
    """Return the folder of a path given as an option."""
    return str(PurePath(path).parent)


def refuse_repeated(content: bytes | str) -> None:
    """Refuse a repeated key in an object: two readers could each use another value."""
    json.loads(content, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> None:
    known: set[str] = set()
    for name, _ in pairs:
        if name in known:
            raise ValueError(f"duplicate key {name!r}")
        known.add(name)
