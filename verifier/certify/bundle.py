"""Bundles for ``leaveout-check``: a certificate, answers, and the files of its claims in one."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from leaveout.errors import CertificateError
from leaveout.files import open_atomically, open_file, refuse_unwritten
from leaveout.kernel.bundle import ANSWERS, CERTIFICATE, ENTRY, LARGEST, MODE
from leaveout.kernel.claims.parts import FilePart
from leaveout.kernel.claims.places import Places, What
from leaveout.kernel.files import refuse_damage
from leaveout.kernel.regular_files import ARCHIVE


@dataclass(frozen=True)
class Found:
    """The files that a certificate names as one."""

    part: FilePart
    what: What
    files: tuple[Path, ...]


@dataclass(frozen=True)
class NotedPlaces(Places):
    """Places that note what was found."""

    found: dict[str, Found] = field(default_factory=dict)  # by SHA-256

    def find(self, part: FilePart, what: What) -> Path:
        where = super().find(part, what)
        self.found[part.sha256] = Found(part, what, tuple(self._files(where, part.kind)))
        return where


def refuse_other(path: Path) -> None:
    """Raise if a bundle would replace a file that is none."""
    if path.exists() and not is_bundle(path):
        raise CertificateError(f"{path}: exists, and is no bundle; name another file")


def is_bundle(path: Path) -> bool:
    """Return whether a file has the entries of a bundle."""
    try:
        with (
            open_file(path, ARCHIVE) as stream,
            refuse_damage(),
            zipfile.ZipFile(stream) as archive,
        ):
            names = archive.namelist()
    except (OSError, ValueError):
        return False
    return {CERTIFICATE, ANSWERS} <= set(names) and all(map(ENTRY.fullmatch, names))


def entries(path: Path) -> list[str]:
    """Return what a bundle holds, in words."""
    with zipfile.ZipFile(path) as archive:
        return [f"{each.filename}, {each.file_size:,} bytes" for each in archive.infolist()]


def write_bundle(
    path: Path,
    certificate: Path,
    recorded: io.BytesIO,
    found: dict[str, Found],
    with_family: bool,
) -> None:
    """Write a bundle; equal contents give equal bytes."""
    kept = [each for each in found.values() if with_family or each.what != "family"]
    named = dict(_entry_names(kept))
    size = sum(each.stat().st_size for each in (*named.values(), certificate))
    if size + recorded.getbuffer().nbytes > LARGEST:
        raise CertificateError(
            f"{path}: would be larger than {LARGEST // 2**20:,} MiB; leave the family out with "
            "--without-family, or hand over certificate, --record and files"
        )
    named[CERTIFICATE] = certificate
    recorded.seek(0)
    with (
        refuse_unwritten(CertificateError, path),
        open_atomically(path) as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        for name in sorted([*named, ANSWERS]):
            with recorded if name == ANSWERS else named[name].open("rb") as source:
                _add(archive, name, source)


def _add(archive: zipfile.ZipFile, name: str, source: IO[bytes]) -> None:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, MODE
    with archive.open(info, "w") as target:
        shutil.copyfileobj(source, target)


def _entry_names(found: Iterable[Found]) -> Iterator[tuple[str, Path]]:
    """Yield the entries of files, in a folder called by the SHA-256 that the certificate states."""
    for each in found:
        whole = each.part.kind in ("folder", "access")
        if not whole and len(each.files) > 1:
            raise CertificateError(
                f"{each.files[0]}: has its weights in other files, which 'leaveout-check' does not "
                "read; save it as one file"
            )
        for file in each.files:
            name = f"{each.part.sha256}/{file.name}"
            if not ENTRY.fullmatch(name):
                # Of one file the name says nothing; in a folder it is part of the digest.
                if whole:
                    raise CertificateError(f"{file}: rename it to letters, digits, - and _")
                name = f"{each.part.sha256}/file{re.sub(r'[^.A-Za-z0-9]', '', file.suffix)}"
            yield name, file
