"""Certificates: a manifest in JSON and arrays, all of it untrusted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..files import array_names, bytes_of, read_archive
from ..records import decode
from ..refusal import Unreadable
from ..regular_files import open_regular
from .parts import ManifestPart, claim_names, printed_texts

_NAME = re.compile(
    r"[A-Za-z_]\w*(, ([A-Za-z_]\w*|(member|label) \d+))*|\w[\w.+-]*\.vnnlib(\.gz)?", re.ASCII
)
"""Names of statements, joined where one bound serves several, or of a file of VNN-LIB."""


def is_claim_name(text: str) -> bool:
    """Return whether something may be claimed under a name: it must not read as a claim."""
    return _NAME.fullmatch(text) is not None


_FORMATS = (1, 2, 3, 4)
_MAPPED_FROM = 2**20

SHORT = 3
"""The first format whose trees omit what can be derived."""

_OTHERS = {
    "removed": "a family",
    "member_upper": "a bounds file of verify --bounds, for leaveout guard",
    "ballots": "ballots",
}
"""Contents of leaveout's other files, by an array that no certificate has."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate as read."""

    path: Path
    manifest: ManifestPart
    arrays: dict[str, NDArray[Any]]

    @property
    def short(self) -> bool:
        """Whether its trees omit what can be derived."""
        return self.manifest.format >= SHORT

    def under(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the arrays with a name prefix, by the rest of their names."""
        start = f"{prefix}."
        return {
            name.removeprefix(start): array
            for name, array in self.arrays.items()
            if name.startswith(start)
        }


def _least_format(manifest: ManifestPart) -> int:
    """Return the first format that supports everything in a manifest."""
    if manifest.samples or any(each.without for each in manifest.questions):
        return 4
    later = any(each is not None for each in (manifest.values, manifest.forests, manifest.linear))
    return 3 if later else 2 if manifest.claims else 1


def read_certificate(path: Path) -> Certificate:
    """Read a certificate."""
    with _refuse_unreadable(path), open_regular(path) as stream:
        names = array_names(stream)
        for name, what in _OTHERS.items():
            if name in names:
                raise Unreadable(
                    f"{path}: is {what}; expected a certificate of verify --certificate"
                )
        raw = read_archive(stream, only=["manifest"], strangers=True).get("manifest")
        if raw is None:
            raise Unreadable(f"{path}: not a certificate: it has no manifest")
        manifest = _manifest(path, bytes_of(raw))
        declared = set(_array_prefixes(manifest))
        wanted = {name for name in names if _is_declared(name, declared)}
        arrays = read_archive(stream, _MAPPED_FROM, wanted, strangers=True)
        return Certificate(path, manifest, arrays)


def _manifest(path: Path, text: bytes) -> ManifestPart:
    try:
        manifest = decode(text, ManifestPart)
    except ValueError as error:
        raise Unreadable(f"{path}: the manifest is damaged: {error}") from None
    if manifest.format not in _FORMATS or manifest.format < _least_format(manifest):
        raise Unreadable(
            f"{path}: has format {manifest.format}; this program checks formats {_FORMATS[0]} "
            f"(leaks only), {_FORMATS[1]} (with claims over points), {_FORMATS[2]} (with "
            f"statements about values) and {_FORMATS[3]} (with samples)"
        )
    stated = manifest.values is not None and manifest.values.statements
    others = [each for each in (manifest.forests, manifest.linear) if each is not None]
    leaks = any(each.results for each in others)
    if not (manifest.results or manifest.claims or manifest.samples or stated or leaks):
        raise Unreadable(f"{path}: claims nothing")
    for name in printed_texts(manifest):
        if not name.isprintable() or "  " in name:
            raise Unreadable(f"{path}: contains an invalid name: {name!r}")
    for name in claim_names(manifest):
        if not is_claim_name(name):
            raise Unreadable(f"{path}: claims something in the name of {name!r}")
    for part, what in ((manifest.forests, "forests"), (manifest.linear, "linear models")):
        if part is None:
            continue
        known = len(part.questions)
        if not all(0 <= each.question < known for each in part.results):
            raise Unreadable(
                f"{path}: a claim about {what} refers to a question that does not exist"
            )
    asked = [(each.name, each.question) for each in manifest.results]
    asked += [(each.name, each.question) for each in manifest.samples]
    for asker, question in asked:
        if not 0 <= question < len(manifest.questions):
            raise Unreadable(f"{path}: {asker} refers to a question that does not exist")
    return manifest


def _array_prefixes(manifest: ManifestPart) -> Iterator[str]:
    """Yield the name prefixes of the arrays that a manifest mentions."""
    yield from (each.tree for each in manifest.results)
    yield from (each.tree for each in manifest.claims)
    yield from (bound.tree for each in manifest.samples for bound in each.bounds)
    if manifest.forests is not None:
        yield from (each.proof for each in manifest.forests.results)
    if manifest.linear is not None:
        yield from (each.proof for each in manifest.linear.results)
        yield from (each.hints for each in manifest.linear.questions)
    if manifest.values is not None:
        yield from manifest.values.proofs.values()


def _is_declared(name: str, declared: Collection[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in declared for count in range(1, len(parts)))


@contextmanager
def _refuse_unreadable(path: Path) -> Iterator[None]:
    """Turn any reading error into one that says what is wrong with the file."""
    try:
        yield
    except FileNotFoundError:
        raise Unreadable(f"{path}: no such file") from None
    except IsADirectoryError:
        raise Unreadable(f"{path}: is a folder, expected a certificate") from None
    except MemoryError:
        raise Unreadable(f"{path}: its arrays do not fit in memory") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        why = f": {error}" if str(error).startswith("it unpacks") else ""
        raise Unreadable(
            f"{path}: not a certificate, or damaged{why}; 'leaveout verify SPEC --certificate "
            "FILE' writes one"
        ) from None
